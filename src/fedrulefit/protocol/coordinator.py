"""The coordinator: turns replies into the next requests, and at last a model.

In: the replies of all sites. Out: the next requests, or the finished model.
It keeps no clock and no connection; the same replies give the same model, in
whatever order they arrived.

The conversation reads top to bottom in :meth:`Coordinator._conversation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import TypeAlias, TypeVar

import numpy as np

from fedrulefit import __version__
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.fedda import server_update, soft_threshold
from fedrulefit.core.grid import Grid, SpreadSums, estimate_grid
from fedrulefit.core.importance import term_importance
from fedrulefit.core.rules import Rule, check_rules, level_rules, merge_rules
from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.model import LinearTerm, Model, Provenance, RuleTerm, Term
from fedrulefit.privacy.bill import PrivacyBill, exact_releases
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.schedule import make_schedule
from fedrulefit.study import Study

DIVERGED = 10.0
"""A loss so many times the first one will not come back."""

Answer = TypeVar("Answer")
Talk: TypeAlias = Generator[Mapping[str, m.Request], Mapping[str, m.Reply], Answer]
"""Yields requests, is sent the replies, and returns what they add up to."""


@dataclass(frozen=True)
class Progress:
    """Where the run is: the step, its round, and the objective so far."""

    step: str
    round: int = 0
    rounds: int = 0
    objective: float | None = None


@dataclass(frozen=True)
class _Noise:
    """What protected the histograms, and whether it guarantees their ε."""

    mechanism: str
    private: bool


class Coordinator:
    """Leads one run of a study.

    Parameters
    ----------
    study : Study
    sites : sequence of str
        Names of the sites that take part.
    grid : Grid, optional
        Known cut-offs: then no histogram is asked for.
    run : str, optional
        Name of the run; by default derived from the study and the sites.
    """

    def __init__(
        self,
        study: Study,
        sites: Sequence[str],
        *,
        grid: Grid | None = None,
        run: str | None = None,
    ) -> None:
        if not sites:
            raise FitError("a run needs at least one site")
        if len(set(sites)) != len(sites):
            raise FitError("two sites have the same name: names must differ")
        self.study = study
        self.sites = tuple(sorted(sites))
        self.run = run or _name_run(study, self.sites)
        self.progress = Progress("join")
        self._grid = grid
        self._steps = 0
        self._talk = self._conversation()
        self._started = False

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
        yield from self._ask(m.JoinReply, m.JoinRequest)
        grid, noise = self._grid, None
        if grid is None:
            grid, noise = yield from self._agree_on_grid()
        rules, n_terms = yield from self._collect_rules(grid)
        coef, history = yield from self._fit(n_terms)
        return (yield from self._summarise(grid, rules, coef, history, noise))

    def _agree_on_grid(self) -> Talk[tuple[Grid, _Noise]]:
        """Paper 2.2.1: sum the histograms, read off cut-offs and limits."""
        self.progress = Progress("histograms")
        settings, bins = self.study.settings, self.study.bins
        replies = yield from self._ask(m.GridReply, m.GridRequest)
        n_cells = sum(b.n_cells for b in bins)
        n_spreads = self.study.n_features if settings.spreads == "exact" else 0
        counts = _total([r.counts for r in replies], n_cells)
        spreads = SpreadSums(
            _total([r.spread_squares for r in replies], n_spreads),
            _total([r.spread_freedom for r in replies], n_spreads),
        )
        grid = estimate_grid(
            counts,
            bins,
            n_cutoffs=settings.n_cutoffs,
            winsor=settings.winsor,
            repair=settings.repair,
            centre=settings.centre,
            spreads=spreads if n_spreads else None,
        )
        mechanism = "; ".join(sorted({r.mechanism for r in replies}))
        return grid, _Noise(mechanism, private=all(r.private for r in replies))

    def _collect_rules(self, grid: Grid) -> Talk[tuple[tuple[Rule, ...], int]]:
        """Paper 2.2.2: every site grows rules; equal ones are merged."""
        self.progress = Progress("rules")
        replies = yield from self._ask(m.RulesReply, partial(m.RulesRequest, grid=grid))
        for reply in replies:
            try:
                check_rules(reply.rules, grid)
            except ValueError as error:
                raise ProtocolError(f"site {reply.header.site!r}: {error}") from None
        rules = merge_rules(
            [level_rules(grid), *(reply.rules for reply in replies)],
            grid,
            drop_complements=self.study.settings.drop_complements,
        )
        self.progress = Progress("terms")
        built = yield from self._ask(m.TermsReply, partial(m.TermsRequest, rules=rules))
        if len({reply.n_terms for reply in built}) != 1:
            raise ProtocolError("the sites disagree on the number of terms")
        return rules, built[0].n_terms

    def _fit(self, n_terms: int) -> Talk[tuple[Floats, list[float]]]:
        """Paper 2.2.3, algorithm 2."""
        schedule = make_schedule(self.study.settings)
        dual = np.zeros(n_terms)
        history: list[float] = []
        for round_ in range(schedule.rounds):
            last = history[-1] if history else None
            self.progress = Progress("fit", round_, schedule.rounds, last)
            replies = yield from self._ask(
                m.DualReply, partial(m.DualRequest, round=round_, dual=dual)
            )
            weight = _positive_total({r.header.site: r.weight for r in replies})
            loss = sum(reply.loss for reply in replies) / weight
            coef = soft_threshold(dual, schedule.threshold(round_, 0))
            history.append(loss + schedule.penalty * float(np.abs(coef[1:]).sum()))
            self._check_converges(history[-1], history[0], round_)
            increment = _total([reply.increment for reply in replies], n_terms) / weight
            dual = server_update(dual, increment, schedule.server_step)
        return soft_threshold(dual, schedule.threshold(schedule.rounds)), history

    def _check_converges(self, objective: float, first: float, round_: int) -> None:
        if objective > DIVERGED * first:
            raise FitError(
                f"FedDA diverges (round {round_}: the objective is {objective:.3g}, it "
                f"started at {first:.3g}): lower 'client_step' (now "
                f"{self.study.settings.client_step:g}) or set 'centre = true'"
            )

    def _summarise(
        self,
        grid: Grid,
        rules: Sequence[Rule],
        coef: Floats,
        history: list[float],
        noise: _Noise | None,
    ) -> Talk[Model]:
        """Paper 2.3: support and importance of the terms that stayed."""
        self.progress = Progress("summary", len(history), len(history), history[-1])
        kept = np.flatnonzero(coef != 0)
        terms: Ints = np.concatenate([[0], kept[kept > 0]]).astype(np.int64)
        replies = yield from self._ask(
            m.SummaryReply, partial(m.SummaryRequest, terms=terms, coef=coef[terms])
        )
        patients = _positive_total({r.header.site: r.total for r in replies})
        n_rules = int(((terms > 0) & (terms <= len(rules))).sum())
        inside = _total([reply.inside for reply in replies], n_rules)
        events_inside = _total([reply.events_inside for reply in replies], n_rules)
        squares = _total([reply.squares for reply in replies], len(terms))
        importance = term_importance(coef[terms], squares, patients - len(replies))
        found: list[Term] = []
        for k, term in enumerate(terms[1:], start=1):
            beta, size = float(coef[term]), float(importance[k])
            if term <= len(rules):
                counts = float(inside[k - 1]), float(events_inside[k - 1])
                found.append(RuleTerm(rules[term - 1], beta, size, *counts))
            else:
                found.append(LinearTerm(grid.linear[term - 1 - len(rules)], beta, size))
        found.sort(key=lambda term: -term.importance)
        loss = sum(reply.loss for reply in replies) / patients
        penalty = self.study.settings.penalty * float(np.abs(coef[1:]).sum())
        self._check_converges(loss + penalty, history[0], len(history))
        self.progress = Progress("done", len(history), len(history), loss + penalty)
        return Model(
            study=self.study,
            grid=grid,
            intercept=float(coef[0]),
            terms=tuple(found),
            privacy=self._bill(noise),
            provenance=Provenance(
                sites=self.sites,
                patients=patients,
                events=sum(reply.events for reply in replies),
                candidates=len(rules),
                solver="fedda",
                rounds=len(history),
                objective=loss + penalty,
                history=tuple(history),
                software=_software(),
            ),
        )

    def _bill(self, noise: _Noise | None) -> PrivacyBill:
        settings = self.study.settings
        private = noise is not None and noise.private
        return PrivacyBill(
            mechanism="none" if noise is None else noise.mechanism,
            epsilon_per_histogram=settings.epsilon if private else None,
            n_histograms=0 if noise is None else self.study.n_features,
            ranges_from_data=self.study.ranges_from_data,
            exact=tuple(
                exact_releases(
                    noise=private,
                    histograms=noise is not None,
                    exact_spreads=settings.spreads == "exact",
                    rounds=settings.rounds,
                )
            ),
        )

    def _ask(
        self, kind: type[Answer], request: Callable[[m.Header], m.Request]
    ) -> Talk[list[Answer]]:
        """Send the same request to all sites; return their replies by name."""
        headers = {
            site: m.Header(m.PROTOCOL_VERSION, self.run, self._steps, site, self.study.digest)
            for site in self.sites
        }
        self._steps += 1
        replies = yield {site: request(header) for site, header in headers.items()}
        refusals = [
            f"  {site}: {reply.reason} [{reply.code}]"
            for site, reply in sorted(replies.items())
            if isinstance(reply, m.Refusal)
        ]
        if refusals:
            raise FitError("\n".join(["these sites refused:", *refusals]))
        missing = [site for site in self.sites if site not in replies]
        if missing:
            raise ProtocolError(f"no reply from {', '.join(missing)}")
        ordered: list[Answer] = []
        for site in self.sites:
            reply = replies[site]
            if not isinstance(reply, kind) or reply.header != headers[site]:
                raise ProtocolError(f"site {site!r} answered another question")
            ordered.append(reply)
        return ordered


Number = TypeVar("Number", Floats, Ints)


def _total(arrays: Sequence[Number], length: int) -> Number:
    """Sum over sites, in the order of their names."""
    for array in arrays:
        if array.shape != (length,):
            raise ProtocolError(f"a site sent {array.shape} numbers where {length} were due")
    total: Number = np.sum(np.stack(arrays), axis=0)
    return total


def _positive_total(numbers: Mapping[str, float]) -> float:
    """Sum over sites what must be above 0 at each of them."""
    for site, number in numbers.items():
        if not number > 0:
            raise ProtocolError(f"site {site!r} counts no patients")
    return sum(numbers.values())


def _name_run(study: Study, sites: Sequence[str]) -> str:
    text = "\n".join([study.digest, *sites])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _software() -> tuple[tuple[str, str], ...]:
    libraries = ("numpy", "scipy", "lightgbm", "opendp")
    return ("fedrulefit", __version__), *((name, version(name)) for name in libraries)
