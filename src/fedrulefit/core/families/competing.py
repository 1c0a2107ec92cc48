r"""Times to an event that another event may forestall: competing risks, by cause-specific hazards.

Each patient has the event of one cause c = 1 … C, or of none while followed. The first cause is
the one of interest. Each cause has a piecewise constant hazard with rules and linear terms of its
own, :math:`F_{ck} = a_{ck} + f_c`, over the same public intervals as
:mod:`fedrulefit.core.families.time`; to it, patients with the event of another cause are followed
until then, and have none. The likelihood of all causes is a product (Prentice 1978), so the loss is
a sum over causes,

.. math:: ℓ = \sum_c ℓ^{\text{time}}(F_{c·}, y_c),

and so are its derivatives and its conjugate. No curvature is crossed. At the same λ each cause has
the fit that it would have alone.

A model predicts the cumulative incidence of each cause
(:mod:`fedrulefit.core.families.incidence`), never one minus the survival of a world without the
other causes; first of all that of the cause of interest by the last horizon. A hazard ratio
multiplies the hazard of its own cause; how the risk of a cause moves depends on all.

Oracles: the family of times on each cause alone (``tests/unit/core/test_competing.py``);
and statsmodels and scikit-survival (``tests/properties/test_competing_measures.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from scipy.special import logsumexp

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families.base import Family, Words
from fedrulefit.core.families.competing_judge import CompetingJudge
from fedrulefit.core.families.incidence import Incidence, accumulate, write_incidences
from fedrulefit.core.families.recipes import Language
from fedrulefit.core.families.side_incidences import IncidenceLevels
from fedrulefit.core.families.survival import follow_baseline, tell_time
from fedrulefit.core.families.tells import Tells
from fedrulefit.core.families.time import CLOGLOG, STEEPEST, TELLS, Time
from fedrulefit.core.families.time_at_risk import at_risk

FEWEST_CAUSES: Final = 2

_UNSEEN: Final = 1e-7
"""A smaller share of patients who have a cause is nobody."""

Prepared = tuple[Any, ...]
"""Follow-up to each cause, as the family of times prepares it."""


def _words(words: Words, cause: str, others: Sequence[str], by: str) -> Words:
    """Return what people read, from the words of times."""
    rivals = " or ".join(others)
    return replace(
        words,
        one_of="event",
        effect_meaning="The hazard ratio tells by how much a rule that holds multiplies the hazard "
        "of its cause among patients without any event so far, at all times alike; for a linear "
        "term, by how much the change that it names does.",
        effect_caveat="A hazard ratio tells how the model counts, not what causes what; and the "
        "risk of a cause depends on the hazards of all: what raises a competing one lowers it.",
        with_outcome=f"with the event {cause}",
        had_outcome=f"had the event {cause}",
        with_and_without=f"with and without the event {cause}",
        have_or_not=f"have, or have not, the event {cause}",
        had_or_not=f"had, or had not, the event {cause}",
        regression="cause-specific piecewise exponential regression with proportional hazards",
        through_link="by cumulative incidence",
        refers_to=f"risks refer to the hazards in these patients, up to {by}.",
        output=f"The risk of {cause} by {by}, where {rivals} may come first (cumulative "
        "incidence), and that of each competing event; no threshold is part of the model.",
        by_hand=f"The risk by {by} follows from the hazards of all causes: the cumulative "
        "incidence.",
    )


_TELLS: Final[Tells] = replace(
    TELLS,
    inside="patients, events of each cause, and times at risk in each interval",
    evaluation="counts of the held-out patients at risk, with the event of interest, with a "
    "competing one and lost to follow-up, by predicted risk and interval of time",
    subgroups="how many of these patients satisfy each rule, with their events of each cause and "
    "times at risk in each interval",
)


class Competing(Family):
    """The time to an event of one of several causes, or to the last news without any.

    Parameters
    ----------
    cuts, horizons : sequence of float
        As of :class:`~fedrulefit.core.families.time.Time`.
    causes : sequence of str
        Two or more, the one of interest first.
    unit : str
        Of time.
    """

    kind = "competing"
    judge_type = CompetingJudge
    own_terms = of_first = counts_events = True
    newton_leaves = jumps = True
    link = CLOGLOG
    tells = _TELLS
    effect_javascript = Time.effect_javascript
    share_javascript = Time.share_javascript
    tell_javascript = Time.tell_javascript
    least_span = Time.least_span
    largest_predictor = Time.largest_predictor

    def __init__(
        self,
        cuts: Sequence[float],
        horizons: Sequence[float],
        causes: Sequence[str],
        *,
        unit: str = "",
    ) -> None:
        self.time = Time(cuts, horizons, unit=unit)
        self.names = tuple(str(cause) for cause in causes)
        if len(self.names) < FEWEST_CAUSES or len(set(self.names)) < len(self.names):
            raise ValueError("competing risks are two causes or more, each once")
        self.horizons, self.ends, self.time_unit = self.time.horizons, self.time.ends, unit
        by = tell_time(self.horizons[-1], unit)
        self.words = _words(self.time.words, self.names[0], self.names[1:], by)
        self.n_owners, self._n_spans = len(self.names), self.time.n_baseline
        self.levels = IncidenceLevels(by, self.ends[1:].tolist(), self.names[0], self.n_owners)
        self.judge = CompetingJudge(cuts, horizons, self.names, unit=unit)
        self.n_baseline = self.n_owners * self._n_spans
        self.n_tallies = self.n_baseline + self._n_spans
        # A term is part of one cause alone; a loss is a sum over all.
        self.most_slope, self.most_curvature = self.time.most_slope, self.time.most_curvature
        self.most_conjugate = self.n_owners * self.time.most_conjugate
        self.unit = self.time.unit

    def most_value(self, predictor: float) -> float:
        """Return an upper bound of the sum over causes."""
        return self.n_owners * self.time.most_value(predictor)

    # --- the loss -----------------------------------------------------------------------------

    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·Σ_c ℓ_c, shape (n_rows,)."""
        losses = np.zeros(len(predictor))
        for own, at in zip(self._split(predictor), self.prepare(outcome), strict=True):
            losses += self.time.value(own, at, weights)
        return losses

    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·∂ℓ_c/∂F_ck, shape (n_rows, C·K)."""
        pairs = zip(self._split(predictor), self.prepare(outcome), strict=True)
        return np.hstack([self.time.slope(own, at, weights) for own, at in pairs])

    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·∂²ℓ_c/∂F_ck², shape (n_rows, C·K)."""
        pairs = zip(self._split(predictor), self.prepare(outcome), strict=True)
        return np.hstack([self.time.curvature(own, at, weights) for own, at in pairs])

    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·Σ_c ℓ_c*, shape (n_rows,)."""
        found = np.zeros(len(predictor))
        for own, at in zip(self._split(predictor), self.prepare(outcome), strict=True):
            found += self.time.conjugate(own, at, weights, shrink)
        return found

    def prepare(self, outcome: Floats | Prepared) -> Prepared:
        """Return the follow-up to each cause, by interval."""
        if isinstance(outcome, tuple):
            return outcome
        return tuple(at_risk(self._of_cause(outcome, c), self.ends) for c in range(self.n_owners))

    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the best constants of each cause, shape (C·K,); None where one has no event."""
        found = [self.time.start(at, weights) for at in self.prepare(outcome)]
        known = [own for own in found if own is not None]
        return np.concatenate(known) if len(known) == self.n_owners else None

    def jump(self, slope: Floats, curvature: Floats) -> Floats:
        """Return log(events / exposure) of each cause and interval."""
        return self.time.jump(slope, curvature)

    def tree_problems(self, outcome: Floats) -> list[tuple[Family, Floats]]:
        """Return each cause alone."""
        return [(self.time, self._of_cause(outcome, c)) for c in range(self.n_owners)]

    def _of_cause(self, outcome: Floats, cause: int) -> Floats:
        """Return entry, time and whether the event of a cause came, shape (n_rows, 3)."""
        return np.column_stack([outcome[:, :2], outcome[:, 2] == cause + 1])

    def _split(self, predictor: Floats) -> list[Floats]:
        """Return F by cause, each of shape (n_rows, K)."""
        return np.split(predictor.reshape(len(predictor), self.n_baseline), self.n_owners, axis=1)

    # --- who is counted -----------------------------------------------------------------------

    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return 1 for patients with the event of interest by the last horizon, else 0."""
        return self.time.events(self._of_cause(outcome, 0), weights)

    def tell_nothing_to_learn(self, patients: float, events: float) -> str:
        """Return that nobody has the event of interest."""
        del patients
        why = f"no patient of any site has the event {self.names[0]!r}: nothing to learn"
        return "" if events > 0 else why

    def tell_unseen(self, falling: Floats, rising: Floats) -> str:
        """Return the causes that nobody has: their hazards fall without end."""
        del rising
        seen = [-own.sum() > _UNSEEN for own in np.split(falling, self.n_owners)]
        missing = [name for name, has in zip(self.names[1:], seen[1:], strict=True) if not has]
        if not missing:
            return ""
        return (
            f"no patient of any site has the event {' or '.join(map(repr, missing))} by the last "
            "horizon: leave it out of 'competing', and take it for no event"
        )

    def tallies(self, outcome: Floats) -> Floats:
        """Return events by cause, then shares of time at risk, by interval: (n_rows, C·K + K)."""
        any_cause = np.column_stack([outcome[:, :2], outcome[:, 2] > 0])
        events = [at.event for at in self.prepare(outcome)]
        return np.hstack([*events, at_risk(any_cause, self.ends).exposure])

    def present(self, outcome: Floats) -> Bools:
        """Return who is at risk in each interval, if for a moment, shape (n_rows, K)."""
        return self.time.present(np.column_stack([outcome[:, :2], outcome[:, 2] > 0]))

    # --- what a model says --------------------------------------------------------------------

    def information(self, patients: float, mean: float) -> float:
        """Return n·r at the risk r of a cause: as many as events are expected."""
        return self.time.information(patients, mean)

    def effect(self, coefficient: float) -> float:
        """Return the hazard ratio exp(β) of a cause."""
        return self.time.effect(coefficient)

    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return powers of two, or of four and so on: five or six at most."""
        return self.time.effect_ticks(low, high)

    def tell(self, prediction: float) -> str:
        """Return a risk in percent."""
        return self.time.tell(prediction)

    def tell_move(self, most: float) -> str:
        """Return how far hazards and risks can move, where those of all causes do.

        The risk of a cause c of hazards Λ is a share of 1 − exp(−ΣΛ): both factors of a hazard
        move a risk r by less than r·(exp(2·most) − 1), and by less than 1 − r.
        """
        grown = math.expm1(2 * most)
        points = math.ceil(1000 * grown / (1 + grown)) / 10
        return (
            f"a patient's log cumulative hazard of a cause moves by at most "
            f"{math.ceil(1000 * most) / 1000:g}, its risk by at most {points:g} percentage points"
        )

    def join_baseline(self, baseline: Floats) -> float:
        """Return 0: each cause has an intercept of its own (:meth:`starts`)."""
        del baseline
        return 0.0

    @property
    def baseline_levels(self) -> tuple[str | None, ...]:
        """The cause of each column of the baseline."""
        return tuple(name for name in self.names for _ in range(self._n_spans))

    def starts(self, intercept: float, baseline: Sequence[float]) -> Floats:
        """Return the log cumulative hazard of each cause by the last horizon, without terms."""
        constants = intercept + np.array(baseline)
        found: Floats = logsumexp(constants.reshape(self.n_owners, self._n_spans), axis=1)
        return found

    def spread(self, predictor: Floats, baseline: Sequence[float]) -> Floats:
        """Return F_ck of each cause and interval, shape (n_rows, C·K), from F_c."""
        own = np.array(baseline) - self.starts(0.0, baseline).repeat(self._n_spans)
        found: Floats = predictor.repeat(self._n_spans, axis=1) + own
        return found

    def predict(self, predictor: Floats) -> Floats:
        """Return the risk of each cause by the last horizon, shape (n_rows, C), from all F_ck."""
        return self._grow(predictor)[:, :, -1]

    def judged(self, predictor: Floats) -> Floats:
        """Return the risk of the cause of interest by each horizon, shape (n_rows, n_horizons)."""
        places = np.searchsorted(self.ends, self.horizons) - 1
        return self._grow(predictor)[:, 0, places]

    def _grow(self, predictor: Floats) -> Floats:
        """Return the cumulative incidences at the ends of intervals, (n_rows, C, K)."""
        steps = np.exp(np.minimum(predictor, STEEPEST))
        return accumulate(steps.reshape(len(steps), self.n_owners, self._n_spans))

    def incidence(self, baseline: Sequence[float]) -> Incidence:
        """Return how the risks of all causes grow with time, from a model's baseline."""
        parts = np.split(np.array(baseline), self.n_owners)
        lines = [
            follow_baseline(own.tolist(), self.ends, self.horizons, self.time_unit, "")
            for own in parts
        ]
        shares = np.stack([line.shares for line in lines])
        column = self.words.prediction_column
        return Incidence(self.names, self.ends, shares, self.horizons, self.time_unit, column)

    def write_levels(
        self, language: Language, predictors: Sequence[str], baseline: Sequence[float]
    ) -> list[str]:
        """Return how the risks of :attr:`Incidence.told` are written in a language."""
        return write_incidences(language, predictors, self.incidence(baseline))
