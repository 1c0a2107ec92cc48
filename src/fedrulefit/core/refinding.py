r"""In how many folds of the cross-validation a term of the model is found again.

In: the terms of the final model, the coefficients of the fits without each fold, and the shares
of patients with each code, as the released histograms tell. Out: a number of folds per term.
Nothing leaves a site here: all of it is known when the fit has ended.

A rule is found again in a fold if the fit without that fold's patients has a rule that holds for
nearly the same patients, :math:`|r| \ge 0.8`, and in the same direction: rules next to each
other, one cut-off apart, stand for each other, and so do a rule and its opposite of opposite
sign. A linear term is found again if the covariate has one of the same sign.

The correlation of two rules i and j is, with shares p of patients,

.. math:: r_{ij} = \frac{p_{ij} - p_i p_j}{\sqrt{p_i(1 - p_i)\,p_j(1 - p_j)}},\qquad
    p_i = \prod_f P(\text{codes of } i \text{ in } f)

Shares are known covariate by covariate only, and taken as if covariates were independent. So it
is exact, but for the histograms' noise, for two single conditions on one covariate; rules on
other covariates are never taken for the same, however alike they are. Where no histogram was
released, all codes count alike.

=========================  ==========================  ==========
mathematics                here                        shape
=========================  ==========================  ==========
:math:`r_{ij}`             :meth:`Alike.correlate`     scalar
folds that have it         :func:`count_found_again`   (n_terms,)
=========================  ==========================  ==========

Oracle: the correlation of columns over patients whose covariates are independent
(``tests/unit/core/test_refinding.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule

SAME: Final = 0.8
"""Rules whose correlation is at least so large hold for nearly the same patients."""

Kept = Sequence[tuple[Rule | int, str | None, float]]
"""Terms of a fit: rule or covariate, the level of the outcome for which it counts, coefficient."""


@dataclass(frozen=True, eq=False)
class Alike:
    """How far rules hold for the same patients, as shares of codes tell.

    Parameters
    ----------
    grid : Grid
    shares : sequence of (n_codes,) or (n_codes + 1,) float64, or None
        Of each covariate, missing values last; None where nothing is known of them.
    """

    grid: Grid
    shares: Sequence[Floats] | None = None

    @cached_property
    def _known(self) -> list[Floats]:
        """The share of each of 256 codes, of each covariate."""
        found = []
        for j, axis in enumerate(self.grid.axes):
            table = np.zeros(256)
            own = np.ones(axis.every_code.bit_count()) if self.shares is None else self.shares[j]
            table[Condition(j, axis.every_code).table()] = np.maximum(own, 0.0)
            found.append(table / max(table.sum(), 1e-300))
        return found

    def share(self, allowed: dict[int, int]) -> float:
        """Return the share of patients with these codes, by covariate."""
        known = self._known
        return math.prod(
            float(known[j] @ Condition(j, codes).table()) for j, codes in allowed.items()
        )

    def correlate(self, first: Rule, second: Rule) -> float:
        """Return the correlation of two rules; 0 where one holds for everybody or nobody."""
        one, other = dict(first.conditions), dict(second.conditions)
        if one.keys().isdisjoint(other):
            return 0.0
        both = one | {j: codes & one.get(j, codes) for j, codes in other.items()}
        p, q, together = self.share(one), self.share(other), self.share(both)
        spread = p * (1 - p) * q * (1 - q)
        return (together - p * q) / math.sqrt(spread) if spread > 0 else float(first == second)


def count_found_again(terms: Kept, folds: Sequence[Kept], alike: Alike) -> list[int]:
    """Return in how many folds each term is found again."""
    return [sum(_is_in(term, fold, alike) for fold in folds) for term in terms]


def _is_in(term: tuple[Rule | int, str | None, float], fold: Kept, alike: Alike) -> bool:
    """Whether a fit has a term that stands for this one."""
    what, level, coef = term
    for other, own_level, own in fold:
        if own_level != level or isinstance(other, Rule) != isinstance(what, Rule):
            continue
        if other == what:
            agreement = 1.0
        elif isinstance(what, Rule) and isinstance(other, Rule):
            agreement = alike.correlate(what, other)
        else:
            agreement = 0.0
        if abs(agreement) >= SAME and agreement * own * coef > 0:
            return True
    return False
