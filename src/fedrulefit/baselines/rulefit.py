r"""RuleFit without federation: on pooled data, and at each site alone.

Friedman, Popescu: *Predictive learning via rule ensembles*, Annals of Applied
Statistics 2008, whose recommended settings the paper adopts for both: 333 trees, a
mean of 4 terminal nodes (erratum 6), shrinkage 0.01, and each tree grown from a sample

.. math:: \eta = \min(N / 2,\; 100 + 6 \sqrt N)

of the N patients, drawn without replacement, so that trees differ. The paper repeats the
first three numbers only, and its own method draws no sample.

The paper says no more about them. As is usual for RuleFit, every value is a
possible cut-off and λ is chosen by cross-validation. Departures: at most 254
cut-offs per covariate (quantiles where there are more values), and a tree's sample has η
patients on average (each is in it with probability η / N), not exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from fedrulefit.estimators import RuleFitClassifier
from fedrulefit.estimators.targets import read_sites


def sample_share(n_rows: int) -> float:
    """Return η / N: the share of N = `n_rows` patients that each tree sees.

    Examples
    --------
    >>> round(sample_share(1000), 4), sample_share(200)
    (0.2897, 0.5)
    """
    return min(0.5, (100 + 6 * float(np.sqrt(n_rows))) / n_rows)


def conventional_rulefit(n_rows: int, **settings: Any) -> RuleFitClassifier:
    """Return the RuleFit of Friedman and Popescu, with `settings` on top.

    Parameters
    ----------
    n_rows : int
        Patients that it will be fitted to: it sets the size of the trees' samples.
    **settings
        Parameters of :class:`RuleFitClassifier`, such as `random_state`; with
        ``subsample=1.0`` every tree sees all patients.

    Examples
    --------
    >>> conventional_rulefit(1000, penalty=0.01).solver
    'exact'
    """
    stated = {"preset": "paper", "solver": "exact", "penalty": "cv"}
    return RuleFitClassifier(**stated | {"subsample": sample_share(n_rows)} | settings)


def fit_each_site(
    make: Callable[[int], RuleFitClassifier], X: Any, y: Any, *, sites: Any
) -> dict[str, RuleFitClassifier]:
    """Fit a RuleFit to every site's own patients (the paper's local RuleFit).

    Parameters
    ----------
    make : callable
        Takes a site's number of patients and returns what is fitted to them, as
        :func:`conventional_rulefit` does.
    X : array or data frame, shape (n_rows, n_features)
    y : (n_rows,)
    sites : (n_rows,)
    """
    labels = read_sites(sites, len(y))
    own = {name: np.flatnonzero(labels == name) for name in np.unique(labels).tolist()}
    return {
        name: make(len(rows)).fit(_safe_indexing(X, rows), _safe_indexing(y, rows))
        for name, rows in own.items()
    }
