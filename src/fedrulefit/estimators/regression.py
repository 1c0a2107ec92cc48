"""Numbers and counts: :class:`FederatedRuleFitRegressor` and :class:`RuleFitRegressor`.

The same fit as of the classifiers; what differs is the outcome that the study declares, or that is
read off y: of the kind ``number``, or ``count`` with ``loss="poisson"`` or
``loss="negative-binomial"``.
"""

from __future__ import annotations

from typing import Any, Final, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.count_ranges import find_count_range
from fedrulefit.errors import DataError, FedRuleFitError
from fedrulefit.estimators.base import RuleFitBase
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.estimators.places import (
    SETTINGS_OF_SITES,
    AtSites,
    Pooled,
    settings_of_pooled,
)
from fedrulefit.estimators.ranges import extremes, outward_range, upward
from fedrulefit.estimators.reading import refuse_beside_study, unused_name
from fedrulefit.estimators.targets import Target, read_numbers, refuse_no_y
from fedrulefit.study import CountOutcome, NumberOutcome
from fedrulefit.study.outcomes import AnyOutcome

Loss = Literal["squared", "robust", "poisson", "negative-binomial"]

LOSSES: Final = ("squared", "robust", "poisson", "negative-binomial")

COUNTS: Final = LOSSES[2:]
"""Losses of counts, as ``dispersion`` of a study's outcome names them."""


class Regression(RegressorMixin, RuleFitBase):
    """Learns a number, or how often something happens.

    Parameters
    ----------
    loss : {"squared", "robust", "poisson", "negative-binomial"}, optional
        ``squared`` (the default without a study) predicts the mean of a number; ``robust`` lets
        values far from their prediction count less (pseudo-Huber). ``poisson`` is for counts:
        how often something happened to a patient, over an `exposure` that :meth:`fit` takes;
        ``negative-binomial`` for those that vary more than Poisson's, as most do: by how much is
        learnt (``model_.theta``).
        With a study leave it out: the study says it.

    Attributes
    ----------
    coef_ : (n_terms,) float64
        Of :meth:`transform`'s columns: one per term, not per column of X. What a term adds to the
        prediction; of counts to its logarithm. scikit-learn's feature selectors get
        `feature_importances_`.
    intercept_ : float
    """

    _kinds = ("number", "count")

    def __init__(self, *, loss: Loss | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.loss = loss

    @property
    def _counts(self) -> bool:
        """Whether y are counts."""
        return self.loss in COUNTS if self.study is None else _of_count(self.study.outcome)

    def _read_target(self, y: Any, **parts: Any) -> Target:
        if self.study is not None:
            refuse_beside_study(loss=self.loss)
        elif self.loss not in (None, *LOSSES):
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, not {self.loss!r}")
        refuse_no_y(y, asker=self)
        exposure = parts.get("exposure")
        numbers = read_numbers(y, "y", example="admissions" if self._counts else "days")
        if not self._counts:
            if exposure is not None:
                raise DataError("exposure= is for counts: give loss='poisson', or leave it out")
            return {"outcome": numbers}
        check_counts(numbers)
        if exposure is None:
            return {"outcome": numbers}
        return {"outcome": numbers, "exposure": read_exposure(exposure)}

    def _declare_outcome(self, column: str, target: Target) -> AnyOutcome:
        y = target["outcome"]
        if not self._counts:
            return NumberOutcome(
                column=column,
                range=outward_range(y),
                step=1.0 if (y % 1 == 0).all() else None,
                robust=self.loss == "robust",
            )
        _, most = extremes(y)
        dispersion: Any = self.loss
        if "exposure" not in target:
            return CountOutcome(column=column, most=int(upward(most)), dispersion=dispersion)
        return CountOutcome(
            column=column,
            most=int(upward(most)),
            dispersion=dispersion,
            exposure=unused_name("exposure", (column, *self._covariates)),
            max_exposure=upward(float(target["exposure"].max())),
        )

    def _per(self) -> float:
        """Return over how much exposure the model tells a rate."""
        outcome = self.study_.outcome
        return outcome.per if isinstance(outcome, CountOutcome) else 1.0

    def _show_coefficients(self, coefficients: Floats) -> Floats:
        if _of_count(self.study_.outcome):
            return coefficients
        effect = self.study_.family.effect
        return np.array([effect(coefficient) for coefficient in coefficients], dtype=np.float64)

    def _show_intercept(self, intercept: float) -> float:
        inverse = self.study_.family.link.inverse
        if _of_count(self.study_.outcome):
            return intercept + float(np.log(inverse(np.zeros(1))[0] / self._per()))
        return float(inverse(np.array([intercept]))[0])

    def predict(self, X: Any) -> Floats:
        """Return the expected outcome of every patient, shape (n_rows,).

        Of counts that is the rate, the expected count over one unit of exposure, as of
        scikit-learn's ``PoissonRegressor``: times a patient's exposure it is the expected count.
        NaN where a value that the study does not foresee leaves no prediction.
        """
        check_is_fitted(self)
        return self._asked.predict(self._columns(X)) / self._per()

    def predict_interval(self, X: Any, level: float = 0.95, *, exposure: Any = None) -> Floats:
        """Return between what new patients' outcomes lie, shape (n_rows, 2).

        The prediction plus and minus what held-out patients were off at most in a share `level`
        of cases (split conformal prediction): equally wide for all patients, and right on
        average over patients like those held out, whatever the distribution. Of counts, quantiles
        of the negative binomial distribution of the predicted mean, with the dispersion of
        held-out patients, or the θ that was learnt. So the fit must hold patients out:
        ``holdout=0.2``.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
        level : {0.8, 0.95}
        exposure : float or (n_rows,), optional
            Of counts: over how long they are; 1 if left out.

        Raises
        ------
        FedRuleFitError
            If the model's evaluation does not tell.
        """
        check_is_fitted(self)
        if level not in (0.8, 0.95):
            raise ValueError(f"level must be 0.8 or 0.95, which evaluations tell, not {level!r}")
        evaluation = self.model_.evaluation
        if evaluation is None:
            raise FedRuleFitError(
                f"{self.model_.unjudged.lower()}, so how far a prediction may be off is not "
                "known: fit with holdout=0.2, or more"
            )
        if _of_count(self.study_.outcome):
            return self._count_interval(X, level, exposure)
        if exposure is not None:
            raise TypeError("exposure is of counts: this model predicts a number")
        reach = getattr(evaluation.total, f"reach_{100 * level:.0f}", np.nan)
        if np.isnan(reach):
            raise FedRuleFitError(
                f"too few patients were held out to tell an interval of level {level:g}: fit with "
                "a larger holdout, or take a lower level"
            )
        predicted = self.predict(X)
        return np.column_stack([predicted - reach, predicted + reach])

    def _count_interval(self, X: Any, level: float, exposure: Any) -> Floats:
        """Return between what counts over an exposure lie."""
        mean = self.predict(X) * (1.0 if exposure is None else np.asarray(exposure, dtype=float))
        for dispersion in self.model_.range_facts:
            spread = self.model_.family.judge.spread_at(mean, dispersion)  # type: ignore[attr-defined]
            return find_count_range(mean, spread, level)
        raise FedRuleFitError(
            "too few events were held out to tell how counts vary: fit with a larger holdout"
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, exposure: Any = None) -> float:
        """Return R², or of counts D², the share of the Poisson deviance that is explained.

        Poisson's judges predicted rates fairly, whatever the counts vary by.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
        y : (n_rows,)
        sample_weight : (n_rows,), optional
        exposure : (n_rows,), optional
            Of counts, as in :meth:`fit`.
        """
        check_is_fitted(self)
        if not _of_count(self.study_.outcome):
            if exposure is not None:
                raise DataError("exposure= is for counts: leave it out")
            return float(super().score(X, y, sample_weight))
        counts = read_numbers(y, "y", example="admissions")
        time = np.ones(len(counts)) if exposure is None else read_exposure(exposure)
        weights = time if sample_weight is None else time * np.asarray(sample_weight)
        # Deviances of counts are those of rates, times the exposure.
        return float(
            d2_tweedie_score(counts / time, self.predict(X), sample_weight=weights, power=1)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.loss in COUNTS
        return tags


def _of_count(outcome: AnyOutcome) -> bool:
    return isinstance(outcome, CountOutcome)


def check_counts(y: Floats) -> None:
    """Refuse what is no count."""
    n_negative, n_broken = int((y < 0).sum()), int((y % 1 != 0).sum())
    if n_negative:
        raise DataError(
            f"{n_negative} of {len(y)} values of y are negative, and counts start at 0: check y, "
            "or learn a number (loss='squared')"
        )
    if n_broken:
        raise DataError(
            f"{n_broken} of {len(y)} values of y are no whole numbers: give counts, and as "
            "exposure= the time over which they were counted; or learn a number (loss='squared')"
        )


def read_exposure(exposure: Any) -> Floats:
    """Return the exposure of every row, above 0, shape (n_rows,)."""
    found = read_numbers(exposure, "exposure", example="days")
    n_none = int((found <= 0).sum())
    if n_none:
        raise DataError(
            f"{n_none} of {len(found)} exposures are 0 or negative, in which nothing can be "
            "counted: fill in over how long was counted, or leave these patients out"
        )
    return found


@takes_settings(elsewhere=SETTINGS_OF_SITES)
class FederatedRuleFitRegressor(AtSites, Regression):
    """Federated RuleFit of a number or a count, with all sites in this process.

    Parameters left at None are the preset's (or the study's).

    Parameters
    ----------
    **settings

    Attributes
    ----------
    **attributes

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fedrulefit import FederatedRuleFitRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> sites = ["north", "south"] * 221
    >>> model = FederatedRuleFitRegressor(n_trees=50, penalty=0.01, noise=False, random_state=0)
    >>> model = model.fit(X, y, sites=sites)
    >>> bool(model.score(X, y) > 0.4)
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
        exposure: Any = None,
    ) -> Self:
        """Learn one model over all sites.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
            NaN is missing. What its types do not say of a column is guessed, and said in a
            :class:`~fedrulefit.errors.ReadingWarning`.
        y : (n_rows,)
            Numbers; with a loss of counts whole numbers from 0. Without a study their
            range, rounded outward, counts as public.
        sites : (n_rows,), optional
            The site of every patient; without it, all are one site.
        sample_weight : (n_rows,), optional
            How many patients a row stands for.
        patients : (n_rows,), optional
            Whose each row is, where a patient may have several: they stay in one fold and count
            as one patient wherever patients must be enough. Without it every row is a patient.
        exposure : (n_rows,), optional
            Of counts: the time, or whatever else, over which was counted. Without it, it is the
            same for all, and counts as 1.
        """
        return self._fit(
            X, y, sites=sites, sample_weight=sample_weight, patients=patients, exposure=exposure
        )


@takes_settings(elsewhere=settings_of_pooled("FederatedRuleFitRegressor"))
class RuleFitRegressor(Pooled, Regression):
    """Centralised RuleFit of a number or a count: pooled data, no noise.

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
    >>> from sklearn.datasets import load_diabetes
    >>> from fedrulefit import RuleFitRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = RuleFitRegressor(n_trees=50, penalty=0.01, holdout=0.2, random_state=0).fit(X, y)
    >>> low, high = model.predict_interval(X[:1], level=0.8)[0]
    >>> bool(low < model.predict(X[:1])[0] < high)
    True
    """

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        patients: Any = None,
        exposure: Any = None,
    ) -> Self:
        """Learn a model from pooled data; see :class:`FederatedRuleFitRegressor`."""
        return self._fit(X, y, sample_weight=sample_weight, patients=patients, exposure=exposure)
