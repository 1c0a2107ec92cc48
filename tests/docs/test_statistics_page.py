"""docs/statistics.md has an entry for every number that the program shows, and for no other.

A table stands below a mark ``<!-- numbers: PLACE -->``; its first column names the numbers as
the code does, its last the tests that check them against something else.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final

import pytest

from fedrulefit.core.certificate import Certificate
from fedrulefit.core.families.competing_judge import CompetingJudge
from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.levels_judge import LevelsJudge
from fedrulefit.core.families.levels_measures import LevelRow
from fedrulefit.core.families.number_judge import NumberJudge
from fedrulefit.core.families.time_horizons import Scores
from fedrulefit.core.families.time_judge import TimeJudge
from fedrulefit.engines.leaveout import leave_one_site_out
from fedrulefit.model import Explanation, LinearTerm, Model, PathPoint, Provenance, RuleTerm
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.explanation import Contribution
from fedrulefit.model.validation import SiteValidation
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.report.specification import list_specification
from tests.docs.pages import ROOT
from tests.reports import competing_model
from tests.samples import SOLVERS, fit_model, make_frame, make_study, make_tables

PAGE: Final = ROOT / "docs" / "statistics.md"
MARK: Final = re.compile(r"<!-- numbers: (.+?) -->")
NODE: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")

WORDS: Final = {"rule", "kind", "covariate", "label", "site", "value", "round", "term"}
"""Columns that name a row, and hold no number to explain."""


@cache
def shown_model() -> Model:
    """Return a model of which everything is told that can be."""
    study = make_study(**{**SOLVERS["cv"], "holdout": 0.3, "per_site": True, "epsilon": 1.0})
    tables = make_tables(study, sizes=(400, 350, 300))
    model = fit_model(study, tables)
    return replace(model, validation=leave_one_site_out(study, tables))


def columns(frame: Any) -> set[str]:
    return {str(name) for name in frame.columns} - WORDS


def numbers(kind: type) -> set[str]:
    """Return the fields of a dataclass that are annotated as numbers."""
    words = ("float", "int")
    return {f.name for f in fields(kind) if str(f.type).split(" | ")[0] in words}


def judged_by(judge: type[Any]) -> set[str]:
    """Return the measures that a kind of outcome is judged by, and those within hospitals."""
    return numbers(judge.measures) | {f"within_{name}" for name in numbers(judge.within)}


def judged() -> Evaluation:
    found = shown_model().evaluation
    assert found is not None
    return found


def left_out() -> SiteValidation:
    found = shown_model().validation
    assert found is not None
    return found


PLACES: Final[Mapping[str, Callable[[], set[str]]]] = {
    "Model.rules_frame": lambda: columns(shown_model().rules_frame()),
    "Model.subgroups_frame": lambda: columns(shown_model().subgroups_frame()),
    "Model.importance_frame": lambda: columns(shown_model().importance_frame()),
    "Model.path_frame": lambda: columns(shown_model().path_frame()),
    "Model.history_frame": lambda: columns(shown_model().history_frame()),
    "Model.predict_frame": lambda: columns(shown_model().predict_frame(make_frame(9))),
    "Model.partial_dependence": lambda: {
        *columns(shown_model().partial_dependence(shown_model().study.names[0])),
        "interaction",
    },
    "Evaluation.metrics_frame": lambda: columns(judged().metrics_frame()),
    "Evaluation.calibration_frame": lambda: columns(judged().calibration_frame()),
    "Evaluation.decision_frame": lambda: columns(judged().decision_frame()),
    "NumberJudge.measures": lambda: judged_by(NumberJudge),
    "CountJudge.measures": lambda: judged_by(CountJudge),
    "TimeJudge.measures": lambda: judged_by(TimeJudge),
    "CompetingJudge.measures": lambda: judged_by(CompetingJudge),
    "Model.subgroup_curves_frame": lambda: columns(competing_model().subgroup_curves_frame()),
    "LevelsJudge.measures": lambda: judged_by(LevelsJudge),
    "Evaluation.levels_frame": lambda: {field.name for field in fields(LevelRow)},
    "Evaluation.over_time": lambda: {field.name for field in fields(Scores)},
    "SiteValidation.metrics_frame": lambda: columns(left_out().metrics_frame()),
    "SiteValidation.summary_frame": lambda: columns(left_out().summary_frame()),
    "Provenance": lambda: numbers(Provenance),
    "Certificate": lambda: numbers(Certificate),
    "PrivacyBill": lambda: numbers(PrivacyBill),
    "Explanation": lambda: numbers(Explanation) | numbers(Contribution),
    "report: the whole model in numbers": lambda: {
        name
        for table in list_specification(shown_model()).values()
        for name in table.columns
        if name not in {"Rule", "Variable"}
    },
}


@cache
def read_tables() -> dict[str, list[list[str]]]:
    """Return the rows of every marked table, by place."""
    parts = MARK.split(PAGE.read_text(encoding="utf-8"))
    places = parts[1::2]
    assert len(set(places)) == len(places), "a place is marked twice"
    return {place: list(_rows(text)) for place, text in zip(places, parts[2::2], strict=True)}


def _rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of the first table in `text`, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_place_is_on_the_page() -> None:
    assert set(read_tables()) == set(PLACES)


@pytest.mark.parametrize("place", PLACES)
def test_every_number_has_an_entry_and_every_entry_is_a_number(place: str) -> None:
    entries = [name for row in read_tables()[place] for name in named(row[0])]
    assert len(set(entries)) == len(entries), "a number is explained twice"
    assert set(entries) == PLACES[place]()


@pytest.mark.parametrize("place", PLACES)
def test_every_entry_says_what_it_is_and_which_test_checks_it(place: str) -> None:
    for row in read_tables()[place]:
        assert len(row) == 5, row
        assert all(row), f"{row[0]}: a cell is empty"
        assert NODE.search(row[-1]), f"{row[0]} names no test"


def test_tests_that_are_named_exist() -> None:
    for path, name in NODE.findall(PAGE.read_text(encoding="utf-8")):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        known = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not name or name in known, f"{path} has no test {name}"


def test_no_frame_is_forgotten() -> None:
    frames = {
        f"{kind.__name__}.{name}"
        for kind in (Model, Evaluation, SiteValidation)
        for name in vars(kind)
        if name.endswith("_frame")
    }
    # Its columns are the terms; its numbers are coefficients.
    assert frames - {"Model.coefficients_frame"} <= set(PLACES)


def test_numbers_of_terms_are_in_the_frame_of_rules() -> None:
    shown = PLACES["Model.rules_frame"]() | PLACES["Model.subgroups_frame"]()
    told = numbers(RuleTerm) | numbers(LinearTerm) | numbers(PathPoint)
    aside = {"feature", "events_inside"}  # a place, and what rates follow from
    assert told - aside - PLACES["Model.path_frame"]() <= shown
