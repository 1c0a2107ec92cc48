"""One SELECT gives what ``predict_proba`` gives, on every database."""

from __future__ import annotations

import dataclasses
import math
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedrulefit import Model
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, interval
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import LinearTerm, RuleTerm
from fedrulefit.model.export.dialects import DIALECTS
from fedrulefit.study import Study
from fedrulefit.table.spelling import read_number
from tests.databases import Column
from tests.predictors import as_frame
from tests.random_models import GOLDEN, expected, over_time, random_columns, random_model
from tests.samples import make_frame

TOLERANCE = 1e-12


def agree(found: list[Any], wanted: list[float | None]) -> None:
    assert [p is None for p in found] == [p is None for p in wanted]
    pairs = [(a, b) for a, b in zip(found, wanted, strict=True) if b is not None]
    np.testing.assert_allclose(
        [a for a, _ in pairs], [b for _, b in pairs], rtol=TOLERANCE, atol=TOLERANCE
    )


def score_all(
    database: Any, model: Model, columns: dict[str, Column], **options: Any
) -> list[dict[str, Any]]:
    """Run the query; rows come back in the order of the table."""
    n_rows = len(next(iter(columns.values())).cells)
    table = {**columns, "row number": Column("whole", list(range(n_rows)))}
    query = model.to_sql(database.dialect, key="row number", **options)
    rows = sorted(database.run(query, table), key=lambda row: row["row number"])
    assert [row["row number"] for row in rows] == list(range(n_rows))
    return rows


def score(database: Any, model: Model, columns: dict[str, Column], **options: Any) -> list[Any]:
    return [row["probability"] for row in score_all(database, model, columns, **options)]


def one_covariate(covariate: dict[str, Any], axis: Axis, codes: int) -> Model:
    """Return a model with one rule on one covariate ``x``."""
    study = Study.from_mapping(
        {"name": "one", "outcome": {"column": "died"}, "covariates": {"x": covariate}}
    )
    term = RuleTerm(Rule((Condition(0, codes),)), 1.0, 1.0, 1.0, 0.0)
    return dataclasses.replace(
        Model.load(GOLDEN), study=study, grid=Grid((axis,)), intercept=0.0, terms=(term,)
    )


def fires(database: Any, model: Model, kind: str, cells: list[Any]) -> list[Any]:
    """Return True, False or None (neither a value of the study nor missing) for each cell."""
    found = score_all(database, model, {"x": Column(kind, cells)})
    return [None if "x not a" in row["flags"] else row["probability"] > 0.6 for row in found]


def test_the_golden_model_scores_a_hospital(database: Any) -> None:
    model, frame = Model.load(GOLDEN), make_frame(200, seed=3)
    kinds = {"age": "number", "lactate": "number", "gcs": "whole", "ward": "text", "sex": "text"}
    columns = {
        name: Column(kind, [None if v is None or v != v else v for v in frame[name].tolist()])
        for name, kind in kinds.items()
    }
    agree(score(database, model, columns), model.predict_proba(frame).tolist())


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1), bad=st.sampled_from([0.0, 0.1]))
def test_any_model_and_any_patients(database: Any, seed: int, bad: float) -> None:
    """The same probability and the same flags; NULL for a patient who gets no prediction."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    columns = random_columns(rng, model, 30, bad=bad)
    rows, (chances, flags) = score_all(database, model, columns), expected(model, columns)
    agree([row["probability"] for row in rows], chances)
    assert [row["flags"] for row in rows] == flags


@pytest.mark.parametrize("seed", range(6))
def test_risks_by_every_horizon(database: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = over_time(rng, random_model(rng))
    columns = random_columns(rng, model, 30, bad=0.1)
    rows, wanted = score_all(database, model, columns), model.predict_frame(as_frame(columns))
    for name in ("risk", "risk_0_5", "risk_90", "risk_365"):
        chances = [None if math.isnan(chance) else chance for chance in wanted[name]]
        agree([row[name] for row in rows], chances)
    with pytest.raises(FedRuleFitError, match="risk, risk_0_5, risk_90, risk_365, log_hazard"):
        model.to_sql(database.dialect, key="Risk_90")


def test_spellings_of_a_level(database: Any) -> None:
    """What level_key takes as one level, the query does: numbers by value, true in any case."""
    axis = Axis("category", np.empty(0), 3, complete=False)
    numbers = one_covariate({"kind": "category", "levels": [1, 2, "x"]}, axis, 0b001)
    cells = ["1", "1.0", "01", " 1 ", "1e0", "2", "x", "X", "true", "NA", None, "1,0"]
    found = fires(database, numbers, "text", cells)
    assert found == [*[True] * 5, False, False, None, None, False, False, None]

    binary = Axis("yes/no", np.array([0.5]), 2, complete=False, limits=(0.0, 1.0), spread=0.5)
    truth = one_covariate({"kind": "yes/no", "yes": True, "no": False}, binary, interval(1, 2))
    cells = ["true", "True", "TRUE", "1", "1.0", "false", "0", "yes", None]
    found = fires(database, truth, "text", cells)
    assert found == [*[True] * 5, False, False, None, False]
    assert fires(database, truth, "whole", [1, 0, None, 2]) == [True, False, False, None]
    assert fires(database, truth, "boolean", [True, False, None]) == [True, False, False]
    one = one_covariate({"kind": "yes/no"}, binary, interval(1, 2))
    assert fires(database, one, "boolean", [True, False, None]) == [True, False, False]
    assert fires(database, one, "text", ["True", "0.0", "no"]) == [True, False, None]


def test_a_long_code_counts_digit_by_digit(database: Any) -> None:
    axis = Axis("category", np.empty(0), 2, complete=False)
    levels = ["123456789012345678", "123456789012345679"]
    model = one_covariate({"kind": "category", "levels": levels}, axis, 0b01)
    assert fires(database, model, "text", [*levels, f"00{levels[0]}", "1e17"]) == [
        True, False, True, None,
    ]  # fmt: skip
    assert fires(database, model, "whole", [int(v) for v in levels]) == [True, False]


def test_a_cut_off_is_met_exactly(database: Any) -> None:
    """On the cut-off, and one float below it; also those that SQLite cannot read as decimals."""
    rng = np.random.default_rng(1)
    cutoffs = [0.1 + 0.2, 97.53999999999999, 1 / 3, 1e-5 / 3, -2.5, 60.64, *rng.normal(0, 9, 30)]
    for cutoff in map(float, cutoffs):
        axis = Axis("number", np.array([cutoff]), 2, complete=False)
        model = one_covariate({"kind": "number", "range": [-100, 200]}, axis, interval(1, 2))
        below = float(np.nextafter(cutoff, -np.inf))
        assert fires(database, model, "number", [cutoff, below]) == [True, False]


def test_numbers_in_any_type_of_column(database: Any) -> None:
    axis = Axis("number", np.array([5.0]), 2, complete=False)
    model = one_covariate({"kind": "number", "range": [0, 10]}, axis, interval(1, 2))
    assert fires(database, model, "whole", [4, 5, None]) == [False, True, False]
    assert fires(database, model, "numeric(10, 2)", [4.99, 5, None]) == [False, True, False]
    assert fires(database, model, "boolean", [True, False]) == [False, False]
    words = ["5.", "4.9", "1e400", "-1e400", "1e-400", "9" * 200, "inf", "1_0", "5kg"]
    assert fires(database, model, "text", words) == [
        True, False, True, False, False, True, True, None, None,
    ]  # fmt: skip
    infinite = ["inf", "+Inf", "INFINITY", "-inf", " -Infinity", "infinite"]
    assert fires(database, model, "text", infinite) == [True, True, True, False, False, None]
    if database.dialect != "sqlite":
        cells = [float("nan"), float("inf"), -float("inf")]
        assert fires(database, model, "number", cells) == [False, True, False]


def test_spellings_of_a_number(database: Any) -> None:
    """What ``read_number`` reads, the query does, and nothing else."""
    rng = np.random.default_rng(5)
    cells = ["1,234", "1,2345", "0,123", "1.234", "1.234.567", "1 234 567", "1'234.5", "1 234'567"]
    cells += ["1.234,5", "1,234.5", "1,234,567.5", "1,23,456", "12,34.5", "1.23,4", "007,5", ",5"]
    cells += ["1,234,567", "1234,567", "1 23", "1,", "5,e", "+1 234", "- 5", "1.234.56", "1..2"]
    for x in (10 ** rng.uniform(0, 8, 150)).round(2).tolist():
        whole, point, fraction = f"{x:,.2f}".partition(".")
        spelt = whole.replace(",", str(rng.choice([",", ".", " ", "'", "", "\u00a0"])))
        end = str(rng.choice(["", f",{fraction}", f".{fraction}", f",{fraction}7", point]))
        cells.append(str(rng.choice(["", "-", "+"])) + spelt + end)
        place = int(rng.integers(len(cells[-1])))  # a slip of the pen
        cells.append(cells[-1][:place] + str(rng.choice([*",. '"])) + cells[-1][place + 1 :])
    wide = (-1e9, 1e9)
    axis = Axis("number", np.empty(0), 1, False, wide, 0.4, 0.0, 7e8)
    model = one_covariate({"kind": "number", "range": list(wide)}, axis, 1)
    model = dataclasses.replace(model, terms=(LinearTerm(0, 1.0, 1.0),))
    rows = score_all(database, model, {"x": Column("text", cells)}, linear_predictor=True)
    numbers = [read_number(cell) for cell in cells]
    assert 100 < sum(number is None for number in numbers) < len(cells) - 100
    for cell, row, number in zip(cells, rows, numbers, strict=True):
        assert (row["flags"] == "") == (number is not None), cell
        assert row["log_odds"] == pytest.approx(7e8 if number is None else number), cell


def test_extreme_log_odds_neither_overflow_nor_fail(database: Any) -> None:
    axis = Axis("number", np.array([5.0]), 2, False, (-1000.0, 1000.0), 0.4, 0.0, 0.0)
    model = one_covariate({"kind": "number", "range": [-1000, 1000]}, axis, interval(1, 2))
    model = dataclasses.replace(model, terms=(LinearTerm(0, 1.0, 1.0),))
    cells = [-1000.0, -800.0, -745.0, -40.0, 0.0, 40.0, 800.0, 1000.0]
    found = score(database, model, {"x": Column("number", cells)})
    wanted = model.predict_proba(np.array(cells)[:, None])
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=1e-300)


def test_a_model_without_terms_and_one_with_thousands(database: Any) -> None:
    rng = np.random.default_rng(0)
    model = random_model(rng, n_rules=3000)
    assert len(model.terms) > 1500
    columns = random_columns(rng, model, 20)
    agree(score(database, model, columns), expected(model, columns)[0])
    empty = dataclasses.replace(model, terms=())
    agree(score(database, empty, columns), expected(empty, columns)[0])
    rows = database.run(empty.to_sql(database.dialect), columns)
    assert [(list(row), row["flags"]) for row in rows] == [(["probability", "flags"], "")] * 20


def test_the_columns_of_the_result(database: Any) -> None:
    model = Model.load(GOLDEN)
    frame = make_frame(5)
    columns = {
        'Age "at" entry': Column("number", frame["age"].tolist()),
        "lactate": Column("number", [None] * 5),
        "gcs": Column("whole", frame["gcs"].tolist()),
        "ward": Column("text", frame["ward"].tolist()),
        "sex": Column("text", frame["sex"].tolist()),
        "patient": Column("text", ["a", "b", "c", "d", "e"]),
        "visit": Column("whole", [1, 2, 3, 4, 5]),
    }
    query = model.to_sql(
        database.dialect,
        table="odd; table",
        key=["patient", "visit"],
        columns={"age": 'Age "at" entry'},
        linear_predictor=True,
    )
    rows = database.run(query, columns, table="odd; table")
    assert [list(row) for row in rows] == [
        ["patient", "visit", "probability", "log_odds", "flags"]
    ] * 5
    frame["lactate"] = np.nan
    wanted = dict(zip("abcde", model.decision_function(frame), strict=True))
    for row in rows:
        assert row["log_odds"] == pytest.approx(wanted[row["patient"]], abs=TOLERANCE)


def test_a_column_that_is_not_there_is_an_error(database: Any) -> None:
    """SQLite takes a quoted name that it does not know for a text, unless a table is named."""
    columns = {"age": Column("number", [50.0])}
    with pytest.raises((sqlite3.OperationalError, RuntimeError, Exception), match="(?i)column"):
        database.run(Model.load(GOLDEN).to_sql(database.dialect), columns)


def test_collations_do_not_matter(database: Any) -> None:
    axis = Axis("category", np.empty(0), 2, complete=False)
    model = one_covariate({"kind": "category", "levels": ["icu", "ICU"]}, axis, 0b01)
    kind = {"duckdb": "VARCHAR COLLATE NOCASE", "sqlite": "TEXT COLLATE NOCASE"}
    column = kind.get(database.dialect, "varchar(9)")
    assert fires(database, model, column, ["icu", "ICU", "Icu"]) == [True, False, None]


def test_postgresql_without_standard_strings(postgresql: Any) -> None:
    """A backslash could end a text where an old setting is in force."""
    axis = Axis("category", np.empty(0), 2, complete=False)
    levels = ["\\' OR 1 = 1 --", "back\\slash"]
    model = one_covariate({"kind": "category", "levels": levels}, axis, 0b10)
    query = model.to_sql("postgresql").strip()
    script = f"SET standard_conforming_strings = off;\nSET escape_string_warning = off;\n{query};"
    made = "CREATE TEMP TABLE patients (x text);\nINSERT INTO patients VALUES (E'back\\\\slash');\n"
    assert float(postgresql.execute(made + script).split("|")[-2].split()[-1]) > 0.6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_refused(dialect: str) -> None:
    model = Model.load(GOLDEN)
    with pytest.raises(FedRuleFitError, match="not known: choose"):
        model.to_sql("oracle")
    for key in ("probability", "LOG_ODDS", "Flags", ["id", "ID"]):
        with pytest.raises(FedRuleFitError, match="rename the column"):
            model.to_sql(dialect, key=key)
    with pytest.raises(FedRuleFitError, match="empty"):
        model.to_sql(dialect, table="")
    with pytest.raises(FedRuleFitError, match="clash"):
        model.to_sql(dialect, table="fedrulefit_cells")
    with pytest.raises(FedRuleFitError, match="no covariate 'agee'"):
        model.to_sql(dialect, columns={"agee": "age"})
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(FedRuleFitError, match="no database can store"):
            model.to_sql(dialect, table=name)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_it_is_one_statement(dialect: str, seed: int) -> None:
    """Without names, texts and comments, no semicolon and no quote is left."""
    query = random_model(np.random.default_rng(seed)).to_sql(dialect)
    bare = re.sub(r"""E'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*""", "", query)
    assert not set(bare) & set(";'\"\\")
    assert "DROP" not in bare


def test_a_schema(tmp_path: Path) -> None:
    query = Model.load(GOLDEN).to_sql("postgresql", table=("clinic", "patients"))
    assert 'FROM "clinic"."patients" AS t' in query
