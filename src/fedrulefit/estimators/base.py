"""What both estimators share: from X, y and weights to a fitted model, and to predictions.

In: what scikit-learn's users give. Out: a study and a table, which the embedded engine fits, and
the attributes of a fitted estimator. What is read of X is in ``reading.py``, of y and sites in
``targets.py``; the terms as columns and coefficients are in ``linear.py``.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
)

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Grid
from fedrulefit.engines import inprocess
from fedrulefit.errors import FitError
from fedrulefit.estimators.again import Earlier
from fedrulefit.estimators.grids import pooled_shares
from fedrulefit.estimators.linear import TermsMixin
from fedrulefit.estimators.naming import name_columns
from fedrulefit.estimators.reading import (
    check_counts,
    check_study,
    infer_table,
    read_declared,
    refuse_beside_study,
    unused_name,
)
from fedrulefit.estimators.repeated import check_repeated, declare_patient, rows_each
from fedrulefit.estimators.targets import (
    check_folds,
    encode_classes,
    name_event,
    read_patients,
    read_sites,
)
from fedrulefit.estimators.telling import tell_progress
from fedrulefit.estimators.weights import PatientWeights, weigh_patients
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.study import (
    Outcome,
    Settings,
    Study,
    Weight,
    override_settings,
    resolve_settings,
)
from fedrulefit.table.patients import Table
from fedrulefit.table.sources import Source

if TYPE_CHECKING:
    import pandas as pd


class RuleFitBase(TermsMixin, ClassifierMixin, BaseEstimator):
    """What both estimators share; not for use by itself."""

    _earlier: Earlier | None = None
    """The fit that this one goes on from; only while it fits."""

    def _more_settings(self) -> dict[str, Any]:
        return {}

    def _planned(self, study: Study) -> Study:
        """Return the study with what follows from how wide it is."""
        return study

    def _grid(self, table: Table, study: Study) -> Grid | None:
        return None

    def _noise(self, site: str) -> Noise | None:
        return None

    def _fit(self, X: Any, y: Any, sites: Any, sample_weight: Any, patients: Any) -> Any:
        check_study(self.study)
        given: Floats | None = None
        if sample_weight is not None:
            given = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        values = self._read_training(X, given)
        self.classes_, outcome = encode_classes(y, asker=self)
        check_consistent_length(values, outcome)
        labels = read_sites(sites, len(values))
        weighed = weigh_patients(given, self.class_weight, self.classes_, outcome, study=self.study)
        weights = np.ones(len(values)) if weighed is None else weighed.values
        counted = weights > 0
        labels, whose = labels[counted], read_patients(patients, len(values))
        table = Table(values, outcome, weights, whose).take(counted)
        if whose is None:
            check_repeated(table)
        study = self._study(weighed, rows_each(table, labels))
        if self._earlier is None:
            study = self._planned(study)
            _warn_of_width(study, table.weights.sum(), len(np.unique(labels)))
        if study.settings.penalty == "cv":
            check_folds(table.people.outcome, study.settings.folds)
        self._learn(study, table, labels)
        return self

    def _learn(self, study: Study, table: Table, labels: npt.NDArray[np.str_]) -> None:
        tables = {name: table.take(labels == name) for name in np.unique(labels).tolist()}
        tell = tell_progress(type(self).__name__, self.verbose)
        if self._earlier is not None:
            fitted = self._earlier.fit_again(
                study, tables, n_threads=_threads(self.n_jobs), on_progress=tell
            )
        else:
            fitted = inprocess.fit(
                study,
                tables,
                grid=self._grid(table, study),
                make_noise=self._noise,
                n_threads=_threads(self.n_jobs),
                on_progress=tell,
            )
        self.model_ = fitted.model
        if fitted.model.distribution is None:
            shares = pooled_shares(table, fitted.model.grid)
            self.model_ = replace(fitted.model, distribution=shares)
        self.ledgers_ = {name: tuple(led.releases) for name, led in fitted.ledgers.items()}
        self.candidates_ = fitted.candidates
        self.study_ = study
        self.history_ = np.array(self.model_.provenance.history)
        self.n_iter_ = self.model_.provenance.rounds
        self._check_converged(study.settings)

    def _check_converged(self, settings: Settings) -> None:
        residual = self.model_.provenance.certificate.residual
        if settings.solver == "exact" and residual > settings.tolerance:
            warnings.warn(
                f"the exact solver stopped at a residual of {residual:.2g}, above 'tolerance' "
                f"({settings.tolerance:g}): raise 'max_rounds' (now {settings.max_rounds}), or use "
                "a larger 'penalty' where the outcomes are separated perfectly",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _read_training(self, X: Any, weights: Floats | None) -> Floats:
        asked = {name: getattr(self, name) for name in ("categorical", "ordered", "missing")}
        if self.study is not None:
            refuse_beside_study(**asked)
            return read_declared(X, self.study, asker=self, reset=True)
        rows = None if weights is None else weights > 0
        self._covariates, values = infer_table(X, asker=self, rows=rows, **asked)
        return values

    def _columns(self, X: Any) -> Source:
        """Return X with a name for each column, for the model to read like any table."""
        return name_columns(X, list(self.study_.covariates), asker=self, reset=False)

    def _study(self, weighed: PatientWeights | None, max_rows: int | None) -> Study:
        covariates = self._covariates if self.study is None else self.study.covariates
        weight, patient = None, declare_patient(self.study, max_rows, covariates)
        if weighed is not None:
            check_counts(weighed.values)
            column = unused_name("sample_weight", covariates)
            if self.study is not None and self.study.weight is not None:
                column = self.study.weight.column
            weight = Weight(column=column, max=weighed.largest)
        if self.study is not None:
            facts = self.study.model_dump()
            if weighed is not None:
                facts["weight"] = weight
                facts["ranges_from_data"] |= weighed.from_data
            if patient is not None and self.study.patient is None:
                facts |= {"patient": patient, "ranges_from_data": True}
            return Study.model_validate({**facts, "settings": self._resolve(self.study.settings)})
        negative, positive = (str(label) for label in self.classes_)
        column = unused_name("outcome", covariates)
        label = name_event(self.classes_, column)
        outcome = Outcome(column=column, positive=positive, negative=negative, label=label)
        return Study(
            name=type(self).__name__,
            ranges_from_data=True,
            outcome=outcome,
            covariates=dict(covariates),
            weight=weight,
            patient=patient,
            settings=self._resolve(None),
        )

    def _resolve(self, base: Settings | None) -> Settings:
        if self._earlier is not None:
            return self._earlier.settings(self.penalty)
        given = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name in Settings.model_fields and value is not None
        }
        given |= self._more_settings()
        if base is None or self.preset is not None:
            given["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
            return resolve_settings(self.preset, **given)
        if self.random_state is not None:
            given["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        return override_settings(base, given)

    def with_penalty(self, penalty: float, X: Any, y: Any, **fit_params: Any) -> Self:
        """Return a copy that is fitted with another λ, on the same rules.

        No tree is grown, no histogram made and no noise drawn again: only coefficients are
        found anew, and what follows from them (importances, supports, certificate,
        evaluation). Without noise the copy is what a fit with this `penalty` would be. A fitted
        estimator keeps the candidate rules (`candidates_`), but no patient, so the patients are
        given again. The λs that cross-validation tried are in ``model_.path_frame()``.

        Parameters
        ----------
        penalty : float
        X, y
            As in :meth:`fit`: the same patients.
        **fit_params
            What else :meth:`fit` was given.

        Returns
        -------
        copy : the same class
            Its ledgers and privacy bill count both fits.

        Raises
        ------
        DataError
            If X is not the table of the fit.
        """
        check_is_fitted(self)
        if isinstance(penalty, str):
            raise ValueError("penalty must be a number: what cross-validation chose is fitted")
        copy: Self = clone(self).set_params(penalty=float(penalty))
        copy._earlier = Earlier(self.model_, self.study_, self.candidates_, self.ledgers_)
        try:
            copy.fit(X, y, **fit_params)
        finally:
            del copy._earlier
        return copy

    def decision_function(self, X: Any) -> Floats:
        """Return the linear predictor F(x), the logarithm of the odds, shape (n_rows,)."""
        check_is_fitted(self)
        return self.model_.decision_function(self._columns(X))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of either class, shape (n_rows, 2).

        They are those of ``model_``, row by row: NaN where a value that the study does not
        foresee leaves no prediction.
        """
        check_is_fitted(self)
        positive = self.model_.predict_proba(self._columns(X))
        return np.column_stack([1 - positive, positive])

    def predict_frame(self, X: Any) -> pd.DataFrame:
        """Return every patient's prediction, and what is unusual about the patient.

        As :meth:`fedrulefit.Model.predict_frame`, for the event, the larger label.
        """
        check_is_fitted(self)
        return self.model_.predict_frame(self._columns(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class, shape (n_rows,); None where there is no prediction."""
        predictor = self.decision_function(X)
        predicted: npt.NDArray[Any] = self.classes_[(predictor > 0).astype(np.intp)]
        refused = np.isnan(predictor)
        if refused.any():
            predicted = predicted.astype(object)
            predicted[refused] = None
        return predicted

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags


def _warn_of_width(study: Study, n_patients: float, n_sites: int) -> None:
    """Say before the work what is left out, and what will be little but noise."""
    if study.plan.problem:
        raise FitError(study.plan.problem)
    told = [study.plan.words()] if study.plan.n_left_out else []
    told.append(study.blur.problem(n_patients, n_sites))
    for words in filter(None, told):
        warnings.warn(words, stacklevel=4)


def _threads(n_jobs: int | None) -> int:
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
