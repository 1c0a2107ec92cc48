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
from fedrulefit.privacy.mechanisms import Noise, UnsafeSeededLaplace
from fedrulefit.study import Level, Study
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
        categorical: Sequence[str | int] | None = None,
        ordered: Mapping[str | int, Sequence[Level]] | None = None,
        missing: Mapping[str | int, Sequence[Level]] | Sequence[Level] | None = None,
        preset: str | None = None,
        unsafe_noise_seed: int | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        **settings: Any,
    ) -> None:
        self.study = study
        self.categorical = categorical
        self.ordered = ordered
        self.missing = missing
        self.preset = preset
        self.unsafe_noise_seed = unsafe_noise_seed
        self.n_jobs = n_jobs
        self.random_state = random_state
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
        where there are more (254 where `n_cutoffs` is None); ``histogram`` the same grid
        as one federated site without noise.
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
        categorical: Sequence[str | int] | None = None,
        ordered: Mapping[str | int, Sequence[Level]] | None = None,
        missing: Mapping[str | int, Sequence[Level]] | Sequence[Level] | None = None,
        preset: str | None = None,
        cutoffs: Literal["exact", "histogram"] = "exact",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        **settings: Any,
    ) -> None:
        self.study = study
        self.categorical = categorical
        self.ordered = ordered
        self.missing = missing
        self.preset = preset
        self.cutoffs = cutoffs
        self.n_jobs = n_jobs
        self.random_state = random_state
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

    def _grid(self, table: Table, study: Study) -> Grid | None:
        if self.cutoffs == "histogram":
            return None
        return pooled_grid(table, study)
