"""scikit-learn estimators over the embedded engine.

:class:`FederatedRuleFitClassifier` is the paper's method with all sites in this
process: for trying a study out before hospitals run it between themselves.
:class:`RuleFitClassifier` is the paper's centralised RuleFit: one site, no
noise, cut-offs from the data themselves. Both run the same protocol as real
hospitals do; nothing is implemented twice.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
)

from fedrulefit.core.arrays import MAX_CODES, MISSING, Floats
from fedrulefit.core.cutoffs import estimate_shares, exact_grid
from fedrulefit.core.grid import Grid, encode
from fedrulefit.engines import inprocess
from fedrulefit.errors import DataError, FitError
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.estimators.reading import (
    check_counts,
    infer_table,
    read_declared,
    read_inferred,
    unused_name,
)
from fedrulefit.estimators.targets import encode_classes, read_sites
from fedrulefit.privacy.mechanisms import Noise, UnsafeSeededLaplace
from fedrulefit.study import (
    Outcome,
    Settings,
    Study,
    Weight,
    override_settings,
    resolve_settings,
)
from fedrulefit.table.patients import Table

if TYPE_CHECKING:
    import pandas as pd

_SEED: Final = "give 'random_state'"
_NO_NOISE: Final = (
    "pooled patients leave no site, so there is no noise; FederatedRuleFitClassifier has it"
)


class _RuleFit(ClassifierMixin, BaseEstimator):
    """What both estimators share; not for use by itself."""

    def _more_settings(self) -> dict[str, Any]:
        return {}

    def _planned(self, study: Study) -> Study:
        """Return the study with what follows from how wide it is."""
        return study

    def _grid(self, table: Table, study: Study) -> Grid | None:
        return None

    def _noise(self, site: str) -> Noise | None:
        return None

    def _fit(self, X: Any, y: Any, sites: Any, sample_weight: Any) -> Any:
        given: Floats | None = None
        if sample_weight is not None:
            given = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        values = self._read_training(X, given)
        self.classes_, outcome = encode_classes(y, asker=self)
        check_consistent_length(values, outcome)
        labels = read_sites(sites, len(values))
        study = self._planned(self._study(given))
        weights = np.ones(len(values)) if given is None else given
        counted = weights > 0
        table = Table(values[counted], outcome[counted], weights[counted])
        _warn_of_width(study, table.weights.sum(), len(np.unique(labels[counted])))
        self._learn(study, table, labels[counted])
        return self

    def _learn(self, study: Study, table: Table, labels: npt.NDArray[np.str_]) -> None:
        fitted = inprocess.fit(
            study,
            {name: table.take(labels == name) for name in np.unique(labels).tolist()},
            grid=self._grid(table, study),
            make_noise=self._noise,
            n_threads=_threads(self.n_jobs),
        )
        self.model_ = fitted.model
        if fitted.model.distribution is None:
            shares = _pooled_shares(table, fitted.model.grid)
            self.model_ = replace(fitted.model, distribution=shares)
        self.ledgers_ = {name: tuple(led.releases) for name, led in fitted.ledgers.items()}
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
        if self.study is not None:
            return read_declared(X, self.study, asker=self, reset=True)
        rows = None if weights is None else weights > 0
        self._covariates, values = infer_table(X, asker=self, rows=rows)
        return values

    def _read(self, X: Any) -> Floats:
        """Return X as values in the study's coding."""
        if self.study is not None:
            return read_declared(X, self.study, asker=self)
        return read_inferred(X, self.study_.covariates, asker=self)

    def _study(self, weights: Floats | None) -> Study:
        covariates = self._covariates if self.study is None else self.study.covariates
        weight = None
        if weights is not None:
            check_counts(weights)
            weight = Weight(
                column=unused_name("sample_weight", covariates), max=weights.max() or 1.0
            )
        if self.study is not None:
            facts = self.study.model_dump()
            declared = self.study.weight
            if declared is None and weight is not None:
                facts |= {"weight": weight, "ranges_from_data": True}
            if declared is not None and weights is None:
                raise DataError("the study has patient weights: pass them as sample_weight")
            if declared is not None and weights is not None and weights.max() > declared.max:
                raise DataError(f"a weight is above the study's public bound {declared.max:g}")
            return Study.model_validate({**facts, "settings": self._resolve(self.study.settings)})
        negative, positive = (str(label) for label in self.classes_)
        column = unused_name("outcome", covariates)
        outcome = Outcome(column=column, positive=positive, negative=negative)
        return Study(
            name=type(self).__name__,
            ranges_from_data=True,
            outcome=outcome,
            covariates=dict(covariates),
            weight=weight,
            settings=self._resolve(None),
        )

    def _resolve(self, base: Settings | None) -> Settings:
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

    def decision_function(self, X: Any) -> Floats:
        """Return the linear predictor F(x), the logarithm of the odds, shape (n_rows,)."""
        check_is_fitted(self)
        return self.model_.decision_function(self._read(X))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of either class, shape (n_rows, 2)."""
        check_is_fitted(self)
        positive = self.model_.predict_proba(self._read(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class, shape (n_rows,)."""
        chosen = (self.decision_function(X) > 0).astype(np.intp)
        predicted: npt.NDArray[Any] = self.classes_[chosen]
        return predicted

    @property
    def rules_(self) -> pd.DataFrame:
        """The terms of the model, most important first."""
        check_is_fitted(self)
        return self.model_.rules_frame()

    @property
    def variable_importance_(self) -> pd.Series[float]:
        """Importance of every covariate (paper 2.3), largest first."""
        import pandas as pd

        check_is_fitted(self)
        importance = pd.Series(self.model_.variable_importance(), index=list(self.study_.names))
        return importance.sort_values(ascending=False)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags


@takes_settings(elsewhere={"seed": _SEED})
class FederatedRuleFitClassifier(_RuleFit):
    """Federated RuleFit, with all sites in this process.

    By default the exact solver with cross-validated λ; ``preset="paper"`` is
    the paper's method, number by number.

    Parameters left at None are the preset's (or the study's).

    Parameters
    ----------
    study : Study, optional
        Declares public ranges, levels and units. Without one they are read
        off X, which no ε covers; the model's privacy bill says so.
    preset : {"default", "paper"}, optional
        Named settings, see :data:`fedrulefit.study.PRESETS`.
    unsafe_noise_seed : int, optional
        Makes the privacy noise reproducible, and thereby worthless. For tests.
    n_jobs : int, optional
        Sites that work at the same time; -1 for one per core.
    random_state : int, RandomState or None
        Gives the setting `seed`: of leaf counts, subsamples, folds and held-out patients,
        never of privacy noise.
    **settings

    Attributes
    ----------
    model_ : Model
    rules_ : DataFrame
        rule, kind, coefficient, odds_ratio, importance, support.
    variable_importance_ : Series
    history_ : (n_rounds,) float64
        Penalised mean loss, round by round.
    ledgers_ : dict of str to tuple of Release
        What left each site.
    study_ : Study
    classes_ : (2,) array
    n_features_in_ : int
    feature_names_in_ : array of str, where X had names

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedrulefit import FederatedRuleFitClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> sites = ["north", "south", "west"] * 189 + ["north", "south"]
    >>> model = FederatedRuleFitClassifier(n_trees=50, penalty=0.01, random_state=0)
    >>> model = model.fit(X, y, sites=sites)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        *,
        study: Study | None = None,
        preset: str | None = None,
        unsafe_noise_seed: int | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        **settings: Any,
    ) -> None:
        self.study = study
        self.preset = preset
        self.unsafe_noise_seed = unsafe_noise_seed
        self.n_jobs = n_jobs
        self.random_state = random_state
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(
        self, X: Any, y: Any, *, sites: Any = None, sample_weight: Any = None
    ) -> FederatedRuleFitClassifier:
        """Learn one model over all sites.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
            NaN is missing. Text columns are categories.
        y : (n_rows,)
            Two classes; the larger label is the event.
        sites : (n_rows,), optional
            The site of every patient; without it, all are one site.
        sample_weight : (n_rows,), optional
            How many patients a row stands for.
        """
        fitted: FederatedRuleFitClassifier = self._fit(X, y, sites, sample_weight)
        return fitted

    def _noise(self, site: str) -> Noise | None:
        if self.unsafe_noise_seed is None:
            return None
        return UnsafeSeededLaplace(self.unsafe_noise_seed, site)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise is not False and self.unsafe_noise_seed is None
        return tags


@takes_settings(
    elsewhere={
        "seed": _SEED,
        **dict.fromkeys(("noise", "epsilon_total", "epsilon"), _NO_NOISE),
    }
)
class RuleFitClassifier(_RuleFit):
    """Centralised RuleFit: pooled data, no noise.

    By default the exact solver with cross-validated λ; ``preset="paper"`` is
    the paper's.

    Parameters left at None are the preset's (or the study's). `noise`, `epsilon_total` and
    `epsilon` are none of them: the patients are pooled already, and nothing is released.

    Parameters
    ----------
    study : Study, optional
        Declares levels and units, as for :class:`FederatedRuleFitClassifier`.
    preset : {"default", "paper"}, optional
    cutoffs : {"exact", "histogram"}
        ``exact`` takes every distinct value as a cut-off, or `n_cutoffs` quantiles
        where there are more; ``histogram`` the same grid as one federated site without
        noise. Where `n_cutoffs` is None, ``exact`` takes 254 at most, or as many as
        `max_candidates` allows every covariate as candidate rules, but not fewer than 32.
    n_jobs : int, optional
        Accepted for symmetry; one site works alone.
    random_state : int, RandomState or None
        Gives the setting `seed`, as for :class:`FederatedRuleFitClassifier`.
    **settings

    Attributes
    ----------
    model_, rules_, variable_importance_, history_, study_, classes_
        As for :class:`FederatedRuleFitClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedrulefit import RuleFitClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = RuleFitClassifier(n_trees=50, penalty=0.01, random_state=0).fit(X, y)
    >>> list(model.rules_.columns)
    ['rule', 'kind', 'coefficient', 'odds_ratio', 'importance', 'support']
    """

    def __init__(
        self,
        *,
        study: Study | None = None,
        preset: str | None = None,
        cutoffs: Literal["exact", "histogram"] = "exact",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        **settings: Any,
    ) -> None:
        self.study = study
        self.preset = preset
        self.cutoffs = cutoffs
        self.n_jobs = n_jobs
        self.random_state = random_state
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> RuleFitClassifier:
        """Learn a model from pooled data; see :class:`FederatedRuleFitClassifier`."""
        if self.cutoffs not in ("exact", "histogram"):
            raise ValueError(f"cutoffs must be 'exact' or 'histogram', not {self.cutoffs!r}")
        fitted: RuleFitClassifier = self._fit(X, y, None, sample_weight)
        return fitted

    def _more_settings(self) -> dict[str, Any]:
        if self.cutoffs == "exact" and self.n_cutoffs is None:
            return {"noise": False, "n_cutoffs": MAX_CODES - 1}
        return {"noise": False}

    def _planned(self, study: Study) -> Study:
        if self.cutoffs == "exact" and self.n_cutoffs is None and study.plan.n_left_out:
            usual: int = Settings.model_fields["n_cutoffs"].default
            return study.with_settings(n_cutoffs=max(usual, study.plan.share))
        return study

    def _grid(self, table: Table, study: Study) -> Grid | None:
        if self.cutoffs == "histogram":
            return None
        return pooled_grid(table, study)


def pooled_grid(table: Table, study: Study) -> Grid:
    """Return cut-offs at the values themselves, or `n_cutoffs` quantiles of them."""
    settings = study.settings
    return exact_grid(
        table.values,
        table.weights,
        study.bins,
        n_cutoffs=settings.n_cutoffs,
        winsor=settings.winsor,
        centre=settings.centre,
    )


def _pooled_shares(table: Table, grid: Grid) -> tuple[Floats, ...]:
    """Return the share of patients with each code, where no histogram was made."""
    codes = encode(table.values, grid)
    counts = (np.bincount(column, table.weights, minlength=MISSING + 1) for column in codes.T)
    return estimate_shares(
        [
            np.append(found[: axis.n_codes], [] if axis.complete else found[MISSING])
            for found, axis in zip(counts, grid.axes, strict=True)
        ]
    )


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
