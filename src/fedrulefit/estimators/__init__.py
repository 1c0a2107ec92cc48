"""scikit-learn estimators over the embedded engine."""

from fedrulefit.estimators.rulefit import FederatedRuleFitClassifier, RuleFitClassifier

__all__ = ["FederatedRuleFitClassifier", "RuleFitClassifier"]
