"""Several rows of one patient, as the estimators are handed them.

In: the rows to learn from. Out: the most rows of one patient, and a warning where many rows are
the same and nothing says whose they are. It holds counts, and no patient's value.
"""

from __future__ import annotations

import warnings
from collections.abc import Container

import numpy as np
import numpy.typing as npt

from fedrulefit.core.arrays import Ints
from fedrulefit.core.people import count_rows_each
from fedrulefit.errors import DataError
from fedrulefit.estimators.reading import unused_name
from fedrulefit.study import Patient, Study
from fedrulefit.table.patients import Table
from fedrulefit.table.repeats import count_repeats


def rows_each(patients: Ints | None, labels: npt.NDArray[np.str_]) -> int | None:
    """Return the most rows that one patient has at one site; None where nothing says whose."""
    if patients is None:
        return None
    sites = (patients[labels == name] for name in np.unique(labels))
    return max(map(count_rows_each, sites), default=1)


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
    n_repeats = count_repeats(np.column_stack([table.values, table.outcome]))  # type: ignore[list-item]
    if n_repeats:
        warnings.warn(
            f"{n_repeats:,} of {table.n_rows:,} rows are the same as another in every covariate "
            "and the outcome: if rows are of the same patients, say whose each is (patients=), or "
            "they stand on both sides of a cross-validation, and too many terms are kept",
            UserWarning,
            stacklevel=4,
        )
