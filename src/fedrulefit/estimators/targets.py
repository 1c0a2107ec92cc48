"""What all our classifiers do with ``y``, ``sites`` and ``patients``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.errors import DataError, ReadingWarning
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.table.columns import from_array
from fedrulefit.table.guess import yes_and_no
from fedrulefit.table.patient_column import number_patients


def encode_classes(y: Any, *, asker: object) -> tuple[npt.NDArray[Any], Floats]:
    """Return the two classes, and 1.0 for the larger one, shape (n_rows,).

    `asker` is the estimator, named where there is no y.
    """
    if y is None:
        raise ValueError(
            f"{type(asker).__name__} requires y to be passed, but the target y is None"
        )
    y = _read_column(y, "y", example="died")
    n_missing = int(np.sum(pd.isna(y)))
    if n_missing:
        raise DataError(
            f"Input y contains NaN: {n_missing} of {len(y)} patients have no outcome: leave them "
            "out"
        )
    check_classification_targets(y)
    classes, position = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}, with {len(classes)} different values: make two of them, such as "
            "y == 'died'."
        )
    if len(classes) < 2:
        raise ValueError(
            "y holds only one class: a model needs patients with and without the outcome"
        )
    return classes, position.astype(np.float64)


def name_event(classes: npt.NDArray[Any], column: str) -> str:
    """Return what the larger class is called, and warn where words say that the other is the event.

    It is empty where 0 and 1, or False and True, leave no doubt.
    """
    negative, positive = map(str, classes)
    if (negative, positive) in (("0", "1"), ("0.0", "1.0"), ("False", "True")):
        return ""
    event, _, told = yes_and_no((negative, positive))
    if told and event != positive:
        warnings.warn(
            f"rules, odds ratios and probabilities are of {positive!r}, the last of the two values "
            f"of y when sorted, as scikit-learn has it; if the event is {event!r}, give "
            f"y == {event!r}",
            ReadingWarning,
            stacklevel=5,
        )
    return f"{column} = {positive}"


def read_sites(sites: Any, n_rows: int) -> npt.NDArray[np.str_]:
    """Return the site of every patient, shape (n_rows,); one site where none is given."""
    if sites is None:
        return np.full(n_rows, "site")
    labels = _read_column(sites, "sites", example="hospital")
    check_consistent_length(labels, np.empty(n_rows))
    if pd.isna(labels).any():
        raise DataError("sites has missing entries: every patient belongs to one site")
    names = np.array([str(label) for label in labels])
    n_sites = len(np.unique(names))
    if 2 * n_sites > n_rows > MIN_COUNT:
        warnings.warn(
            f"sites names {n_sites:,} sites for {n_rows:,} rows: it wants the hospital of every "
            "row, and patients= says whose each row is",
            UserWarning,
            stacklevel=4,
        )
    return names


def read_patients(patients: Any, n_rows: int) -> Ints | None:
    """Return a number for the patient of every row, shape (n_rows,); None where none is given."""
    if patients is None:
        return None
    labels = _read_column(patients, "patients", example="patient_id")
    check_consistent_length(labels, np.empty(n_rows))
    places = number_patients(labels if labels.dtype.kind in "iu" else from_array(labels))
    if (places < 0).any():
        raise DataError("patients has missing entries: every row is of one patient")
    return places


def check_folds(outcome: Floats, n_folds: int) -> None:
    """Warn where cross-validation has fewer patients of an outcome than folds.

    Parameters
    ----------
    outcome : (n_patients,) float64
        Of each patient once.
    n_folds : int
    """
    n_fewer = int(min(outcome.sum(), len(outcome) - outcome.sum()))
    if n_fewer < n_folds:
        warnings.warn(
            f"cross-validation in {n_folds} folds has only {n_fewer} patients of one outcome, so "
            "chance chooses 'penalty': give it a number, or lower 'folds'",
            stacklevel=4,
        )


def _read_column(given: Any, what: str, *, example: str) -> npt.NDArray[Any]:
    """Return one value per patient, shape (n_rows,)."""
    if isinstance(given, (str, bytes)):
        raise DataError(
            f"{what} wants one value per patient, not a column's name: pass the column itself, "
            f"such as {what}=frame[{example!r}]"
        )
    column: npt.NDArray[Any] = column_or_1d(given, warn=what == "y")
    return column
