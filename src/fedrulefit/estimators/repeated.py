"""Several rows of one patient, as the estimators are handed them.

In: the rows to learn from. Out: the most rows of one patient, and a warning where many rows are
the same and nothing says whose they are. It holds counts, and no patient's value.
"""

from __future__ import annotations

import warnings
from collections.abc import Container
from typing import Final

import numpy as np
import numpy.typing as npt

from fedrulefit.core.arrays import Floats
from fedrulefit.core.people import count_rows_each
from fedrulefit.errors import DataError
from fedrulefit.estimators.reading import unused_name
from fedrulefit.study import Patient, Study
from fedrulefit.table.patients import Table

_SHARE: Final = 0.05
"""Share of rows that repeat another from which it is worth a word ..."""

_TIMES: Final = 5.0
"""... if that is so many times what chance makes of columns that know nothing of each other."""


def rows_each(table: Table, labels: npt.NDArray[np.str_]) -> int | None:
    """Return the most rows that one patient has at one site; None where nothing says whose."""
    if table.patients is None:
        return None
    sites = (table.take(labels == name).patients for name in np.unique(labels))
    return max(count_rows_each(patients) for patients in sites)


def declare_patient(
    study: Study | None, max_rows: int | None, covariates: Container[str]
) -> Patient | None:
    """Return what the study says of patients with several rows, or what the rows themselves say."""
    if study is not None and study.patient is not None:
        if max_rows is None:
            raise DataError("the study has a column of patients: pass it as patients")
        return study.patient
    if max_rows is None:
        return None
    return Patient(column=unused_name("patient", covariates), max_rows=max_rows)


def check_repeated(table: Table) -> None:
    """Warn of many rows that are the same in all covariates and the outcome."""
    columns = np.column_stack([table.values, table.outcome])  # type: ignore[list-item]
    columns[np.isnan(columns)] = np.inf  # one value, where NaN would be many
    n_repeats = len(columns) - len(np.unique(columns, axis=0))
    if n_repeats > max(_SHARE * len(columns), _TIMES * expect_repeats(columns)):
        warnings.warn(
            f"{n_repeats:,} of {len(columns):,} rows are the same as another in every covariate "
            "and the outcome: if rows are of the same patients, say whose each is (patients=), or "
            "they stand on both sides of a cross-validation, and too many terms are kept",
            UserWarning,
            stacklevel=4,
        )


def expect_repeats(columns: Floats) -> float:
    r"""Return how many rows would repeat another by chance, were the columns independent.

    A row whose like has the chance p is the first of its kind among n rows with the chance
    :math:`(1 - (1 - p)^n) / (n\,p)`.

    Parameters
    ----------
    columns : (n_rows, n_columns) float64
    """
    n_rows = len(columns)
    alike = np.zeros(n_rows)
    for column in columns.T:
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        alike += np.log(counts / n_rows)[place]
    chance = np.exp(alike)
    missed = np.exp(n_rows * np.log1p(-np.minimum(chance, 1 - 1e-12)))
    return float((1 - (1 - missed) / (n_rows * chance)).sum())
