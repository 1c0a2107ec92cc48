"""scikit-learn estimators over the embedded engine.

:class:`FederatedRuleFitClassifier` is the paper's method with all sites in this
process: for trying a study out before hospitals run it between themselves.
:class:`RuleFitClassifier` is the paper's centralised RuleFit: one site, no
noise, cut-offs from the data themselves. Both run the same protocol as real
hospitals do; nothing is implemented twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from sklearn.utils import Tags

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.grid import Grid
from fedrulefit.estimators.base import RuleFitBase
from fedrulefit.estimators.grids import pooled_grid
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.estimators.weights import ClassWeight
from fedrulefit.privacy.mechanisms import Noise, UnsafeSeededLaplace
from fedrulefit.study import Level, Settings, Study
from fedrulefit.table.patients import Table

_SEED: Final = "give 'random_state'"
_NO_NOISE: Final = (
    "pooled patients leave no site, so there is no noise; FederatedRuleFitClassifier has it"
)


@takes_settings(elsewhere={"seed": _SEED})
class FederatedRuleFitClassifier(RuleFitBase):
    """Federated RuleFit, with all sites in this process.

    By default the exact solver with cross-validated λ; ``preset="paper"`` is
    the paper's method, number by number.

    Parameters left at None are the preset's (or the study's).

    Parameters
    ----------
    study : Study, optional
        Declares public ranges, levels and units. Without one they are read
        off X, which no ε covers; the model's privacy bill says so.
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
    preset : {"default", "paper"}, optional
        Named settings, see :data:`fedrulefit.study.PRESETS`.
    unsafe_noise_seed : int, optional
        Makes the privacy noise reproducible, and thereby worthless. For tests.
    class_weight : dict, "balanced" or None
        What a patient of each class counts, times `sample_weight`; classes that a dict does not
        name count 1. "balanced" gives both classes half of the total, counted over all sites: only
        here, where all patients lie in this process; a study of real hospitals has no such
        setting. Weights enter everything that is summed: histograms (whose noise grows with the
        largest weight), trees, λ, supports and the evaluation; the gate counts patients. Predicted
        probabilities, and the rates that the model tells, are then of the weighted patients, no
        longer calibrated for real ones.
    n_jobs : int, optional
        Sites that work at the same time; -1 for one per core.
    random_state : int, RandomState or None
        Gives the setting `seed`: of leaf counts, subsamples, folds and held-out patients,
        never of privacy noise.
    verbose : int
        1 prints a line for each phase of the fit, 2 one for each round.
    **settings

    Attributes
    ----------
    model_ : Model
    rules_ : DataFrame
        See :meth:`Model.rules_frame`: a row per term, most important first.
    coef_ : (1, n_terms) float64
        Of :meth:`transform`'s columns: one per term, not per column of X. scikit-learn's feature
        selectors get `feature_importances_`.
    intercept_ : (1,) float64
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
        categorical: Sequence[str | int] | None = None,
        ordered: Mapping[str | int, Sequence[Level]] | None = None,
        missing: Mapping[str | int, Sequence[Level]] | Sequence[Level] | None = None,
        preset: str | None = None,
        unsafe_noise_seed: int | None = None,
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        self.study = study
        self.categorical = categorical
        self.ordered = ordered
        self.missing = missing
        self.preset = preset
        self.unsafe_noise_seed = unsafe_noise_seed
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sites: Any = None,
        sample_weight: Any = None,
        patients: Any = None,
    ) -> FederatedRuleFitClassifier:
        """Learn one model over all sites.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)
            NaN is missing. What its types do not say of a column is guessed, and said in a
            :class:`~fedrulefit.errors.ReadingWarning`.
        y : (n_rows,)
            Two classes; the larger label is the event.
        sites : (n_rows,), optional
            The site of every patient; without it, all are one site.
        sample_weight : (n_rows,), optional
            How many patients a row stands for.
        patients : (n_rows,), optional
            Whose each row is, where a patient may have several: they stay in one fold and count
            as one patient wherever patients must be enough. Without it every row is a patient.
        """
        fitted: FederatedRuleFitClassifier = self._fit(X, y, sites, sample_weight, patients)
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
class RuleFitClassifier(RuleFitBase):
    """Centralised RuleFit: pooled data, no noise.

    By default the exact solver with cross-validated λ; ``preset="paper"`` is
    the paper's.

    Parameters left at None are the preset's (or the study's). `noise`, `epsilon_total` and
    `epsilon` are none of them: the patients are pooled already, and nothing is released.

    Parameters
    ----------
    study : Study, optional
        Declares levels and units, as for :class:`FederatedRuleFitClassifier`.
    categorical, ordered, missing : optional
        How columns are read, as for :class:`FederatedRuleFitClassifier`.
    preset : {"default", "paper"}, optional
    cutoffs : {"exact", "histogram"}
        ``exact`` takes every distinct value as a cut-off, or `n_cutoffs` quantiles
        where there are more; ``histogram`` the same grid as one federated site without
        noise. Where `n_cutoffs` is None, ``exact`` takes 254 at most, or as many as
        `max_candidates` allows every covariate as candidate rules, but not fewer than 32.
    class_weight : dict, "balanced" or None
        As for :class:`FederatedRuleFitClassifier`: probabilities are then not calibrated.
    n_jobs : int, optional
        Accepted for symmetry; one site works alone.
    random_state : int, RandomState or None
        Gives the setting `seed`, as for :class:`FederatedRuleFitClassifier`.
    verbose : int
        1 prints a line for each phase of the fit, 2 one for each round.
    **settings

    Attributes
    ----------
    model_, rules_, coef_, feature_importances_, history_, study_, classes_, ...
        As for :class:`FederatedRuleFitClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedrulefit import RuleFitClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = RuleFitClassifier(n_trees=50, penalty=0.01, random_state=0).fit(X, y)
    >>> model.transform(X).shape == (569, len(model.rules_))
    True
    """

    def __init__(
        self,
        *,
        study: Study | None = None,
        categorical: Sequence[str | int] | None = None,
        ordered: Mapping[str | int, Sequence[Level]] | None = None,
        missing: Mapping[str | int, Sequence[Level]] | Sequence[Level] | None = None,
        preset: str | None = None,
        cutoffs: Literal["exact", "histogram"] = "exact",
        class_weight: ClassWeight = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        **settings: Any,
    ) -> None:
        self.study = study
        self.categorical = categorical
        self.ordered = ordered
        self.missing = missing
        self.preset = preset
        self.cutoffs = cutoffs
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, patients: Any = None
    ) -> RuleFitClassifier:
        """Learn a model from pooled data; see :class:`FederatedRuleFitClassifier`."""
        if self.cutoffs not in ("exact", "histogram"):
            raise ValueError(f"cutoffs must be 'exact' or 'histogram', not {self.cutoffs!r}")
        fitted: RuleFitClassifier = self._fit(X, y, None, sample_weight, patients)
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
