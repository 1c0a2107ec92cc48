"""The outcome of a drafted study: which kind, and in which words."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedrulefit.cli.study import app
from fedrulefit.errors import StudyError
from fedrulefit.study import CountOutcome, NumberOutcome, OrderedOutcome, Study, TimeOutcome
from fedrulefit.table.check import inspect_table
from fedrulefit.table.draft import Draft, draft_study
from fedrulefit.table.draft_outcome import propose_horizons

N = 60
RNG = np.random.default_rng(1)
TIMES = RNG.integers(1, 700, N)


def make_columns(**changes: Any) -> dict[str, Any]:
    columns = {"age": RNG.integers(18, 90, N), "female": ["yes", "no", "no"] * (N // 3)}
    return {**columns, **changes}


def draft(columns: dict[str, Any], **options: Any) -> Draft:
    return draft_study(columns, **{"outcome": None, "name": None, **options})


def load(drafted: Draft) -> Study:
    return Study.from_mapping(tomllib.loads(drafted.text))


EACH: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    # columns, what is asked, kind
    "two values": ({"died": [0, 1] * 30}, {}, "yes/no"),
    "a time and an event": ({"time": TIMES, "died": [0, 1] * 30}, {}, "time"),
    "of one name": (
        {"os_months": TIMES, "pfs_event": [1, 0] * 30, "os_event": [0, 1] * 30},
        {},
        "time",
    ),
    "an event beside a time": ({"time": TIMES, "died": [0, 1] * 30}, {"outcome": "died"}, "yes/no"),
    "a pair": ({"x": TIMES, "y": ["a", "b"] * 30}, {"outcome": "x,y"}, "time"),
    "a pair by options": ({"x": TIMES, "y": ["a", "b"] * 30}, {"time": "x", "event": "y"}, "time"),
    "a time alone": ({"x": TIMES, "status": [1, 2] * 30}, {"time": "x"}, "time"),
    "an event alone": ({"days": TIMES, "y": [1, 0] * 30}, {"event": "y"}, "time"),
    "a time by its name": (
        {"lenfol": TIMES, "status": [1, 0] * 30},
        {"outcome": "lenfol"},
        "time",
    ),
    "by its kind": (
        {"days": TIMES, "died": [1, 0] * 30},
        {"outcome": "died", "kind": "time"},
        "time",
    ),
    "numbers": ({"lab": RNG.normal(137, 3, N)}, {"outcome": "lab"}, "number"),
    "a score": ({"GCS": RNG.integers(3, 16, N)}, {"outcome": "GCS"}, "number"),
    "counts": ({"visits": RNG.poisson(1.5, N)}, {"outcome": "visits"}, "count"),
    "counts as numbers": (
        {"visits": RNG.poisson(1.5, N)},
        {"outcome": "visits", "kind": "number"},
        "number",
    ),
    "levels": ({"to": ["home", "ward", "grave"] * 20}, {"outcome": "to"}, "classes"),
    "words of an order": (
        {"pain": ["none", "mild", "severe"] * 20},
        {"outcome": "pain"},
        "ordered",
    ),
    "a name of an order": ({"mrs": RNG.integers(0, 5, N)}, {"outcome": "mrs"}, "ordered"),
    "numbers as levels": (
        {"to": RNG.integers(1, 5, N)},
        {"outcome": "to", "kind": "classes"},
        "classes",
    ),
}


@pytest.mark.parametrize("case", EACH)
def test_a_draft_of_each_kind_loads_and_its_table_fits(case: str, tmp_path: Path) -> None:
    columns, asked, kind = EACH[case]
    path, target = tmp_path / "t.csv", tmp_path / "study.toml"
    pd.DataFrame(make_columns(**columns)).to_csv(path, index=False)
    target.write_text(draft_study(path, outcome=None, name=None).text if not asked else "")
    if asked:
        target.write_text(draft_study(path, **{"outcome": None, "name": None, **asked}).text)
    study = Study.load(target)
    assert study.outcome.kind == kind
    assert not set(study.special.values()) & set(study.names)
    assert inspect_table(path, study).errors == ()


def test_what_is_guessed_is_said_in_the_file_and_beside_it() -> None:
    drafted = draft(make_columns(visits=RNG.poisson(1.5, N)), outcome="visits")
    assert 'kind = "count"  # CHECK: a guess' in drafted.text
    assert "draft again with --kind" in drafted.text
    assert ("visits", "whole numbers that look like counts, taken for an outcome of the kind "
            "'count'") in drafted.guesses  # fmt: skip
    asked = draft(make_columns(visits=RNG.poisson(1.5, N)), outcome="visits", kind="count")
    assert 'kind = "count"\n' in asked.text
    assert "taken for" not in repr(asked.guesses)


def test_a_time_of_entry_is_part_of_the_outcome() -> None:
    """As a covariate it would tell of the outcome: who came late has survived until then."""
    for time, entry in (("days", "entry"), ("tstop", "tstart"), ("os_days", "days_at_entry")):
        columns = make_columns(**{time: TIMES, "died": [0, 1] * 30, entry: [0.0, 5.0, 20.0] * 20})
        drafted = draft(columns)
        outcome = load(drafted).outcome
        assert isinstance(outcome, TimeOutcome)
        assert (outcome.time, outcome.event, outcome.entry) == (time, "died", entry)
        assert entry not in load(drafted).names
        told = (entry, "by its name taken for the time of coming under observation")
        assert told in drafted.guesses
    beyond = make_columns(days=TIMES, died=[0, 1] * 30, entry=[0.0, 5.0, 1e6] * 20)
    assert load(draft(beyond)).outcome.entry is None  # type: ignore[union-attr]


def test_a_name_that_may_mean_the_end_of_follow_up_is_doubted() -> None:
    drafted = draft(make_columns(cens=[0, 1, 0] * 20, time=TIMES))
    outcome = load(drafted).outcome
    assert isinstance(outcome, TimeOutcome)
    assert (outcome.event, outcome.positive) == ("cens", 1)
    assert "is this the value of the event?" in dict(drafted.guesses)["cens"]


def test_a_yes_no_draft_says_that_there_is_a_time() -> None:
    drafted = draft(make_columns(died=[0, 1] * 30, time=TIMES), outcome="died")
    assert ("time", "the time to the outcome? then draft again with --kind time") in drafted.guesses
    assert dict(drafted.left_out)["time"].startswith("looks like the time to an event")
    assert "kind =" not in drafted.text[: drafted.text.index("[covariates")]


def test_a_time_of_a_generic_outcome_is_no_pair() -> None:
    """A table has the outcome that was agreed on, and a follow-up of another one."""
    drafted = draft(make_columns(outcome=[0, 1] * 30, days=TIMES, died_later=[1, 0, 0] * 20))
    assert load(drafted).outcome.kind == "yes/no"
    assert load(drafted).outcome.column == "outcome"


def outcome_of(columns: dict[str, Any], **asked: Any) -> Any:
    return load(draft(make_columns(**columns), **asked)).outcome


def test_ranges_bounds_and_horizons_are_nobodys() -> None:
    number = outcome_of({"lab": [103.7, 141.3, 166.6, 171.9] * 15}, outcome="lab")
    assert isinstance(number, NumberOutcome)
    assert number.range == (50, 200)
    known = outcome_of({"GCS": RNG.integers(3, 16, N)}, outcome="GCS")
    assert (known.range, known.step) == ((3, 15), 1)
    count = outcome_of(
        {"n_falls": [0, 1, 0, 2, 4, 6] * 10, "follow_up_days": RNG.integers(30, 341, N)},
        outcome="n_falls",
    )
    assert isinstance(count, CountOutcome)
    assert (count.most, count.exposure, count.max_exposure) == (10, "follow_up_days", 500)
    assert count.exposure_unit == "days"
    time = outcome_of({"time": TIMES, "died": [0, 1] * 30})
    assert isinstance(time, TimeOutcome)
    assert (time.horizons, time.unit) == ((180, 365), "days")
    months = outcome_of({"fu_months": [3, 5, 13, 26, 31, 44, 8, 9, 2, 1] * 6, "died": [0, 1] * 30})
    assert (months.horizons, months.unit) == ((12, 24), "months")


@pytest.mark.parametrize(
    ("unit", "highest", "expected"),
    [
        ("days", 30, (7,)),
        ("days", 3, (2,)),
        ("years", 25, (10, 20)),
        ("", 0.7, (0.5,)),
        ("", 0, (1,)),
        ("weeks", 1e6, (260, 520)),
    ],
)
def test_horizons_are_usual_or_round(
    unit: str, highest: float, expected: tuple[float, ...]
) -> None:
    assert propose_horizons(np.linspace(0, highest, 60), unit) == expected


@pytest.mark.parametrize(
    ("event", "values", "positive", "doubt"),
    [
        ("status", ["dead", "alive"], "dead", ""),
        ("status", [0, 1], 1, ""),
        ("status", ["censored", "event"], "event", ""),
        ("status", [1, 2], 2, "2 for the event"),
        ("censored", [0, 1], 0, "speaks of the end of follow-up"),
    ],
)
def test_which_value_is_the_event(
    event: str, values: list[Any], positive: object, doubt: str
) -> None:
    drafted = draft(make_columns(**{"time": TIMES, event: values * 30}), event=event)
    outcome = load(drafted).outcome
    assert isinstance(outcome, TimeOutcome)
    assert outcome.positive == positive
    assert doubt in drafted.text
    assert ("taken as the event" in repr(drafted.guesses)) == bool(doubt)


@pytest.mark.parametrize("codes", [[0, 1, 2], [0, 1, 2, 3]])
def test_codes_of_several_events_are_taken_for_competing_ones(codes: list[int]) -> None:
    drafted = draft(make_columns(time=TIMES, status=codes * (N // len(codes))), kind="time")
    outcome = load(drafted).outcome
    assert isinstance(outcome, TimeOutcome)
    assert (outcome.positive, outcome.negative) == (1, 0)
    assert list(outcome.competing.values()) == codes[2:]
    assert "# CHECK: events that forestall it; name them" in drafted.text
    assert "taken for events that compete with 1" in dict(drafted.guesses)["status"]
    alone = draft(make_columns(time=TIMES, status=[0, 1] * 30), kind="time")
    assert "competing" not in alone.text
    found = draft(make_columns(time=TIMES, status=codes * (N // len(codes))))
    assert load(found).outcome == outcome, "found by their names"


@pytest.mark.parametrize("codes", [[1, 2, 3], [0, 1, 3], list(range(7))])
def test_other_codes_are_no_competing_events(codes: list[int]) -> None:
    values = (codes * N)[:N]
    with pytest.raises(StudyError, match="and 2 and so on for events that compete with it"):
        draft(make_columns(x=TIMES, y=values), time="x", event="y")


def test_levels_stand_in_their_order_and_rare_ones_are_not_shown() -> None:
    pain = outcome_of({"pain": ["severe", "none", "mild"] * 20}, outcome="pain")
    assert isinstance(pain, OrderedOutcome)
    assert pain.levels == ("none", "mild", "severe")
    drafted = draft(make_columns(to=["home", "ward", "hospice"] * 19 + ["jail"] * 3), outcome="to")
    assert "jail" not in drafted.text
    assert "levels of fewer than 5 patients here are not shown" in drafted.text


def test_a_code_is_pointed_out_and_stretches_nothing() -> None:
    drafted = draft(make_columns(score=[-9] * 4 + list(range(10, 66))), outcome="score")
    outcome = load(drafted).outcome
    assert isinstance(outcome, NumberOutcome)
    assert outcome.range == (0, 100)
    assert "# CHECK: -9: no outcome? then leave these patients out" in drafted.text


TWO = {"x": TIMES, "yn": [0, 1] * 30, "three": [0, 1, 2] * 20, "text": [f"t{k}" for k in range(N)]}
TWO["abc"] = ["a", "b", "c"] * 20
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"outcome": "x", "kind": "lengths"}, "kind 'lengths' is not known: choose one of yes/no"),
    ({"outcome": "text"}, "'text' has 60 distinct values here: group them into 10 levels"),
    ({"outcome": "text", "kind": "number"}, "'text' holds no numbers"),
    ({"outcome": "yn", "kind": "classes"}, "fewer than three levels"),
    ({"outcome": "three", "kind": "yes/no"}, "3 distinct values here, not two"),
    ({"outcome": "x", "kind": "ordered"}, "group them into 10 levels or fewer"),
    ({"time": "x", "event": "abc"}, "event 'abc' has 3 distinct values here, not two"),
    ({"time": "text", "event": "yn"}, "time 'text' holds no numbers"),
    ({"time": "x"}, "which column is the event"),
    ({"event": "yn"}, "which column is the time to the event"),
    ({"time": "X", "event": "yn"}, "time 'X' is not in the table"),
    ({"outcome": "x,z"}, "event 'z' is not in the table"),
    ({"outcome": "xx"}, "outcome 'xx' is not in the table"),
    ({"time": "x", "event": "yn", "kind": "count"}, "are of the kind"),
    ({"kind": "number"}, "which column is the outcome"),
    ({}, "or --time COLUMN --event COLUMN"),
]


@pytest.mark.parametrize(("asked", "words"), REFUSED, ids=str)
def test_what_cannot_be_drafted_is_said(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError, match=words.replace("?", r"\?")):
        draft(make_columns(**TWO), **asked)


def test_the_command_takes_a_pair(tmp_path: Path) -> None:
    path, target = tmp_path / "t.csv", tmp_path / "study.toml"
    pd.DataFrame(make_columns(x=TIMES, y=["dead", "alive"] * 30)).to_csv(path, index=False)
    command = ["draft", str(path), "--time", "x", "--event", "y", "-o", str(target)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert Study.load(target).outcome.kind == "time"
    assert "x: horizons 180, 365 days: choose your own" in result.output
    refused = CliRunner().invoke(app, [*command, "--force", "--kind", "count"])
    assert refused.exit_code == 2
