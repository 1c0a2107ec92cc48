r"""How patients inside and outside a rule differ, hospital by hospital, on held-out patients.

In: sums of a family's tallies inside each rule and over all of a hospital's held-out patients.
Out: the effect of each rule within hospitals, with a 95 % interval, by Mantel and Haenszel:
every hospital is a stratum, so that what tells hospitals apart counts for nothing. Leaves the
site: the :class:`EvidenceSums`.

A hospital's summands are a numerator R and a denominator S. The effect is
:math:`\hat θ = \sum_m R_m / \sum_m S_m`, of ratios its logarithm; see each kind of
:class:`Evidence` in :mod:`fedrulefit.core.families.effects`.

=========================================  ==============================  ==========
mathematics                                here                            shape
=========================================  ==============================  ==========
:math:`R_m, S_m`                           :class:`Stratum`                (n_rules,)
their rounding to multiples of g           :func:`add_stratum`             (n_rules,)
:math:`\sum_m R_m, \sum_m S_m` …           :class:`EvidenceSums`           (n_rules,)
:math:`\log\hat θ` and its variance        :meth:`RatioEvidence.measure`   :class:`Effect`
=========================================  ==============================  ==========

Of ratios the variance is that of Robins, Breslow and Greenland (1986, Biometrics 42: 311–323),
with summands that are those of Greenland and Robins for rates (1985, Biometrics 41: 55–68):

.. math:: var(\log\hat θ) = \frac{\sum X}{2 R^2} + \frac{\sum Y}{2 R S} + \frac{\sum Z}{2 S^2}

What the sums can tell
    They depend on who is at which hospital, for that is what a stratum is. Exact, they would
    give a hospital's counts away: few whole numbers explain four of them per rule. So a hospital
    rounds R and S to multiples of g: its smallest count (of more than two hospitals less, half of
    it from four on: see :func:`find_grain`) times what one patient moves them, that taken up to a
    step of a public ladder; and it tells of the variance what follows from these and from a share
    in coarse public steps. So whoever takes the sums apart finds a count to within about that, and
    no better. Of a run of one hospital totals tell its counts anyway, and nothing is rounded.
    A hospital adds nothing to a rule of which it has fewer held-out patients inside or outside,
    or with or without the outcome, than its smallest count: these margins say nothing of the
    effect, so leaving hospitals out by them does not bend it.

What rounding does to the effect
    Multiples of g begin at a place between 0 and g that the study's seed and the site's name
    draw, which is public: so rounding is off by a uniform number, up or down alike, however few
    patients there are. Its variance, :math:`g^2/12`, stands in X and Z: intervals count with it.

Oracles: statsmodels' ``StratifiedTable``, formulas on single patients, and simulated coverage
(``tests/unit/core/test_evidence.py``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families.sides import ROUNDED
from fedrulefit.core.rounding import EXACT, Rounding, round_digits, round_step, round_up_step
from fedrulefit.core.shares import Z95
from fedrulefit.core.sums import Packing, Sum, quantity

SHARE_STEP: Final = 1 / 32
"""Shares of which a hospital's variance is made are told to multiples of this."""

MOST_ERROR: Final = 1.0
"""A logarithm with a larger standard error is not told: its interval is wider than 1 to 50."""

FEWEST_SITES: Final = 2
"""Of a run of several hospitals no effect is told that rests on a single one."""

_LEAST_GRAIN: Final = 0.5
_ALONE: Final = 2.0**-20

_LEAST_REACH: Final = 2.0**-10
_EIGHTH: Final = 8
_ERROR_DIGITS: Final = 2


@dataclass(frozen=True, eq=False)
class EvidenceSums(Sum):
    """Sums over hospitals that have enough held-out patients on either side of a rule.

    Parameters
    ----------
    sites : (n_told,) float64
        How many they are, by rule; empty where the outcome's family tells no such effect.
    above, below : (n_told,) float64
        ΣR and ΣS: numerator and denominator of the effect.
    first, mixed, second : (n_told,) float64
        ΣX, ΣY and ΣZ: what its variance is made of; some families have no Y.
    """

    sites: Floats = quantity(
        "1 where a site has enough patients inside and outside, with and without the outcome, "
        "else all are 0",
        shape="n_told",
        most="1 per site",
    )
    above: Floats = quantity(
        "the site's own R of the outcome's kind, to multiples of its smallest count (half of it "
        "from four sites on) times what a patient moves it",
        shape="n_told",
        most="½·n per site, and half the width",
    )
    below: Floats = quantity(
        "its S, rounded alike", shape="n_told", most="½·n per site, and half the width"
    )
    first: Floats = quantity(
        "X, from the rounded R and S and a share in coarse steps, and what rounding R adds",
        shape="n_told",
        most="n per site, and what rounding adds",
    )
    mixed: Floats = quantity("Y, alike", shape="n_mixed", most="n per site")
    second: Floats = quantity(
        "Z, alike, and what rounding S adds",
        shape="n_told",
        most="n per site, and what rounding adds",
    )

    @classmethod
    def packing(cls, n_rules: int, evidence: Evidence | None) -> Packing[EvidenceSums]:
        """Return how the numbers lie; `evidence` is the family's, None where it has none."""
        n_told = 0 if evidence is None else n_rules
        n_mixed = n_told if evidence is not None and evidence.mixes else 0
        return Packing(cls, {"n_told": n_told, "n_mixed": n_mixed})


NOTHING: Final = EvidenceSums(*[np.empty(0)] * 6)
"""What a site adds where the outcome's family tells no such effect."""


@dataclass(frozen=True, eq=False)
class Stratum:
    """What one hospital's patients say of each rule, exactly.

    Parameters
    ----------
    above, below : (n_rules,) float64
        R and S.
    above_reach, below_reach : (n_rules,) float64
        How far a patient moves them, about.
    shapes : (any, n_rules) float64
        What else the variance is made of, in coarse public steps (:func:`round_share`,
        :func:`round_ratio`).
    """

    above: Floats
    below: Floats
    above_reach: Floats
    below_reach: Floats
    shapes: Floats


@dataclass(frozen=True)
class Effect:
    """How patients inside a rule differ from those outside, within hospitals.

    Parameters
    ----------
    sites : int
        Hospitals with enough patients.
    estimate : float
        On the scale of F: of an odds ratio its logarithm.
    error : float
        Its standard error, what rounding adds included.
    """

    sites: int
    estimate: float
    error: float

    def __post_init__(self) -> None:
        if self.sites < 1 or not (math.isfinite(self.estimate) and 0 < self.error < math.inf):
            raise ValueError("an effect within hospitals is of one or more, and has an error")

    @property
    def low(self) -> float:
        """The lower end of its 95 % interval."""
        return self.estimate - Z95 * self.error

    @property
    def high(self) -> float:
        """The upper end."""
        return self.estimate + Z95 * self.error

    def rounded(self, rounding: Rounding) -> Effect:
        """Return what may be published: to a tenth of its error, which counts with that."""
        if rounding == EXACT:
            return self
        step = round_up_step(self.error / 10)
        error = round_digits(math.hypot(self.error, ROUNDED * step), _ERROR_DIGITS)
        return replace(self, estimate=round_step(self.estimate, step), error=error)


class Evidence(ABC):
    """How a family tells what a rule does within hospitals, from its tallies."""

    mixes: bool = False
    """Whether the variance has a Y."""

    method: str
    """How the effect is found, in a clause."""

    @abstractmethod
    def summarise(self, inside: Floats, whole: Floats) -> Stratum:
        """Return one hospital's stratum.

        Parameters
        ----------
        inside : (1 + n_tallies, n_rules) float64
            Patients inside each rule, and their tallies.
        whole : (1 + n_tallies,) float64
            The same of all.
        """

    @abstractmethod
    def spread(self, above: Floats, below: Floats, shapes: Floats) -> tuple[Floats, Floats, Floats]:
        """Return X, Y and Z from what is told, each of shape (n_rules,); Y may be empty."""

    @abstractmethod
    def blur(self, width: Floats) -> Floats:
        """Return what rounding R or S to multiples of `width` adds to X or Z."""

    @abstractmethod
    def measure(
        self, above: float, below: float, first: float, mixed: float, second: float
    ) -> tuple[float, float] | None:
        """Return the effect on the scale of F and its standard error; None of too few."""


class RatioEvidence(Evidence):
    """The logarithm of a ratio of sums."""

    def blur(self, width: Floats) -> Floats:
        """Return 2·g²/12: X and Z count half."""
        added: Floats = 2 * (ROUNDED * width) ** 2
        return added

    def measure(
        self, above: float, below: float, first: float, mixed: float, second: float
    ) -> tuple[float, float] | None:
        """Return log(R/S) and its standard error."""
        if not (above > 0 and below > 0):
            return None
        parts = first / above**2, mixed / (above * below), second / below**2
        variance = sum(parts) / 2
        if not 0 < variance <= MOST_ERROR**2:
            return None
        return math.log(above / below), math.sqrt(variance)


def add_stratum(
    evidence: Evidence, stratum: Stratum, enough: Bools, least: float, starts: tuple[float, float]
) -> EvidenceSums:
    """Return what one hospital adds: coarse, and zeros for rules with too few patients.

    Parameters
    ----------
    evidence : Evidence
    stratum : Stratum
    enough : (n_rules,) bool
    least : float
        By how many patients, weighted, sums are rounded: the site's smallest count times the most
        that one patient counts, times :func:`find_grain`.
    starts : (float, float)
        Where multiples of the width begin, as shares of it: of R and of S. Public.
    """
    wide, narrow = (least * _step_up(reach) for reach in (stratum.above_reach, stratum.below_reach))
    above = _round_from(starts[0], stratum.above, wide)
    below = _round_from(starts[1], stratum.below, narrow)
    first, mixed, second = evidence.spread(above, below, stratum.shapes)
    first, second = first + evidence.blur(wide), second + evidence.blur(narrow)
    parts = (np.ones(len(enough)), above, below, first, mixed, second)
    return EvidenceSums(*(np.where(enough, part, 0.0) if len(part) else part for part in parts))


def find_grain(n_sites: int) -> float:
    """Return the width of rounding in a run of so many hospitals, in smallest counts."""
    return _ALONE if n_sites == 1 else max(_LEAST_GRAIN, min(1.0, 2 / n_sites))


def _round_from(start: float, numbers: Floats, width: Floats) -> Floats:
    """Return the nearest of (any whole number + start) times the width."""
    rounded: Floats = width * (np.rint(numbers / width - start) + start)
    return rounded


def _step_up(reach: Floats) -> Floats:
    """Return the least power of √2 that is not below: a public ladder."""
    step: Floats = 2.0 ** (np.ceil(2 * np.log2(np.maximum(reach, _LEAST_REACH)) - 1e-9) / 2)
    return step


def round_share(share: Floats) -> Floats:
    """Return a share in coarse public steps, never 0 nor 1."""
    rounded: Floats = SHARE_STEP * np.clip(np.rint(share / SHARE_STEP), 1, 1 / SHARE_STEP - 1)
    return rounded


def round_ratio(ratio: Floats) -> Floats:
    """Return a number that is not below 0 to eighths of an octave."""
    known = ratio > 0
    power = np.rint(_EIGHTH * np.log2(np.where(known, ratio, 1.0))) / _EIGHTH
    rounded: Floats = np.where(known, 2.0**power, 0.0)
    return rounded


def find_effects(
    evidence: Evidence | None, sums: EvidenceSums, n_sites: int
) -> list[Effect | None]:
    """Return the effect of each rule within hospitals; None where too few tell it.

    `n_sites` took part in the run.
    """
    if evidence is None:
        return []
    mixed = sums.mixed if evidence.mixes else np.zeros_like(sums.sites)
    rows = zip(sums.sites, sums.above, sums.below, sums.first, mixed, sums.second, strict=True)
    return [_measure(evidence, row, n_sites) for row in np.array([*rows]).tolist()]


def _measure(evidence: Evidence, row: list[float], n_sites: int) -> Effect | None:
    sites = round(row[0])
    found = None if sites < min(FEWEST_SITES, n_sites) else evidence.measure(*row[1:])
    return None if found is None else Effect(sites, *found)
