"""Federated random forests: a forest per site, all trees pooled.

Hauschild, Lemanczyk, Matschinske, Frisch, Zolotareva, Holzinger, Baumbach,
Heider: *Federated Random Forests can improve local performance of predictive
models for various healthcare applications*, Bioinformatics 2022.

Each site grows trees on its own patients, and sends them. The pooled trees are
the global forest; the probability of the outcome is the mean over them.

What leaves a site: its trees, with their leaves.

Departures: the paper that we follow runs ``flextrees`` with its defaults,
which it does not state. Here the forests are scikit-learn's with its
defaults, `n_trees` in all. Sites that count by their patients contribute trees in
proportion to them, at least one, and all trees count alike. Sites that count alike
contribute as many trees each as can be shared out, and the mean is over sites.

Oracle: with one site, scikit-learn's own forest
(``tests/unit/baselines/test_forest.py``).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fedrulefit.core.arrays import Floats
from fedrulefit.estimators.targets import encode_two, read_sites


def share_trees(n_trees: int, weights: Floats) -> list[int]:
    """Share `n_trees` among sites in proportion to `weights`, at least one each.

    Largest remainders; where there are more sites than trees, each grows one.

    Examples
    --------
    >>> share_trees(100, np.array([50.0, 100.0, 150.0, 250.0, 450.0]))
    [5, 10, 15, 25, 45]
    """
    ideal = n_trees * weights / weights.sum()
    counts = np.maximum(1, np.floor(ideal)).astype(int)
    while counts.sum() < n_trees:
        counts[np.argmax(ideal - counts)] += 1
    while counts.sum() > max(n_trees, len(counts)):
        counts[np.argmax(np.where(counts > 1, counts - ideal, -np.inf))] -= 1
    return [int(count) for count in counts]


class FederatedForestClassifier(ClassifierMixin, BaseEstimator):
    """A random forest of trees grown at the sites.

    Parameters
    ----------
    n_trees : int
        Trees in all.
    weighting : {"patients", "sites"}
        Whether a site counts by its patients, or all sites count alike.
    random_state : int, RandomState or None

    Attributes
    ----------
    forests_ : mapping of site to RandomForestClassifier
    classes_ : (2,)

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedrulefit.baselines.forest import FederatedForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FederatedForestClassifier(random_state=0).fit(X, y, sites=[0, 1, 1] * 189 + [0, 1])
    >>> [forest.n_estimators for forest in model.forests_.values()]
    [33, 67]
    """

    def __init__(
        self,
        *,
        n_trees: int = 100,
        weighting: Literal["patients", "sites"] = "patients",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_trees = n_trees
        self.weighting = weighting
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, sites: Any = None) -> FederatedForestClassifier:
        """Grow a forest at each site; see :meth:`BFIClassifier.fit` for the arguments."""
        if self.weighting not in ("patients", "sites"):
            raise ValueError(f"weighting must be 'patients' or 'sites', not {self.weighting!r}")
        if self.n_trees < 1:
            raise ValueError("'n_trees' must be at least 1")
        self.classes_, outcome = encode_two(y, asker=self)
        X, _ = validate_data(self, X, y, dtype=np.float64)
        names, place = np.unique(read_sites(sites, len(X)), return_inverse=True)
        patients = np.bincount(place).astype(np.float64)
        weights = patients if self.weighting == "patients" else np.ones(len(names))
        random = check_random_state(self.random_state)
        self.forests_ = {}
        for k, n_trees in enumerate(share_trees(self.n_trees, weights)):
            forest = RandomForestClassifier(n_trees, random_state=random.randint(2**31 - 1))
            here = place == k
            self.forests_[str(names[k])] = forest.fit(X[here], outcome[here])
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return the mean probabilities over trees, or over sites, shape (n_rows, 2)."""
        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float64, reset=False)
        forests = list(self.forests_.values())
        by_trees = self.weighting == "patients"
        positive = np.average(
            [_positive(forest, values) for forest in forests],
            axis=0,
            weights=[forest.n_estimators if by_trees else 1 for forest in forests],
        )
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the more probable class, shape (n_rows,)."""
        chosen = (self.predict_proba(X)[:, 1] > 0.5).astype(np.intp)
        predicted: npt.NDArray[Any] = self.classes_[chosen]
        return predicted

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _positive(forest: RandomForestClassifier, values: Floats) -> Floats:
    """Return the probability of the event; a site may have seen one class only."""
    probability: Floats = forest.predict_proba(values) @ forest.classes_
    return probability
