"""What sites and coordinator agree on before the fit: cut-offs, candidate rules, terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.bins import SpreadSums, find_spreads
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Rule, check_rules, merge_rules, twins
from fedrulefit.errors import FitError, ProtocolError, one_line
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import (
    VOTE_BYTES,
    Tally,
    count_ballot,
    count_rules,
    count_votes,
    free_rules,
    make_grid,
    released_codes,
)
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk
from fedrulefit.protocol.own_rules import elect_own, list_own_asked, name_own
from fedrulefit.protocol.public import MAX_RULES, Public
from fedrulefit.protocol.solver_settings import most_rules
from fedrulefit.study import Study

FORBIDDEN = 1e9
"""A penalty factor so large that the term stays 0."""

MAX_CONDITIONS = 100
"""Most conditions of one rule."""


@dataclass(frozen=True)
class Protection:
    """What protected the histograms, and whether it guarantees their ε."""

    mechanism: str
    private: bool


@dataclass(frozen=True, eq=False)
class Counted:
    """The sites' histograms, and what followed from them.

    Parameters
    ----------
    grid : Grid
    histograms : tuple of Histogram
        As the sites signed them; none where sums are not masked.
    counts : (n_cells,) int64 or None
        Their sum; None where the grid was known before.
    protection : Protection or None
        None where no histogram left a site.
    """

    grid: Grid
    histograms: tuple[m.Histogram, ...] = ()
    counts: Ints | None = None
    protection: Protection | None = None

    def by_code(self, study: Study) -> tuple[Floats, ...] | None:
        """Return how many patients have each code; None where no histogram tells."""
        return None if self.counts is None else released_codes(study, self.grid, self.counts)


@dataclass(frozen=True, eq=False)
class Candidates:
    """What the fit is about, and penalty factors for all patients and then each fold.

    A rule grown on the patients of a fold must not be judged on them: it is
    forbidden in the fits that hold that fold out.
    """

    public: Public
    factors: list[Floats]

    @property
    def n_allowed(self) -> int:
        """Rules that the fit to all patients may use."""
        return len(self.allowed)

    @cached_property
    def allowed(self) -> tuple[Rule, ...]:
        """The rules that the fit to all patients may use."""
        # Where each class has all rules as terms of its own, the first class tells.
        may = (self.factors[0][self.public.layout.rules] < FORBIDDEN).tolist()
        return tuple(rule for rule, can in zip(self.public.fitted_rules, may, strict=False) if can)


def agree_on_grid(asker: Asker) -> Talk[Counted]:
    """Paper 2.2.1: sum the histograms, read off cut-offs and limits."""
    asker.progress = Progress("histograms")
    study, bins = asker.study, asker.study.bins
    replies = yield from asker.ask(m.GridReply, m.GridRequest)
    counts = _total([r.counts for r in replies], sum(b.n_cells for b in bins))
    signed = tuple(m.Histogram(r.header.site, r.counts, r.signature) for r in replies)
    spreads = None
    if m.SpreadsRequest.asked_in(asker.settings):
        (sums,) = yield from asker.sum(m.SpreadsRequest, Public(study))
        spreads = find_spreads(_check_spreads(sums), bins)
    mechanism = "; ".join(sorted({one_line(r.mechanism, 100) for r in replies}))
    return Counted(
        make_grid(study, counts, spreads),
        signed if asker.secure else (),
        counts,
        Protection(mechanism, private=all(r.private for r in replies)),
    )


def collect_rules(
    asker: Asker, counted: Counted, min_votes: int, *, known: Sequence[Rule] | None = None
) -> Talk[Candidates]:
    """Paper 2.2.2: every site grows rules; equal ones are merged.

    `min_votes` are the sites that must have enough patients in a rule; 0 for no vote.
    `known` rules, merged in an earlier run, take the place of all.
    """
    asker.progress = Progress("rules")
    settings, grid = asker.settings, counted.grid
    public = Public(asker.study).with_sites(asker.n_joined).with_grid(grid)
    replies = yield from asker.ask(
        m.RulesReply, partial(m.RulesRequest, grid=grid, histograms=counted.histograms)
    )
    own = name_own(public)
    for reply in replies:
        most = min(MAX_RULES, most_rules(settings) + len(own))
        _check_sent(reply, public.n_folds, grid, most)
    sent = set(own) if min_votes > 0 else set(own) & _all_sent(replies)
    if known is None:
        free = frozenset(free_rules(asker.study, grid, counted.counts) | sent)
        groups = _gather(free, replies, public)
        drop, by_code = settings.drop_complements, counted.by_code(asker.study)
        rules = merge_rules(groups, grid, drop_complements=drop, by_code=by_code, preferred=own)
        _check_few(rules, len(free))
    else:
        few = set(own) - sent
        rules = tuple(rule for rule in known if rule not in few)
        groups = [frozenset(rules)] * (1 + public.n_folds)
    ballots: tuple[m.Ballot, ...] = ()
    if min_votes > 0:
        rules, ballots = yield from _elect(asker, public, rules, replies, min_votes)
    asker.progress = Progress("terms")
    built = yield from asker.ask(
        m.TermsReply, partial(m.TermsRequest, rules=rules, ballots=ballots)
    )
    public = public.with_rules(rules)
    if {reply.n_terms for reply in built} != {public.n_terms}:
        raise ProtocolError("the sites disagree on the number of terms")
    return Candidates(public, _forbid(public, groups))


def _check_few(rules: Sequence[Rule], n_free: int) -> None:
    """Refuse more rules than sites take, before they are sent."""
    if len(rules) > MAX_RULES:
        raise FitError(
            f"the sites' trees and {n_free:,} rules that need no data give {len(rules):,} "
            f"candidates, of at most {MAX_RULES:,}: lower 'n_trees', 'mean_leaves' or "
            "'max_candidates'"
        )


def _all_sent(replies: Sequence[m.RulesReply]) -> set[Rule]:
    """Return the rules of the fit to all patients that any site sent."""
    return set().union(*(reply.rules for reply in replies))


def _gather(
    free: frozenset[Rule], replies: Sequence[m.RulesReply], public: Public
) -> list[frozenset[Rule]]:
    """Return one set for the fit to all patients, and one per fold for its cross-validation."""
    groups = [free.union(*(reply.rules for reply in replies))]
    for fold in range(public.n_folds):
        groups.append(free.union(*(reply.fold_rules[fold] for reply in replies)))
    if public.limits is None:
        return groups
    own = set(public.limits.own)
    sifted = (group - own for group in groups)
    return [free | set(public.limits.sift(group)) for group in sifted]


def _elect(
    asker: Asker,
    public: Public,
    rules: tuple[Rule, ...],
    replies: Sequence[m.RulesReply],
    min_votes: int,
) -> Talk[tuple[tuple[Rule, ...], tuple[m.Ballot, ...]]]:
    """Return the rules for which enough sites vote, and the votes."""
    own, known = name_own(public), set(rules)
    slices = [part for part in list_own_asked(own, public.grid) if part not in known]
    asked = (*rules, *slices)
    tally, ballots = yield from _hold_vote(asker, asked, replies)
    elected = dict(zip(asked, tally.elect(min_votes).tolist(), strict=True))
    few = set(own) - set(elect_own(own, public.grid, elected.__getitem__))
    return tuple(rule for rule in rules if elected[rule] and rule not in few), ballots


def _hold_vote(
    asker: Asker, rules: tuple[Rule, ...], sent: Sequence[m.RulesReply]
) -> Talk[tuple[Tally, tuple[m.Ballot, ...]]]:
    """Ask how many sites have enough patients in each rule; return what they signed, too."""
    asker.progress = Progress("votes")
    senders = tuple(m.Sender(r.header.site, count_rules(r), r.signature) for r in sent)
    question = partial(m.VoteRequest, rules=rules, senders=senders)
    ballots = yield from ask_ballots(asker, question, len(rules))
    return count_votes(ballots, len(rules)), ballots


def ask_ballots(
    asker: Asker, question: Callable[[m.Header], m.Request], n_rules: int
) -> Talk[tuple[m.Ballot, ...]]:
    """Return what all sites vote on so many rules, as they signed it."""
    replies, seeds = yield from asker.ask_together(m.VoteReply, question)
    n_votes = count_ballot(n_rules, len(replies))
    for reply in replies:
        if len(reply.votes) != VOTE_BYTES * n_votes:
            raise ProtocolError(f"site {reply.header.site!r} did not vote on every rule")
    return tuple(
        m.Ballot(reply.header.site, reply.votes, reply.signature, seed)
        for reply, seed in zip(replies, seeds or [b""] * len(replies), strict=True)
    )


def _forbid(public: Public, groups: Sequence[Set[Rule]]) -> list[Floats]:
    """Return penalty factors that forbid, for each group, the rules that do not stand in it.

    A rule stays that has a twin in the group.
    """
    alike = [(rule, *twins(rule, public.grid)) for rule in public.fitted_rules]
    factors = []
    for allowed in groups:
        changed = public.factors.copy()
        others = np.flatnonzero([allowed.isdisjoint(each) for each in alike])
        changed[public.terms_of_rules(others)] = FORBIDDEN
        factors.append(changed)
    return factors


def _total(arrays: Sequence[Ints], length: int) -> Ints:
    """Sum over sites."""
    for array in arrays:
        if array.shape != (length,):
            raise ProtocolError(f"a site sent {array.shape} numbers where {length} were due")
    total: Ints = np.sum(np.stack(arrays), axis=0)
    return total


def _check_spreads(sums: SpreadSums) -> SpreadSums:
    if min(sums.known.min(), sums.squares.min()) < 0:
        raise ProtocolError("the sites' spreads do not add up to spreads")
    return sums


def _check_sent(reply: m.RulesReply, n_folds: int, grid: Grid, most: int) -> None:
    """Refuse rules that the study's trees cannot give, and name who sent them."""
    site, sets = reply.header.site, (reply.rules, *reply.fold_rules)
    if len(reply.fold_rules) != n_folds:
        raise ProtocolError(f"site {site!r} did not send rules for {n_folds} folds")
    largest = max(map(len, sets))
    if largest <= most:
        try:
            for rules in sets:
                check_rules(rules, grid)
        except ValueError as error:
            raise ProtocolError(f"site {site!r}: {error}") from None
        largest = len(set().union(*sets))
    if largest > most:
        raise ProtocolError(
            f"site {site!r} sent {largest} rules, where the study's trees give {most} at most: "
            "ask the site what it runs, or leave it out",
            "too-many-rules",
        )
    longest = max((len(rule) for rules in sets for rule in rules), default=0)
    if longest > MAX_CONDITIONS:
        raise ProtocolError(
            f"site {site!r} sent a rule of {longest} conditions, of at most {MAX_CONDITIONS}",
            "too-many-rules",
        )
