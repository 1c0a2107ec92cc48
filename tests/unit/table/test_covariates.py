"""Covariates against what the study says of each."""

from __future__ import annotations

from tests.tables import codes, make_columns, make_study


def test_complete_columns_must_be_complete() -> None:
    study = make_study(covariates={"age": {"kind": "number", "range": [0, 9], "complete": True}})
    source = {"age": [None, *[1, 2] * 19, 3], "died": make_columns()["died"]}
    assert codes(source, study) == {"missing-value": "error"}
    assert codes(source, study, need_outcome=False) == {"missing-value": "error"}


def test_values_between_steps_are_pointed_out() -> None:
    study = make_study(covariates={"age": {"kind": "number", "range": [0, 9], "step": 0.5}})
    source = {"age": [1, 2.25, 2.5, 3] * 10, "died": make_columns()["died"]}
    assert codes(source, study) == {"between-steps": "warning"}
