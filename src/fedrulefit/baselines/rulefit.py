"""RuleFit without federation: on pooled data, and at each site alone.

Friedman, Popescu: *Predictive learning via rule ensembles*, Annals of Applied
Statistics 2008, with the numbers that the paper names for both: 333 trees, a
mean of 4 terminal nodes (erratum 6), shrinkage 0.01.

The paper says no more about them. As is usual for RuleFit, every value is a
possible cut-off and λ is chosen by cross-validation. Departures: at most 254
cut-offs per covariate (quantiles where there are more values), and trees see all
patients, not a sample of them as Friedman and Popescu advise; the paper names
no sample, and its own method draws none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from fedrulefit.estimators import RuleFitClassifier
from fedrulefit.estimators.targets import read_sites


def conventional_rulefit(**settings: Any) -> RuleFitClassifier:
    """Return the RuleFit of Friedman and Popescu, with `settings` on top.

    Parameters
    ----------
    **settings
        Parameters of :class:`RuleFitClassifier`, such as `random_state`.

    Examples
    --------
    >>> conventional_rulefit(penalty=0.01).solver
    'exact'
    """
    return RuleFitClassifier(**{"preset": "paper", "solver": "exact", "penalty": "cv"} | settings)


def fit_each_site(
    estimator: RuleFitClassifier, X: Any, y: Any, *, sites: Any
) -> dict[str, RuleFitClassifier]:
    """Fit a copy of `estimator` to every site's own patients (the paper's local RuleFit).

    Parameters
    ----------
    estimator : RuleFitClassifier
    X : array or data frame, shape (n_rows, n_features)
    y : (n_rows,)
    sites : (n_rows,)
    """
    labels = read_sites(sites, len(y))
    own = {name: np.flatnonzero(labels == name) for name in np.unique(labels).tolist()}
    return {
        name: clone(estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows))
        for name, rows in own.items()
    }
