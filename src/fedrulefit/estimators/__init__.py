"""scikit-learn estimators over the embedded engine."""

from fedrulefit.estimators.classification import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.estimators.regression import FederatedRuleFitRegressor, RuleFitRegressor
from fedrulefit.estimators.survival import FederatedRuleFitSurvival, RuleFitSurvival

__all__ = [
    "FederatedRuleFitClassifier",
    "FederatedRuleFitRegressor",
    "FederatedRuleFitSurvival",
    "RuleFitClassifier",
    "RuleFitRegressor",
    "RuleFitSurvival",
]
