r"""Outcomes inside and outside rules, of patients that the rules were not learnt from.

Paper, figure 3 (subgroups).

In: rules, and patients that were held out. Out: their counts inside each rule, and the sums of
what the outcome's family tallies; of yes/no outcomes the rates, and how far they differ, with
95 % intervals (of others: :mod:`fedrulefit.core.families.sides`). Leaves the site: the
:class:`SubgroupSums`.

Departure: the paper's rates are of the patients that the rules were learnt from. Rules are
chosen, among thousands, because rates differ there: so these differences are too large, and no
interval around them holds. Of patients that were held out a difference is unbiased, whatever
chose the rule; each interval is for its own rule.

====================================================  ==========================  =========
mathematics                                           here                        shape
====================================================  ==========================  =========
:math:`n_k = \sum w r_k,\; e_k = \sum w y r_k`        :class:`SubgroupSums`       (n_rules,)
:math:`e_k/n_k,\; (e - e_k)/(n - n_k)`                :func:`contrast`            scalar
:math:`s^2/12`: variance of rounding to multiples     :func:`contrast`            scalar
====================================================  ==========================  =========

Published counts are rounded to multiples of s. That moves a rate :math:`e_k/n_k` with variance
:math:`(1 + p^2)\,s^2/(12 n_k^2)`, and the rate outside with twice as much of its own, since it
follows from two rounded counts each; their errors have the covariance
:math:`-(1 + p_k p)\,s^2/(12 n_k (n - n_k))`. The intervals count with it.

Oracle: counting one by one, and simulated coverage (``tests/unit/core/test_subgroups.py``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.design import Design
from fedrulefit.core.families.base import Family
from fedrulefit.core.families.sides import UNKNOWN, Contrast, MeasuredLevels, Sides
from fedrulefit.core.fixed import round_units
from fedrulefit.core.shares import effective_size, newcombe, wilson
from fedrulefit.core.sums import Packing, Sum, quantity


@dataclass(frozen=True, eq=False)
class SubgroupSums(Sum):
    """Weighted counts and tallies of patients that were held out.

    They are exact: of a rule that a single held-out patient satisfies, whoever reads the total
    over sites learns that patient's outcome, as from a bin of the scores that holds one.

    Parameters
    ----------
    inside : (n_rules,) float64
        Patients who satisfy each rule.
    tallies_inside : (n_tallies·n_rules,) float64
        What the outcome's family tallies of them, one tally after another; of yes/no outcomes
        those with the outcome.
    whole : (n_whole,) float64
        All patients, and their tallies; empty where the sums of the evaluation tell them, as
        of yes/no outcomes.
    """

    inside: Floats = quantity("Σ w·r_k of the held-out patients", shape="n_rules")
    tallies_inside: Floats = quantity(
        "Σ w·z_j·r_k of the held-out patients, z the family's tallies", shape="n_tallies·n_rules"
    )
    whole: Floats = quantity("Σ w and Σ w·z_j of the held-out patients", shape="n_whole")

    @classmethod
    def packing(cls, n_rules: int, family: Family) -> Packing[SubgroupSums]:
        """Return how the numbers lie."""
        n_tallies = family.n_tallies
        n_whole = 1 + n_tallies if isinstance(family.levels, MeasuredLevels) else 0
        sizes = {"n_rules": n_rules, "n_tallies": n_tallies, "n_whole": n_whole}
        return Packing(cls, sizes)

    def stack_inside(self, n_tallies: int) -> Floats:
        """Return patients inside each rule, and their tallies, shape (1 + n_tallies, n_rules)."""
        shape = n_tallies, len(self.inside)  # there may be no rules
        return np.vstack([self.inside, self.tallies_inside.reshape(shape)])


def sum_subgroups(design: Design, outcome: Floats, weights: Floats, family: Family) -> Ints:
    """Return a site's :class:`SubgroupSums` for the rules of a design, in whole units."""
    units = round_units(weights)
    # Each patient's part is rounded, so that no sum tells how patients are spread over sites.
    tallies = np.rint(units[:, None] * family.tallies(outcome))
    packing = SubgroupSums.packing(design.layout.n_rules, family)
    everybody = np.column_stack([units, tallies]).astype(np.int64).sum(axis=0)
    return packing.pack(
        inside=count_inside(design, units),
        tallies_inside=np.concatenate([count_inside(design, part) for part in tallies.T]),
        whole=everybody[: packing.lengths["whole"]],
    )


def count_inside(design: Design, units: Floats) -> Ints:
    """Return whole units added up inside each rule, shape (n_rules,)."""
    at = design.layout
    return design.sum_columns(units, np.ones(at.n_terms))[at.rules]


def find_sides(sums: SubgroupSums, levels: MeasuredLevels) -> list[Sides]:
    """Return what is known inside and outside each rule."""
    inside = sums.stack_inside(len(sums.whole) - 1)
    outside = sums.whole[:, None] - inside
    return [
        (levels.find(float(n), own), levels.find(float(rest), others))
        for n, own, rest, others in zip(
            inside[0], inside[1:].T, outside[0], outside[1:].T, strict=True
        )
    ]


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
        level_inside=float(rates[0]),
        low_inside=float(low[0]),
        high_inside=float(high[0]),
        level_outside=float(rates[1]),
        low_outside=float(low[1]),
        high_outside=float(high[1]),
        gap=float(rates[0] - rates[1]),
        low_gap=float(gap_low),
        high_gap=float(gap_high),
    )
