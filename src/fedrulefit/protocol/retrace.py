"""Leads a run once more, from what was asked in it.

In: the questions and replies of a run. Out: the same as from a coordinator, and which
questions do not follow from the replies.

The coordinator is deterministic, but machines differ in the last digits: their linear
algebra adds in another order. So a question need not be equal to ours, only near; and the
run goes on *from the point that was asked for*, so that small differences do not add up.
Whatever is no number of the solver (rules, sites, folds, terms) is equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedrulefit.core.curvature import Query
from fedrulefit.core.grid import Grid
from fedrulefit.core.newton import Newton, near_coef
from fedrulefit.core.pruning import Track
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import same_grid
from fedrulefit.protocol.coordinator import Coordinator, Talk
from fedrulefit.protocol.coordinator.agreeing import Counted


class Retracer(Coordinator):
    """A coordinator that follows a record.

    Parameters
    ----------
    recorded : callable
        Gives what was asked in a step; None if the step never came.
    *args, **options
        As for :class:`~fedrulefit.protocol.coordinator.Coordinator`.
    """

    def __init__(
        self, recorded: Callable[[int], m.Request | None], *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._recorded = recorded
        self._beside: set[int] = set()

    def follows(self, request: m.Request, recorded: m.Request) -> bool:
        """Whether what was asked in the present step is what this coordinator asks, or near it."""
        return request.header.step not in self._beside and _same(request, recorded)

    def _agree_on_grid(self) -> Talk[Counted]:
        counted = yield from super()._agree_on_grid()
        asked = self._recorded(self._asker.steps)
        if isinstance(asked, m.RulesRequest) and same_grid(asked.grid, counted.grid):
            counted = dataclasses.replace(counted, grid=asked.grid)
        return counted

    def _choose(self, solvers: Sequence[Any]) -> Sequence[Any]:
        step = self._asker.steps
        asked = self._recorded(step)
        if not isinstance(asked, m.CurvatureRequest | m.RefitRequest):
            return super()._choose(solvers)
        queries: Sequence[Any] = asked.queries
        if not _fit(queries, solvers):
            return super()._choose(solvers)
        pairs = zip(solvers, queries, strict=True)
        if not all(solver.could_ask(query) for solver, query in pairs):
            self._beside.add(step)
        return queries


def _fit(queries: Sequence[Any], solvers: Sequence[Newton | Track]) -> bool:
    """Whether recorded points can be points of these solvers, or tracks, at all."""
    return len(queries) == len(solvers) and all(
        query.fold == solver.fold
        and solver.layout.holds(query.terms)
        and _fit_beside(query, solver)
        and query.start.shape == query.end.shape == query.terms.shape
        for query, solver in zip(queries, solvers, strict=True)
    )


def _fit_beside(query: Any, solver: Newton | Track) -> bool:
    """Whether what is asked beside the terms is of a kind that the solver can ask."""
    if isinstance(query, Query):
        return isinstance(solver, Newton) and solver.layout.holds(query.active)
    return isinstance(solver, Track) and np.array_equal(query.variants, solver.query().variants)


def _same(own: Any, other: Any) -> bool:
    """Whether two parts of a request are equal: coefficients and the grid's means nearly."""
    if type(own) is not type(other):
        return False
    if isinstance(own, np.ndarray):
        if own.shape != other.shape or own.dtype != other.dtype:
            return False
        return near_coef(other, own) if own.dtype.kind == "f" else np.array_equal(own, other)
    if isinstance(own, Grid):
        return same_grid(other, own)
    if isinstance(own, tuple):
        return len(own) == len(other) and all(map(_same, own, other))
    if dataclasses.is_dataclass(own):
        names = [field.name for field in dataclasses.fields(own)]
        return all(_same(getattr(own, name), getattr(other, name)) for name in names)
    return bool(own == other)
