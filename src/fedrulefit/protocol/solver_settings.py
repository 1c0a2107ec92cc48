"""The study's settings as numbers of the solvers, the same for site and coordinator."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedrulefit.core.arrays import Floats
from fedrulefit.core.fedda import Schedule
from fedrulefit.core.grid import Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import penalty_factors
from fedrulefit.core.rules import Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.study import Settings


def make_schedule(settings: Settings) -> Schedule:
    """Return R, G, η_s, η_c and λ of the study."""
    if isinstance(settings.penalty, str):
        raise ProtocolError("FedDA needs a number as penalty")
    return Schedule(
        rounds=settings.rounds,
        local_steps=settings.local_steps,
        server_step=settings.server_step,
        client_step=settings.client_step,
        penalty=settings.penalty,
    )


def most_rules(settings: Settings) -> int:
    """Return the most different rules that one site can have grown, all folds together.

    A tree has L̄ leaves on average and 2(L̄ − 1) nodes that make a rule. Twice the average, and
    40 trees more, is exceeded by chance with a probability below 1e-15.
    """
    n_fits = 1 + (settings.folds if settings.penalty == "cv" else 0)
    return math.ceil(n_fits * 2 * (settings.mean_leaves - 1) * (2 * settings.n_trees + 40))


def make_factors(settings: Settings, rules: Sequence[Rule], layout: Layout, grid: Grid) -> Floats:
    """Return the penalty factors of all terms, shape (n_terms,)."""
    return penalty_factors(
        layout,
        rules,
        grid,
        linear_factor=settings.linear_factor,
        interaction_factor=settings.interaction_factor,
    )
