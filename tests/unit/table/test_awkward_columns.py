"""Awkward columns through the estimators: the kind that each becomes, and what is said of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from fedrulefit import RuleFitClassifier
from fedrulefit.errors import FedRuleFitError, ReadingWarning
from fedrulefit.study import Covariate, Number
from tests.awkward import COLUMNS, Awkward


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


def check_covariate(covariate: Covariate, case: Awkward) -> None:
    assert covariate.kind == case.kind
    if isinstance(covariate, Number):
        assert case.range in (None, covariate.range)
    elif case.levels:
        assert [(type(x), x) for x in covariate.coded] == [(type(x), x) for x in case.levels]


def test_names_are_unique_and_there_are_many() -> None:
    assert len({case.name for case in COLUMNS}) == len(COLUMNS) >= 60
