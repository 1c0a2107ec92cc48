r"""Boosted trees on a site's own patients, splitting only on the shared grid.

Paper 2.2.2, algorithm 1.

In: codes, outcome and weights of one site. Out: :class:`Tree` objects and, from
every node but the root, rules. Leaves the site: the rules alone; no leaf
value, gain, count or order of trees.

==============================  =============================================
paper                           here
==============================  =============================================
:math:`F_0^{(m)}`               the constants of least loss at the site
:math:`r_i^{(m,c)}`             minus the gradient given to LightGBM
:math:`T_c^{(m)}`               :func:`draw_leaf_counts`
:math:`\hat\gamma_{ct}^{(m)}`   mean residual: Newton leaf with Hessian = weight;
                                of other outcomes over the mean curvature (:class:`Units`)
:math:`K_c^{(m)}=2(T_c-1)`      :func:`extract_rules`
==============================  =============================================

LightGBM grows each tree best-first on the codes, so that its histogram bins
are exactly the grid's intervals. A category enters as one 0/1 column per
level. A missing value is NaN: LightGBM learns the side it belongs to, which
becomes part of the condition. Where a site has no missing value in a
covariate, it cannot learn a side: then a missing value satisfies neither.

Departures
----------
* L̄ is the mean number of terminal nodes (erratum 6).
* A leaf holds at least ``min_leaf`` patients (the paper is silent; 1 would let
  a rule point at a single patient).
* A site with one outcome class has no finite constant to start from: it grows no tree.
* Where each class has terms of its own, so has it trees: for it against the rest, by the yes/no
  loss. All classes choose from all rules.

Oracle: a recursive best-first grower over all splits
(``tests/unit/core/test_boosting.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import MISSING, Codes, Floats, Ints
from fedrulefit.core.families import Family
from fedrulefit.core.grid import Grid
from fedrulefit.core.limits import Limits
from fedrulefit.core.rules import Condition, Rule, conjoin, interval

RESIDUAL_STEP: Final = 2.0**-20
"""Residuals in whole steps add up without rounding, so that neither the order
of the patients nor a weight in place of repeated rows decides between equally
good splits."""


MOST_GROUPS: Final = 64
"""Groups of covariates that may meet in a tree; what they miss, sifting finds."""


@dataclass(frozen=True)
class Units:
    """What LightGBM's numbers are multiples of, so that they do not depend on the outcome's unit.

    Neither rounding nor the pace of the trees is to change if the public range of an outcome is
    wide beside the patients' spread, or a count's largest beside most counts.

    Parameters
    ----------
    score : float
        LightGBM's score is F times this, a power of two.
    residual : float
        Its residual is the slope times this.
    """

    score: float = 1.0
    residual: float = 1.0

    @classmethod
    def of(cls, family: Family, outcome: Floats, weights: Floats, start: Floats) -> Units:
        """Return units in which residuals are about 1, and leaves are Newton's."""
        if not family.newton_leaves:
            return cls()
        predictor = np.tile(start, (len(weights), 1))
        slope, curvature = (
            _add_parts(each, predictor, outcome) for each in (family.slope, family.curvature)
        )
        mean = float(weights @ curvature / weights.sum())
        spread = math.sqrt(float(weights @ slope**2 / weights.sum()))
        if mean <= 0 or spread <= 0:
            return cls()
        score = 2.0 ** -math.floor(math.log2(spread / mean))
        return cls(score, score / mean)


@dataclass(frozen=True)
class Split:
    """An inner node: the conditions for going left and right."""

    left: Condition
    right: Condition
    left_child: Split | None
    right_child: Split | None


@dataclass(frozen=True)
class Tree:
    """One boosted tree; ``root`` is None where no split was worth it."""

    root: Split | None


@dataclass(frozen=True)
class _Column:
    """A column given to LightGBM: an ordered covariate, or one level."""

    feature: int
    level: int | None
    has_missing: bool


_Reader = Callable[[int, float, bool], tuple[Condition, Condition]]
"""From a split's column, threshold and side of missing values to its conditions."""


def grow_trees(
    family: Family,
    codes: Codes,
    outcome: Floats,
    weights: Floats,
    grid: Grid,
    *,
    n_trees: int,
    mean_leaves: float,
    learning_rate: float,
    subsample: float,
    min_leaf: float,
    rng: np.random.Generator,
    n_threads: int = 1,
    patients: Ints | None = None,
    limits: Limits | None = None,
) -> list[Tree]:
    """Grow `n_trees` boosted trees for the loss of the outcome's family.

    Parameters
    ----------
    family : Family
    codes : (n_rows, n_features) uint8
    outcome, weights : (n_rows,) float64
    rng : Generator
        Draws the leaf counts and seeds the subsamples.
    n_threads : int
        Threads of LightGBM; the trees do not depend on it.
    patients : (n_rows,) int64, optional
        Whose each row is: a tree then sees all rows of a patient, or none.
    limits : Limits, optional
        What the study wishes: trees then follow its directions, and split on no covariate, nor on
        several, that it rules out. Rules are sifted afterwards, too.

    Returns
    -------
    trees : list of Tree
        Empty where no tree can be grown: nothing to learn (one outcome class, or patients
        who are all the same), or fewer patients than two leaves need.
    """
    problems = family.tree_problems(outcome)
    if len(problems) > 1:
        grow = partial(
            grow_trees, codes=codes, weights=weights, grid=grid, mean_leaves=mean_leaves,
            learning_rate=learning_rate, subsample=subsample, min_leaf=min_leaf, rng=rng,
            n_threads=n_threads, patients=patients, limits=limits,
        )  # fmt: skip
        return _share_trees(problems, n_trees, grow)
    leaf_counts = draw_leaf_counts(n_trees, mean_leaves, rng)
    bagging_seed = int(rng.integers(2**31 - 1))
    counted = weights > 0
    codes, outcome, weights = codes[counted], outcome[counted], weights[counted]
    place = None if patients is None or subsample == 1 else patients[counted]
    start = family.start(outcome, weights)
    if start is None or weights.sum() < 2 * min_leaf or n_trees == 0:
        return []
    columns = list(_columns(codes, grid, frozenset() if limits is None else limits.unused))
    matrix = _lightgbm_matrix(codes, columns)
    if not _varies(matrix):
        return []
    outcome = family.prepare(outcome)
    units = Units.of(family, outcome, weights, start)
    booster = _make_booster(
        matrix,
        init_score=np.full(len(codes), units.score * start[0] if len(start) == 1 else 0.0),
        params={
            "learning_rate": learning_rate,
            # A hair below, for the rounding of LightGBM's own sums.
            "min_sum_hessian_in_leaf": min_leaf * (1 - 1e-6),
            # In a leaf of one class every gain is 0 but for rounding.
            "min_gain_to_split": 1e-9 * float(weights.sum()),
            **_bag(subsample if place is None else 1.0, bagging_seed),
            "num_threads": n_threads,
            **_constrain(columns, limits),
        },
    )
    seen = None if place is None else _draw_patients(place, subsample, bagging_seed)
    _boost(booster, leaf_counts, partial(_slope, family, outcome, start, units), weights, seen)
    # Boosted trees repeat their splits.
    read = cache(partial(_read_split, columns, grid))
    dumped = booster.dump_model()["tree_info"]
    return [Tree(_read_node(tree["tree_structure"], read)) for tree in dumped]


def _share_trees(
    problems: Sequence[tuple[Family, Floats]], n_trees: int, grow: Callable[..., list[Tree]]
) -> list[Tree]:
    """Return as many trees for each problem as for any other, but for one."""
    ends = np.arange(len(problems) + 1) * n_trees // len(problems)
    return [
        tree
        for (family, outcome), share in zip(problems, np.diff(ends).tolist(), strict=True)
        for tree in grow(family, outcome=outcome, n_trees=share)
    ]


def draw_leaf_counts(n_trees: int, mean_leaves: float, rng: np.random.Generator) -> Ints:
    """Draw T = 2 + ⌊ω⌋ with ω exponential of mean L̄ − 2, shape (n_trees,)."""
    return 2 + np.floor(rng.exponential(mean_leaves - 2, size=n_trees)).astype(np.int64)


def extract_rules(trees: Iterable[Tree], grid: Grid) -> set[Rule]:
    """Return the distinct rules of all nodes but the roots."""
    # Boosted trees repeat themselves: a path met before gives a rule met before.
    paths: set[tuple[Condition, ...]] = set()
    for tree in trees:
        if tree.root is not None:
            paths.update(_node_paths(tree.root, ()))
    rules = (conjoin(path, grid) for path in paths)
    return {rule for rule in rules if rule is not None and len(rule)}


def _node_paths(node: Split, path: tuple[Condition, ...]) -> Iterator[tuple[Condition, ...]]:
    """Yield the conditions on the way to every node but the root."""
    for condition, child in ((node.left, node.left_child), (node.right, node.right_child)):
        here = (*path, condition)
        yield here
        if child is not None:
            yield from _node_paths(child, here)


def _bag(share: float, seed: int) -> dict[str, Any]:
    """Return what LightGBM is told of the share of patients that each tree sees."""
    return {"bagging_fraction": share, "bagging_freq": int(share < 1), "bagging_seed": seed}


def _columns(codes: Codes, grid: Grid, unused: frozenset[int]) -> Iterator[_Column]:
    for feature, axis in enumerate(grid.axes):
        if feature in unused:
            continue
        has_missing = bool((codes[:, feature] == MISSING).any())
        levels = [None] if axis.ordered else range(axis.n_codes)
        for level in levels:
            yield _Column(feature, level, has_missing)


def _constrain(columns: Sequence[_Column], limits: Limits | None) -> dict[str, Any]:
    """Return what LightGBM is told of directions, and of covariates that are not to meet."""
    told: dict[str, Any] = {}
    if limits is None:
        return told
    if limits.directed:
        told["monotone_constraints"] = [limits.directions[column.feature] for column in columns]
    if limits.apart:
        together = group_apart(range(len(limits.directions)), limits.apart)
        told["interaction_constraints"] = [
            [k for k, column in enumerate(columns) if column.feature in group] for group in together
        ]
    return told


def group_apart(features: Iterable[int], apart: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Return groups of covariates that may meet: the largest that hold none of `apart`.

    Not all of them, if they are more than :data:`MOST_GROUPS`.
    """
    groups = {frozenset(features)}
    for forbidden in apart:
        split = (
            group - {feature} if forbidden <= group else group
            for group in groups
            for feature in (forbidden if forbidden <= group else (-1,))
        )
        distinct = set(split)
        if len(distinct) > MOST_GROUPS:
            break
        groups = {one for one in distinct if not any(one < other for other in distinct)}
    return sorted(groups, key=sorted)


def _lightgbm_matrix(codes: Codes, columns: list[_Column]) -> Any:
    """Return codes as float32, shape (n_rows, n_columns), NaN for missing."""
    matrix = np.empty((len(codes), len(columns)), dtype=np.float32)
    for k, column in enumerate(columns):
        code = codes[:, column.feature]
        value = code if column.level is None else code == column.level
        matrix[:, k] = np.where(code == MISSING, np.nan, value)
    return matrix


def _varies(matrix: Any) -> bool:
    """Whether any column tells patients apart; LightGBM fails where none does."""
    return any(not np.array_equal(x, np.full_like(x, x[0]), equal_nan=True) for x in matrix.T)


def _make_booster(matrix: Any, init_score: Floats, params: dict[str, Any]) -> Any:
    import lightgbm

    params = {
        "objective": "none",
        "max_bin": 256,
        "min_data_in_bin": 1,
        # All patients: a sample may miss a rare code, or the only missing value.
        "bin_construct_sample_cnt": max(1, len(matrix)),
        "min_data_in_leaf": 1,
        "feature_pre_filter": False,
        "enable_bundle": False,
        "zero_as_missing": False,
        "boost_from_average": False,
        # Together these make the trees independent of the number of threads.
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
        **params,
    }
    data = lightgbm.Dataset(
        matrix, label=np.zeros(len(matrix)), init_score=init_score, params=params
    )
    return lightgbm.Booster(params, data)


def _draw_patients(place: Ints, share: float, seed: int) -> Iterator[Floats]:
    """Yield for every tree which rows it sees, shape (n_rows,): 1 or 0, alike for a patient's."""
    rng, whose = np.random.default_rng(seed), np.unique(place, return_inverse=True)[1]
    while True:
        yield (rng.random(whose.max() + 1) < share).astype(np.float64)[whose]


def _boost(
    booster: Any,
    leaf_counts: Ints,
    slope_at: Callable[[Floats], Floats],
    weights: Floats,
    seen: Iterator[Floats] | None,
) -> None:
    """Grow a tree for each count of leaves, on the residuals that the trees before it leave.

    `seen` tells which rows each tree sees; all, or what LightGBM draws, if not given.
    """

    def objective(predictor: Floats, _: Any) -> tuple[Any, Any]:
        slope = slope_at(predictor)
        counted = weights if seen is None else weights * next(seen)
        return counted * (np.rint(slope / RESIDUAL_STEP) * RESIDUAL_STEP), counted

    last = 0
    for n_leaves in leaf_counts.tolist():
        if n_leaves != last:
            booster.reset_parameter({"num_leaves": n_leaves})
            last = n_leaves
        booster.update(fobj=objective)


def _slope(family: Family, outcome: Floats, start: Floats, units: Units, score: Floats) -> Floats:
    """Return what a patient's loss rises by with the trees, in `units`, shape (n_rows,).

    Of several predictors trees move all alike: they begin at the best constants.
    """
    moved = score / units.score
    predictor = moved[:, None] if len(start) == 1 else np.add.outer(moved, start)
    return units.residual * _add_parts(family.slope, predictor, outcome)


def _add_parts(
    derivative: Callable[[Floats, Floats, Floats], Floats], predictor: Floats, outcome: Floats
) -> Floats:
    """Return a derivative of each patient's loss by what all predictors share, shape (n_rows,).

    The predictors have shape (n_rows, n_baseline).
    """
    alone = np.ones(len(predictor))
    if predictor.shape[1] == 1:
        return derivative(predictor[:, 0], outcome, alone)
    summed: Floats = derivative(predictor, outcome, alone).sum(axis=1)
    return summed


def _read_node(node: dict[str, Any], read: _Reader) -> Split | None:
    if "split_feature" not in node:
        return None
    left, right = read(node["split_feature"], node["threshold"], node["default_left"])
    return Split(
        left,
        right,
        _read_node(node["left_child"], read),
        _read_node(node["right_child"], read),
    )


def _read_split(
    columns: list[_Column], grid: Grid, place: int, threshold: float, default_left: bool
) -> tuple[Condition, Condition]:
    """Turn ``value <= threshold`` in a column into conditions on codes."""
    column = columns[place]
    n_codes = grid.axes[column.feature].n_codes
    left_missing = column.has_missing and default_left
    right_missing = column.has_missing and not default_left
    if column.level is None:
        cut = int(min(np.floor(threshold), n_codes - 1)) + 1
        left, right = interval(0, cut), interval(cut, n_codes)
    else:
        every, this = interval(0, n_codes), 1 << column.level
        # Left is "0 and below": not this level. Above 1 only NaN is right.
        left, right = (every & ~this, this) if threshold < 1 else (every, 0)
    return (
        Condition(column.feature, left | left_missing << MISSING),
        Condition(column.feature, right | right_missing << MISSING),
    )
