"""Coefficients and dispersion in turns: how negative binomial counts are learnt.

Without a dispersion first, which is Poisson's fit. Then the likeliest dispersion at its
coefficients; with it, the fit anew, cross-validation and all; and at that fit's λ in turns the
likeliest dispersion and the coefficients, until the dispersion stays (as R's ``glm.nb`` does).
Where counts vary no more than Poisson's, the first fit stands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from fedrulefit.core.dispersion import DispersionSearch
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.agreeing import Candidates
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk
from fedrulefit.protocol.coordinator.fitting import Solution, fit_exactly, last_of, solve_at
from fedrulefit.protocol.coordinator.pruning import Choose

MOST_TURNS: Final = 10
"""Both are all but independent of each other: two or three turns are usual."""

NEAR: Final = 1
"""A dispersion stays if it moves by no more steps of its ladder than this."""


def fit_with_dispersion(
    asker: Asker, candidates: Candidates, choose: Choose
) -> Talk[tuple[Solution, Candidates]]:
    """Return the coefficients, and the candidates with the dispersion that the fit was made at."""
    solution = yield from fit_exactly(asker, candidates, choose)
    found = yield from _search(asker, candidates, solution, None)
    candidates = yield from _share(asker, candidates, found)
    if found.none:
        return solution, candidates
    solution = yield from fit_exactly(asker, candidates, choose, solution)
    for _ in range(MOST_TURNS):
        again = yield from _search(asker, candidates, solution, found.place)
        if abs(again.place - found.place) <= NEAR:
            break
        found = again
        candidates = yield from _share(asker, candidates, found)
        penalty, start, history = solution.penalty, solution.point, solution.history
        own = yield from solve_at(asker, candidates, choose, penalty, start, history)
        solution = replace(own, path=solution.path, held=solution.held)
    return solution, candidates


def _search(
    asker: Asker, candidates: Candidates, solution: Solution, start: int | None
) -> Talk[DispersionSearch]:
    """Find the likeliest dispersion at a solution's coefficients."""
    public = candidates.public
    terms = public.layout.with_baseline(np.flatnonzero(solution.coef))
    search = DispersionSearch(public.family.ladder, start)
    while not search.done:
        n_rounds = len(solution.history)
        asker.progress = Progress("dispersion", n_rounds, 0, last_of(solution.history))
        question = partial(
            m.DispersionRequest,
            terms=terms,
            coef=solution.coef[terms],
            dispersion=search.dispersion,
        )
        (sums,) = yield from asker.sum(question, public)
        search.update(sums)
    return search


def _share(asker: Asker, candidates: Candidates, found: DispersionSearch) -> Talk[Candidates]:
    """Hand the dispersion out."""
    question = partial(m.ShareDispersionRequest, dispersion=found.dispersion)
    yield from asker.ask(m.ShareDispersionReply, question)
    return replace(candidates, public=candidates.public.with_dispersion(found.dispersion))
