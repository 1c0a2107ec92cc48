"""The paper's simulation models as RuleFit problems: rules grown by the real trees."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit

from fedrulefit.core.bins import Bins
from fedrulefit.core.boosting import extract_rules, grow_trees
from fedrulefit.core.cutoffs import exact_grid
from fedrulefit.core.design import build_design
from fedrulefit.core.grid import encode, linear_values
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import penalty_factors
from fedrulefit.core.rules import cutoff_rules, merge_rules
from fedrulefit.experiments.scenarios import log_odds
from tests.oracles import YES_NO, Site


@cache
def make_problem(
    model: int, sizes: tuple[int, ...], n_rules: int, shift: float = 0.0
) -> tuple[list[Site], Any]:
    """Return sites with `n_rules` rules (fewer if so many do not grow) and penalty factors."""
    rng = np.random.default_rng(model)
    parts = [rng.normal(size=(n, 10)) + shift * rng.normal(size=10) for n in sizes]
    values = np.clip(np.vstack(parts), -6, 6)
    y = (rng.random(len(values)) < expit(log_odds(values, model))).astype(float)
    bins = [Bins.numeric(np.linspace(-6, 6, 101), cutoffs=None, step=None, complete=True)] * 10
    grid = exact_grid(values, np.ones(len(y)), bins, n_cutoffs=20, winsor=0.025, centre=True)
    codes = encode(values, grid)
    edges = np.cumsum([0, *sizes])
    slices = [slice(a, b) for a, b in pairwise(edges.tolist())]
    grown = []
    for k, rows in enumerate(slices):
        trees = grow_trees(
            YES_NO, codes[rows], y[rows], np.ones(len(y[rows])), grid,
            n_trees=min(333, 1 + 3 * n_rules // len(sizes)), mean_leaves=4.0, learning_rate=0.05,
            subsample=0.7, min_leaf=5, rng=np.random.default_rng([model, k]), n_threads=1,
        )  # fmt: skip
        grown.append(list(extract_rules(trees, grid)))
    singles = list(cutoff_rules(grid))
    rules = merge_rules([singles, *grown], grid, drop_complements=True)
    if len(rules) > n_rules:
        chosen = np.sort(rng.choice(len(rules), n_rules, replace=False))
        rules = tuple(rules[k] for k in chosen)
    sites = [
        (
            build_design(codes[rows], rules, linear_values(values[rows], grid)),
            y[rows],
            np.ones(len(y[rows])),
        )
        for rows in slices
    ]
    factors = penalty_factors(
        Layout(1, len(rules), 10), rules, grid, linear_factor=0.2, interaction_factor=1.75
    )
    return sites, factors
