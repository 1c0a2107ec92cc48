"""What a model of times to an event says of other times than the last horizon.

In: a model and patients. Out: risks by each horizon, and survival at any time up to the last. The
formula is :class:`fedrulefit.core.families.survival.Timeline`'s.

Oracle: the hazard added up interval by interval (``tests/unit/model/test_over_time.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.survival import Horizon, Timeline
from fedrulefit.errors import FedRuleFitError

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.table.sources import Source


class OverTime:
    """What a model says of patients over time."""

    @property
    def timeline(self: Model) -> Timeline | None:  # type: ignore[misc]
        """How the risk grows with time; None where the outcome is no time to an event."""
        return self.study.family.timeline(self.baseline)

    @property
    def further(self: Model) -> tuple[Horizon, ...]:  # type: ignore[misc]
        """The horizons whose risks are told beside the prediction, the main one among them.

        Empty where there is one, or none.
        """
        timeline = self.study.family.timeline(self.baseline)
        return timeline.horizons if timeline and len(timeline.horizons) > 1 else ()

    def predict_risks(self: Model, source: Source | Floats) -> Floats:  # type: ignore[misc]
        """Return the risk of every patient by each of the study's horizons.

        Shape (n_rows, n_horizons), of a time to an event; NaN where there is no prediction. The
        last column is :meth:`predict`.

        Raises
        ------
        FedRuleFitError
            If the outcome is of another kind.
        """
        shifts = np.array([horizon.shift for horizon in find_timeline(self).horizons])
        predictor = self.decision_function(source)
        return self.study.family.link.inverse(np.add.outer(predictor, shifts))

    def predict_survival(  # type: ignore[misc]
        self: Model, source: Source | Floats, times: Sequence[float] | Floats | None = None
    ) -> Floats:
        """Return the probability of every patient to have no event up to each time.

        Shape (n_rows, n_times), of a time to an event; NaN where there is no prediction.

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
        timeline = find_timeline(self)
        at = timeline.ends[1:] if times is None else np.asarray(times, dtype=np.float64)
        try:
            return timeline.survival(self.decision_function(source), np.atleast_1d(at))
        except ValueError as error:
            raise FedRuleFitError(str(error)) from None


def find_timeline(model: Model) -> Timeline:
    """Return a model's timeline, or refuse a model without one."""
    timeline = model.timeline
    if timeline is None:
        raise FedRuleFitError(
            f"an outcome of the kind {model.study.outcome.kind!r} has no horizons: only times to "
            "an event have"
        )
    return timeline
