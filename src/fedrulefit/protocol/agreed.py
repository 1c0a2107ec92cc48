"""What follows from public facts: the coordinator makes it, and every site makes it again.

In: the study and what the sites sent openly. Out: the grid, the rules that need no data,
and which rules enough sites voted for. A site that gets something else refuses, so a
coordinator cannot choose cut-offs or rules around one patient.

The claims are what a site signs of its own messages, so that others believe them although
the coordinator carries them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

import msgpack
import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.grid import Axis, Grid, estimate_grid
from fedrulefit.core.rules import (
    Rule,
    complement,
    cutoff_rules,
    level_rules,
    mirror,
    plausible_rules,
)
from fedrulefit.protocol import messages as m
from fedrulefit.study import Study

WEIGHT_UNIT: Final = 1024
"""A patient's weight is counted in units of 1/1024, so that noise stays integer."""

FEWEST: Final = 5
"""A rule that needs no data stays out if the histograms show fewer patients on a side."""

VOTE_BYTES: Final = 2
"""Bytes of a masked vote: sums of votes are of at most 65,535 sites."""

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
    )


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

    Only those that have patients on either side, as far as the released histograms tell.
    """
    free = set(level_rules(grid))
    if study.settings.single_cutoffs:
        free |= set(cutoff_rules(grid))
    if counts is not None:
        unit = 1 if study.weight is None else WEIGHT_UNIT
        free = plausible_rules(free, counts / unit, study.bins, grid, fewest=FEWEST)
    return free


def elected(
    rules: Sequence[Rule], votes: Ints, free: Collection[Rule], grid: Grid, min_votes: int
) -> Bools:
    """Return which rules may be summed, shape (n_rules,): free ones, and those with votes."""
    public = [
        rule in free or complement(rule, grid) in free or mirror(rule, grid) in free
        for rule in rules
    ]
    return np.array(public, dtype=np.bool_) | (votes >= min_votes)


def add_votes(parts: Sequence[bytes], masks: Sequence[Ints], n_rules: int) -> Ints:
    """Return how many sites voted for each rule, shape (n_rules,).

    Parameters
    ----------
    parts : sequence of bytes
        The masked votes of all sites.
    masks : sequence of (n_rules,) int64
        The sites' own masks, where they have opened some.
    n_rules : int
    """
    total = np.zeros(n_rules, dtype=np.uint16)
    for part in parts:
        total += unpack_votes(part).astype(np.uint16)
    for mask in masks:
        total -= mask.astype(np.uint16)
    return total.astype(np.int64)


def pack_votes(masked: Ints) -> bytes:
    """Return masked votes as 16-bit integers: sums modulo 2^64 are sums modulo 2^16."""
    return masked.astype(np.uint16).astype("<u2").tobytes()


def unpack_votes(packed: bytes) -> Ints:
    """Return the integers of packed votes."""
    return np.frombuffer(packed, dtype="<u2").astype(np.int64)


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


def ballot_claim(header: m.Header, site: str, votes: bytes) -> bytes:
    """These masked votes are mine, in this run."""
    return _claim("votes", header, site, votes)


def _claim(what: str, header: m.Header, site: str, fact: bytes | int) -> bytes:
    told = hashlib.sha256(fact).digest() if isinstance(fact, bytes) else fact
    claim: bytes = msgpack.packb([f"fedrulefit {what} 1", header.study, header.run, site, told])
    return claim
