"""scikit-learn estimators over the embedded engine."""

from fedrulefit.estimators.classification import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.estimators.regression import FederatedRuleFitRegressor, RuleFitRegressor

__all__ = [
    "FederatedRuleFitClassifier",
    "FederatedRuleFitRegressor",
    "RuleFitClassifier",
    "RuleFitRegressor",
]
