"""Any table → its patients as the model counts them, with what is unusual about them.

In: a table (file, data frame, columns) or an array in the study's coding. Out:
:class:`Patients`. Raw cells are read one by one (:mod:`fedrulefit.table.reading`), and what the
study does not foresee is treated as :mod:`fedrulefit.model.unforeseen` says. No patient's
answer depends on another row; a column that is not there is an error for all.

Only covariates that a term names are looked at: whatever the others hold, F is the same.

Oracle: a loop over cells (``tests/properties/test_one_prediction.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model.matrix import find_chances, find_first
from fedrulefit.model.unforeseen import Flag, list_flags
from fedrulefit.study import Study
from fedrulefit.table.check import load_columns
from fedrulefit.table.reading import Cell, Reading, States, read_coded, read_column

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.model.model import Model
    from fedrulefit.table.sources import Source

FLAGS_COLUMN: Final = "flags"
"""The name of what is unusual about a patient, in frames, files, queries and graphs."""

BETWEEN_FLAGS: Final = "; "


@dataclass(frozen=True, eq=False)
class Patients:
    """Patients as a model counts them.

    Parameters
    ----------
    values : (n_rows, n_features) float64
        In the study's coding, numbers within the range; NaN counts as missing.
    unusual : (n_rows, n_features) uint8
        The :class:`~fedrulefit.table.reading.Cell` of what the study does not foresee, else 0.
    refused : (n_rows,) bool
        Who gets no prediction.
    words : tuple of dict
        The flags of each covariate.
    """

    values: Floats
    unusual: States
    refused: Bools
    words: tuple[dict[Cell, Flag], ...]

    def hide(self, numbers: Floats) -> Floats:
        """Return numbers of the patients, NaN for those who get no prediction."""
        if not self.refused.any():
            return numbers
        hidden = self.refused if numbers.ndim == 1 else self.refused[:, None]
        return np.where(hidden, np.nan, numbers)

    @property
    def flags(self) -> list[tuple[str, ...]]:
        """What is unusual about each patient, in words."""
        found: list[tuple[str, ...]] = [()] * len(self.values)
        rows = np.flatnonzero(self.unusual.any(axis=1))
        if not len(rows):
            return found
        kinds, which = np.unique(self.unusual[rows], axis=0, return_inverse=True)
        told = [
            tuple(self.words[j][cells[j]].text for j in np.flatnonzero(cells)) for cells in kinds
        ]
        for row, k in zip(rows.tolist(), which.ravel().tolist(), strict=True):
            found[row] = told[k]
        return found


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says of patients.

    Parameters
    ----------
    prediction, predictor : (n_rows,) float64
        NaN for none. Where each level of the outcome has terms of its own, `predictor` has a column
        for each, and so has `prediction` where people ask for all alike.
    flags : list of tuple of str
        What is unusual about each patient.
    columns : mapping of str to (n_rows,) float64
        All numbers, under the names that frames and files have for them: beside the prediction and
        F the risk by each horizon of a time with several, and the probability of each level.
    """

    prediction: Floats
    predictor: Floats
    flags: list[tuple[str, ...]]
    columns: Mapping[str, Floats]


def list_results(model: Model) -> tuple[list[str], list[str]]:
    """Return the columns of a model's predictions, and those of F."""
    family, words = model.study.family, model.study.family.words
    levels = [f"{words.prediction_column}_{name}" for name in family.names]
    if family.own_terms:
        told = None if model.incidence is None else [own.column for own in model.incidence.told]
        return told or levels, [f"{words.predictor_column}_{name}" for name in family.names]
    horizons = [horizon.column for horizon in model.further]
    return [words.prediction_column, *horizons, *levels], [words.predictor_column]


def read_patients(model: Model, source: Source | Floats) -> Patients:
    """Return the patients of a table, or of an array in the study's coding."""
    study, words = model.study, list_flags(model)
    readings = _read(study, source)
    shape = (len(readings[0].values), study.n_features)
    values, unusual = np.empty(shape), np.zeros(shape, dtype=np.uint8)
    refused = np.zeros(shape[0], dtype=np.bool_)
    for j, (reading, flags) in enumerate(zip(readings, words, strict=True)):
        values[:, j] = reading.values
        found = np.bincount(reading.states, minlength=len(Cell))
        for cell, flag in flags.items():
            if not found[cell]:
                continue
            here = reading.states == cell
            unusual[here, j], values[here, j] = cell, flag.value
            if flag.fate == "refuse":
                refused |= here
    return Patients(values, unusual, refused, words)


def predict_patients(model: Model, source: Source | Floats) -> Predictions:
    """Return each patient's prediction and flags."""
    patients = read_patients(model, source)
    predictor = model.linear_predictor(patients.values)
    found, hidden = patients.hide(find_first(model, predictor)), patients.hide(predictor)
    predictions, predictors = list_results(model)
    told = map(patients.hide, _list_numbers(model, predictor))
    columns = dict(zip(predictions, told, strict=True))
    if model.study.family.own_terms:
        columns |= dict(zip(predictors, hidden.T, strict=True))
    else:  # F stands beside the prediction, before all others
        first, *others = columns.items()
        columns = dict([first, (predictors[0], hidden), *others])
    return Predictions(found, hidden, patients.flags, columns)


def _list_numbers(model: Model, predictor: Floats) -> list[Floats]:
    """Return the numbers of a model's predictions, in the order of :func:`list_results`."""
    family = model.study.family
    if model.incidence is not None:
        return list(model.incidence.told_risks(predictor).T)
    levels = list(find_chances(model, predictor).T) if family.names else []
    if family.own_terms:
        return levels
    tell = family.link.inverse
    horizons = [tell(predictor + horizon.shift) for horizon in model.further]
    return [tell(predictor), *horizons, *levels]


def predict_levels(model: Model, source: Source | Floats) -> Floats:
    """Return the probability of each level of the outcome, shape (n_rows, n_levels)."""
    patients = read_patients(model, source)
    return patients.hide(find_chances(model, model.linear_predictor(patients.values)))


def predict_frame(model: Model, source: Source | Floats) -> pd.DataFrame:
    """Return :meth:`Model.predict_frame`."""
    import pandas as pd

    found = predict_patients(model, source)
    flags = [BETWEEN_FLAGS.join(own) for own in found.flags]
    return pd.DataFrame({**found.columns, FLAGS_COLUMN: flags})


def _read(study: Study, source: Source | Floats) -> Sequence[Reading]:
    if not isinstance(source, np.ndarray):
        columns = load_columns(source, study)
        return [read_column(columns.arrays[n], c) for n, c in study.covariates.items()]
    values = np.asarray(source, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != study.n_features:
        raise FedRuleFitError(
            f"expected an array of {study.n_features} columns, got shape {values.shape}"
        )
    return [
        read_coded(column, covariate)
        for column, covariate in zip(values.T, study.covariates.values(), strict=True)
    ]
