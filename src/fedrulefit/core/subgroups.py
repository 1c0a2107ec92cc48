r"""Outcome rates inside and outside rules, of patients that the rules were not learnt from.

Paper, figure 3 (subgroups).

In: rules, and patients that were held out. Out: their counts inside each rule; rates, and how
far they differ, with 95 % intervals. Leaves the site: the :class:`SubgroupSums`.

Departure: the paper's rates are of the patients that the rules were learnt from. Rules are
chosen, among thousands, because rates differ there: so these differences are too large, and no
interval around them holds. Of patients that were held out a difference is unbiased, whatever
chose the rule; each interval is for its own rule.

====================================================  ==========================  =========
mathematics                                           here                        shape
====================================================  ==========================  =========
:math:`n_k = \sum w r_k,\; e_k = \sum w y r_k`        :class:`SubgroupSums`       (n_rules,)
:math:`e_k/n_k,\; (e - e_k)/(n - n_k)`                :class:`Contrast`           scalar
:math:`s^2/12`: variance of rounding to multiples     :func:`contrast`            scalar
====================================================  ==========================  =========

Published counts are rounded to multiples of s. That moves a rate :math:`e_k/n_k` with variance
:math:`(1 + p^2)\,s^2/(12 n_k^2)`, and the rate outside with twice as much of its own, since it
follows from two rounded counts each; their errors have the covariance
:math:`-(1 + p_k p)\,s^2/(12 n_k (n - n_k))`. The intervals count with it.

Oracle: counting one by one, and simulated coverage (``tests/unit/core/test_subgroups.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.design import Design
from fedrulefit.core.fixed import round_units
from fedrulefit.core.shares import effective_size, newcombe, wilson
from fedrulefit.core.sums import Packing, Sum, quantity


@dataclass(frozen=True, eq=False)
class SubgroupSums(Sum):
    """Weighted counts of patients that were held out.

    They are exact: of a rule that a single held-out patient satisfies, whoever reads the total
    over sites learns that patient's outcome, as from a bin of the scores that holds one.

    Parameters
    ----------
    inside, events_inside : (n_rules,) float64
        Patients who satisfy each rule, and those of them with the outcome.
    """

    inside: Floats = quantity("Σ w·r_k of the held-out patients", shape="n_rules")
    events_inside: Floats = quantity("Σ w·y·r_k of the held-out patients", shape="n_rules")

    @classmethod
    def packing(cls, n_rules: int) -> Packing[SubgroupSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_rules": n_rules})


def sum_subgroups(design: Design, outcome: Floats, weights: Floats) -> Ints:
    """Return a site's :class:`SubgroupSums` for the rules of a design, in whole units."""
    at, units = design.layout, round_units(weights)
    ones = np.ones(at.n_terms)
    inside, events = (design.sum_columns(part, ones)[at.rules] for part in (units, units * outcome))
    return SubgroupSums.packing(at.n_rules).pack(inside=inside, events_inside=events)


@dataclass(frozen=True)
class Contrast:
    """Rates inside and outside a rule, and inside − outside, each with its 95 % interval."""

    rate_inside: float
    low_inside: float
    high_inside: float
    rate_outside: float
    low_outside: float
    high_outside: float
    difference: float
    low_difference: float
    high_difference: float


UNKNOWN = Contrast(*[math.nan] * 9)
"""Where there is nobody to compare."""


def contrast(
    inside: float, events_inside: float, total: float, events: float, step: float
) -> Contrast:
    """Compare patients inside and outside a rule.

    Parameters
    ----------
    inside, events_inside : float
        Patients inside the rule, and those of them with the outcome.
    total, events : float
        The same of all.
    step : float
        What these counts were rounded to multiples of; 0 if they are exact.
    """
    n = np.array([inside, total - inside])
    cases = np.array([events_inside, events - events_inside])
    if not (n > 0).all():
        return UNKNOWN
    # Rounded counts need not fit each other to the last patient.
    rates = np.clip(cases / n, 0.0, 1.0)
    rounding = step**2 / 12
    noise = rounding * np.array([1.0, 2.0]) * (1 + rates**2) / n**2
    covariance = -rounding * (1 + rates[0] * rates[1]) / (n[0] * n[1])
    sizes = effective_size(rates, n, noise)
    low, high = wilson(rates, sizes)
    gap_low, gap_high = newcombe(rates[0], sizes[0], rates[1], sizes[1], covariance)
    return Contrast(
        rate_inside=float(rates[0]),
        low_inside=float(low[0]),
        high_inside=float(high[0]),
        rate_outside=float(rates[1]),
        low_outside=float(low[1]),
        high_outside=float(high[1]),
        difference=float(rates[0] - rates[1]),
        low_difference=float(gap_low),
        high_difference=float(gap_high),
    )
