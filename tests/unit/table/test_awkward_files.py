"""Awkward columns as files: what a draft makes of each, what a check finds, and that it is learnt.

The columns are those of ``tests/awkward.py``, which the estimators read, too. As CSV, columns that
differ only in the type of their cells are one and the same.
"""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from fedrulefit.engines import inprocess
from fedrulefit.study import Study
from fedrulefit.table.check import Inspection, inspect_table
from fedrulefit.table.draft import Draft, draft_study
from tests.awkward import COLUMNS, AsFile, Awkward


def unique_columns() -> dict[str, Awkward]:
    """Return the columns that differ as files, by the name of the first."""
    seen: dict[tuple[tuple[str, ...], str], Awkward] = {}
    for case in COLUMNS:
        seen.setdefault((case.cells, case.column), case)
    return {case.name: case for case in seen.values()}


CASES: Final = unique_columns()

NUMBER: Final = AsFile("number")
CODES: Final = AsFile("category", "taken for codes without an order")
YES_NO: Final = AsFile("yes/no")
CATEGORY: Final = AsFile("category")
ORDERED: Final = AsFile("ordered", "levels put in an order: ")
DATES: Final = AsFile(None, "looks like dates or times: use an age in years")
ONE_VALUE: Final = AsFile(None, "has fewer than two distinct values here")
COMMA: Final = AsFile("number", finds=frozenset({"read-comma"}))

AS_FILE: Final = {
    "whole numbers": NUMBER,
    "decimals with gaps": NUMBER,
    "float32": NUMBER,
    "nullable Int64": NUMBER,
    "objects of int and float": NUMBER,
    "counts from 0": CODES,
    "pain from 0 to 9": NUMBER,
    "postcodes as numbers": NUMBER,
    "very large numbers": AsFile(None, "has values beyond 1e+15"),
    "infinity": AsFile(None, "has infinite values"),
    "a number that is always the same": ONE_VALUE,
    "a number that is always missing": ONE_VALUE,
    "-9 in a coma score": AsFile("number", "-9 taken as missing"),
    "999 in a blood pressure": AsFile("number", "999 taken as missing"),
    "-1 in a count": AsFile("category", "-1 taken as missing"),
    "77, 88 and 99": AsFile("category", "77, 88, 99 taken as missing"),
    "9 beside yes and no": AsFile("yes/no", "9 taken as missing"),
    "blood groups from 1 to 4": CODES,
    "1 to 4 by a name with an order": AsFile("ordered", "order: 1 < 2 < 3 < 4"),
    "1 to 4, said to be a category": CODES,
    "running numbers": AsFile(None, "looks like an identifier"),
    "long numbers": AsFile(None, "looks like an identifier"),
    "0 and 1": YES_NO,
    "nullable booleans": YES_NO,
    "objects of True, False and None": YES_NO,
    "yes and no": YES_NO,
    "ja and nein": YES_NO,
    "text of 0 and 1": YES_NO,
    "text": CATEGORY,
    "none is a level": CATEGORY,
    "no is a level": AsFile("ordered", "order: no < mild < severe"),
    "unknown is a level": AsFile("yes/no", '"unknown" taken as missing'),
    "text of 1 to 10": NUMBER,
    "text from 01 to 04": CODES,
    "1 to 3, and 3+": CATEGORY,
    "1 to 3, and unknown": AsFile("category", '"unknown" taken as missing'),
    "1 and 1.0": CATEGORY,
    "blanks around": CATEGORY,
    "capitals": AsFile("category", "has levels that differ in capitals only"),
    "bytes": CATEGORY,
    "diagnoses": AsFile(None, "is text with many distinct values"),
    "a text that is always the same": ONE_VALUE,
    "free text": AsFile(None, "an identifier or free text"),
    "names of more patients than levels": AsFile(None, "an identifier or free text"),
    "postcodes with a 0": AsFile(None, "codes with leading zeros"),
    "numbers and NA in text": NUMBER,
    "numbers and unknown": AsFile("number", '"unknown" taken as missing'),
    "numbers and a rare remark": AsFile(
        "number", "cells that are no numbers: 1", frozenset({"not-a-number"})
    ),
    "decimal commas": COMMA,
    "decimal commas, said to be levels": COMMA,
    "a few decimal commas": COMMA,
    "codes by their name": AsFile("category", "by its name taken for codes"),
    "decimal commas, and points that may be either": AsFile(
        None, "has points that may separate thousands"
    ),
    "a comma that may be either": AsFile(
        None, "has commas that may be decimal or separate thousands"
    ),
    "thousands by points": COMMA,
    "thousands by blanks": COMMA,
    "limits": AsFile("number", "or end with +: 2", frozenset({"beyond-limit"})),
    "many limits": AsFile("number", "or end with +: 40", frozenset({"beyond-limit"})),
    "ages up to 90+": AsFile("number", "or end with +: 12", frozenset({"beyond-limit"})),
    "units": AsFile("number", "cells that are no numbers: 2", frozenset({"not-a-number"})),
    "days as text": DATES,
    "days of Germany": DATES,
    "days and times": DATES,
    "times of day": DATES,
    "days, said to be levels": DATES,
    "categories, one of them unused": ORDERED,
    "two categories": AsFile("yes/no", '"m" taken as yes, "f" as no'),
    "categories of booleans": YES_NO,
    "categories with nan": AsFile("yes/no", '"b" taken as yes, "a" as no'),
    "two ordered categories": YES_NO,
    "ordered categories and unknown": AsFile("ordered", '"unknown" taken as missing'),
    "polars Categorical": CATEGORY,
    "objects of words, and an int": CATEGORY,
    "lists": AsFile("yes/no", "1 taken as yes, 2 as no"),
}


def test_every_column_has_an_expectation() -> None:
    assert set(AS_FILE) == set(CASES)
    assert len(AS_FILE) >= 60


@pytest.mark.parametrize("name", CASES)
def test_a_column_as_a_file(name: str, tmp_path: Path) -> None:
    case, expected = CASES[name], AS_FILE[name]
    path = write(case, tmp_path / "t.csv")
    drafted = draft_study(path, outcome="died", name=None)
    study = Study.from_mapping(tomllib.loads(drafted.text))
    covariate = study.covariates.get(case.column)
    assert (covariate.kind if covariate else None) == expected.drafted
    said = said_of(case.column, drafted)
    assert bool(said) == bool(expected.draft_says)
    assert expected.draft_says in said
    inspection = inspect_table(path, study)
    found = {f.code for f in inspection.findings if f.code not in ("extra-column", "few-patients")}
    assert found == expected.finds
    learn(study, inspection)


def said_of(column: str, drafted: Draft) -> str:
    """Return what the draft says of a column; of one that is left out, in the file, too."""
    left_out = dict(drafted.left_out).get(column, "")
    assert not left_out or f'# Left out: "{column}" {left_out}.' in drafted.text
    return "; ".join([left_out] * bool(left_out) + [w for c, w in drafted.guesses if c == column])


def learn(study: Study, inspection: Inspection) -> None:
    """Learn from a table without errors; the drafted study never gives one that cannot."""
    if inspection.table is None:
        assert inspection.errors
        return
    quick = study.with_settings(n_trees=3, penalty=0.05, noise=False)
    fitted = inprocess.fit(quick, {"a": inspection.table, "b": inspection.table}, n_threads=1)
    assert fitted.model.study.names == study.names


def write(case: Awkward, path: Path) -> Path:
    rng = np.random.default_rng(0)
    n_rows = len(case.cells)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([case.column, "other", "died"])
        other, died = rng.normal(size=n_rows).round(3), rng.integers(0, 2, n_rows)
        writer.writerows(zip(case.cells, other.tolist(), died.tolist(), strict=True))
    return path
