"""The coordinator: turns replies into the next requests, and at last a model.

In: the replies of all sites. Out: the next requests, or the finished model.
It keeps no clock and no connection; the same replies give the same model, in
whatever order they arrived. So a run is resumed by handing a new coordinator the
replies of the old one.

The conversation reads top to bottom in :meth:`Coordinator._conversation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Grid
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.rules import Rule
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.model import Model
from fedrulefit.model.publish import round_model
from fedrulefit.model.terms import TermKey
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.agreeing import Counted, agree_on_grid, collect_rules
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk
from fedrulefit.protocol.coordinator.concluding import Found, conclude
from fedrulefit.protocol.coordinator.dispersing import fit_with_dispersion
from fedrulefit.protocol.coordinator.fitting import fit_by_averaging, fit_exactly
from fedrulefit.protocol.coordinator.judging import judge
from fedrulefit.study import Study


class Coordinator:
    """Leads one run of a study.

    Parameters
    ----------
    study : Study
    sites : sequence of str
        Names of the sites that take part.
    grid : Grid, optional
        Known cut-offs: then no histogram is asked for.
    rules : sequence of Rule, optional
        Known candidates, on a known grid: then the sites' own are not used.
    only : collection of terms, optional
        What the fit may use beside the rules that the study keeps, of known rules: rules and
        covariates, and for which level of the outcome each counts.
    run : str, optional
        Name of the run; by default derived from the study and the sites. Runs
        between hospitals need names of their own.
    secure : bool
        Whether sums are masked.
    dropouts : {"wait", "continue"}
        Whether the run goes on without sites that do not reply.
    """

    def __init__(
        self,
        study: Study,
        sites: Sequence[str],
        *,
        grid: Grid | None = None,
        rules: Sequence[Rule] | None = None,
        only: Collection[TermKey] | None = None,
        run: str | None = None,
        secure: bool = False,
        dropouts: Literal["wait", "continue"] = "wait",
    ) -> None:
        if not sites:
            raise FitError("a run needs at least one site")
        if rules is not None and grid is None:
            raise FitError("known rules need the grid that they are on")
        if rules is not None and only is None and study.settings.penalty == "cv":
            raise FitError("known rules need a number as 'penalty': folds have rules of their own")
        if len(set(sites)) != len(sites):
            raise FitError("two sites have the same name: names must differ")
        if study.plan.problem:
            raise FitError(study.plan.problem)
        listed = tuple(sorted(sites))
        self.study = study
        self.run = run or _name_run(study, listed)
        self.secure = secure
        self.dropouts = dropouts
        self._asker = Asker(study, listed, self.run, secure=secure, dropouts=dropouts)
        self.candidates: tuple[Rule, ...] = ()
        self.held: Floats | None = None
        self._grid = grid
        self._rules = rules
        self._only = only
        self._talk = self._conversation()
        self._started = False

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that take part; fewer, once some are lost."""
        return self._asker.sites

    @property
    def progress(self) -> Progress:
        """Where the run is."""
        return self._asker.progress

    def step(self, replies: Mapping[str, m.Reply] | None = None) -> Mapping[str, m.Request] | Model:
        """Take the replies to the last requests; return the next, or the model."""
        try:
            if self._started:
                return self._talk.send(dict(replies or {}))
            self._started = True
            return next(self._talk)
        except StopIteration as finished:
            model: Model = finished.value
            return model

    def _conversation(self) -> Talk[Model]:
        asker = self._asker
        join = partial(m.JoinRequest, sites=self.sites, secure=self.secure, dropouts=self.dropouts)
        joined = yield from asker.ask(m.JoinReply, join)
        rounding, min_votes = _coarsest(joined), 0
        if self.secure:
            min_votes = _most_votes(joined)
            yield from asker.exchange_keys()
        counted = yield from self._agree_on_grid()
        candidates = yield from collect_rules(asker, counted, min_votes, known=self._rules)
        if self._only is not None:
            public = replace(candidates.public, only=frozenset(self._only))
            candidates = replace(candidates, public=public)
        self.candidates = candidates.allowed
        if self.study.settings.solver == "fedda":
            solution = yield from fit_by_averaging(asker, candidates)
        elif self.study.family.disperses:
            solution, candidates = yield from fit_with_dispersion(asker, candidates, self._choose)
        else:
            solution = yield from fit_exactly(asker, candidates, self._choose, min_votes=min_votes)
        self.held = solution.held
        found = Found(candidates, solution, counted, min_votes)
        model = yield from conclude(asker, found)
        told = round_model(model, rounding)
        judged = yield from judge(asker, model, told, found.terms, found.public, rounding)
        asker.finish()
        return round_model(judged, rounding)

    def _agree_on_grid(self) -> Talk[Counted]:
        """Return the shared grid: known before, or from the sites' histograms."""
        if self._grid is not None:
            return Counted(self._grid)
        return (yield from agree_on_grid(self._asker))

    def _choose(self, solvers: Sequence[Any]) -> Sequence[Any]:
        """Return the next points of solvers, or of tracks."""
        return [solver.query() for solver in solvers]


def _coarsest(joined: Sequence[m.JoinReply]) -> Rounding:
    """Return the rounding that every site's policy asks for."""
    rounding = EXACT
    for reply in joined:
        try:
            rounding = rounding.join(Rounding(reply.round_counts, reply.min_published))
        except ValueError as error:
            raise ProtocolError(f"site {reply.header.site!r}: {error}") from None
    return rounding


def _most_votes(joined: Sequence[m.JoinReply]) -> int:
    """Return the votes for a rule that every site's policy asks for."""
    for reply in joined:
        if not 0 <= reply.min_votes <= len(joined):
            raise ProtocolError(
                f"site {reply.header.site!r} asks for {reply.min_votes} votes of {len(joined)} "
                "sites for each rule: no rule could have them ('min_votes' of its policy)"
            )
    return max(reply.min_votes for reply in joined)


def _name_run(study: Study, sites: Sequence[str]) -> str:
    text = "\n".join([study.digest, *sites])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
