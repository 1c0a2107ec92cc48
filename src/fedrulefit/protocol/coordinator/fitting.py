"""The coefficients: cross-validation and the exact solver, or the paper's FedDA."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.curvature import CurvatureSums, Query
from fedrulefit.core.fedda import server_update, soft_threshold
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import Newton, Point
from fedrulefit.core.path import Path, PathSearch
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.agreeing import Candidates
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk, diverged
from fedrulefit.protocol.coordinator.pruning import Choose, Pruning, prune
from fedrulefit.protocol.solver_settings import make_schedule
from fedrulefit.study import Settings

DIVERGED = 10.0
"""A loss so many times the first one will not come back."""


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, and how they were found.

    Parameters
    ----------
    coef : (n_terms,) float64
    penalty : float
        λ.
    weight : float
        Of all patients.
    history : list of float
        Penalised mean loss, round by round.
    path : Path or None
    point : Point or None
        Where the exact solver ended.
    pruning : Pruning or None
        How terms were pruned, where they were: rules are then more than the candidates.
    held : (n_folds,) float64 or None
        Mean losses of the held-out patients of each fold, as the terms were chosen.
    """

    coef: Floats
    penalty: float
    weight: float
    history: list[float]
    path: Path | None = None
    point: Point | None = None
    pruning: Pruning | None = None
    held: Floats | None = None


def fit_by_averaging(asker: Asker, candidates: Candidates) -> Talk[Solution]:
    """Paper 2.2.3, algorithm 2."""
    schedule, factors = make_schedule(asker.settings), candidates.factors[0]
    signs = candidates.public.signs
    dual = np.zeros(len(factors))
    history: list[float] = []
    for round_ in range(schedule.rounds):
        asker.progress = Progress("fit", round_, schedule.rounds, last_of(history))
        question = partial(m.DualRequest, round=round_, dual=dual)
        (sums,) = yield from asker.sum(question, candidates.public)
        weight = positive(sums.weight)
        loss = sums.loss / weight
        coef = soft_threshold(dual, schedule.threshold(round_, 0), factors, signs)
        history.append(loss + schedule.penalty * float(factors @ np.abs(coef)))
        check_converges(history[-1], history[0], round_, asker.settings)
        dual = server_update(dual, sums.increment / weight, schedule.server_step)
    coef = soft_threshold(dual, schedule.threshold(schedule.rounds), factors, signs)
    return Solution(coef, schedule.penalty, weight, history)


def check_converges(objective: float, first: float, round_: int, settings: Settings) -> None:
    """End a FedDA that runs away."""
    if objective > DIVERGED * first:
        how = f"round {round_}: the objective is {objective:.3g}, it started at {first:.3g}"
        raise diverged(how, settings)


def fit_exactly(
    asker: Asker,
    candidates: Candidates,
    choose: Choose,
    earlier: Solution | None = None,
    *,
    min_votes: int = 0,
) -> Talk[Solution]:
    """Proximal Newton, after cross-validation where λ is not given.

    `earlier` is a solution of nearly the same problem: its history goes on. `min_votes` sites
    must have enough patients in the variants of rules, where terms are pruned.
    """
    settings, penalty = asker.settings, asker.settings.penalty
    history = [] if earlier is None else list(earlier.history)
    if isinstance(penalty, float):
        start = None if earlier is None else earlier.point
        return (yield from solve_at(asker, candidates, choose, penalty, start, history))
    public = candidates.public
    search = PathSearch(
        public.family,
        public.layout,
        candidates.factors,
        bounds=public.bounds.terms,
        length=settings.path_length,
        ratio=settings.path_ratio,
        max_active=settings.max_active,
        signs=public.signs,
    )
    while not search.done and search.rounds < settings.max_rounds:
        asker.progress = Progress("path", len(history), 0, last_of(history))
        search.update((yield from _evaluate(asker, candidates, choose(search.solvers))))
        history.append(search.objective)
    if not search.done:
        raise FitError(
            f"cross-validation did not end within {settings.max_rounds} rounds: raise "
            "'max_rounds', or make 'path_length' shorter"
        )
    rule: Literal["min", "1se"] = "1se" if settings.selection == "1se" else "min"
    most = {"max_rules": settings.max_rules, "max_terms": settings.max_terms}
    if settings.prunes:
        most = {}  # pruning keeps to them by itself, from the best start
    path = search.finish(rule=rule, **most)
    held = search.held(path.chosen)
    if not settings.prunes:
        solution = yield from _solve_on_path(asker, candidates, choose, path, history)
        return replace(solution, held=held)
    pruning = yield from prune(asker, candidates, search, path, choose, min_votes)
    if pruning.few is None:
        lasso = pruning.lasso
        solution = yield from _solve_on_path(asker, lasso, choose, pruning.path, history)
    else:
        fixed, few, held = pruning.few.candidates, pruning.few, pruning.few.held
        solution = yield from solve_at(asker, fixed, choose, few.penalty, few.start, history)
    return replace(solution, path=pruning.path, pruning=pruning, held=held)


def _solve_on_path(
    asker: Asker, candidates: Candidates, choose: Choose, path: Path, history: list[float]
) -> Talk[Solution]:
    """Go to the optimum at the λ that was chosen."""
    settings, public = asker.settings, candidates.public
    # The path is only near its optima: the exact fit may keep a rule more than allowed,
    # and then goes back up the path.
    back = [(path.penalties[k], path.points[k]) for k in range(path.chosen, -1, -1)]
    for at, start in (*back, (1.05 * path.penalties[0], path.points[0])):
        solution = yield from solve_at(asker, candidates, choose, float(at), start, history)
        if _keeps_to(settings, public.layout, solution.coef):
            break
    return replace(solution, path=path)


def _keeps_to(settings: Settings, layout: Layout, coef: Floats) -> bool:
    """Whether a fit has no more rules and terms than the study wants."""
    rules, terms = (int((coef[own] != 0).sum()) for own in (layout.rules, layout.effects))
    most_rules, most_terms = settings.max_rules, settings.max_terms
    few = most_rules is None or rules <= most_rules
    return few and (most_terms is None or terms <= most_terms)


def solve_at(
    asker: Asker,
    candidates: Candidates,
    choose: Choose,
    penalty: float,
    start: Point | None,
    history: list[float],
) -> Talk[Solution]:
    """Go to the optimum at one λ; `history` goes on."""
    settings, public = asker.settings, candidates.public
    newton = Newton(
        public.family,
        public.layout,
        candidates.factors[0],
        penalty,
        bounds=public.bounds.terms,
        start=start,
        tolerance=settings.tolerance,
        max_active=settings.max_active,
        signs=public.signs,
    )
    weight = 0.0
    while not newton.converged and newton.rounds < settings.max_rounds:
        asker.progress = Progress("fit", len(history), 0, last_of(history))
        (sums,) = yield from _evaluate(asker, candidates, choose((newton,)))
        newton.update(sums)
        history.append(newton.point.objective)
        weight = sums.weight
    return Solution(newton.point.coef, penalty, weight, history, point=newton.point)


def _evaluate(
    asker: Asker, candidates: Candidates, queries: Sequence[Query]
) -> Talk[list[CurvatureSums]]:
    """Sum the curvature at all points over the sites."""
    question = partial(m.CurvatureRequest, queries=tuple(queries))
    found: list[CurvatureSums] = yield from asker.sum(question, candidates.public)
    for sums in found:
        judged = sums.query.fold >= 0
        if not sums.weight > 0 or (judged and not sums.held_weight > 0):
            raise FitError(
                "too few patients for cross-validation: lower 'folds', or give 'penalty' a number"
            )
    return found


def positive(total: float) -> float:
    """Return a number of patients, if there are some."""
    if not total > 0:
        raise ProtocolError("the sites count no patients")
    return total


def last_of(history: Sequence[float]) -> float | None:
    """Return the last objective, if there is one."""
    return history[-1] if history else None
