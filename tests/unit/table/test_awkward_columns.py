"""Awkward columns through the estimators: the kind that each becomes, and what is said of it."""

from __future__ import annotations

import warnings
from typing import Any, Final

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fedrulefit import RuleFitClassifier
from fedrulefit.errors import FedRuleFitError, ReadingWarning
from fedrulefit.estimators.naming import column_names, name_columns
from fedrulefit.study import Covariate, Number, Outcome, Study
from fedrulefit.table.asked import resolve_asked
from fedrulefit.table.check import load_columns
from fedrulefit.table.infer import infer_covariates
from fedrulefit.table.reading import Cell, read_column
from tests.awkward import COLUMNS, Awkward


class Asker(BaseEstimator):
    """Stands for an estimator that is told the names of columns."""


def fit(case: Awkward) -> RuleFitClassifier:
    column = case.series
    y = np.arange(len(column)) % 2
    model = RuleFitClassifier(n_trees=2, penalty=0.01, random_state=0, **case.options)
    return model.fit(as_frame(case.column, column), y)


def as_frame(name: str, column: Any) -> Any:
    """Return a frame of the column's own library, with nothing changed on the way."""
    module = type(column).__module__.partition(".")[0]
    if module == "polars":
        return column.to_frame(name)
    if module == "pyarrow":
        return pytest.importorskip("pyarrow").table({name: column})
    if module == "numpy":
        return column.reshape(-1, 1)
    return column.to_frame(name)


@pytest.mark.parametrize("case", COLUMNS, ids=lambda case: case.name)
def test_each_column_becomes_what_it_says(case: Awkward) -> None:
    if case.kind is None:
        with pytest.raises(FedRuleFitError) as refusal:
            fit(case)
        assert case.says in str(refusal.value)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit(case)
    said = [str(w.message) for w in caught if issubclass(w.category, ReadingWarning)]
    assert len(said) == bool(case.says), said
    assert case.says in "".join(said)
    (covariate,) = fitted.study_.covariates.values()
    check_covariate(covariate, case)


READ: Final = [case for case in COLUMNS if case.kind is not None]


@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
def test_the_model_reads_each_column_as_the_estimator_did(case: Awkward) -> None:
    """What trained a model and what it is asked about later have one reading."""
    frame = name_columns(as_frame(case.column, case.series), None, asker=Asker(), reset=True)
    names = column_names(frame) or list(frame)
    found = infer_covariates(frame, asked=resolve_asked(names, **case.options))
    outcome = Outcome(column="died")
    study = Study(name="test", outcome=outcome, covariates=dict(found.covariates))
    (name,) = found.covariates
    columns = load_columns(frame, study)
    later = read_column(columns.arrays[name], study.covariates[name])
    np.testing.assert_array_equal(later.values, found.values[:, 0])
    assert not later.count(Cell.UNSEEN, Cell.BELOW, Cell.ABOVE)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", READ, ids=lambda case: case.name)
def test_each_patient_gets_a_prediction(case: Awkward) -> None:
    frame = as_frame(case.column, case.series)
    assert np.isfinite(fit(case).predict_proba(frame)).all()


def check_covariate(covariate: Covariate, case: Awkward) -> None:
    assert covariate.kind == case.kind
    if isinstance(covariate, Number):
        assert case.range in (None, covariate.range)
    elif case.levels:
        assert [(type(x), x) for x in covariate.coded] == [(type(x), x) for x in case.levels]


def test_names_are_unique_and_there_are_many() -> None:
    assert len({case.name for case in COLUMNS}) == len(COLUMNS) >= 60
