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

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.errors import DataError
from fedrulefit.estimators.base import RuleFitBase
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.estimators.places import (
    SETTINGS_OF_SITES,
    AtSites,
    Pooled,
    settings_of_pooled,
)
from fedrulefit.estimators.targets import (
    Target,
    encode_classes,
    encode_two,
    name_event,
    place_classes,
)
from fedrulefit.estimators.weights import ClassWeight, PatientWeights, weigh_by_class
from fedrulefit.study import PRESETS, ClassesOutcome, Study, YesNoOutcome
from fedrulefit.study.levels import as_level
from fedrulefit.study.outcomes import AnyOutcome


class Classification(ClassifierMixin, RuleFitBase):
    """Learns which of some classes a patient has.

    Of two, the larger label is the event. Of more, each class has rules and linear terms of its
    own; a study may declare that they have an order (kind "ordered"): then all steps of the scale
    share them.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        What a patient of each class counts, times `sample_weight`; classes that a dict does not
        name count 1. "balanced" gives all classes the same total, counted over all sites: only
        here, where all patients lie in this process; a study of real hospitals has no such
        setting. Weights enter everything that is summed: histograms (whose noise grows with the
        largest weight), trees, λ, supports and the evaluation; the gate counts patients. Predicted
        probabilities, and the rates that the model tells, are then of the weighted patients, no
        longer calibrated for real ones.

    Attributes
    ----------
    classes_ : (n_classes,) array
    coef_ : (1, n_terms) or (n_classes, n_terms) float64
        Of :meth:`transform`'s columns: one per term, not per column of X; where each class has
        terms of its own, 0 for those of others. scikit-learn's feature selectors get
        `feature_importances_`.
    intercept_ : (1,) or (n_classes,) float64
        Of ordered classes that of the first step.
    """

    _kinds = ("yes/no", "classes", "ordered")
    solver: str | None

    def __init__(self, *, class_weight: ClassWeight = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.class_weight = class_weight

    def _read_target(self, y: Any, **parts: Any) -> Target:
        encode = encode_classes if self._learns_several() else encode_two
        self.classes_, places = encode(y, asker=self)
        return {"outcome": places}

    def _learns_several(self) -> bool:
        """Whether more than two classes can be learnt: by the exact solver."""
        solver, preset = self.solver, PRESETS.get(self.preset or "default", {})
        if solver is None and self.study is not None and self.preset is None:
            solver = self.study.settings.solver
        return (solver or preset.get("solver")) != "fedda"

    def _declare_outcome(self, column: str, target: Target) -> AnyOutcome:
        if len(self.classes_) > 2:
            levels = tuple(as_level(label) for label in self.classes_.tolist())
            return ClassesOutcome(column=column, levels=levels)
        negative, positive = (str(label) for label in self.classes_)
        label = name_event(self.classes_, column)
        return YesNoOutcome(column=column, positive=positive, negative=negative, label=label)

    def _encode(self, target: Target, study: Study) -> Floats:
        if study.outcome.kind == "yes/no":
            if len(self.classes_) > 2:
                raise DataError("the outcome of the study is yes/no, and y has more classes")
            return super()._encode(target, study)
        places: Floats = self._places(study)[target["outcome"].astype(np.intp)].astype(np.float64)
        return places

    def _places(self, study: Study) -> Ints:
        """Return the place of each of `classes_` among the outcome's levels."""
        return place_classes(self.classes_, study)

    def _weigh(self, given: Floats | None, target: Target) -> PatientWeights | None:
        own = super()._weigh(given, target)
        return weigh_by_class(own, self.class_weight, self.classes_, target["outcome"])

    def _show_coefficients(self, coefficients: Floats) -> Floats:
        family = self.study_.family
        if not family.own_terms:
            return coefficients[None, :]
        levels = [family.names[place] for place in self._places(self.study_).tolist()]
        own = np.array([[t.level == level for t in self.model_.terms] for level in levels])
        return np.where(own, coefficients, 0.0)

    def _show_intercept(self, intercept: float) -> Floats:
        if not self.study_.family.own_terms:
            return np.array([intercept])
        return intercept + np.array(self.model_.baseline)[self._places(self.study_)]

    def decision_function(self, X: Any) -> Floats:
        """Return the linear predictor F(x), the logarithm of the odds, shape (n_rows,).

        Of more than two classes one for each, shape (n_rows, n_classes); of ordered ones the
        logarithms of their probabilities, which no single predictor tells.
        """
        check_is_fitted(self)
        if not self.study_.family.names:
            return self._predictor(X)
        if self.study_.family.own_terms:
            return self._predictor(X)[:, self._places(self.study_)]
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, shape (n_rows, n_classes).

        They are those of ``model_``, row by row: NaN where a value that the study does not
        foresee leaves no prediction.
        """
        check_is_fitted(self)
        chances = self._asked.predict_proba(self._columns(X))
        if chances.ndim > 1:
            return chances[:, self._places(self.study_)]
        return np.column_stack([1 - chances, chances])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class, shape (n_rows,); None where there is no prediction."""
        predictor = self.decision_function(X)
        if predictor.ndim > 1:
            chosen, refused = predictor.argmax(axis=1), np.isnan(predictor).any(axis=1)
        else:
            chosen, refused = (predictor > 0).astype(np.intp), np.isnan(predictor)
        predicted: npt.NDArray[Any] = self.classes_[chosen]
        if refused.any():
            predicted = predicted.astype(object)
            predicted[refused] = None
        return predicted

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._learns_several()
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
            The class of each patient. Of two, the larger label is the event.
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
