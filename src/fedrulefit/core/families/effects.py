r"""The effect of a rule within hospitals, for each kind of outcome.

Strata are hospitals, of a time hospitals and intervals. With n patients in a stratum, index 1
inside the rule and 0 outside, e time at risk or exposure, y events or counts:

==================  ==============================================  ==========================
outcome             R and S of a stratum                            effect
==================  ==============================================  ==========================
yes/no              :math:`a d/n` and :math:`b c/n`                 odds ratio
count               :math:`y_1 e_0/e` and :math:`y_0 e_1/e`         rate ratio
time to an event    the same, added over intervals                  hazard ratio
number              :math:`w(\bar t_1 - \bar t_0)` and              difference of means
                    :math:`w = n_1 n_0/n`
==================  ==============================================  ==========================

with a and c patients with the outcome inside and outside, b and d without it. Of levels, ordered
or not, none is told: their sums inside rules do not say which level is compared with which.

Variances:

* odds ratio: Robins, Breslow and Greenland, :math:`X = PR, Y = PS + QR, Z = QS` with
  :math:`P = (a + d)/n = 1 - Q`;
* hazard ratio: Greenland and Robins, :math:`Y = 2\sum_k (y_{1k} + y_{0k}) e_{1k} e_{0k}/e_k^2`;
* rate ratio of counts: from the spread of counts between patients, :math:`X = 2 (e_0/e)^2
  \sum (y - \hat r_1 e)^2` inside, and Z outside: no distribution of counts is assumed, so that
  patients may differ by more than Poisson's;
* difference: :math:`\sum w^2 (s_1^2/n_1 + s_0^2/n_0) / (\sum w)^2`.

Oracle: see :mod:`fedrulefit.core.families.evidence`.
"""

from __future__ import annotations

import math

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.evidence import (
    Evidence,
    RatioEvidence,
    Stratum,
    round_ratio,
    round_share,
)

_NONE = np.empty(0)


class OddsEvidence(RatioEvidence):
    """Mantel and Haenszel's odds ratio, from patients and those with the outcome."""

    mixes = True
    method = "Mantel–Haenszel odds ratio, Robins–Breslow–Greenland interval"

    def summarise(self, inside: Floats, whole: Floats) -> Stratum:
        """Return ad/n and bc/n, and the share P."""
        n, cases = whole
        a, b = inside[1], inside[0] - inside[1]
        c, d = cases - a, n - cases - b
        n = np.maximum(n, 1e-300)
        return Stratum(
            above=a * d / n,
            below=b * c / n,
            above_reach=np.maximum(a, d) / n,
            below_reach=np.maximum(b, c) / n,
            shapes=round_share((a + d) / n)[None],
        )

    def spread(self, above: Floats, below: Floats, shapes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return PR, PS + QR and QS."""
        (p,) = shapes
        return p * above, p * below + (1 - p) * above, (1 - p) * below


class HazardEvidence(RatioEvidence):
    """The hazard ratio by Mantel and Haenszel, from events and time at risk by interval."""

    mixes = True
    method = (
        "Mantel–Haenszel ratio of hazards within hospitals and intervals of time, "
        "Greenland–Robins interval"
    )

    def summarise(self, inside: Floats, whole: Floats) -> Stratum:
        """Return the ratio's sums over intervals, and what share of them the variance is."""
        events, watched = np.split(whole[1:, None], 2)
        events_in, watched_in = np.split(inside[1:], 2)
        events_out, watched_out = events - events_in, watched - watched_in
        known = np.where(watched > 0, watched, 1.0)
        above = (events_in * watched_out / known).sum(axis=0)
        below = (events_out * watched_in / known).sum(axis=0)
        common = (events * watched_in * watched_out / known**2).sum(axis=0)
        n, total = max(whole[0], 1e-300), max(float(watched.sum()), 1e-300)
        within = watched_in.sum(axis=0) / total
        return Stratum(
            above=above,
            below=below,
            above_reach=np.maximum(1 - within, events_in.sum(axis=0) / n),
            below_reach=np.maximum(within, events_out.sum(axis=0) / n),
            shapes=round_share(common / np.maximum(above + below, 1e-300))[None],
        )

    def spread(self, above: Floats, below: Floats, shapes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return 0, 2·Σ(y₁ + y₀)e₁e₀/e² and 0."""
        none = np.zeros_like(above)
        return none, 2 * shapes[0] * (above + below), none


class RateEvidence(RatioEvidence):
    """The rate ratio of counts by Mantel and Haenszel, with their own spread.

    Parameters
    ----------
    most : float
        The largest count: counts are shares of it.
    """

    method = "Mantel–Haenszel rate ratio, interval from the spread of counts between patients"

    def __init__(self, most: float) -> None:
        self.most = most

    def summarise(self, inside: Floats, whole: Floats) -> Stratum:
        """Return the ratio's sums, and how many times R and S their variances are."""
        outside = whole[:, None] - inside
        total = max(float(whole[2]), 1e-300)
        shares = [side[2] / total for side in (outside, inside)]
        above, below = inside[1] * shares[0], outside[1] * shares[1]
        ratios = [
            2 * share**2 * _spread_of_counts(side) / np.where(told > 0, told, 1.0)
            for side, share, told in (
                (inside, shares[0], above),
                (outside, shares[1], below),
            )
        ]
        worth = max(float(whole[1]) / max(whole[0], 1e-300), 1 / self.most)
        reach = np.full(inside.shape[1], worth)
        return Stratum(above, below, reach, reach, round_ratio(np.stack(ratios)))

    def spread(self, above: Floats, below: Floats, shapes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return twice the variances of R and of S."""
        return shapes[0] * above, _NONE, shapes[1] * below


def _spread_of_counts(side: Floats) -> Floats:
    """Return the variance of a summed count, given exposures, from patients' own."""
    n, counts, watched, squares, products, wide = side
    rate = counts / np.where(watched > 0, watched, 1.0)
    spread = np.maximum(squares - 2 * rate * products + rate**2 * wide, 0.0)
    found: Floats = spread * n / np.maximum(n - 1, 0.5)
    return found


class MeanEvidence(Evidence):
    """The difference of means within hospitals, in half ranges."""

    method = "difference of means within hospitals, weighted by n₁n₀/n"

    def summarise(self, inside: Floats, whole: Floats) -> Stratum:
        """Return w times the difference, w, and how many times w its variance is."""
        n = np.maximum(np.stack([inside[0], whole[0] - inside[0]]), 1e-300)
        sums = np.stack([inside[1], whole[1] - inside[1]])
        squares = np.stack([inside[2], whole[2] - inside[2]])
        means = sums / n
        spreads = np.maximum(squares / n - means**2, 0.0) / np.maximum(n - 1, 0.5)
        weight = n[0] * n[1] / n.sum(axis=0)
        typical = np.sqrt((spreads * n * np.maximum(n - 1, 0.5)).sum(axis=0) / n.sum(axis=0))
        return Stratum(
            above=weight * (means[0] - means[1]),
            below=weight,
            above_reach=typical,
            below_reach=np.max(n, axis=0) / n.sum(axis=0),
            shapes=round_ratio(weight * spreads.sum(axis=0))[None],
        )

    def spread(self, above: Floats, below: Floats, shapes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return w² times the variance of the difference; Z is of rounding alone."""
        return shapes[0] * below, _NONE, np.zeros_like(above)

    def blur(self, width: Floats) -> Floats:
        """Return g²/12."""
        added: Floats = width**2 / 12
        return added

    def measure(
        self, above: float, below: float, first: float, mixed: float, second: float
    ) -> tuple[float, float] | None:
        """Return R/S and its standard error."""
        del mixed
        if not below > 0:
            return None
        effect = above / below
        variance = (first + effect**2 * second) / below**2
        return (effect, math.sqrt(variance)) if variance > 0 else None
