"""A fitted estimator's terms: columns, coefficients and importances, as scikit-learn has them.

A RuleFit is a regression on columns that it made itself: its rules and linear terms. So a fitted
estimator also is a transformer to these columns, and ``coef_`` and ``intercept_`` are those of a
linear model on them: of a classifier as scikit-learn's linear classifiers have them, of others
one-dimensional, and on the scale of what is predicted. What counts the columns of X
(``feature_importances_``, ``variable_importance_``) is in the order of X.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from fedrulefit.core.arrays import Floats
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.matrix import term_matrix
from fedrulefit.model.prediction import read_patients
from fedrulefit.study import Study

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.table.sources import Source


class TermsMixin(TransformerMixin):
    """What a fitted estimator tells of its terms."""

    model_: Model
    study_: Study

    def _columns(self, X: Any) -> Source:
        raise NotImplementedError

    def transform(self, X: Any) -> Floats:
        """Return the terms that the model kept as columns, most important first.

        A rule is 1 where it holds and 0 elsewhere. A linear term is as the model uses it:
        winsorised, centred, in spreads. Candidates with a coefficient of 0 are left out.
        Rows are read as for a prediction; a patient who gets none has NaN.
        Times `coef_`, plus `intercept_`, they are the linear predictor of a patient: it grows
        with what is predicted.

        Parameters
        ----------
        X : data frame or array, shape (n_rows, n_features)

        Returns
        -------
        columns : (n_rows, n_terms) float64, or what ``set_output`` asks for
        """
        check_is_fitted(self)
        return term_matrix(self.model_, read_patients(self.model_, self._columns(X)))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of :meth:`transform`'s columns, shape (n_terms,).

        A rule's name is its wording in `rules_`, a linear term's the name of its covariate; where
        each class has terms of its own, that is the wording of both.

        Parameters
        ----------
        input_features : array of str, optional
            Only checked: the rules are worded by the names of the fit.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = self.study_.names
        return np.array(
            [
                self.model_.describe(term)
                if isinstance(term, RuleTerm) or term.level is not None
                else names[term.feature]
                for term in self.model_.terms
            ],
            dtype=object,
        )

    @property
    def coef_(self) -> Floats:
        """Coefficients of the terms, in the order of :meth:`transform`.

        Shape (n_terms,), of a classifier (1, n_terms), or of more than two classes without an
        order (n_classes, n_terms). Not one per column of X: scikit-learn's
        feature selectors get `feature_importances_`.
        """
        check_is_fitted(self)
        # With ``importance_getter="auto"`` selectors take coef_ first, for one number per column
        # of X, and do not count: they would silently drop the wrong columns.
        if sys._getframe(1).f_globals.get("__name__", "").startswith("sklearn.feature_selection"):
            raise AttributeError(
                "coef_ has one entry per term, not per column of X: use "
                "importance_getter='feature_importances_'"
            )
        terms = [term.coefficient for term in self.model_.terms]
        return self._show_coefficients(np.array(terms, dtype=np.float64))

    @property
    def intercept_(self) -> Any:
        """The intercept: a float, of a classifier an array, as long as `coef_`."""
        check_is_fitted(self)
        return self._show_intercept(self.model_.intercept)

    def _show_coefficients(self, coefficients: Floats) -> Floats:
        """Return coefficients of F, shape (n_terms,), as this kind of estimator has them."""
        return coefficients

    def _show_intercept(self, intercept: float) -> Any:
        """Return the intercept of F, as this kind of estimator has it."""
        return intercept

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each column of X (paper 2.3), shape (n_features,); they sum to 1.

        All are 0 in a model without terms.
        """
        check_is_fitted(self)
        importance = self.model_.variable_importance()
        return importance / (importance.sum() or 1.0)

    @property
    def rules_(self) -> pd.DataFrame:
        """The terms of the model, most important first."""
        check_is_fitted(self)
        return self.model_.rules_frame()

    @property
    def variable_importance_(self) -> pd.Series[float]:
        """Importance of every covariate (paper 2.3), on the scale of F, in the order of X."""
        import pandas as pd

        check_is_fitted(self)
        return pd.Series(self.model_.variable_importance(), index=list(self.study_.names))
