"""How many candidate rules need no data: planned before a patient is looked at.

Not in the paper, which has no such rules. In: the public bins of every covariate, and the most
such rules that the study allows. Out: a :class:`Plan`: for each covariate, how many of its
cut-offs are candidates by themselves. It follows from the study alone, so every site makes
the same plan, and knows it before any work is done.

Levels and "x is missing" cannot be thinned and come first; what is left of the most is shared
out among single cut-offs. Every covariate gets all of its own, or as many as every other that
has more: two yes/no covariates and a number are not planned like three numbers. Thinned are
candidates alone: trees split at every cut-off of the grid.

Oracle: one more for everybody until nothing is left (``tests/unit/core/test_plan.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, Ints
from fedrulefit.core.bins import Bins


@dataclass(frozen=True, eq=False)
class Plan:
    """What is planned.

    Parameters
    ----------
    n_levels, n_missing : int
        Rules ``category = level`` and ``x is missing``.
    cutoffs : (n_features,) int64
        Cut-offs that each covariate can have; 0 where they are no candidates.
    most : int
        Candidates that the study allows.
    """

    n_levels: int
    n_missing: int
    cutoffs: Ints
    most: int

    @property
    def share(self) -> int:
        """The most cut-offs of one covariate that are candidates."""
        left = self.most - self.n_levels - self.n_missing
        return max(
            (c for c in range(MAX_CODES) if np.minimum(self.cutoffs, c).sum() <= left), default=0
        )

    @property
    def quotas(self) -> Ints:
        """How many cut-offs of each covariate are candidates, shape (n_features,)."""
        return np.minimum(self.cutoffs, self.share)

    @property
    def n_candidates(self) -> int:
        """All candidates, at most."""
        return self.n_levels + self.n_missing + int(self.quotas.sum())

    @property
    def n_left_out(self) -> int:
        """Single cut-offs that are no candidates."""
        return int((self.cutoffs - self.quotas).sum())

    @property
    def problem(self) -> str:
        """What stands in the way; "" if nothing."""
        needed = self.n_levels + self.n_missing
        if needed <= self.most:
            return ""
        advice = "take covariates out of the study, or raise 'max_candidates'"
        if self.n_missing:
            advice = (
                "declare covariates that are never missing 'complete', set 'single_cutoffs = "
                f"false' (then “x is missing” is none), {advice}"
            )
        return (
            f"{_say(self.n_levels)} levels of categories and {_say(self.n_missing)} times “x is "
            f"missing” are {_say(needed)} candidate rules, of at most {_say(self.most)} "
            f"('max_candidates'): {advice}"
        )

    def words(self) -> str:
        """Say what is planned, and what can be done about it."""
        cutoffs = int(self.cutoffs.sum())
        if self.n_left_out == 0:
            return f"Candidate rules that need no data: {_say(self.n_candidates)} at most."
        beside = self.n_levels + self.n_missing
        room = f"{_say(self.most)} candidates in all" + (
            f", {_say(beside)} of them levels or “x is missing”" if beside else ""
        )
        planned = f"at most {self.share} of each covariate" if self.share else "none"
        return (
            f"{_say(len(self.cutoffs))} covariates could give {_say(cutoffs)} single cut-offs as "
            f"candidate rules; planned: {planned}, {_say(self.quotas.sum())} together "
            f"('max_candidates' allows {room}). Trees still split at every cut-off."
        )


def plan_candidates(bins: Sequence[Bins], *, n_cutoffs: int, single: bool, most: int) -> Plan:
    """Plan the candidate rules that need no data.

    Parameters
    ----------
    bins : the public bins of every covariate
    n_cutoffs : int
        The most estimated cut-offs of a covariate.
    single : bool
        Whether single cut-offs, and "x is missing", are candidates.
    most : int
        Candidates that are allowed.
    """
    counts = [_count_cutoffs(b, n_cutoffs) if single else 0 for b in bins]
    return Plan(
        n_levels=sum(b.n_bins for b in bins if b.kind == "category"),
        n_missing=sum(not b.complete for b in bins) if single else 0,
        cutoffs=np.array(counts, dtype=np.int64),
        most=most,
    )


def thin(n_cutoffs: int, n_kept: int) -> Ints:
    """Return which of `n_cutoffs` stay if only `n_kept` do, spread evenly, shape (n_kept,).

    Quantiles are spread evenly over patients, so these are, too: of 32, 3 are near the quartiles.
    """
    if n_kept >= n_cutoffs:
        return np.arange(n_cutoffs)
    steps = 2 * np.arange(1, n_kept + 1) * (n_cutoffs + 1) + (n_kept + 1)
    return steps // (2 * (n_kept + 1)) - 1


def _count_cutoffs(bins: Bins, n_cutoffs: int) -> int:
    """Return the most cut-offs that a covariate can have."""
    if bins.kind == "category":
        return 0
    if bins.cutoffs is not None:
        return len(bins.cutoffs)
    if bins.step is None:
        return min(n_cutoffs + len(bins.added), MAX_CODES - 1)
    below, above = np.floor(bins.edges[[0, -1]] / bins.step + 1e-9)
    return min(n_cutoffs + len(bins.added), int(above - below), MAX_CODES - 1)


def _say(number: int) -> str:
    return f"{number:,}"
