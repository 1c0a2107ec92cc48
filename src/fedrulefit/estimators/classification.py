"""Classes: :class:`FederatedRuleFitClassifier` and :class:`RuleFitClassifier`.

The first is the paper's method with all sites in this process: for trying a study out before
hospitals run it between themselves. The second is the paper's centralised RuleFit.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from fedrulefit.core.arrays import Floats
from fedrulefit.estimators.base import RuleFitBase
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.estimators.places import (
    SETTINGS_OF_SITES,
    AtSites,
    Pooled,
    settings_of_pooled,
)
from fedrulefit.estimators.targets import Target, encode_classes, name_event
from fedrulefit.estimators.weights import ClassWeight, PatientWeights, weigh_by_class
from fedrulefit.study import YesNoOutcome
from fedrulefit.study.outcomes import AnyOutcome


class Classification(ClassifierMixin, RuleFitBase):
    """Learns which of two classes a patient has.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        What a patient of each class counts, times `sample_weight`; classes that a dict does not
        name count 1. "balanced" gives both classes half of the total, counted over all sites: only
        here, where all patients lie in this process; a study of real hospitals has no such
        setting. Weights enter everything that is summed: histograms (whose noise grows with the
        largest weight), trees, λ, supports and the evaluation; the gate counts patients. Predicted
        probabilities, and the rates that the model tells, are then of the weighted patients, no
        longer calibrated for real ones.

    Attributes
    ----------
    classes_ : (2,) array
    coef_ : (1, n_terms) float64
        Of :meth:`transform`'s columns: one per term, not per column of X. scikit-learn's feature
        selectors get `feature_importances_`.
    intercept_ : (1,) float64
    """

    _kinds = ("yes/no",)

    def __init__(self, *, class_weight: ClassWeight = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.class_weight = class_weight

    def _read_target(self, y: Any, **parts: Any) -> Target:
        self.classes_, places = encode_classes(y, asker=self)
        return {"outcome": places}

    def _declare_outcome(self, column: str, target: Target) -> AnyOutcome:
        negative, positive = (str(label) for label in self.classes_)
        label = name_event(self.classes_, column)
        return YesNoOutcome(column=column, positive=positive, negative=negative, label=label)

    def _weigh(self, given: Floats | None, target: Target) -> PatientWeights | None:
        own = super()._weigh(given, target)
        return weigh_by_class(own, self.class_weight, self.classes_, target["outcome"])

    def _show_coefficients(self, coefficients: Floats) -> Floats:
        return coefficients[None, :]

    def _show_intercept(self, intercept: float) -> Floats:
        return np.array([intercept])

    def decision_function(self, X: Any) -> Floats:
        """Return the linear predictor F(x), the logarithm of the odds, shape (n_rows,)."""
        return self._predictor(X)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of either class, shape (n_rows, 2).

        They are those of ``model_``, row by row: NaN where a value that the study does not
        foresee leaves no prediction.
        """
        check_is_fitted(self)
        positive = self.model_.predict_proba(self._columns(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class, shape (n_rows,); None where there is no prediction."""
        predictor = self.decision_function(X)
        predicted: npt.NDArray[Any] = self.classes_[(predictor > 0).astype(np.intp)]
        refused = np.isnan(predictor)
        if refused.any():
            predicted = predicted.astype(object)
            predicted[refused] = None
        return predicted

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@takes_settings(elsewhere=SETTINGS_OF_SITES)
class FederatedRuleFitClassifier(AtSites, Classification):
    """Federated RuleFit, with all sites in this process.

    By default the exact solver with cross-validated λ; ``preset="paper"`` is
    the paper's method, number by number.

    Parameters left at None are the preset's (or the study's).

    Parameters
    ----------
    **settings

    Attributes
    ----------
    **attributes

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

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sites: Any = None,
        sample_weight: Any = None,
        patients: Any = None,
    ) -> Self:
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
        return self._fit(X, y, sites=sites, sample_weight=sample_weight, patients=patients)


@takes_settings(elsewhere=settings_of_pooled("FederatedRuleFitClassifier"))
class RuleFitClassifier(Pooled, Classification):
    """Centralised RuleFit: pooled data, no noise.

    By default the exact solver with cross-validated λ; ``preset="paper"`` is
    the paper's.

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
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedrulefit import RuleFitClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = RuleFitClassifier(n_trees=50, penalty=0.01, random_state=0).fit(X, y)
    >>> model.transform(X).shape == (569, len(model.rules_))
    True
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, patients: Any = None) -> Self:
        """Learn a model from pooled data; see :class:`FederatedRuleFitClassifier`."""
        return self._fit(X, y, sample_weight=sample_weight, patients=patients)
