"""The baselines are scikit-learn classifiers."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.baselines.forest import FederatedForestClassifier


@parametrize_with_checks([BFIClassifier(), FederatedForestClassifier(n_trees=10)])
def test_the_conventions_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
