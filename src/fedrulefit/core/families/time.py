r"""Times to an event: piecewise constant hazards, multiplied by what the model knows of a patient.

Time is cut into K public intervals. With :math:`e_k` the time at risk in interval k, as a share of
its length, and :math:`d_k = 1` if the event happened there
(:mod:`fedrulefit.core.families.time_at_risk`), the parts of the predictor are
:math:`F_k = a_k + f`: :math:`e^{F_k}` is the expected number of events of somebody at risk all
through interval k. Rules and linear terms make :math:`f`, which all intervals share: proportional
hazards.

.. math:: ℓ = \sum_k e_k\,\{ψ(F_k) - εF_k\} - d_k F_k,\quad
   ℓ'_k = e_k\{ψ'(F_k) - ε\} - d_k,\quad ℓ''_k = e_k\,ψ''(F_k)

==================================  =====================================  =====================
ψ, convex, with continuous slope    ψ'                                     where
==================================  =====================================  =====================
:math:`e^F`                         :math:`e^F`                            :math:`F ≤ \log 8`
a parabola                          :math:`8(1 + F - \log 8)`              up to 1 beyond
a straight line                     16                                     from there on
==================================  =====================================  =====================

So with up to 8 expected events per interval (one in 3,000 patients sees its end) the likelihood is
exact, and all slopes are bounded, by public numbers. An event's part is at least
:data:`~fedrulefit.core.families.time_at_risk.SHORTEST` long, more than 1/16: so a shrunk slope is
always the slope of some F, and its conjugate finite. :math:`ε = 2^{-24}` events per interval are
added to everybody's: an interval without an event then has a finite best constant,
:math:`\log ε`; else it moves nothing that could be seen.

.. math:: ℓ^*(θ) = \sum_k e_k\,ψ^*(m_k),\quad m_k = a\,ψ'(F_k) + (1 - a)(d_k/e_k + ε)
   \text{ for } θ = a·ℓ'

The model's prediction is the risk by the last horizon, :math:`1 - \exp(-e^F)`,
:math:`F = \log\sum_k e^{a_k} + f` (complementary log-log). Of other horizons:
:mod:`fedrulefit.core.families.survival`.

Beside a Poisson lasso of a row per patient and interval, λ is theirs times rows per patient.

Oracles: numerical differentiation, the definition of the conjugate, and Cox regression
(``tests/unit/core/test_time_family.py``); glmnet and survival in R
(``tests/reference/test_glmnet.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from scipy.special import logsumexp

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.effects import HazardEvidence
from fedrulefit.core.families.link import Link
from fedrulefit.core.families.ratios import (
    LEAST_SPAN,
    TELL_SHARE_JAVASCRIPT,
    log_share,
    ratio_ticks,
    tell_share,
)
from fedrulefit.core.families.side_risks import RiskLevels
from fedrulefit.core.families.survival import Timeline, follow_baseline, tell_time
from fedrulefit.core.families.tells import Tells
from fedrulefit.core.families.time_at_risk import AtRisk, at_risk, check_ends
from fedrulefit.core.families.time_judge import TimeJudge
from fedrulefit.numerals import name_count

PACE: Final = 8.0
"""Up to so many expected events per interval the likelihood is exact."""

MOST_PACE: Final = 2 * PACE
"""ψ' is never larger."""

FEWEST_EVENTS: Final = 2.0**-24
"""ε: events per interval that are added to everybody's."""

STEEPEST: Final = 700.0
"""exp does not overflow up to here; the risk is 1 long before."""

_BEND: Final = math.log(PACE)
_SERIES: Final = 1e-3
"""For x below, three powers of x tell 1 − exp(−x) to 14 digits."""

_CERTAIN: Final = 6.5
"""From this F on the risk is 1 to 288 digits; exp(−exp(F)) does not underflow yet."""

_MOST_CONJUGATE: Final = MOST_PACE * (_BEND + 1) - 2.5 * PACE
"""ψ* at ψ' = 16: more than anywhere else."""


def _height(predictor: Floats) -> Floats:
    """Return ψ(F)."""
    over = np.clip(predictor - _BEND, 0.0, 1.0)
    beyond = np.maximum(predictor - _BEND - 1.0, 0.0)
    height: Floats = (
        np.exp(np.minimum(predictor, _BEND)) + PACE * (over + over**2 / 2) + MOST_PACE * beyond
    )
    return height


def _pace(predictor: Floats) -> Floats:
    """Return ψ'(F)."""
    over = np.clip(predictor - _BEND, 0.0, 1.0)
    pace: Floats = np.exp(np.minimum(predictor, _BEND)) + PACE * over
    return pace


def _bend(predictor: Floats) -> Floats:
    """Return ψ''(F)."""
    inside = np.exp(np.minimum(predictor, _BEND))
    bend: Floats = np.where(predictor < _BEND + 1, inside, 0.0)
    return bend


def _find_predictor(pace: Floats) -> Floats:
    """Return the F at which ψ' is `pace`, above 0 and at most 16."""
    found: Floats = np.log(np.minimum(pace, PACE)) + np.maximum(pace / PACE - 1, 0.0)
    return found


def _depth(pace: Floats) -> Floats:
    """Return ψ* at a slope from 0 to 16."""
    low, over = np.minimum(pace, PACE), np.maximum(pace / PACE - 1, 0.0)
    depth: Floats = low * np.log(np.maximum(low, 1e-300)) - low
    depth += (pace - low) * (_BEND + over) - PACE * over**2 / 2
    return depth


def _to_risk(predictor: Floats) -> Floats:
    """Return 1 − exp(−exp(F))."""
    hazard = np.exp(np.minimum(predictor, STEEPEST))
    return np.asarray(-np.expm1(-hazard), dtype=np.float64)


def _to_predictor(risk: Floats) -> Floats:
    """Return log(−log(1 − risk))."""
    predictor: Floats = np.log(-np.log1p(-risk))
    return predictor


def _write_sql(predictor: str, real: Callable[[float], str]) -> str:
    """Return 1 − exp(−exp(F)), for any F that a database can hold.

    Of a small x = exp(F) it is a series, as databases know no expm1.
    """
    one, little, least, most = map(real, (1.0, math.log(_SERIES), -STEEPEST, _CERTAIN))
    x = f"exp(CASE WHEN {predictor} < {least} THEN {least} ELSE {predictor} END)"
    series = one
    for k in (4.0, 3.0, 2.0):
        series = f"({one} - {x} / {real(k)} * {series})"
    large = f"exp(CASE WHEN {predictor} > {most} THEN {most} ELSE {predictor} END)"
    return f"CASE WHEN {predictor} < {little} THEN {x} * {series} ELSE {one} - exp(-{large}) END"


CLOGLOG: Final = Link(
    name="complementary log-log",
    inverse=_to_risk,
    forward=_to_predictor,
    sql=_write_sql,
    # 1 − exp(−x) = 2 / (1/tanh(x/2) + 1), x = exp(F): exact where x is small, too.
    onnx=(
        ("Exp",),
        ("Mul", 0.5),
        ("Tanh",),
        ("Reciprocal",),
        ("Add", 1.0),
        ("Reciprocal",),
        ("Mul", 2.0),
    ),
    javascript="(f) => -Math.expm1(-Math.exp(f))",
)


def _words(by: str) -> Words:
    """Return what people read; `by` tells the last horizon."""
    return Words(
        predictor="log cumulative hazard",
        predictor_column="log_hazard",
        prediction="risk",
        predictions="risks",
        prediction_column="risk",
        level="risk",
        observed="observed risk",
        effect="hazard ratio",
        effect_short="HR",
        effect_column="hazard_ratio",
        effect_sign="×",
        effect_of="hazard",
        acts="multiplies the hazard",
        effect_meaning="The hazard ratio tells by how much a rule that holds multiplies the "
        "hazard, at all times alike; for a linear term, by how much the change that it names does.",
        effect_caveat="A hazard ratio tells how the model counts, not what causes what: treating a "
        "value need not change the risk by it.",
        with_outcome="with the event",
        had_outcome="had the event",
        with_and_without="with and without the event",
        have_or_not="have, or have not, the event",
        had_or_not="had, or had not, the event",
        regression="piecewise exponential regression with proportional hazards",
        through_link="through the complementary log-log",
        refers_to=f"risks refer to the hazard in these patients, up to {by}.",
        output=f"The risk of the event by {by}; no threshold is part of the model.",
        by=f" by {by}",
        by_hand=f"The risk by {by} is 1 − exp(−exp(of that)).",
    )


TELLS: Final = Tells(
    inside="patients, events, and times at risk in each interval",
    slopes="of intervals with an event, and without one, apart",
    summary="the number of patients and of events",
    evaluation="counts of the held-out patients at risk, with the event and lost to follow-up, by "
    "predicted risk and interval of time",
    subgroups="how many of these patients satisfy each rule, with their events and times at risk "
    "in each interval",
    results="its patients and events, in all and inside rules",
    held_out_results="the same of its held-out patients, and measures of their predictions",
)


class Time(Family):
    """The time from a start to an event, or to the last news of a patient without it.

    Parameters
    ----------
    cuts : sequence of float
        Public times between 0 and the last horizon at which the baseline hazard may change.
    horizons : sequence of float
        Public times by which risks are told, growing; follow-up ends at the last, the main one.
    unit : str
        Of time.
    """

    kind = "time"
    judge_type = TimeJudge
    evidence = HazardEvidence()
    counts_events = True
    link = CLOGLOG
    tells = TELLS
    effect_javascript = "Math.exp"
    share_javascript = "(p) => p"
    tell_javascript = TELL_SHARE_JAVASCRIPT
    least_span = LEAST_SPAN
    largest_predictor = 128.0
    newton_leaves = jumps = True

    def __init__(self, cuts: Sequence[float], horizons: Sequence[float], *, unit: str = "") -> None:
        self.ends = check_ends(cuts, horizons)
        self.cuts = tuple(float(cut) for cut in cuts)
        self.horizons = tuple(float(horizon) for horizon in horizons)
        self.time_unit = unit
        self.words = _words(tell_time(self.horizons[-1], unit))
        self.levels = RiskLevels(tell_time(self.horizons[-1], unit), self.ends[1:].tolist())
        self.judge = TimeJudge(cuts, horizons, unit=unit)
        self.n_baseline = len(self.ends) - 1
        self.n_tallies = 2 * self.n_baseline
        self.most_slope = MOST_PACE * self.n_baseline
        self.most_curvature = PACE * self.n_baseline
        self.most_conjugate = _MOST_CONJUGATE * self.n_baseline
        self.unit = 2.0 ** math.ceil(math.log2(self.most_slope))

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of Σ e·{ψ(F) − εF} − d·F."""
        height = float(_height(np.array([predictor]))[0])
        return self.n_baseline * (height + FEWEST_EVENTS * predictor) + predictor

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·Σ_k e_k·{ψ(F_k) − εF_k} − d_k·F_k, shape (n_rows,)."""
        at, parts = self.prepare(outcome), self._part(predictor)
        events = at.event + FEWEST_EVENTS * at.exposure
        losses: Floats = weights * (at.exposure * _height(parts) - events * parts).sum(axis=1)
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·{e_k·(ψ'(F_k) − ε) − d_k}, of the shape of `predictor`."""
        at, parts = self.prepare(outcome), self._part(predictor)
        slope = at.exposure * (_pace(parts) - FEWEST_EVENTS) - at.event
        return (weights[:, None] * slope).reshape(predictor.shape)

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·e_k·ψ''(F_k), of the shape of `predictor`."""
        at, parts = self.prepare(outcome), self._part(predictor)
        return (weights[:, None] * at.exposure * _bend(parts)).reshape(predictor.shape)

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·Σ_k e_k·ψ*(m_k) with m = a·ψ'(F) + (1 − a)·(d/e + ε), shape (n_rows,)."""
        at, parts = self.prepare(outcome), self._part(predictor)
        observed = at.event / np.where(at.exposure > 0, at.exposure, 1.0) + FEWEST_EVENTS
        share = shrink[:, None]
        depth = _depth(share * _pace(parts) + (1 - share) * observed)
        conjugate: Floats = weights * (at.exposure * depth).sum(axis=1)
        return conjugate

    def information(self, patients: float, mean: float) -> float:
        """Return n·r at the share r with the event: as many as events are expected."""
        return patients * mean

    def effect(self, coefficient: float) -> float:
        """Return the hazard ratio exp(β)."""
        return float(np.exp(coefficient))

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return powers of two, or of four and so on: five or six at most."""
        return ratio_ticks(low, high)

    def tell(self, prediction: float) -> str:
        """Return a risk in percent."""
        return tell_share(prediction)

    def tell_move(self, most: float) -> str:
        """Return how far hazard and risk can move.

        The risk moves most from x to x·r, with r = exp(most), where x = log(r)/(r − 1).
        """
        steepest = most / math.expm1(most) if most > 0 else 1.0
        points = math.ceil(1000 * math.exp(-steepest) * -math.expm1(-most)) / 10
        return (
            f"a patient's log cumulative hazard moves by at most {math.ceil(1000 * most) / 1000:g},"
            f" the risk by at most {name_count(points, 'percentage point')}"
        )

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the best constant of each interval, shape (K,); None without any event.

        That is log((events + ε·exposure) / exposure), bent where more than 8 per interval.
        """
        at = self.prepare(outcome)
        events, exposure = weights @ at.event, weights @ at.exposure
        if events.sum() <= 0:
            return None
        return _find_predictor(events / np.where(exposure > 0, exposure, 1.0) + FEWEST_EVENTS)

    def jump(self, slope: Floats, curvature: Floats) -> Floats:
        """Return log(events / exposure): at F = 0 the slope is exposure − events."""
        return log_share(slope, curvature)

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return 1 for patients with the event by the last horizon, else 0, shape (n_rows,)."""
        events: Floats = at_risk(outcome, self.ends).event.sum(axis=1)
        return events

    def tell_nothing_to_learn(self, patients: float, events: float) -> str:
        """Return that nobody has the event."""
        del patients
        return "" if events > 0 else "no patient of any site has the event: nothing to learn"

    def join_baseline(self, baseline: Floats) -> float:
        """Return log Σ_k exp(a_k): the log cumulative hazard by the last horizon."""
        return float(logsumexp(baseline))

    def timeline(self, baseline: Sequence[float]) -> Timeline:
        """Return how the risk grows with time, from a model's baseline."""
        column = self.words.prediction_column
        return follow_baseline(baseline, self.ends, self.horizons, self.time_unit, column)

    def tallies(self, outcome: Floats) -> Floats:
        """Return events, then shares of time at risk, by interval, shape (n_rows, 2·K)."""
        at = at_risk(outcome, self.ends)
        return np.concatenate([at.event, at.exposure], axis=1)

    def present(self, outcome: Floats) -> Bools:
        """Return who is at risk in each interval, if for a moment, shape (n_rows, K).

        The second derivatives tell the time at risk inside a rule by interval: of the last who
        is followed so long, it would be that patient's own follow-up.
        """
        present: Bools = at_risk(outcome, self.ends).exposure > 0
        return present

    def prepare(self, outcome: Floats | AtRisk) -> AtRisk:
        """Return the follow-up by interval."""
        return outcome if isinstance(outcome, AtRisk) else at_risk(outcome, self.ends)

    def _part(self, predictor: Floats) -> Floats:
        """Return F by interval, shape (n_rows, K); of a single interval it may be flat."""
        return predictor.reshape(len(predictor), self.n_baseline)
