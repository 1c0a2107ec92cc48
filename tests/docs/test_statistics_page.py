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
from fedrulefit.core.families import FAMILIES
from fedrulefit.core.families.competing_judge import CompetingJudge
from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.count_spread import SpreadJudge
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
from fedrulefit.model.wishes import Edit, Wish
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.report.specification import list_specification
from fedrulefit.testing.samples import OUTCOMES
from tests.docs.pages import ROOT
from tests.families import EXAMPLES
from tests.reports import competing_model
from tests.samples import SOLVERS, fit_model, make_frame, make_study, make_tables

PAGE: Final = ROOT / "docs" / "statistics.md"
MARK: Final = re.compile(r"<!-- numbers: (.+?) -->")
NODE: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")

WORDS: Final = {"rule", "kind", "covariate", "label", "site", "value", "round", "term"}
"""Columns that name a row, and hold no number to explain."""

LEVEL: Final = "level"
"""Of classes, and of splits of an ordered outcome: whose the row is."""


@cache
def shown_model() -> Model:
    """Return a model of which everything is told that can be."""
    study = make_study(
        **{**SOLVERS["cv"], "holdout": 0.3, "per_site": True, "epsilon": 1.0, "adjusted": True}
    )
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


@cache
def other_models() -> tuple[Model, ...]:
    """Return a model of each other kind of outcome, judged on held-out patients."""
    settings = {**SOLVERS["exact"], "holdout": 0.3, "n_trees": 5, "n_cutoffs": 5}
    studies = [make_study(kind, **settings) for kind in OUTCOMES if kind != "yes/no"]
    return tuple(fit_model(study, make_tables(study, sizes=(200, 180))) for study in studies)


def frames_of(*makers: Callable[[Model], Any]) -> set[str]:
    """Return the columns of such frames of models of other outcomes than yes/no."""
    return {
        re.sub("^(risk|probability|log_odds|log_hazard)_(?!inside|outside).+", r"\1_…", name)
        for model in other_models()
        for make in makers
        for name in columns(make(model)) - {LEVEL}
    }


def evaluated(model: Model) -> Evaluation:
    assert model.evaluation is not None
    return model.evaluation


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
    "SpreadJudge.measures": lambda: judged_by(SpreadJudge) - judged_by(CountJudge),
    "TimeJudge.measures": lambda: judged_by(TimeJudge),
    "CompetingJudge.measures": lambda: judged_by(CompetingJudge),
    "Model.subgroup_curves_frame": lambda: columns(competing_model().subgroup_curves_frame()),
    "LevelsJudge.measures": lambda: judged_by(LevelsJudge),
    "Evaluation.levels_frame": lambda: {field.name for field in fields(LevelRow)},
    "effects of other outcomes": lambda: (
        frames_of(
            lambda model: model.rules_frame(),
            lambda model: model.partial_dependence(model.study.names[0]),
        )
        - ({*columns(shown_model().rules_frame())} - {"odds_ratio"})
        - ({"alone", "lowest", "highest"})
    ),
    "predictions of other outcomes": lambda: (
        frames_of(lambda model: model.predict_frame(make_frame(9))) - {"flags"}
    ),
    "calibration and decisions of other outcomes": lambda: frames_of(
        lambda model: evaluated(model).calibration_frame(),
        lambda model: evaluated(model).decision_frame(),
    ),
    "Evaluation.over_time": lambda: {field.name for field in fields(Scores)},
    "SiteValidation.metrics_frame": lambda: columns(left_out().metrics_frame()),
    "SiteValidation.summary_frame": lambda: columns(left_out().summary_frame()),
    "Provenance": lambda: numbers(Provenance),
    "Certificate": lambda: numbers(Certificate),
    "Wish": lambda: numbers(Wish),
    "Edit": lambda: numbers(Edit),
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


def test_every_kind_of_outcome_has_its_measures_on_the_page() -> None:
    """Regression: those of levels were shown for a while, and explained nowhere."""
    assert {family.kind for family in EXAMPLES.values()} == set(FAMILIES)
    judges = {type(f.judge).__name__ for name, f in EXAMPLES.items() if name != "yes/no"}
    assert {f"{judge}.measures" for judge in judges} <= set(read_tables())


def test_what_is_told_of_subgroups_of_other_outcomes_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    known = PLACES["Model.subgroups_frame"]()
    told = frames_of(lambda model: model.subgroups_frame()) - known
    assert len(told) > 8
    for name in told:
        # Columns of single levels bear their names: the page shows those of one.
        plain = re.sub("^share_.+_(inside|outside)$", r"share_mild_\1", name)
        assert f"`{plain}`" in text or re.sub("^(low|high)_", "", plain) in text, name


def test_scales_of_hospitals_are_those_of_the_judges() -> None:
    (row,) = (r for r in read_tables()["SiteValidation.summary_frame"] if "`scale`" in r[0])
    names = {found.name for family in EXAMPLES.values() for found in family.judge.summarise([])}
    words = {
        "auc": "AUC", "concordance": "concordance", "r2": "R²", "explained": "D²",
        "ratio": "ratios", "slope": "slope", "intercept": "in the large",
    }  # fmt: skip
    assert names == set(words)
    assert all(word in row[1] for word in words.values())


def test_numbers_of_terms_are_in_the_frame_of_rules() -> None:
    shown = PLACES["Model.rules_frame"]() | PLACES["Model.subgroups_frame"]()
    told = numbers(RuleTerm) | numbers(LinearTerm) | numbers(PathPoint)
    aside = {"feature", "events_inside"}  # a place, and what rates follow from
    assert told - aside - PLACES["Model.path_frame"]() <= shown
