"""What follows from public facts: the coordinator makes it, and every site makes it again.

In: the study and what the sites sent openly. Out: the grid, the rules that need no data,
and which rules enough sites voted for. A site that gets something else refuses, so a
coordinator cannot choose cut-offs or rules around one patient.

The claims are what a site signs of its own messages, so that others believe them although
the coordinator carries them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgpack
import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.cutoffs import estimate_grid
from fedrulefit.core.grid import Axis, Grid, count_codes
from fedrulefit.core.rules import (
    Rule,
    cutoff_rules,
    level_rules,
    plausible_rules,
    twins,
)
from fedrulefit.core.variants import add_variants, elect_variants, list_asked
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.masks import keystream
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.public import MAX_RULES, WEIGHT_UNIT, Public
from fedrulefit.study import Study

FEWEST: Final = 5
"""A rule that needs no data stays out if the histograms show fewer patients on a side; so does
a cut-off of a covariate that may be missing.

Not ``MIN_COUNT`` of a policy, which each hospital chooses for itself: all sites must come to
the same rules on their own, so another number here would be another protocol."""

VOTE_BYTES: Final = 4
"""Bytes of a masked vote."""

FLAGS: Final = 2
"""Votes after those on rules: does the site deal patients into folds, and hold some out?"""

MOST_GROUPS: Final = 8
"""Groups of sites, of which no single one brings a rule through."""

_NEAR: Final = 1e-9
"""Means may differ by so much of their size: machines add in different orders."""


def make_grid(study: Study, counts: Ints, spreads: Floats | None) -> Grid:
    """Return the grid of summed histograms (paper 2.2.1).

    Parameters
    ----------
    study : Study
    counts : (n_cells,) int64
        Summed over sites.
    spreads : (n_features,) float64 or None
        Exact spreads, where the study asks for them.
    """
    settings = study.settings
    return estimate_grid(
        counts,
        study.bins,
        n_cutoffs=settings.n_cutoffs,
        winsor=settings.winsor,
        repair=settings.repair,
        centre=settings.centre,
        spreads=spreads,
        style=settings.cutoff_style,
        fewest=FEWEST * study.max_rows * _row_unit(study),
    )


def _row_unit(study: Study) -> int:
    """Return what a row of weight 1 counts in a histogram."""
    return 1 if study.weight is None else WEIGHT_UNIT


def follows_from(grid: Grid, study: Study, counts: Ints) -> bool:
    """Whether a grid is the one of these histograms.

    Exact spreads are under masks: of them only the study's bounds are known.
    """
    expected = make_grid(study, counts, None)
    return same_grid(grid, expected, spread=study.settings.spreads != "exact")


def same_grid(grid: Grid, other: Grid, *, spread: bool = True) -> bool:
    """Whether two grids are the same, up to the last digits of means (and spreads)."""
    pairs = zip(grid.axes, other.axes, strict=False)
    return len(grid.axes) == len(other.axes) and all(
        _same_axis(axis, own, spread=spread) for axis, own in pairs
    )


def _same_axis(axis: Axis, other: Axis, *, spread: bool) -> bool:
    exact = (axis.kind, axis.n_codes, axis.complete, axis.limits)
    same = exact == (other.kind, other.n_codes, other.complete, other.limits)
    near = [(axis.centre, other.centre), (axis.fill, other.fill)]
    near += [(axis.spread, other.spread)] * spread
    size = max(map(abs, (*other.limits, other.spread)))
    return (
        same
        and np.array_equal(axis.cutoffs, other.cutoffs)
        and all(abs(a - b) <= _NEAR * size for a, b in near)
    )


def free_rules(study: Study, grid: Grid, counts: Ints | None) -> set[Rule]:
    """Return the candidate rules that need no data: levels and single cut-offs.

    As many as the study plans, and only those that have patients on either side, as far as the
    released histograms tell.
    """
    by_code = None if counts is None else released_codes(study, grid, counts)
    free = set(level_rules(grid))
    if study.settings.single_cutoffs:
        free |= set(cutoff_rules(grid, by_code, study.plan.quotas))
    if by_code is not None:
        free = plausible_rules(free, by_code, grid, fewest=FEWEST * study.max_rows)
    wished = study.wished
    return set(wished.on_grid(grid).sift(free)) if wished.any else free


def released_codes(study: Study, grid: Grid, counts: Ints) -> tuple[Floats, ...]:
    """Return how many patients have each code, as the summed (noisy) histograms tell."""
    return count_codes(counts / _row_unit(study), study.bins, grid)


def is_public(rules: Sequence[Rule], free: Collection[Rule], grid: Grid) -> Bools:
    """Return which rules need no data, shape (n_rules,): free ones, and twins of them."""
    public = [not twins(rule, grid).isdisjoint(free) or rule in free for rule in rules]
    return np.array(public, dtype=np.bool_)


def group_sites(sites: Collection[str]) -> list[tuple[str, ...]]:
    """Return the groups that sites vote in: each by itself, or eight of them."""
    ordered = sorted(sites)
    n_groups = min(len(ordered), MOST_GROUPS)
    return [tuple(ordered[k::n_groups]) for k in range(n_groups)]


def count_ballot(n_rules: int, n_sites: int) -> int:
    """Return the numbers of a ballot: votes on rules, flags, and backing outside each group."""
    return n_rules + FLAGS + min(n_sites, MOST_GROUPS) * n_rules


def fill_ballot(enough: Bools, deals: Sequence[bool], site: str, sites: Collection[str]) -> Ints:
    """Return a site's ballot, shape (n_votes,).

    A vote is 1 or 0. For every group that the site is not of, a rule that it votes for is
    backed by a random number: the sum over all sites outside the group is 0 only if none of
    them votes for the rule, and no site can change that for its own group.
    """
    n_rules = len(enough)
    ballot = np.zeros(count_ballot(n_rules, len(sites)), dtype=np.int64)
    ballot[:n_rules] = enough
    ballot[n_rules : n_rules + FLAGS] = deals
    for part, group in backing_parts(len(ballot), sites):
        if site not in group:
            drawn = np.frombuffer(secrets.token_bytes(VOTE_BYTES * n_rules), dtype="<u4")
            ballot[part] = np.where(enough, np.maximum(drawn, 1), 0)
    return ballot


def backing_parts(n_votes: int, sites: Collection[str]) -> list[tuple[slice, tuple[str, ...]]]:
    """Return where the backing outside each group stands in a ballot, and the group."""
    groups = group_sites(sites)
    n_rules = (n_votes - FLAGS) // (len(groups) + 1)
    first = n_rules + FLAGS
    return [
        (slice(first + k * n_rules, first + (k + 1) * n_rules), group)
        for k, group in enumerate(groups)
    ]


def take_bases(public: Public, bases: Ints) -> list[Rule]:
    """Return the rules of the fit at these places, whose variants are asked for.

    Raises
    ------
    ProtocolError
        If they are no increasing places of rules.
    """
    rules = public.fitted_rules
    inside = bool(((bases >= 0) & (bases < len(rules))).all())
    if not inside or (np.diff(bases) <= 0).any():
        raise ProtocolError("variants are of increasing places of the rules")
    return [rules[k] for k in bases.tolist()]


def list_variants(public: Public, bases: Ints) -> tuple[Rule, ...]:
    """Return all that is voted on about the variants of some rules."""
    asked = list_asked(take_bases(public, bases), public.grid)
    if len(asked) > MAX_RULES:
        raise ProtocolError(f"variants of fewer rules, please: {len(asked)}, of {MAX_RULES}")
    return asked


def with_variants(request: m.VariantsRequest, public: Public) -> Public:
    """Return what is known once the elected variants are rules of the fit, too.

    Without ballots all of them are elected.
    """
    bases = take_bases(public, request.bases)
    asked = list_variants(public, request.bases)
    passes = set(asked)
    if request.ballots:
        elected = count_votes(request.ballots, len(asked)).elect(request.min_votes)
        passes = {rule for rule, stays in zip(asked, elected.tolist(), strict=True) if stays}
    variants = elect_variants(bases, public.grid, passes.__contains__)
    if public.limits is not None:
        variants = tuple(public.limits.sift(variants))
    rules = add_variants(public.fitted_rules, variants, public.grid)
    if len(rules) > MAX_RULES:
        raise ProtocolError(f"{len(rules)} rules with their variants, of at most {MAX_RULES}")
    return public.with_rules(rules)


@dataclass(frozen=True, eq=False)
class Tally:
    """How many sites voted.

    Parameters
    ----------
    rules : (n_rules,) int64
        For each candidate rule: have enough patients in it.
    folds, holdout : int
        Deal their patients into folds, and hold some out.
    backed : (n_rules,) bool
        Whether sites outside every group voted for the rule: then two did, at least, and
        one that says more than its own vote brings no rule through.
    """

    rules: Ints
    folds: int
    holdout: int
    backed: Bools

    @classmethod
    def of(cls, total: Ints, n_rules: int) -> Tally:
        """Read the summed ballots."""
        backing = total[n_rules + FLAGS :].reshape(-1, n_rules) if n_rules else np.ones((1, 0))
        return cls(
            rules=total[:n_rules],
            folds=int(total[n_rules]),
            holdout=int(total[n_rules + 1]),
            backed=(backing != 0).all(axis=0),
        )

    def elect(self, min_votes: int) -> Bools:
        """Return which rules have enough votes, shape (n_rules,)."""
        chosen: Bools = self.rules >= min_votes
        return chosen & self.backed if min_votes > 1 else chosen


def count_votes(ballots: Sequence[m.Ballot], n_rules: int) -> Tally:
    """Add the ballots of all sites up, their own masks taken off where they have some."""
    n_votes = count_ballot(n_rules, len(ballots))
    masks = [keystream(ballot.seed, n_votes) for ballot in ballots if ballot.seed]
    return Tally.of(add_votes([ballot.votes for ballot in ballots], masks, n_votes), n_rules)


def add_votes(parts: Sequence[bytes], masks: Sequence[Ints], n_votes: int) -> Ints:
    """Return how many sites said yes to each question, shape (n_votes,).

    Parameters
    ----------
    parts : sequence of bytes
        The masked votes of all sites.
    masks : sequence of (n_votes,) int64
        The sites' own masks, where they have opened some.
    n_votes : int
        See :func:`count_ballot`.
    """
    total = np.zeros(n_votes, dtype=np.uint32)
    for part in parts:
        total += unpack_votes(part).astype(np.uint32)
    for mask in masks:
        total -= mask.astype(np.uint32)
    return total.astype(np.int64)


def pack_votes(masked: Ints) -> bytes:
    """Return masked votes as 32-bit integers: sums modulo 2^64 are sums modulo 2^32."""
    return masked.astype(np.uint32).astype("<u4").tobytes()


def unpack_votes(packed: bytes) -> Ints:
    """Return the integers of packed votes."""
    return np.frombuffer(packed, dtype="<u4").astype(np.int64)


def count_rules(reply: m.RulesReply) -> int:
    """Return how many different rules a site sent, those of the folds included."""
    return len(set(reply.rules).union(*reply.fold_rules))


# --- What a site signs of its own messages ----------------------------------------------------


def histogram_claim(header: m.Header, site: str, counts: Ints) -> bytes:
    """These noisy counts are mine, in this run."""
    return _claim("histogram", header, site, counts.astype("<i8").tobytes())


def sender_claim(header: m.Header, site: str, n_rules: int) -> bytes:
    """So many different rules I sent in this run."""
    return _claim("rules", header, site, n_rules)


def ballot_claim(header: m.Header, site: str, votes: bytes, question: bytes, seed: bytes) -> bytes:
    """These masked votes on that list of rules are mine, and this seed opens my own mask."""
    return _claim("votes", header, site, votes, question, seed)


def _claim(what: str, header: m.Header, site: str, *facts: bytes | int) -> bytes:
    told = [hashlib.sha256(f).digest() if isinstance(f, bytes) else f for f in facts]
    claim: bytes = msgpack.packb([f"fedrulefit {what} 1", header.study, header.run, site, *told])
    return claim
