"""How well a model predicts patients that it was not learnt from.

In: score sums, over all sites and, where they may be seen, of each
(:mod:`fedrulefit.core.scores`). Out: data frames of the usual measures; the plots in
:mod:`fedrulefit.plot` show the same frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import logit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.scores import (
    Z95,
    Measures,
    ScoreSums,
    calibration_groups,
    count_scores,
    decide,
    measure,
)

if TYPE_CHECKING:
    import pandas as pd

ALL_SITES: Final = "all sites"
THRESHOLDS: Final = tuple(np.round(np.arange(0.01, 1.0, 0.01), 2).tolist())


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model judged on patients that it was not learnt from.

    Parameters
    ----------
    overall : ScoreSums
        Over all sites.
    sites : mapping of str to Measures
        Of each site; empty where only the total is told.
    """

    overall: ScoreSums
    sites: Mapping[str, Measures] = field(default_factory=dict)

    @classmethod
    def of_predictions(
        cls, chance: Floats, outcome: Floats, weights: Floats | None = None
    ) -> Evaluation:
        """Judge predicted probabilities of patients at hand."""
        weights = np.ones(len(chance)) if weights is None else weights
        return cls(count_scores(chance, outcome, weights))

    def metrics_frame(self) -> pd.DataFrame:
        """Return a row for all sites, and for each that can be seen.

        Columns: patients, events, auc with its confidence interval and the bound of
        its discretisation, brier, log_loss, slope and intercept (in the large) of the
        calibration with their confidence intervals, observed and expected share of the
        outcome.
        """
        import pandas as pd

        rows = {ALL_SITES: measure(self.overall), **self.sites}
        return pd.DataFrame([{"site": name, **vars(found)} for name, found in rows.items()])

    def heterogeneity(self) -> float:
        """Return the standard deviation of the sites' AUCs beyond chance (τ).

        DerSimonian and Laird's estimate on the logit scale; NaN with fewer than two
        sites that can be seen.
        """
        usable = [f for f in self.sites.values() if 0 < f.auc_low < f.auc < f.auc_high < 1]
        if len(usable) < 2:
            return float("nan")
        areas = np.array([(found.auc_low, found.auc, found.auc_high) for found in usable])
        low, centre, high = logit(areas).T
        error = (high - low) / (2 * Z95)
        weight = 1 / error**2
        mean = weight @ centre / weight.sum()
        excess = weight @ (centre - mean) ** 2 - (len(usable) - 1)
        scale = weight.sum() - (weight**2).sum() / weight.sum()
        return float(np.sqrt(max(excess / scale, 0.0)))

    def calibration_frame(self, n_groups: int = 10) -> pd.DataFrame:
        """Return the calibration curve: predicted and observed, by groups of the score.

        ``low`` and ``high`` are Wilson's 95 % interval of ``observed``.
        """
        import pandas as pd

        columns = ["predicted", "observed", "patients", "events"]
        frame = pd.DataFrame(calibration_groups(self.overall, n_groups), columns=columns)
        low, high = _wilson(frame["observed"].to_numpy(), frame["patients"].to_numpy())
        frame.insert(2, "low", low)
        frame.insert(3, "high", high)
        return frame

    def decision_frame(self, thresholds: Sequence[float] = THRESHOLDS) -> pd.DataFrame:
        """Return sensitivity, specificity, PPV, NPV and net benefit by threshold."""
        import pandas as pd

        rows = [vars(decide(self.overall, threshold)) for threshold in thresholds]
        return pd.DataFrame(rows).drop_duplicates("threshold", ignore_index=True)

    def words(self) -> str:
        """Return the evaluation in a sentence."""
        found = measure(self.overall)
        return (
            f"On {found.patients:g} patients that it was not learnt from, {found.events:g} of them "
            f"with the outcome: AUC {found.auc:.3f} ({found.auc_low:.3f} to {found.auc_high:.3f}), "
            f"Brier score {found.brier:.3f}, calibration slope {found.slope:.2f}."
        )


def _wilson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval of a share."""
    middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    wide = Z95 * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2)) / (1 + Z95**2 / n)
    return np.minimum(middle - wide, share), np.maximum(middle + wide, share)
