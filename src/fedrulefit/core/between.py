r"""Which share of a term's variance lies between the sites, told coarsely.

A rule that holds for one hospital's patients and for nobody else's says which hospital a patient
is in, whatever its words are. Its importance is as large as any (:mod:`fedrulefit.core.importance`
measures spread over all patients), so beside it stands the share of its variance that lies between
the sites, the η² of a one-way analysis of variance:

.. math::

    η^2 = \sum_m \frac{N_m (\bar x_m - \bar x)^2}{N s^2}, \qquad
    I_{within} = I \sqrt{1 - η^2}, \qquad I^2 = I_{within}^2 + η^2 I^2.

In: the total, means and variances over all patients, which totals tell; a site's own means. Out:
η² per term. Leaves the site: the :class:`BetweenSums`.

Departures: the paper has no η²; its importance, squares about each site's own mean, is what
:func:`within_importance` gives.

*What it tells.* This is no function of all patients together, as other sums are: it says how they
lie in sites. Exact, it would give every site's counts away, since few whole numbers explain
:math:`\sum_m n_m^2/N_m`. Hence

* each site rounds its own part to whole steps of 0.1/M, M being the number of sites (0.01 from ten
  sites on), and none is above 1: at most 10·M + 1 levels, of which the total over sites is told. So
  η² is right within half a step per site: ±0.05, up to ten sites. From one level of u to the next
  lie :math:`u N p(1-p)/(2\,|p_m - p|)` of the site's patients inside a rule; at least u/2 of all
  inside it, and about its own mean many more;
* a mean or variance that is not that of the patients, as a dishonest coordinator could ask with,
  makes steps finer only as far as the variance is too small. So no rule is asked for with less
  than :data:`LEAST_SHARE` of all patients, nor fewer than :data:`LEAST_COUNT`, inside or outside,
  and no linear term whose spread is below a tenth of what it is scaled to. A site sees to it on
  public grounds. It answers once in a run, and runs are counted; an audit finds means that are not
  those of the totals.

Of two sites it tells roughly by how much their means differ. Who knows the numbers of all other
sites learns nothing new: exact totals have told them the last one's.

Oracle: a one-way analysis of variance on pooled rows (``tests/unit/core/test_between.py``); what
can be worked back: ``tests/attacks/test_between.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.grid import RULE_SPREAD
from fedrulefit.core.importance import TermSums, squares_of
from fedrulefit.core.layout import Layout
from fedrulefit.core.sums import Packing, Sum, quantity

COARSENESS: Final = 0.1
"""A step of η² over all sites together, up to :data:`MOST_SITES` of them."""

MOST_SITES: Final = 10
"""A site's own steps get no finer with more sites than these."""

LEAST_SHARE: Final = 0.01
"""Least share of all patients inside, and outside, a rule of which η² is told."""

LEAST_COUNT: Final = 10
"""And fewest patients."""

MOSTLY: Final = 0.5
"""A term with more of its variance than this between sites stands for the site."""


@dataclass(frozen=True, eq=False)
class BetweenSums(Sum):
    """How far sites' own means lie from the mean of all, in coarse steps."""

    levels: Floats = quantity(
        "its own N_m·(mean_m − mean)²/(N·variance), at most 1, in whole steps of 0.1/M of M sites "
        "(0.01 of more than ten)",
        shape="n_asked",
        most="10·M, and 100, per site",
    )

    @classmethod
    def packing(cls, n_asked: int) -> Packing[BetweenSums]:
        """Return how the numbers lie: one per rule and linear term."""
        return Packing(cls, {"n_asked": n_asked})


@dataclass(frozen=True, eq=False)
class Moments:
    """Means of some terms over some patients; of a rule its share.

    Parameters
    ----------
    total : float
        The patients, with their weights.
    means : (n_effects,) float64
        Of rules, then of linear terms divided by their bounds.
    squares : (n_linear,) float64
        Mean squares of the linear terms divided by their bounds.
    """

    total: float
    means: Floats
    squares: Floats

    @classmethod
    def of(cls, sums: TermSums) -> Moments:
        """Return what totals tell."""
        means = np.concatenate([sums.inside, sums.sums]) / sums.total
        return cls(sums.total, means, sums.squares / sums.total)

    def variances(self, layout: Layout) -> Floats:
        """Return the terms' variances, shape (n_effects,), in squares of their bounds."""
        rules, linear = np.split(self.total * self.means, [layout.n_rules])
        sums = TermSums(self.total, 0.0, rules, 0 * rules, linear, self.total * self.squares)
        spread = squares_of(layout, sums, np.ones(layout.n_terms))[layout.effects]
        return spread / self.total

    def among(self, kept: Bools, layout: Layout) -> Moments:
        """Return those of some of the effects."""
        linear = kept[layout.n_rules :]
        return Moments(self.total, self.means[kept], self.squares[linear])


def find_tellable(layout: Layout, pooled: Moments, bounds: Floats, heaviest: float) -> Bools:
    """Return of which effects η² may be told: of those that vary enough, shape (n_effects,).

    `bounds` are the largest sizes of the terms, shape (n_terms,), `heaviest` the most that one
    patient counts.
    """
    least = min(max(LEAST_SHARE, LEAST_COUNT * heaviest / pooled.total), 0.5)
    scaled = LEAST_SHARE * (RULE_SPREAD / bounds[layout.linear]) ** 2
    floor = np.concatenate([np.full(layout.n_rules, least * (1 - least)), scaled])
    tellable: Bools = pooled.variances(layout) >= floor * (1 - 1e-9)
    return tellable


def step_between(n_sites: int) -> float:
    """Return the steps in which a site tells its part of η²."""
    return COARSENESS / min(n_sites, MOST_SITES)


def count_levels(layout: Layout, own: TermSums, pooled: Moments, n_sites: int) -> Floats:
    """Return a site's part of η², in whole steps, shape (n_effects,)."""
    apart = (Moments.of(own).means - pooled.means) ** 2
    part = own.total / pooled.total * apart / pooled.variances(layout)
    # No part of true totals is larger: nothing of an honest run is cut.
    levels: Floats = np.rint(np.minimum(part, 1.0) / step_between(n_sites))
    return levels


def share_between(sums: BetweenSums, n_sites: int) -> Floats:
    """Return η² as told, shape (n_asked,)."""
    share: Floats = np.clip(sums.levels * step_between(n_sites), 0.0, 1.0)
    return share


def within_importance(importance: Floats, between: Floats) -> Floats:
    """Return the importance within sites, |β|·std about each site's own mean."""
    within: Floats = importance * np.sqrt(1 - between)
    return within
