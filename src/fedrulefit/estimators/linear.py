"""A fitted model's terms, as scikit-learn's linear classifiers and feature selectors have them.

In: the fitted model. Out: its importances and tables, in the order of X's columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.utils.validation import check_is_fitted

from fedrulefit.model import Model
from fedrulefit.study import Study

if TYPE_CHECKING:
    import pandas as pd


class TermsMixin:
    """What a fitted estimator tells of its terms."""

    model_: Model
    study_: Study

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
