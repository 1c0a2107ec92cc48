"""What a model of times to an event says of other times than the last horizon.

In: a model and patients. Out: risks by each horizon, and survival at any time up to the last. The
formula is :class:`fedrulefit.core.families.survival.Timeline`'s; where events compete,
:class:`fedrulefit.core.families.incidence.Incidence`'s.

Oracle: the hazard added up interval by interval (``tests/unit/model/test_over_time.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.incidence import Incidence
from fedrulefit.core.families.survival import Horizon, Timeline
from fedrulefit.errors import FedRuleFitError

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.model.model import Model
    from fedrulefit.table.sources import Source


class OverTime:
    """What a model says of patients over time."""

    @property
    def timeline(self: Model) -> Timeline | None:  # type: ignore[misc]
        """How the risk grows with time; None where the outcome is no time to an event.

        And where events compete: then :attr:`incidence` tells it.
        """
        return self.study.family.timeline(self.baseline)

    @property
    def incidence(self: Model) -> Incidence | None:  # type: ignore[misc]
        """How the risks of competing events grow with time; None of other outcomes."""
        return self.study.family.incidence(self.baseline)

    @property
    def further(self: Model) -> tuple[Horizon, ...]:  # type: ignore[misc]
        """The horizons whose risks are told beside the prediction, the main one among them.

        Empty where there is one, or none.
        """
        timeline = self.study.family.timeline(self.baseline)
        return timeline.horizons if timeline and len(timeline.horizons) > 1 else ()

    def predict_risks(  # type: ignore[misc]
        self: Model, source: Source | Floats, *, cause: str | None = None
    ) -> Floats:
        """Return the risk of every patient by each of the study's horizons.

        Shape (n_rows, n_horizons), of a time to an event; NaN where there is no prediction. The
        last column is :meth:`predict`.

        Parameters
        ----------
        source
            As for :meth:`decision_function`.
        cause : str, optional
            Where events compete, which of them; by default that of interest.

        Raises
        ------
        FedRuleFitError
            If the outcome is of another kind, or has no such event.
        """
        predictor, incidence = self.decision_function(source), self.incidence
        if incidence is not None:
            horizons = np.array(incidence.horizons)
            return _grow(incidence, predictor, horizons)[:, _find(incidence, cause)]
        if cause is not None:
            raise FedRuleFitError("'cause' is for studies with competing events: this has none")
        shifts = np.array([horizon.shift for horizon in find_timeline(self).horizons])
        return self.study.family.link.inverse(np.add.outer(predictor, shifts))

    def predict_survival(  # type: ignore[misc]
        self: Model, source: Source | Floats, times: Sequence[float] | Floats | None = None
    ) -> Floats:
        """Return the probability of every patient to have no event up to each time.

        Shape (n_rows, n_times), of a time to an event; NaN where there is no prediction. Where
        events compete, it is that of none of them: not one minus a risk.

        Parameters
        ----------
        source
            As for :meth:`decision_function`.
        times : (n_times,) sequence of float, optional
            From 0 to the last horizon. By default the ends of the intervals in which the hazard
            is constant: ``Model.timeline.ends`` from the second on.

        Raises
        ------
        FedRuleFitError
            If the outcome is of another kind, or a time lies outside.
        """
        curves = self.incidence or find_timeline(self)
        at = curves.ends[1:] if times is None else np.asarray(times, dtype=np.float64)
        try:
            return curves.survival(self.decision_function(source), np.atleast_1d(at))
        except ValueError as error:
            raise FedRuleFitError(str(error)) from None

    def predict_cumulative_incidence(  # type: ignore[misc]
        self: Model, source: Source | Floats, times: Sequence[float] | Floats | None = None
    ) -> Floats:
        """Return the probability of every patient to have had each event by each time.

        Shape (n_rows, n_events, n_times), the event of interest first, then the competing ones in
        the study's order (``Model.incidence.causes``); with one event, one. NaN where there is no
        prediction. With :meth:`predict_survival` they add up to 1.

        Parameters
        ----------
        source, times
            As for :meth:`predict_survival`.

        Raises
        ------
        FedRuleFitError
            If the outcome is of another kind, or a time lies outside.
        """
        if self.incidence is None:
            return 1 - self.predict_survival(source, times)[:, None, :]
        at = self.incidence.ends[1:] if times is None else np.asarray(times, dtype=np.float64)
        try:
            return _grow(self.incidence, self.decision_function(source), np.atleast_1d(at))
        except ValueError as error:
            raise FedRuleFitError(str(error)) from None

    def subgroup_curves_frame(  # type: ignore[misc]
        self: Model, *, top: int | None = None, min_support: float = 0.0
    ) -> pd.DataFrame:
        """Return the observed risk over time inside and outside each rule, of a time to an event.

        Columns ``rule``, ``side`` ("inside", "outside"), ``time``, ``risk`` of the event by then
        (one minus Kaplan and Meier's curve, on the study's intervals; where events compete, the
        cumulative incidence of that of interest), its 95 % interval ``low`` and ``high``, and
        ``watched``, how many were at risk in the interval before. They are of patients that were
        held out, and told at few times: at each, enough patients have had the event since the one
        before, and enough are followed. Rules of which nothing is told have no rows.

        Parameters
        ----------
        top, min_support
            As for :meth:`rules_frame`.
        """
        from fedrulefit.model.frames import subgroup_curves_frame

        return subgroup_curves_frame(self, top, min_support)


def _grow(incidence: Incidence, predictor: Floats, times: Floats) -> Floats:
    """Return the risks of each cause; NaN of patients without a prediction."""
    found = incidence.risks(predictor, times)
    found[np.isnan(predictor).any(axis=1)] = np.nan
    return found


def _find(incidence: Incidence, cause: str | None) -> int:
    try:
        return incidence.find_cause(cause)
    except ValueError as error:
        raise FedRuleFitError(str(error)) from None


def find_timeline(model: Model) -> Timeline:
    """Return a model's timeline, or refuse a model without one."""
    timeline = model.timeline
    if timeline is None and model.incidence is not None:
        raise FedRuleFitError(
            "events compete here, so one minus the survival is no risk: ask for "
            "'predict_cumulative_incidence'"
        )
    if timeline is None:
        raise FedRuleFitError(
            f"an outcome of the kind {model.study.outcome.kind!r} has no horizons: only times to "
            "an event have"
        )
    return timeline
