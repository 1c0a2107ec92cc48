r"""What a site adds up of predicted probabilities of several levels, ordered or not.

In: each patient's probability of every level, and the level that came. Out:
:class:`LevelsSums`, which add up over sites; :mod:`fedrulefit.core.families.levels_measures` reads
the measures off them. Leaves the site: the sums; no score of a patient.

Several levels are judged by yes/no questions, the *splits*: of levels without an order each one
against the rest, C of them; of ordered ones "at least level k", k = 1 … C − 1. For each split a
site counts the same as for a yes/no outcome (:mod:`fedrulefit.core.families.yesno_sums`), in the
same 25 public bins, but for its log-loss. For all together it adds up two more, to 1/1024:

===============================  ========================================  ==================
measure                          of a patient at level y                   largest
===============================  ========================================  ==================
log-loss                         :math:`-\log p_y`, p at least 1/1024      7
Brier score of several classes   :math:`\sum_c (p_c - [y = c])^2`          2
===============================  ========================================  ==================

The ranked probability score of ordered levels is the sum over k of the splits' squared errors,
:math:`\sum_k (P(y ≥ k) - [y ≥ k])^2`.

What these sums may tell of a patient is what those of C yes/no outcomes may. A patient's numbers
depend on that patient alone: any split into sites gives the same totals, to the last bit.

Oracle: scikit-learn, and the definitions, on the patients themselves
(``tests/properties/test_levels_scores.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.positions import are_level, reach_level
from fedrulefit.core.families.yesno_measures import bin_means
from fedrulefit.core.families.yesno_sums import (
    N_BINS,
    STEP,
    ScoreSums,
    coarsen,
    count_scores,
)
from fedrulefit.core.fixed import UNIT_BITS
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Packing, Sum, quantity

LOG_ODDS = 4
ODDS_SQUARES = 2


@dataclass(frozen=True, eq=False)
class LevelsSums(Sum):
    """Sums over patients, of one site or of all; a split's numbers lie together.

    Parameters
    ----------
    cases, others : (n_splits·n_bins,) float64
        Weights of patients on either side of each split, per bin of its probability.
    chances, squares : (n_splits,) float64
        Summed predicted probability and squared error.
    log_odds : (n_splits·4,) float64
        Summed log-odds of cases below and above probability ½, and of others.
    odds_squares : (n_splits·2,) float64
        Summed squares of log-odds below and above ½.
    log_loss, brier : float
        Summed over patients.
    ordered : bool
        Whether splits are "at least level k".
    merged : tuple of ScoreSums, optional
        Each split with its bins merged, where they were; then only these count.
    areas : (n_splits, 4) float64, optional
        Area, interval and bound of each split, where they were told before bins were merged.
    """

    cases: Floats = quantity(
        "Σ w·[on the split's side] per split and public bin of its probability",
        shape=f"n_splits·{N_BINS}",
    )
    others: Floats = quantity(
        "Σ w·[on its other side] per split and public bin of its probability",
        shape=f"n_splits·{N_BINS}",
    )
    chances: Floats = quantity("Σ w·p per split, each p to 1/1024", shape="n_splits")
    squares: Floats = quantity(
        "Σ w·(p − [on the split's side])² per split, each square to 1/1024", shape="n_splits"
    )
    log_odds: Floats = quantity(
        "per split, as for yes/no: Σ w·F of cases below and above p = ½, and of others: F the "
        "log-odds to 1/64, at most 16 from 0",
        shape=f"n_splits·{LOG_ODDS}",
        bits=UNIT_BITS - 4,
        most="16·w",
    )
    odds_squares: Floats = quantity(
        "Σ w·F² below and above p = ½, per split",
        shape=f"n_splits·{ODDS_SQUARES}",
        bits=UNIT_BITS - 8,
        most="256·w",
    )
    log_loss: float = quantity(
        "Σ w·log-loss of the level that came, each to 1/1024, p at least 1/1024", most="7·w"
    )
    brier: float = quantity(
        "Σ w·Σ_c (p_c − [level c came])² over all levels, each to 1/1024", most="2·w"
    )
    ordered: bool = False
    merged: tuple[ScoreSums, ...] | None = None
    areas: Floats | None = None

    @classmethod
    def packing(cls, n_levels: int, *, ordered: bool) -> Packing[LevelsSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_splits": n_levels - ordered}, public={"ordered": ordered})

    @property
    def n_splits(self) -> int:
        """Yes/no questions by which levels are judged."""
        return len(self.chances)

    @property
    def n_levels(self) -> int:
        """The levels."""
        return self.n_splits + self.ordered

    @property
    def splits(self) -> tuple[ScoreSums, ...]:
        """Each split as a yes/no outcome; a log-loss of its own is not known."""
        if self.merged is not None:
            return self.merged
        cases, others, log_odds, odds_squares = (
            x.reshape(self.n_splits, -1)
            for x in (self.cases, self.others, self.log_odds, self.odds_squares)
        )
        return tuple(
            ScoreSums(
                cases=cases[k],
                others=others[k],
                chances=float(self.chances[k]),
                squares=float(self.squares[k]),
                loss=float("nan"),
                log_odds=log_odds[k],
                odds_squares=odds_squares[k],
            )
            for k in range(self.n_splits)
        )

    @property
    def total(self) -> float:
        """Weight of all patients."""
        first = self.splits[0]
        return first.n_cases + first.n_others

    @property
    def held(self) -> Floats:
        """Weight of the patients at each level, shape (n_levels,)."""
        reached = np.array([split.n_cases for split in self.splits])
        if not self.ordered:
            return reached
        held: Floats = -np.diff(reached, prepend=self.total, append=0.0)
        return held


def split_levels(probabilities: Floats, *, ordered: bool) -> Floats:
    """Return the probability of each split, shape (n_rows, n_splits).

    Levels are added up from the highest down: a patient's sum is nobody else's concern.
    """
    if not ordered:
        return probabilities
    found = np.empty((len(probabilities), probabilities.shape[1] - 1))
    above = np.zeros(len(probabilities))
    for k in range(found.shape[1], 0, -1):
        above = above + probabilities[:, k]
        found[:, k - 1] = np.minimum(above, 1.0)
    return found


def count_levels(
    probabilities: Floats, outcome: Floats, weights: Floats, *, ordered: bool
) -> LevelsSums:
    """Return the sums of some patients.

    Parameters
    ----------
    probabilities : (n_rows, n_levels) float64
        Of each level; a patient's add up to 1.
    outcome : (n_rows,) float64
        The position of the level that came.
    weights : (n_rows,) float64
    ordered : bool
    """
    n_levels = probabilities.shape[1]
    chances = split_levels(probabilities, ordered=ordered)
    came = reach_level(outcome, n_levels) if ordered else are_level(outcome, n_levels)
    splits = [
        count_scores(np.ascontiguousarray(p), y, weights)
        for p, y in zip(chances.T, came.T, strict=True)
    ]
    seen = probabilities[np.arange(len(outcome)), outcome.astype(np.int64)]
    brier = np.zeros(len(outcome))
    for p, y in zip(probabilities.T, are_level(outcome, n_levels).T, strict=True):
        brier += (p - y) ** 2
    return LevelsSums(
        cases=np.concatenate([split.cases for split in splits]),
        others=np.concatenate([split.others for split in splits]),
        chances=np.array([split.chances for split in splits]),
        squares=np.array([split.squares for split in splits]),
        log_odds=np.concatenate([split.log_odds for split in splits]),
        odds_squares=np.concatenate([split.odds_squares for split in splits]),
        log_loss=float(weights @ round_to(-np.log(np.clip(seen, STEP, 1.0)), STEP)),
        brier=float(weights @ round_to(brier, STEP)),
        ordered=ordered,
    )


def add_levels(parts: Sequence[LevelsSums]) -> LevelsSums:
    """Add up over sites."""
    numbers = {name: sum(getattr(part, name) for part in parts) for name in LevelsSums.quantities()}
    return LevelsSums(**numbers, ordered=parts[0].ordered)


def coarsen_levels(sums: LevelsSums, least: float, *, each: bool = False) -> LevelsSums | None:
    """Merge neighbouring bins of every split until each holds a weight of at least `least`.

    With `each` that is so of both sides of every split. None where all together are too few, or
    with `each`, those of a level: the difference of two splits would tell how many.
    """
    if (sums.held if each else np.array([sums.total])).min() < least:
        return None
    merged = [
        coarsen(replace(split, means=bin_means(split)), least, each=each) for split in sums.splits
    ]
    known = tuple(split for split in merged if split is not None)
    return replace(sums, merged=known) if len(known) == len(merged) else None
