"""Times to an event: :class:`FederatedRuleFitSurvival` and :class:`RuleFitSurvival`.

In the habit of scikit-survival: y is a structured array of events and times, ``predict`` gives a
risk score, and curves are functions of time. The package itself is not needed. Where events are
numbers, 0 for none and 1, 2 and so on for one each, they compete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.errors import DataError
from fedrulefit.estimators.base import RuleFitBase
from fedrulefit.estimators.concordance import concordance
from fedrulefit.estimators.curves import name_curves
from fedrulefit.estimators.naming import column_names
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.estimators.places import (
    SETTINGS_OF_SITES,
    AtSites,
    Pooled,
    settings_of_pooled,
)
from fedrulefit.estimators.ranges import upward
from fedrulefit.estimators.reading import refuse_beside_study, unused_name
from fedrulefit.estimators.targets import Target, read_numbers, refuse_no_y
from fedrulefit.model.matrix import find_first
from fedrulefit.model.over_time import find_timeline
from fedrulefit.study import TimeOutcome
from fedrulefit.study.outcomes import AnyOutcome

PIECES: Final = 12
"""Each interval of constant hazard is told at so many times."""

_SHAPE: Final = (
    "y wants a structured array of (event, time), as sksurv.util.Surv.from_arrays(event, time) "
    "makes it, or a data frame of the columns event and time"
)


class SurvivalAnalysis(RuleFitBase):
    """Learns when an event comes, from patients who are not all followed until it does.

    Parameters
    ----------
    horizons : float or sequence of float, optional
        Times by which a risk is told, increasing. Follow-up ends at the last, which is the main
        one. Without them, and without a study, it is the time of the last event, rounded up.
    unit : str, optional
        Unit of all times, such as ``"days"``.
    cause : int
        Which event of y is that of interest, where several compete (numbers above 1 in y); the
        others end the follow-up without it. With a study, the study says so.

    Attributes
    ----------
    unique_times_ : (n_times,) float64
        The times of arrays of curves: the ends of the intervals of constant hazard, and times
        in between. They follow from the horizons alone, not from the patients' times.
    causes_ : tuple of str
        The events, that of interest first; one where none compete.
    coef_ : (n_terms,) or (n_causes, n_terms) float64
        Of :meth:`transform`'s columns: one per term, not per column of X; logarithms of hazard
        ratios. Where events compete, 0 for a term of another one. scikit-learn's feature selectors
        get `feature_importances_`.
    intercept_ : float or (n_causes,) float64
    """

    _kinds = ("time",)
    _predict_risk_score = True  # scikit-survival asks: higher predictions are worse

    def __init__(
        self,
        *,
        horizons: float | Sequence[float] | None = None,
        unit: str | None = None,
        cause: int = 1,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.horizons = horizons
        self.unit = unit
        self.cause = cause

    def _read_target(self, y: Any, **parts: Any) -> Target:
        refuse_no_y(y, asker=self)
        event, time = read_survival(y)
        target: dict[str, npt.NDArray[Any]] = {"outcome": time, "event": event.astype(np.float64)}
        if self.study is not None:
            refuse_beside_study(horizons=self.horizons, unit=self.unit)
            outcome = _of_time(self.study.outcome)
            if event.max(initial=0) >= len(outcome.values):
                raise DataError(f"y has an event {event.max()}, which the study does not name")
            target["event"] = np.array(outcome.values, dtype=object)[event]
        if parts.get("entry") is not None:
            target["entry"] = read_numbers(parts["entry"], "entry", example="entry")
        return target

    def _declare_outcome(self, column: str, target: Target) -> AnyOutcome:
        horizons = self.horizons
        if horizons is None:
            events = target["outcome"][target["event"] == self.cause]
            if not len(events) or events.max() <= 0:
                raise DataError("nobody in y has the event: there is nothing to learn")
            horizons = upward(float(events.max()))
        told = np.atleast_1d(np.asarray(horizons, dtype=np.float64))
        if not (told[0] > 0 and (np.diff(told) > 0).all() and np.isfinite(told).all()):
            raise ValueError("horizons must be times above 0, the earliest first")
        taken, others = set(self._covariates), self._find_others(target)
        return TimeOutcome(
            positive=self.cause,
            competing={f"event {code}": code for code in others},
            label=f"event {self.cause}" if others else "",
            time=unused_name("time", taken),
            event=unused_name("event", taken),
            entry=unused_name("entry", taken) if "entry" in target else None,
            horizons=tuple(told.tolist()),
            unit=self.unit or "",
        )

    def _find_others(self, target: Target) -> list[int]:
        """Return the events that compete with that of interest."""
        codes = np.unique(target["event"]).astype(np.intp).tolist()
        if self.cause not in codes and len(codes) > 1:
            raise DataError(f"nobody in y has the event {self.cause} of 'cause'")
        return [code for code in codes if code not in (0, self.cause)]

    @property
    def causes_(self) -> tuple[str, ...]:
        """The events, that of interest first."""
        check_is_fitted(self)
        outcome = _of_time(self.study_.outcome)
        return outcome.causes or (outcome.cause,)

    def _show_coefficients(self, coefficients: Floats) -> Floats:
        if self.model_.incidence is None:
            return coefficients
        own = [[t.level == cause for t in self.model_.terms] for cause in self.causes_]
        return np.where(own, coefficients, 0.0)

    def _show_intercept(self, intercept: float) -> Any:
        if self.model_.incidence is None:
            return intercept
        return self.study_.family.starts(intercept, self.model_.baseline)

    @property
    def unique_times_(self) -> Floats:
        """The times at which arrays of curves tell them, shape (n_times,)."""
        check_is_fitted(self)
        ends = (self.model_.incidence or find_timeline(self.model_)).ends
        shares = np.arange(1, PIECES + 1) / PIECES
        inner = ends[:-1, None] + np.diff(ends)[:, None] * shares
        inner[:, -1] = ends[1:]
        return inner.ravel()

    def predict(self, X: Any) -> Floats:
        """Return the risk score of every patient, shape (n_rows,): higher is an earlier event.

        It is the linear predictor, the logarithm of the cumulative hazard by the last horizon.
        The risk by then is in :meth:`predict_frame`. Where events compete, it is log(−log(1 − r))
        of the risk r of the event of interest by then: its cumulative incidence. NaN where a value
        that the study does not foresee leaves no prediction.
        """
        predictor = self._predictor(X)
        if self.model_.incidence is None:
            return predictor
        with np.errstate(divide="ignore"):
            return self.study_.family.link.forward(find_first(self.model_, predictor))

    def predict_survival_function(self, X: Any, return_array: bool = False) -> Any:
        """Return the survival curve of every patient; where events compete, without any of them.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
        return_array : bool
            Whether to return the probabilities at `unique_times_`.

        Returns
        -------
        curves : (n_rows,) of functions of time, or (n_rows, n_times) float64
            Functions are called as scikit-survival's ``StepFunction``, with a time or an array of
            times from 0 to the last horizon, and have `x`, `y` and `domain`; but they are exact
            between `x`, too.
        """
        hazards = self._hazards(X)
        if return_array:
            return np.exp(-hazards)
        return name_curves(self.unique_times_, hazards, survives=True)

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False) -> Any:
        """Return the cumulative hazard of every patient; where events compete, of all together.

        As :meth:`predict_survival_function`.
        """
        hazards = self._hazards(X)
        if return_array:
            return hazards
        return name_curves(self.unique_times_, hazards, survives=False)

    def _hazards(self, X: Any) -> Floats:
        """Return cumulative hazards at `unique_times_`, shape (n_rows, n_times)."""
        predictor, incidence = self._predictor(X), self.model_.incidence
        if incidence is None:
            return find_timeline(self.model_).hazards(predictor, self.unique_times_)
        whole: Floats = incidence.hazards(predictor, self.unique_times_).sum(axis=1)
        return whole

    def predict_cumulative_incidence(self, X: Any, times: Any = None) -> Floats:
        """Return the probability that each event has come first, by each time.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
        times : (n_times,) of float, optional
            From 0 to the last horizon; by default `unique_times_`.

        Returns
        -------
        risks : (n_rows, n_causes, n_times) float64
            In the order of `causes_`. With the survival they add up to 1.
        """
        check_is_fitted(self)
        at = self.unique_times_ if times is None else times
        return self._asked.predict_cumulative_incidence(self._columns(X), at)

    def score(self, X: Any, y: Any) -> float:
        """Return Harrell's C: how often the patient with the earlier event has the higher risk.

        Where events compete, it is of the event of interest, and Wolbers': who had another one has
        it later than all others.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
        y : as in :meth:`fit`
        """
        risk = self.predict(X)
        event, time = read_survival(y)
        check_consistent_length(risk, time)
        if np.isnan(risk).any():
            raise ValueError("some patients get no prediction: leave them out to score")
        own = event == (self.cause if self.study is None else 1)
        return concordance(own, np.where((event > 0) & ~own, np.inf, time), risk)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _of_time(outcome: AnyOutcome) -> TimeOutcome:
    if not isinstance(outcome, TimeOutcome):
        raise TypeError("an outcome of the kind 'time' is needed")
    return outcome


def read_survival(y: Any) -> tuple[Ints, Floats]:
    """Return which event came, 0 for none, and the time of it or of the end of follow-up.

    Parameters
    ----------
    y : structured array of (event, time), or data frame with the columns event and time
    """
    names = column_names(y)
    if names:
        if sorted(map(str, names)) != ["event", "time"]:
            raise ValueError(f"{_SHAPE}; it has the columns {', '.join(map(str, names))}")
        events, times = y["event"], y["time"]
    else:
        array = np.asarray(y)
        fields = array.dtype.names or ()
        if len(fields) != 2 or array.ndim != 1:
            raise ValueError(_SHAPE)
        events, times = array[fields[0]], array[fields[1]]
    event = read_numbers(events, "y (event)", example="event")
    codes = np.unique(event)
    # Without a 0, two codes may as well be none and one event, as R has them.
    several = np.array_equal(codes[codes > 0], np.arange(1, codes.max(initial=0) + 1))
    if not (np.isin(codes, (0, 1)).all() or (several and codes.min() == 0)):
        raise ValueError(
            f"{_SHAPE}: events are true or false; or 0 for none, and 1, 2 and so on for events "
            "that compete"
        )
    return event.astype(np.int64), read_numbers(times, "y (time)", example="time")


@takes_settings(elsewhere=SETTINGS_OF_SITES)
class FederatedRuleFitSurvival(AtSites, SurvivalAnalysis):
    """Federated RuleFit of the time to an event, with all sites in this process.

    Proportional hazards: terms multiply a hazard that is constant between public times.
    Parameters left at None are the preset's (or the study's).

    Parameters
    ----------
    **settings

    Attributes
    ----------
    **attributes

    Examples
    --------
    >>> import numpy as np
    >>> from fedrulefit import FederatedRuleFitSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> time = rng.exponential(100 * np.exp(-X[:, 0]))
    >>> y = np.array([(t < 200, min(t, 200)) for t in time], dtype=[("event", "?"), ("time", "f8")])
    >>> model = FederatedRuleFitSurvival(
    ...     horizons=[90, 180], unit="days", n_trees=20, penalty=0.02, noise=False, random_state=0
    ... )
    >>> model = model.fit(X, y, sites=["north", "south"] * 150)
    >>> bool(model.score(X, y) > 0.65)
    True
    """

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sites: Any = None,
        sample_weight: Any = None,
        patients: Any = None,
        entry: Any = None,
    ) -> Self:
        """Learn one model over all sites.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
            NaN is missing. What its types do not say of a column is guessed, and said in a
            :class:`~fedrulefit.errors.ReadingWarning`.
        y : structured array or data frame, shape (n_rows,)
            Of two fields, whether the event came and the time of it or of the end of follow-up,
            as ``sksurv.util.Surv.from_arrays`` makes it; or a data frame of the columns
            ``event`` and ``time``. Events that compete are whole numbers, 0 for none, as
            ``sksurv.nonparametric.cumulative_incidence_competing_risks`` takes them.
        sites : (n_rows,), optional
            The site of every patient; without it, all are one site.
        sample_weight : (n_rows,), optional
            How many patients a row stands for.
        patients : (n_rows,), optional
            Whose each row is, where a patient may have several: they stay in one fold and count
            as one patient wherever patients must be enough. Without it every row is a patient.
        entry : (n_rows,), optional
            The time at which each patient came under observation, where that is after the start.
        """
        return self._fit(
            X, y, sites=sites, sample_weight=sample_weight, patients=patients, entry=entry
        )


@takes_settings(elsewhere=settings_of_pooled("FederatedRuleFitSurvival"))
class RuleFitSurvival(Pooled, SurvivalAnalysis):
    """Centralised RuleFit of the time to an event: pooled data, no noise.

    Proportional hazards: terms multiply a hazard that is constant between public times.
    Parameters left at None are the preset's (or the study's). `noise`, `epsilon_total` and
    `epsilon` are none of them: the patients are pooled already, and nothing is released.

    Parameters
    ----------
    **settings

    Attributes
    ----------
    **attributes

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from fedrulefit import RuleFitSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> time = rng.exponential(100 * np.exp(-X[:, 0]))
    >>> y = pd.DataFrame({"event": time < 200, "time": time.clip(max=200)})
    >>> model = RuleFitSurvival(horizons=180, n_trees=20, penalty=0.02, random_state=0).fit(X, y)
    >>> curve = model.predict_survival_function(X[:1])[0]
    >>> bool(1 > curve(30) > curve(90) > 0)
    True
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        patients: Any = None,
        entry: Any = None,
    ) -> Self:
        """Learn a model from pooled data; see :class:`FederatedRuleFitSurvival`."""
        return self._fit(X, y, sample_weight=sample_weight, patients=patients, entry=entry)
