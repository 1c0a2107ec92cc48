"""X as an estimator is handed it → columns with names.

A data frame keeps its columns, each with its type; of an array, each column gets a name. What
scikit-learn checks of every X (shape, names as in ``fit``, no sparse matrix) is left to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import validate_data

from fedrulefit.errors import DataError
from fedrulefit.table.sources import Source


def name_columns(X: Any, names: Sequence[str] | None, *, asker: Any, reset: bool) -> Source:
    """Return X with a name for each column.

    Parameters
    ----------
    X : data frame or array
    names : sequence of str or None
        Names for the columns of an array; None for ``x0``, ``x1``, …
    asker : estimator
        Is told the number and names of the columns, or asked whether they are as in ``fit``.
    reset : bool
        Told, rather than asked. An array to learn from must not hold infinity; to predict, that
        is beyond the range.
    """
    if isinstance(X, (str, Path, Mapping)) and not hasattr(X, "shape"):  # as a sparse matrix has
        how = "pandas.DataFrame(X)" if isinstance(X, Mapping) else "pandas.read_csv(X)"
        raise TypeError(f"X is a {type(X).__name__}: give a data frame or an array, such as {how}")
    own = column_names(X)
    if own and all(isinstance(name, str) for name in own):
        twins = sorted(name for name, n in Counter(own).items() if n > 1)
        if twins:
            raise DataError(f"X has several columns named {', '.join(twins)}")
        validate_data(asker, X, reset=reset, skip_check_array=True)
        frame: Source = X
        return frame
    if isinstance(X, pd.DataFrame):
        if not own:
            raise DataError(
                f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required."
            )
        validate_data(asker, X, reset=reset, skip_check_array=True)
        return X.set_axis(_names_of_array(len(own), names), axis=1)
    checked = _check_array(X, asker=asker, reset=reset)
    return dict(zip(_names_of_array(checked.shape[1], names), checked.T, strict=True))


def column_names(X: Any) -> list[Any]:
    """Return the names of a data frame's columns, in order; none of what is no data frame."""
    if isinstance(X, pd.DataFrame):
        return list(X.columns)
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # Arrow
        return list(X.column_names)
    columns = getattr(X, "columns", None)
    return list(columns) if isinstance(columns, Iterable) else []


def _names_of_array(n_columns: int, names: Sequence[str] | None) -> list[str]:
    if names is None:
        return [f"x{j}" for j in range(n_columns)]
    if n_columns != len(names):
        raise DataError(f"X has {n_columns} columns, the study has {len(names)} covariates")
    return list(names)


def _check_array(X: Any, *, asker: Any, reset: bool) -> Any:
    """Return an array as scikit-learn checks it: of float64, or of objects where it holds text."""
    options: dict[str, Any] = {"reset": reset, "ensure_all_finite": False}
    if reset:
        options |= {"ensure_all_finite": "allow-nan", "ensure_min_samples": 2}
    if not _holds_objects(X):
        return validate_data(asker, X, dtype=np.float64, **options)
    if not hasattr(X, "dtype"):
        X = np.array(X, dtype=object)  # else numpy turns numbers beside text into text
    checked = validate_data(asker, X, dtype=None, **options)
    for cell_type in {type(cell) for cell in checked.ravel()}:
        if issubclass(cell_type, Iterable) and not issubclass(cell_type, (str, bytes)):
            # scikit-learn asks for this error and these words.
            raise TypeError(
                f"X holds a {cell_type.__name__}: a cell of this argument must be a string or a "
                "number"
            )
    return checked


def _holds_objects(X: Any) -> bool:
    """Whether an array, or lists of rows, hold something other than numbers."""
    if hasattr(X, "dtype") or hasattr(X, "__array__"):
        return getattr(X, "dtype", None) is not None and np.dtype(X.dtype).kind in "OSUMm"
    if not isinstance(X, (list, tuple)):
        return False
    return any(
        isinstance(cell, (str, bytes))
        for row in X
        if isinstance(row, (list, tuple))
        for cell in row
    )
