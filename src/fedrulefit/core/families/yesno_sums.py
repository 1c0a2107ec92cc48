r"""What a site adds up of yes/no predictions: coarse histograms of the probabilities.

In: predicted probabilities and outcomes. Out: :class:`ScoreSums`, which add up over
sites; :mod:`fedrulefit.core.families.yesno_measures` reads the usual measures off them.
Leaves the site: the sums; no score of a patient.

Scores are counted in 25 public bins between round probabilities (:data:`EDGES`), those
that people use as thresholds of decisions. A model that somebody chose to tell patients
apart by their scores so learns a few counts, and not a record each. Besides the counts
three sums leave: of the probabilities, the squared errors and the log-losses. Each
patient adds a multiple of 1/1024 (:data:`STEP`), so that they carry few bits, too.

The calibration is about log-odds, and wants them where the first and the last bin have no end.
So six more sums leave: of log-odds on either side of probability ½, of cases and of others, and
of their squares. Each patient adds its log-odds to 1/64 (:data:`ODDS_STEP`), at most 16 from 0,
and the square of just that: no finer than the log-losses are. None is over the patients of
one bin, where somebody who is alone in it would be told; a case alone on one side of ½ is told as
finely as by the log-losses of a site's only case.

Their units are as much coarser as one patient can add more, so that as many patients fit.

All are sums of what depends on one patient and on public facts alone: any split of the same
patients into sites gives the same totals, to the last bit. (How well patients of one site are
told apart is another sum: :mod:`fedrulefit.core.families.yesno_within`.)

Oracle: scikit-learn on the patients themselves, within the bounds that the bins leave
(``tests/properties/test_yesno_scores.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.grouping import merge_bins
from fedrulefit.core.families.yesno_places import Places, place_patients, to_log_odds
from fedrulefit.core.fixed import UNIT_BITS
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Sum, quantity

EDGES: Final[Floats] = np.array(
    [.005, .01, .015, .02, .03, .04, .05, .075, .1, .125, .15, .2, .25, .3, .35, .4, .5, .6, .7,
     .8, .85, .9, .95, .98]
)  # fmt: skip
"""Between the bins, as probabilities: bin b holds EDGES[b − 1] ≤ p < EDGES[b]."""

N_BINS: Final = len(EDGES) + 1

STEP: Final = 1 / 1024
"""What a patient adds to a sum of probabilities or errors is a multiple of this."""

ODDS_STEP: Final = 1 / 64
"""What a patient adds to a sum of log-odds is a multiple of this."""


@dataclass(frozen=True, eq=False)
class ScoreSums(Sum):
    """Sums over patients, of one site or of all.

    Parameters
    ----------
    cases, others : (n_bins,) float64
        Weights of patients with and without the outcome, per bin of the score.
    chances, squares, loss : float
        Summed predicted probability, squared error and log-loss.
    log_odds : (4,) float64
        Summed log-odds of cases below and above probability ½, and of others.
    odds_squares : (2,) float64
        Summed squares of log-odds below and above ½.
    edges : (n_bins - 1,) float64
        Between the bins: :data:`EDGES`, or some of them where bins were merged.
    means : (n_bins,) float64, optional
        Estimated mean prediction of each bin; None: by the edges alone.
    unmerged : ScoreSums, optional
        The sums before bins were merged; None where none were.
    """

    cases: Floats = quantity("Σ w·y per public bin of the probability", shape=f"{N_BINS}")
    others: Floats = quantity("Σ w·(1 − y) per public bin of the probability", shape=f"{N_BINS}")
    chances: float = quantity("Σ w·p, each p to 1/1024")
    squares: float = quantity("Σ w·(p − y)², each square to 1/1024")
    loss: float = quantity(
        "Σ w·log-loss, each to 1/1024, p at least 1/1024 from 0 and 1", most="7·w"
    )
    log_odds: Floats = quantity(
        "Σ w·y·F below and above p = ½, Σ w·(1 − y)·F likewise: F the log-odds to 1/64, at most "
        "16 from 0",
        shape="4",
        bits=UNIT_BITS - 4,
        most="16·w",
    )
    odds_squares: Floats = quantity(
        "Σ w·F² below and above p = ½", shape="2", bits=UNIT_BITS - 8, most="256·w"
    )
    edges: Floats = field(default_factory=lambda: EDGES)
    means: Floats | None = None
    unmerged: ScoreSums | None = None

    @property
    def n_cases(self) -> float:
        """Weight of patients with the outcome."""
        return float(self.cases.sum())

    @property
    def n_others(self) -> float:
        """Weight of patients without it."""
        return float(self.others.sum())

    @property
    def total(self) -> float:
        """Weight of all patients."""
        return self.n_cases + self.n_others

    @property
    def ends(self) -> Floats:
        """Where bins begin and end, from 0 to 1, shape (n_bins + 1,)."""
        return np.concatenate([[0.0], self.edges, [1.0]])

    @property
    def fine(self) -> ScoreSums:
        """The sums before bins were merged."""
        return self.unmerged or self

    def place(self) -> Places:
        """Return where the patients stand within their bins."""
        return place_patients(self.ends, self.cases, self.others, self.log_odds, self.odds_squares)


def count_scores(chance: Floats, outcome: Floats, weights: Floats) -> ScoreSums:
    """Return the sums of some patients.

    Parameters
    ----------
    chance : (n_rows,) float64
        Predicted probabilities.
    outcome : (n_rows,) float64
        1 with the outcome, 0 without.
    weights : (n_rows,) float64
    """
    bins = np.searchsorted(EDGES, chance, side="right")

    def per_bin(part: Floats) -> Floats:
        return np.bincount(bins, part, N_BINS).astype(np.float64)

    near = np.clip(chance, STEP, 1 - STEP)
    losses = -np.where(outcome == 1, np.log(near), np.log1p(-near))
    log_odds, odds_squares = sum_log_odds(
        chance, weights * outcome, weights * (1 - outcome), chance < 0.5
    )
    return ScoreSums(
        cases=per_bin(weights * outcome),
        others=per_bin(weights * (1 - outcome)),
        chances=float(weights @ round_to(chance, STEP)),
        squares=float(weights @ round_to((chance - outcome) ** 2, STEP)),
        loss=float(weights @ round_to(losses, STEP)),
        log_odds=log_odds,
        odds_squares=odds_squares,
    )


def sum_log_odds(
    chance: Floats, cases: Floats, others: Floats, below: np.ndarray
) -> tuple[Floats, Floats]:
    """Return the sums of log-odds and of their squares, as :class:`ScoreSums` holds them.

    Parameters
    ----------
    chance, cases, others : (n,) float64
        Probabilities, with the weight that has the outcome and that has not.
    below : (n,) bool
        Which count as below ½.
    """
    odds = round_to(to_log_odds(chance), ODDS_STEP)
    sides = np.stack([below, ~below]).astype(np.float64)
    first = [side @ (weight * odds) for weight in (cases, others) for side in sides]
    squares: Floats = sides @ ((cases + others) * odds**2)
    return np.array(first, dtype=np.float64), squares


def add_scores(parts: Sequence[ScoreSums]) -> ScoreSums:
    """Add up over sites."""
    names = ScoreSums.quantities()
    return ScoreSums(**{name: sum(getattr(part, name) for part in parts) for name in names})


def coarsen(sums: ScoreSums, least: float, *, each: bool = False) -> ScoreSums | None:
    """Merge neighbouring bins until each holds a weight of at least `least`.

    With `each` that is so of cases and of others. The bound of the AUC grows, and says by how
    much; decisions are known at fewer thresholds. What follows from sums over all patients stays as
    it was (:attr:`ScoreSums.unmerged`). None where all together are too few.
    """
    parts = np.stack([sums.cases, sums.others] if each else [sums.cases + sums.others])
    starts = merge_bins(parts, least)
    if starts is None:
        return None
    cases, others = (np.add.reduceat(part, starts) for part in (sums.cases, sums.others))
    means = None
    if sums.means is not None:
        chances = np.add.reduceat((sums.cases + sums.others) * sums.means, starts)
        means = chances / np.maximum(cases + others, 1e-300)  # an empty bin has none
    return replace(
        sums,
        cases=cases,
        others=others,
        edges=sums.edges[starts[1:] - 1],
        means=means,
        unmerged=sums.fine,
    )
