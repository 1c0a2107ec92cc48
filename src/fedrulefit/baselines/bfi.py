r"""Bayesian Federated Inference (BFI) for logistic regression.

Jonker, Pazira, Coolen: *Bayesian federated inference for estimating statistical
models based on non-shared multicenter data sets*, Statistics in Medicine 2024.

With a Gaussian prior of mean 0 and precision Λ_m, site m sends its maximum a
posteriori estimate and the curvature there:

.. math:: \hat\theta_m = \arg\min_\theta
          \{-\log L_m(\theta) + \tfrac12 \theta^\top \Lambda_m \theta\}, \qquad
          \hat A_m = X_m^\top W_m X_m + \Lambda_m .

The server combines them in closed form, with the prior Λ of the combined data:

.. math:: \hat A = \sum_m \hat A_m + \Lambda - \sum_m \Lambda_m, \qquad
          \hat\theta = \hat A^{-1} \sum_m \hat A_m \hat\theta_m ,

and standard deviations are the roots of the diagonal of Â⁻¹.

====================  ==================================  =================
paper                 here                                shape
====================  ==================================  =================
θ̂_m, Â_m             ``local_[site].theta, .curvature``  (d,), (d, d)
θ̂, Â                 ``theta_, curvature_``              (d,), (d, d)
Λ_m, Λ                ``local_precision, precision`` · I
====================  ==================================  =================

d = 1 + n_features; the intercept comes first.

What leaves a site: θ̂_m and Â_m, once.

Departures from the R package BFI 3.x (``family = "binomial"``): sites share
all parameters (no stratified intercepts), priors are multiples of the identity, by default
with the precision of the package's examples (0.01), and Newton's method runs to its own
tolerance instead of R's optimiser.

Oracle: the closed-form algebra and the numbers of the R package
(``tests/unit/baselines/test_bfi.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import YesNo
from fedrulefit.errors import FitError
from fedrulefit.estimators.targets import encode_two, read_sites

FAMILY: Final = YesNo()
PRECISION: Final = 0.01
"""Precision of the priors in the examples of the R package."""
_MAX_STEPS: Final = 200
_TOLERANCE: Final = 1e-16


@dataclass(frozen=True, eq=False)
class Estimate:
    """A Gaussian posterior: its mode, and its curvature (inverse covariance).

    Parameters
    ----------
    theta : Floats, shape (d,)
        Intercept first.
    curvature : Floats, shape (d, d)
    """

    theta: Floats
    curvature: Floats


def estimate_site(design: Floats, outcome: Floats, *, precision: float) -> Estimate:
    """Return a site's maximum a posteriori estimate and its curvature.

    Parameters
    ----------
    design : Floats, shape (n_rows, d)
        Ones first.
    outcome : Floats, shape (n_rows,)
    precision : float
        The prior's precision is this times the identity.
    """
    ones = np.ones(len(outcome))
    prior = precision * np.eye(design.shape[1])

    def objective(theta: Floats) -> float:
        loss = float(FAMILY.value(design @ theta, outcome, ones).sum())
        return loss + 0.5 * float(theta @ prior @ theta)

    theta = np.zeros(design.shape[1])
    for _ in range(_MAX_STEPS):
        predictor = design @ theta
        slope = design.T @ FAMILY.slope(predictor, outcome, ones) + prior @ theta
        curvature = (design.T * FAMILY.curvature(predictor, outcome, ones)) @ design + prior
        step = np.linalg.solve(curvature, slope)
        if slope @ step <= _TOLERANCE:  # Newton's decrement, which no unit of X changes
            return Estimate(theta, curvature)
        here = objective(theta)
        length, enough = 1.0, here + 1e-12 * abs(here)
        while objective(theta - length * step) > enough:
            length /= 2
        theta = theta - length * step
    raise FitError(f"BFI: a site's estimate did not settle in {_MAX_STEPS} Newton steps")


def combine(estimates: Sequence[Estimate], *, local_precision: float, precision: float) -> Estimate:
    """Return the server's estimate from those of the sites."""
    identity = np.eye(len(estimates[0].theta))
    prior_change = (precision - len(estimates) * local_precision) * identity
    curvature = np.sum([e.curvature for e in estimates], axis=0) + prior_change
    pull = np.sum([e.curvature @ e.theta for e in estimates], axis=0)
    return Estimate(np.linalg.solve(curvature, pull), curvature)


class BFIClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression by Bayesian Federated Inference.

    Covariates enter as they are: standardise them first where their scales
    differ, as the prior is the same for all.

    Parameters
    ----------
    precision : float
        Precision of the prior of the combined data.
    local_precision : float, optional
        Precision of every site's prior; None: the same.

    Attributes
    ----------
    intercept_ : (1,)
    coef_ : (1, n_features)
    sd_ : (1 + n_features,)
        Posterior standard deviations, intercept first.
    theta_ : (1 + n_features,)
        Intercept and coefficients.
    curvature_ : (1 + n_features, 1 + n_features)
        Inverse covariance of the posterior.
    local_ : mapping of site to Estimate
        What each site sent.
    classes_ : (2,)

    Examples
    --------
    >>> import numpy as np
    >>> from fedrulefit.baselines.bfi import BFIClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = BFIClassifier().fit(X, [0, 0, 1, 1], sites=["a", "b", "a", "b"])
    >>> bool(model.coef_[0, 0] > 0)
    True
    """

    def __init__(
        self, *, precision: float = PRECISION, local_precision: float | None = None
    ) -> None:
        self.precision = precision
        self.local_precision = local_precision

    def fit(self, X: Any, y: Any, *, sites: Any = None) -> BFIClassifier:
        """Estimate at each site, and combine.

        Parameters
        ----------
        X : array, shape (n_rows, n_features)
        y : (n_rows,)
            Two classes; the larger label is the event.
        sites : (n_rows,), optional
            The site of every patient; without it, all are one site.
        """
        local = self.precision if self.local_precision is None else self.local_precision
        if not (self.precision > 0 and local > 0):
            raise ValueError("'precision' and 'local_precision' must be above 0")
        self.classes_, outcome = encode_two(y, asker=self)
        X, _ = validate_data(self, X, y, dtype=np.float64)
        design = _with_ones(X)
        labels = read_sites(sites, len(X))
        self.local_: Mapping[str, Estimate] = {
            name: estimate_site(design[labels == name], outcome[labels == name], precision=local)
            for name in np.unique(labels).tolist()
        }
        combined = combine(
            list(self.local_.values()), local_precision=local, precision=self.precision
        )
        self.theta_, self.curvature_ = combined.theta, combined.curvature
        self.sd_ = np.sqrt(np.diag(np.linalg.inv(combined.curvature)))
        self.intercept_, self.coef_ = self.theta_[:1], self.theta_[None, 1:]
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds, shape (n_rows,)."""
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float64, reset=False)
        predictor: Floats = _with_ones(values) @ self.theta_
        return predictor

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of both classes, shape (n_rows, 2)."""
        positive = FAMILY.link.inverse(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class, shape (n_rows,)."""
        chosen = (self.decision_function(X) > 0).astype(np.intp)
        predicted: npt.NDArray[Any] = self.classes_[chosen]
        return predicted

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _with_ones(values: Floats) -> Floats:
    return np.column_stack([np.ones(len(values)), values])
