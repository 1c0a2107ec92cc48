"""What the estimators are handed as ``y``, ``sites`` and ``patients``.

What y is, the kind of estimator knows (``classification.py``, ``regression.py``,
``survival.py``): each reads it into a :data:`Target`. From there on a study says what becomes of
it, with the checks that a hospital's table passes (:mod:`fedrulefit.table.outcome`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, column_or_1d

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.errors import DataError, ReadingWarning
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.study import Study
from fedrulefit.study.levels import level_key
from fedrulefit.table.columns import Columns, from_array
from fedrulefit.table.guess import yes_and_no
from fedrulefit.table.outcome import check_outcome, find_events
from fedrulefit.table.patient_column import number_patients
from fedrulefit.table.patients import Table

Target: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""What is known of the outcome, by the roles of ``study.outcome.columns``, each (n_rows,)."""

LEARNERS: Final[Mapping[str, str]] = {
    "yes/no": "Classifier",
    "number": "Regressor",
    "count": "Regressor",
    "time": "Survival",
    "ordered": "Classifier",
    "classes": "Classifier",
}
"""How the name of the estimator ends that learns a kind of outcome."""

_TOLD: Final = frozenset({"outcome-code-inside", "time-zero"})
"""Findings to tell where no study says what the outcome is: y may be misread."""


def check_kind(study: Study | None, kinds: tuple[str, ...], *, asker: object) -> None:
    """Refuse a study of an outcome that this estimator does not learn."""
    if study is None or study.outcome.kind in kinds:
        return
    kind, own = study.outcome.kind, type(asker).__name__
    words = f"the outcome of the study is of the kind {kind!r}, which {own} does not learn"
    if kind in LEARNERS:
        start = "FederatedRuleFit" if own.startswith("Federated") else "RuleFit"
        words += f": use {start}{LEARNERS[kind]}"
    raise DataError(words)


def encode_outcome(target: Target, study: Study) -> Floats:
    """Return the outcome as ``Table.outcome`` has it, checked as at a hospital."""
    if study.outcome.kind == "yes/no":
        return np.asarray(target["outcome"], dtype=np.float64)
    names = study.outcome.columns
    unwanted = [role for role in target if role not in names]
    if unwanted:
        raise DataError(f"the study has no column of {unwanted[0]}: leave {unwanted[0]}= out")
    wanted = [role for role in names if role not in target]
    if wanted:
        raise DataError(f"the study has a column of {wanted[0]}: pass it as {wanted[0]}=")
    arrays = {names[role]: from_array(part) for role, part in target.items()}
    columns = Columns(tuple(arrays), arrays, len(target["outcome"]))
    outcome, findings = check_outcome(columns, study)
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors or outcome is None:
        raise DataError("\n".join(["y cannot be learnt:", *(f"  {fault}" for fault in errors)]))
    told = [str(finding) for finding in findings if finding.code in _TOLD]
    if told and study.ranges_from_data:
        warnings.warn("\n".join(told), ReadingWarning, stacklevel=4)
    return outcome


def refuse_no_y(y: Any, *, asker: object) -> None:
    """Refuse that there is no y, in scikit-learn's words."""
    if y is None:
        raise ValueError(
            f"{type(asker).__name__} requires y to be passed, but the target y is None"
        )


def read_numbers(given: Any, what: str, *, example: str) -> Floats:
    """Return one finite number per patient, shape (n_rows,)."""
    column = _read_column(given, what, example=example)
    n_missing = int(np.sum(pd.isna(column)))
    if n_missing:
        raise DataError(
            f"Input {what} contains NaN: {n_missing} of {len(column)} patients have none: leave "
            "them out"
        )
    if np.iscomplexobj(column):
        raise ValueError(f"Complex data not supported: {what} must hold numbers")
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"Unknown label type: {what} must hold numbers, and holds text") from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"Input {what} contains infinity or a value too large for {column.dtype}")
    return numbers


def encode_two(y: Any, *, asker: object) -> tuple[npt.NDArray[Any], Floats]:
    """Return the two classes, and 1.0 for the larger one, shape (n_rows,).

    `asker` is the estimator, named where there is no y.
    """
    classes, places = encode_classes(y, asker=asker)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is "
            f"{type_of_target(y)}, with {len(classes)} different values: make two of them, such as "
            "y == 'died'; the exact solver (solver='exact') learns more than two."
        )
    return classes, places


def encode_classes(y: Any, *, asker: object) -> tuple[npt.NDArray[Any], Floats]:
    """Return the classes, sorted, and the place of each patient's, shape (n_rows,).

    `asker` is the estimator, named where there is no y.
    """
    refuse_no_y(y, asker=asker)
    y = _read_column(y, "y", example="died")
    n_missing = int(np.sum(pd.isna(y)))
    if n_missing:
        raise DataError(
            f"Input y contains NaN: {n_missing} of {len(y)} patients have no outcome: leave them "
            "out"
        )
    check_classification_targets(y)
    classes, position = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            "y holds only one class: a model needs patients with and without the outcome"
        )
    return classes, position.astype(np.float64)


def place_classes(classes: npt.NDArray[Any], study: Study) -> Ints:
    """Return the place of each class among the levels that a study declares.

    Raises
    ------
    DataError
        If one is none of them, or one of them is no class of y.
    """
    levels = [level_key(name) for name in study.family.names]
    keys = [level_key(label) for label in classes.tolist()]
    if set(keys) != set(levels):
        told = ", ".join(study.family.names)
        raise DataError(f"y must have all levels of the study's outcome, and no others: {told}")
    return np.array([levels.index(key) for key in keys], dtype=np.int64)


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
            f"rules, effects and predictions are of {positive!r}, the last of the two values "
            f"of y when sorted, as scikit-learn has it; if the event is {event!r}, give "
            f"y == {event!r}",
            ReadingWarning,
            stacklevel=6,
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


def check_folds(table: Table, study: Study) -> None:
    """Warn where cross-validation has fewer patients of an outcome than folds."""
    n_folds = study.settings.folds
    if not study.family.counts_events:
        return
    events = find_events(table.outcome, table.weights, study)
    n_fewer = replace(table, events=events).people.fewest()
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
