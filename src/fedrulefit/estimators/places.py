"""Where the patients of an estimator are: at sites, with noise between them, or pooled.

Both run the same protocol as real hospitals do; nothing is implemented twice.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from sklearn.utils import Tags

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.grid import Grid
from fedrulefit.estimators.base import RuleFitBase
from fedrulefit.estimators.grids import pooled_grid
from fedrulefit.privacy.mechanisms import Noise, UnsafeSeededLaplace
from fedrulefit.study import Settings, Study
from fedrulefit.table.patients import Table

_SEED: Final = "give 'random_state'"

SETTINGS_OF_SITES: Final = {"seed": _SEED}
"""Settings that are no parameters where patients are at sites, and what to do instead."""


def settings_of_pooled(federated: str) -> dict[str, str]:
    """Return settings that are no parameters where patients are pooled; who has them is named."""
    no_noise = f"pooled patients leave no site, so there is no noise; {federated} has it"
    return {"seed": _SEED, **dict.fromkeys(("noise", "epsilon_total", "epsilon"), no_noise)}


class AtSites(RuleFitBase):
    """All sites in this process, as they would be between hospitals.

    Parameters
    ----------
    unsafe_noise_seed : int, optional
        Makes the privacy noise reproducible, and thereby worthless. For tests.
    """

    def __init__(self, *, unsafe_noise_seed: int | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.unsafe_noise_seed = unsafe_noise_seed

    def _noise(self, site: str) -> Noise | None:
        if self.unsafe_noise_seed is None:
            return None
        return UnsafeSeededLaplace(self.unsafe_noise_seed, site)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        noise = getattr(self, "noise", None)
        tags.non_deterministic = noise is not False and self.unsafe_noise_seed is None
        return tags


class Pooled(RuleFitBase):
    """One site without noise: centralised RuleFit, cut-offs from the data themselves.

    Parameters
    ----------
    cutoffs : {"exact", "histogram"}
        ``exact`` takes the roundest numbers between the values themselves (with
        ``cutoff_style="quantile"`` every distinct value, or `n_cutoffs` quantiles where there are
        more); ``histogram`` the same grid as one federated site without noise. Where `n_cutoffs`
        is None, it is 254 for ``exact``, or as many as `max_candidates` allows every covariate as
        candidate rules, but not fewer than 48.
    """

    n_cutoffs: int | None

    def __init__(
        self, *, cutoffs: Literal["exact", "histogram"] = "exact", **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.cutoffs = cutoffs

    def _more_settings(self) -> dict[str, Any]:
        if self.cutoffs not in ("exact", "histogram"):
            raise ValueError(f"cutoffs must be 'exact' or 'histogram', not {self.cutoffs!r}")
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
