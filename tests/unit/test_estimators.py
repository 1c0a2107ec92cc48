from sklearn.utils.estimator_checks import parametrize_with_checks
from fedrulefit.estimators import *

S = dict(n_trees=10, rounds=20)


@parametrize_with_checks(
    [
        RuleFitClassifier(**S),
        FederatedRuleFitClassifier(**S),
        FederatedRuleFitClassifier(noise=False, **S),
    ]
)
def test_c(estimator, check):
    check(estimator)
