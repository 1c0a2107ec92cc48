"""Rules in words: each condition asked of every value, and errors that say what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import encode
from fedrulefit.core.rules import describe_condition
from fedrulefit.errors import StudyError
from fedrulefit.study import Study
from fedrulefit.study.phrases import place_rule, read_rule
from fedrulefit.study.wishes import Wished, Wishes
from fedrulefit.testing.samples import study_facts
from tests.oracles import fires

STAGES = ["I", "II", "III", "IV"]


def make_facts(**wishes: Any) -> dict[str, Any]:
    facts = study_facts()
    facts["covariates"]["stage"] = {"kind": "ordered", "levels": STAGES}
    facts["covariates"]["days in bed"] = {"kind": "number", "range": [0, 30], "step": 1}
    if wishes:
        facts["wishes"] = wishes
    return facts


STUDY = Study.from_mapping(make_facts())


def place(text: str) -> tuple[Any, Any]:
    """Return a rule and its grid, which has no cut-offs but the rule's."""
    wished = Wished(STUDY.covariates, Wishes(rules=(text,)))
    grid = wished._smallest_grid()
    rule = place_rule(wished.own[0], wished.names, grid)
    assert rule is not None
    return rule, grid


def satisfied(text: str, name: str, values: list[Any]) -> list[bool]:
    rule, grid = place(text)
    j = STUDY.names.index(name)
    rows = np.zeros((len(values), len(STUDY.names)))
    rows[:, j] = values
    return [bool(each) for each in fires(rule, encode(rows, grid))]


NUMBERS = [18.0, 64.9, 65.0, 65.1, 80.0, 100.0, np.nan]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age >= 65", [0, 0, 1, 1, 1, 1, 0]),
        ("age ≥ 65 years", [0, 0, 1, 1, 1, 1, 0]),
        ("age<65", [1, 1, 0, 0, 0, 0, 0]),
        ("age < 65 (or missing)", [1, 1, 0, 0, 0, 0, 1]),
        ("age < 65 years or missing", [1, 1, 0, 0, 0, 0, 1]),
        ("65 <= age < 80", [0, 0, 1, 1, 0, 0, 0]),
        ("65 ≤ age < 80 years", [0, 0, 1, 1, 0, 0, 0]),
        ("age is missing", [0, 0, 0, 0, 0, 0, 1]),
        ("age is not missing", [1, 1, 1, 1, 1, 1, 0]),
        ("age is not missing (and age < 65 years)", [1, 1, 0, 0, 0, 0, 0]),
        ("age is missing (or age < 65 years)", [1, 1, 0, 0, 0, 0, 1]),
    ],
)
def test_conditions_on_a_number(text: str, expected: list[int]) -> None:
    assert satisfied(text, "age", NUMBERS) == [bool(each) for each in expected]


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("gcs < 9", 3, 8), ("gcs <= 8", 3, 8), ("gcs > 8", 9, 15), ("gcs >= 8.5", 9, 15),
        ("gcs >= 15", 15, 15), ("3 < gcs <= 12", 4, 12), ("days in bed > 2", 3, 15),
    ],
)  # fmt: skip
def test_values_of_a_step_have_open_and_closed_limits(text: str, least: int, most: int) -> None:
    name = "days in bed" if "days" in text else "gcs"
    values = list(range(3, 16))
    assert satisfied(text, name, values) == [least <= value <= most for value in values]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("ward = icu", "ward", [1, 0, 0, 0]),
        ("ward != icu", "ward", [0, 1, 1, 1]),
        ("ward ≠ icu", "ward", [0, 1, 1, 1]),
        ("ward is icu or other", "ward", [1, 0, 0, 1]),
        ("ward is icu, er or other", "ward", [1, 1, 0, 1]),
        ("ward in icu, er", "ward", [1, 1, 0, 0]),
        ("sex = female", "sex", [0, 1]),
        ("sex = f", "sex", [0, 1]),
        ("sex != female", "sex", [1, 0]),
        ("stage >= III", "stage", [0, 0, 1, 1]),
        ("stage > II", "stage", [0, 0, 1, 1]),
        ("stage <= II", "stage", [1, 1, 0, 0]),
        ("stage < II", "stage", [1, 0, 0, 0]),
        ("II ≤ stage ≤ III", "stage", [0, 1, 1, 0]),
        ("stage = IV", "stage", [0, 0, 0, 1]),
    ],
)
def test_conditions_on_levels(text: str, name: str, expected: list[int]) -> None:
    values = list(range(len(expected)))
    assert satisfied(text, name, values) == [bool(each) for each in expected]


def test_conditions_are_joined() -> None:
    rule, grid = place("age >= 65 & gcs < 9 & ward = icu")
    assert [STUDY.names[j] for j in rule.features] == ["age", "gcs", "ward"]
    assert len(read_rule("age>=65&gcs<9", STUDY.covariates)) == 2
    assert grid.axes[0].cutoffs.tolist() == [65]


def test_what_the_package_writes_it_reads_again() -> None:
    texts = [
        "age < 65", "age >= 65 (or missing)", "65 <= age < 80", "lactate >= 2.5", "gcs < 9",
        "ward != er", "ward is icu or other", "sex = female", "stage >= II", "II <= stage <= III",
        "age is missing", "stage <= II (or missing)",
    ]  # fmt: skip
    for text in texts:
        rule, grid = place(text)
        ((feature, _),) = rule.conditions
        name = STUDY.names[feature]
        covariate = STUDY.covariates[name]
        for shares in (None, "rare", "frequent"):
            axis = grid.axes[feature]
            known = np.zeros(axis.n_codes + 1)
            if shares is not None:
                inside = rule.conditions[0].table()[: axis.n_codes]
                known[: axis.n_codes] = np.where(inside == (shares == "frequent"), 1.0, 1e-6)
            words = describe_condition(
                rule.conditions[0],
                axis,
                name,
                unit=getattr(covariate, "unit", ""),
                step=getattr(covariate, "step", None),
                levels=getattr(covariate, "words", ()),
                shares=None if shares is None or axis.complete else known / known.sum(),
            )
            assert place_rule(read_rule(words, STUDY.covariates), STUDY.names, grid) == rule, words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age >= 65 & GSC < 9", "the study has no covariate 'GSC'"),
        ("gsc < 9", "did you mean 'gcs'"),
        ("age >= 650", "its public range is 18 to 100"),
        ("age >= 18", "parts no values of 'age'"),
        ("age < 18", "parts no values"),
        ("age >= nan", "parts no values"),
        ("age >= old", "'old' is no number, as 'age' needs"),
        ("age > 65", "no 'step', so write '<' or '>='"),
        ("age <= 65", "no 'step'"),
        ("age = 65", "use '<', '<=', '>' or '>='"),
        ("ward = icq", "did you mean 'icu'"),
        ("ward >= icu", "have no order"),
        ("stage > IV", "no level of 'stage' satisfies"),
        ("stage >= V", "has no level 'V'"),
        ("gcs < 9 (or missing)", "never missing"),
        ("gcs is missing", "never missing"),
        ("age", "is no condition"),
        ("age >= 65 &", "a condition is empty"),
        ("80 <= age < 65", "no value of 'age' satisfies both"),
        ("", "a condition is empty"),
        ("age >= 65 & age < 65", "every patient satisfies it, or none"),
        ("gcs < 4 & gcs >= 9", "every patient satisfies it, or none"),
    ],
)
def test_errors_say_which_rule_and_what_to_do(text: str, message: str) -> None:
    with pytest.raises(StudyError) as error:
        Study.from_mapping(make_facts(rules=[text]))
    assert message in str(error.value)
    assert f"rule {text!r}" in str(error.value)


def test_a_missing_value_is_no_level() -> None:
    rule, _ = place("ward != icu")
    assert not rule.conditions[0].codes >> MISSING & 1
