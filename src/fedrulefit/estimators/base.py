"""What all estimators share: from X, y and weights to a fitted model, and to predictions.

In: what scikit-learn's users give. Out: a study and a table, which the embedded engine fits, and
the attributes of a fitted estimator. An estimator is this with two more parts: what is learnt
(``classification.py``, ``regression.py``, ``survival.py``) and where the patients are
(``places.py``). What is read of X is in ``reading.py``, of sites and patients in ``targets.py``;
the terms as columns and coefficients are in ``linear.py``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
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
from fedrulefit.engines.pricing import price_wishes
from fedrulefit.errors import DataError, FitError
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
    Target,
    check_folds,
    check_kind,
    encode_outcome,
    read_patients,
    read_sites,
)
from fedrulefit.estimators.telling import tell_progress
from fedrulefit.estimators.weights import PatientWeights, weigh_patients
from fedrulefit.estimators.wishing import add_wishes
from fedrulefit.model import Model
from fedrulefit.model.own_file import OwnBaseline
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.study import (
    Level,
    Settings,
    Study,
    Weight,
    override_settings,
    resolve_settings,
)
from fedrulefit.study.outcomes import AnyOutcome
from fedrulefit.table.outcome import find_events
from fedrulefit.table.patients import Table
from fedrulefit.table.sources import Source

if TYPE_CHECKING:
    import pandas as pd


class RuleFitBase(TermsMixin, BaseEstimator):
    """What all estimators share; not for use by itself.

    Parameters
    ----------
    study : Study, optional
        Declares public ranges, levels and units, and the outcome. Without one they are read
        off X and y, which no ε covers; the model's privacy bill says so.
    categorical : list of str or int, optional
        Columns, by name or position, whose values are levels in no order, such as the codes of
        a blood group. pandas' categories, text and booleans are read as such by themselves;
        numbers are numbers.
    ordered : dict of str or int to list, optional
        Columns whose values are levels in an order, with all of them, the lowest first:
        ``{"nyha": ["I", "II", "III", "IV"]}``. pandas' ordered categories are so by themselves.
    missing : dict of str or int to list, or list, optional
        Codes that stand for a missing value, by column: ``{"gcs": [-9, "unknown"]}``; or of
        all columns: ``[-9]``. NaN, None and empty text always do.
    wishes : dict, optional
        Vetoes, and rules of your own, as in a study file: ``{"direction": {"age": "up"}, "keep":
        ["sex"], "rules": ["age >= 65 & gcs < 9"], "kept_rules": [], "forbidden_rules": [],
        "never": ["ward", ["age", "sex"]], "offset": ["score"]}``. See ``docs/wishes.md``.
    price_wishes : bool
        Whether to tell what each wish costs in cross-validated deviance (``model_.wishes``): that
        needs a further cross-validation for each, and one for all.
    preset : {"default", "paper"}, optional
        Named settings, see :data:`fedrulefit.study.PRESETS`.
    n_jobs : int, optional
        Sites that work at the same time; -1 for one per core.
    random_state : int, RandomState or None
        Gives the setting `seed`: of leaf counts, subsamples, folds and held-out patients,
        never of privacy noise.
    verbose : int
        1 prints a line for each phase of the fit, 2 one for each round.

    Attributes
    ----------
    model_ : Model
    rules_ : DataFrame
        See :meth:`Model.rules_frame`: a row per term, most important first.
    feature_importances_ : (n_features,) float64
        In the order of X's columns; they sum to 1.
    variable_importance_ : Series
        The same on the scale of F (paper 2.3).
    candidates_ : tuple of Rule
        The rules that the fit could choose from.
    history_ : (n_rounds,) float64
        Penalised mean loss, round by round.
    ledgers_ : dict of str to tuple of Release
        What left each site.
    baselines_ : dict of str to OwnBaseline
        Each site's own baseline, with ``baseline="afterwards"`` or ``"site"``; else empty.
    study_ : Study
    n_iter_ : int
        Rounds of communication.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had names
    """

    _kinds: ClassVar[tuple[str, ...]]
    """Kinds of outcomes that are learnt: of a study, if there is one."""

    _earlier: Earlier | None = None
    """The fit that this one goes on from; only while it fits."""

    def __init__(
        self,
        *,
        study: Study | None = None,
        categorical: Sequence[str | int] | None = None,
        ordered: Mapping[str | int, Sequence[Level]] | None = None,
        missing: Mapping[str | int, Sequence[Level]] | Sequence[Level] | None = None,
        wishes: Mapping[str, Any] | None = None,
        price_wishes: bool = False,
        preset: str | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        self.study = study
        self.categorical = categorical
        self.ordered = ordered
        self.missing = missing
        self.wishes = wishes
        self.price_wishes = price_wishes
        self.preset = preset
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        for name, value in settings.items():
            setattr(self, name, value)

    # --- what is learnt ---------------------------------------------------------------------

    def _read_target(self, y: Any, **parts: Any) -> Target:
        """Return y, and what else is told of the outcome, by role."""
        raise NotImplementedError

    def _declare_outcome(self, column: str, target: Target) -> AnyOutcome:
        """Return what is public of an outcome that no study declares."""
        raise NotImplementedError

    def _encode(self, target: Target, study: Study) -> Floats:
        """Return the outcome as ``Table.outcome`` has it."""
        return encode_outcome(target, study)

    def _weigh(self, given: Floats | None, target: Target) -> PatientWeights | None:
        """Return what each row counts; None where all count 1."""
        del target
        return weigh_patients(given, study=self.study)

    # --- where the patients are -------------------------------------------------------------

    def _more_settings(self) -> dict[str, Any]:
        return {}

    def _planned(self, study: Study) -> Study:
        """Return the study with what follows from how wide it is."""
        return study

    def _grid(self, table: Table, study: Study) -> Grid | None:
        return None

    def _noise(self, site: str) -> Noise | None:
        return None

    # --- the fit ----------------------------------------------------------------------------

    def _fit(
        self,
        X: Any,
        y: Any,
        *,
        sites: Any = None,
        sample_weight: Any = None,
        patients: Any = None,
        **parts: Any,
    ) -> Self:
        """Learn; `parts` are what else is told of the outcome, such as an exposure."""
        check_study(self.study)
        check_kind(self.study, self._kinds, asker=self)
        given: Floats | None = None
        if sample_weight is not None:
            given = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        values = self._read_training(X, given)
        target = self._read_target(y, **parts)
        check_consistent_length(values, *target.values())
        labels, whose = read_sites(sites, len(values)), read_patients(patients, len(values))
        weighed = self._weigh(given, target)
        weights = np.ones(len(values)) if weighed is None else weighed.values
        counted = weights > 0
        labels = labels[counted]
        table = Table(values, None, weights, whose).take(counted)
        target = {role: part[counted] for role, part in target.items()}
        study = self._study(weighed, rows_each(table.patients, labels), target)
        table = replace(table, outcome=self._encode(target, study))
        if whose is None:
            check_repeated(table)
        if self._earlier is None:
            study = self._planned(study)
            _warn_of_width(study, table.weights.sum(), len(np.unique(labels)))
        if study.settings.penalty == "cv":
            check_folds(table, study)
        self._learn(study, table, labels)
        return self

    def _learn(self, study: Study, table: Table, labels: npt.NDArray[np.str_]) -> None:
        tables = {
            name: _tell_events(table.take(labels == name), study)
            for name in np.unique(labels).tolist()
        }
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
        if self.price_wishes and self._earlier is None:
            jobs = _threads(self.n_jobs)
            self.model_ = price_wishes(self.model_, tables, n_threads=jobs, on_progress=tell)
        if fitted.model.distribution is None:
            shares = pooled_shares(table, fitted.model.grid)
            self.model_ = replace(self.model_, distribution=shares)
        self.ledgers_ = {name: tuple(led.releases) for name, led in fitted.ledgers.items()}
        self.candidates_ = fitted.candidates
        self.baselines_ = dict(fitted.own_baselines)
        self.study_ = study
        self.history_ = np.array(self.model_.provenance.history)
        self.n_iter_ = self.model_.provenance.rounds
        self._check_converged(study.settings)

    def _check_converged(self, settings: Settings) -> None:
        residual = self.model_.provenance.certificate.residual
        if settings.solver == "exact" and residual > settings.tolerance:
            separable = self.study_.family.separated > -np.inf
            where = " where the outcomes are separated perfectly" if separable else ""
            warnings.warn(
                f"the exact solver stopped at a residual of {residual:.2g}, above 'tolerance' "
                f"({settings.tolerance:g}): raise 'max_rounds' (now {settings.max_rounds}), or use "
                f"a larger 'penalty'{where}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _read_training(self, X: Any, weights: Floats | None) -> Floats:
        asked = {name: getattr(self, name) for name in ("categorical", "ordered", "missing")}
        if self.study is not None:
            refuse_beside_study(**asked, wishes=self.wishes)
            return read_declared(X, self.study, asker=self, reset=True)
        rows = None if weights is None else weights > 0
        self._covariates, values = infer_table(X, asker=self, rows=rows, **asked)
        return values

    def _columns(self, X: Any) -> Source:
        """Return X with a name for each column, for the model to read like any table."""
        return name_columns(X, list(self.study_.covariates), asker=self, reset=False)

    def _study(self, weighed: PatientWeights | None, max_rows: int | None, target: Target) -> Study:
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
        study = Study(
            name=type(self).__name__,
            ranges_from_data=True,
            outcome=self._declare_outcome(unused_name("outcome", covariates), target),
            covariates=dict(covariates),
            weight=weight,
            patient=patient,
            settings=self._resolve(None),
        )
        return study if self.wishes is None else add_wishes(study, self.wishes)

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
        again: Self = clone(self).set_params(penalty=float(penalty))
        again._earlier = Earlier(self.model_, self.study_, self.candidates_, self.ledgers_)
        try:
            again.fit(X, y, **fit_params)
        finally:
            del again._earlier
        return again

    @property
    def _asked(self) -> Model:
        """The model that predicts: of the site of :meth:`at`, or knowingly for a new hospital."""
        check_is_fitted(self)
        at_site = self.model_.hospital is not None and self.model_.hospital.own is not None
        return self.model_ if at_site else self.model_.at(None)

    def at(self, baseline: str | OwnBaseline) -> Self:
        """Return a copy that predicts for patients of one hospital, with its own baseline.

        Without it predictions are for a new hospital, where the setting `baseline` is "afterwards"
        or "site".

        Parameters
        ----------
        baseline : str or OwnBaseline
            A site of the fit (``baselines_``), or another hospital's, of this model
            (:meth:`fedrulefit.Model.estimate_baseline`).
        """
        check_is_fitted(self)
        if isinstance(baseline, str):
            if baseline not in self.baselines_:
                known = ", ".join(self.baselines_) or "none: fit with baseline='afterwards'"
                raise DataError(f"no own baseline of a site {baseline!r}; there are: {known}")
            baseline = self.baselines_[baseline]
        placed = copy(self)
        placed.model_ = self.model_.at(baseline)
        return placed

    def _predictor(self, X: Any) -> Floats:
        """Return F(x), shape (n_rows,); NaN where there is no prediction."""
        return self._asked.decision_function(self._columns(X))

    def predict_frame(self, X: Any) -> pd.DataFrame:
        """Return every patient's prediction, and what is unusual about the patient.

        As :meth:`fedrulefit.Model.predict_frame`.
        """
        return self._asked.predict_frame(self._columns(X))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
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


def _tell_events(table: Table, study: Study) -> Table:
    """Return a site's table with which rows count as with the outcome, as a hospital tells it."""
    return replace(table, events=find_events(table.outcome, table.weights, study))
