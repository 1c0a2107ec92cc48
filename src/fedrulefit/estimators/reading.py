"""What the estimators are handed as X and ``sample_weight``; y and sites: ``targets.py``.

In: a data frame or an array. Out: values in a study's coding, shape (n_rows, n_features),
float64. With a study, declared levels, ranges and completeness are checked as at a real
site; without one, covariates are inferred from X. To predict, columns get their names here,
and the model reads them.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.errors import DataError
from fedrulefit.study import Covariate, Study
from fedrulefit.table.check import load_table
from fedrulefit.table.infer import infer_covariates
from fedrulefit.table.sources import Source


def infer_table(
    X: Any, *, asker: Any, rows: Bools | None
) -> tuple[Mapping[str, Covariate], Floats]:
    """Return the covariates of a table to learn from, and its values.

    Parameters
    ----------
    X : data frame or array
    asker : estimator
        Is told the number and names of the columns.
    rows : (n_rows,) bool, optional
        The rows that count.
    """
    if _is_named_frame(X):
        validate_data(asker, X, skip_check_array=True)
        return infer_covariates(X, rows=rows)
    checked = validate_data(
        asker, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2
    )
    names = [f"x{j}" for j in range(checked.shape[1])]
    if hasattr(asker, "feature_names_in_"):
        names = [str(name) for name in asker.feature_names_in_]
    return infer_covariates(dict(zip(names, checked.T, strict=True)), rows=rows)


def read_declared(X: Any, study: Study, *, asker: Any, reset: bool = False) -> Floats:
    """Return the values of a table of a study's covariates."""
    source = name_columns(X, study.covariates, asker=asker, reset=reset)
    return load_table(source, study, need_outcome=False, where="X").values


def name_columns(X: Any, covariates: Mapping[str, Covariate], *, asker: Any, reset: bool) -> Source:
    """Return X with a name for each column: its own, or the covariates' in their order.

    An array to learn from (`reset`) must not hold infinity; to predict, it is beyond the range.
    """
    if _is_named_frame(X):
        validate_data(asker, X, reset=reset, skip_check_array=True)
        frame: Source = X
        return frame
    finite = "allow-nan" if reset else False
    checked = validate_data(asker, X, reset=reset, dtype=np.float64, ensure_all_finite=finite)
    if checked.shape[1] != len(covariates):
        raise DataError(
            f"X has {checked.shape[1]} columns, the study has {len(covariates)} covariates"
        )
    return dict(zip(covariates, checked.T, strict=True))


def _is_named_frame(X: Any) -> bool:
    """Whether X is a data frame whose columns have names (not numbers)."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return False
    twins = sorted(name for name, n in Counter(columns).items() if n > 1)
    if twins:
        raise DataError(f"X has several columns named {', '.join(twins)}")
    return True


def check_counts(weights: Floats) -> None:
    """Warn of normalised weights: ours count patients."""
    if 0 < weights.sum() < 0.5 * np.count_nonzero(weights):
        warnings.warn(
            "sample_weight counts patients, and adds up to far fewer than there are rows: "
            "multiply it so that its mean is about 1",
            stacklevel=4,
        )


def unused_name(name: str, taken: Container[str]) -> str:
    """Return a column name that X does not have."""
    while name in taken:
        name += "_"
    return name
