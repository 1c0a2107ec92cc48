"""What the estimators are handed as X and ``sample_weight``; y and sites: ``targets.py``.

In: a data frame or an array. Out: values in a study's coding, shape (n_rows, n_features),
float64. With a study, declared levels, ranges and completeness are checked as at a real
site; without one, covariates are inferred from X, what was guessed is said in one
:class:`~fedrulefit.errors.ReadingWarning`. To predict, columns get their names in
:mod:`~fedrulefit.estimators.naming`, and the model reads them.
"""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.errors import DataError, ReadingWarning
from fedrulefit.estimators.naming import column_names, name_columns
from fedrulefit.study import Covariate, Study
from fedrulefit.table.asked import resolve_asked
from fedrulefit.table.check import load_table
from fedrulefit.table.infer import infer_covariates
from fedrulefit.table.notes import tell_notes


def infer_table(
    X: Any,
    *,
    asker: Any,
    rows: Bools | None,
    categorical: Any = None,
    ordered: Any = None,
    missing: Any = None,
) -> tuple[Mapping[str, Covariate], Floats]:
    """Return the covariates of a table to learn from, and its values.

    Parameters
    ----------
    X : data frame or array
    asker : estimator
        Is told the number and names of the columns.
    rows : (n_rows,) bool, optional
        The rows that count.
    categorical, ordered, missing : optional
        As the estimators document them.
    """
    source = name_columns(X, None, asker=asker, reset=True)
    columns = source if isinstance(source, Mapping) else column_names(source)
    names = [str(name).strip() for name in columns]  # as tables are read
    asked = resolve_asked(names, categorical=categorical, ordered=ordered, missing=missing)
    found = infer_covariates(source, rows=rows, asked=asked)
    if found.notes:
        warnings.warn(tell_notes(found.notes), ReadingWarning, stacklevel=5)
    return found.covariates, found.values


def check_study(study: object) -> None:
    """Refuse what is no study, such as the path of one."""
    if study is not None and not isinstance(study, Study):
        raise DataError("study wants a Study: load the file with Study.load('study.toml')")


def refuse_beside_study(**given: Any) -> None:
    """Refuse what says how columns are read, where a study says so already."""
    for name, value in given.items():
        if value is not None:
            raise DataError(
                f"the study says what each column is: leave {name}= out, or say it in the study"
            )


def read_declared(X: Any, study: Study, *, asker: Any, reset: bool = False) -> Floats:
    """Return the values of a table of a study's covariates."""
    source = name_columns(X, list(study.covariates), asker=asker, reset=reset)
    return load_table(source, study, need_outcome=False, where="X").values


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
