"""The kinds of outcome that a study can name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.errors import StudyError
from fedrulefit.study import (
    ClassesOutcome,
    CountOutcome,
    NumberOutcome,
    OrderedOutcome,
    Outcome,
    Study,
    TimeOutcome,
    YesNoOutcome,
)
from fedrulefit.study.intervals import place_cuts
from fedrulefit.study.outcomes import KINDS
from tests.samples import SOLVERS, make_study, study_facts

EXAMPLES: dict[str, dict[str, Any]] = {
    "yes/no": {"column": "died"},
    "number": {"column": "y", "range": [0, 100], "unit": "points", "step": 1},
    "count": {"column": "n", "most": 20, "exposure": "days", "max_exposure": 366},
    "time": {"time": "t", "event": "status", "entry": "from", "horizons": [90, 365]},
    "ordered": {"column": "mrs", "levels": [0, 1, 2, 3]},
    "classes": {"column": "where", "levels": ["home", "ward", "nursing home"]},
}
CLASSES = {
    "yes/no": YesNoOutcome,
    "number": NumberOutcome,
    "count": CountOutcome,
    "time": TimeOutcome,
    "ordered": OrderedOutcome,
    "classes": ClassesOutcome,
}


def study_of(kind: str, **changes: Any) -> Study:
    facts = {"kind": kind, **EXAMPLES[kind], **changes}
    return Study.from_mapping(
        {**study_facts(solver="exact"), "outcome": {k: v for k, v in facts.items() if v is not ...}}
    )


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_read_as_its_class(kind: str) -> None:
    study = study_of(kind)
    assert type(study.outcome) is CLASSES[kind]
    assert study.outcome.kind == kind
    again = Study.from_mapping(json.loads(json.dumps(study.model_dump(mode="json"))))
    assert again == study
    assert again.digest == study.digest


def test_the_digest_of_a_poisson_study_is_that_of_before_there_was_a_dispersion() -> None:
    study = make_study("count", selection="min", **SOLVERS["exact"])
    assert study.digest == "d29022e4cf1367dfdbafb31b767a7ced4ccaeff282c4ca0f5da5c066c84987a6"
    assert "dispersion" not in study.model_dump()["outcome"]
    other = make_study("count, negative binomial", **SOLVERS["exact"])
    assert other.model_dump()["outcome"]["dispersion"] == "negative-binomial"
    assert Study.from_mapping(other.model_dump(mode="json")).digest == other.digest


def test_the_digest_of_a_yes_no_study_is_that_of_every_version_before() -> None:
    """Sites of different versions would refuse each other, and kept models their study."""
    assert (
        make_study(selection="min").digest
        == "1b8ae10af29f92467783602e761c76b54146a3497dbe340707569e4d95fafc0f"
    )
    assert list(make_study().model_dump()["outcome"]) == [
        "kind",
        "column",
        "positive",
        "negative",
        "label",
        "expected_rate",
    ]
    assert Outcome is YesNoOutcome


def test_columns_by_their_role() -> None:
    assert {kind: study_of(kind).special for kind in KINDS} == {
        "yes/no": {"outcome": "died"},
        "number": {"outcome": "y"},
        "count": {"outcome": "n", "exposure": "days"},
        "time": {"outcome": "t", "event": "status", "entry": "from"},
        "ordered": {"outcome": "mrs"},
        "classes": {"outcome": "where"},
    }
    weighed = Study.from_mapping(
        {
            **study_facts(solver="exact"),
            "outcome": {"kind": "time", "time": "t", "event": "e", "horizons": [30]},
            "weight": {"column": "w", "max": 2},
        }
    )
    assert list(weighed.special.items()) == [("outcome", "t"), ("event", "e"), ("weight", "w")]
    assert [study_of(kind).outcome.column for kind in KINDS][3] == "t"
    assert study_of("time").outcome.title == study_of("time").outcome.name == "status"
    dead = study_of("time", positive="dead", negative="alive").outcome
    assert dead.title == "status = dead", "“time in 55 %” was told of how many had the event"
    assert study_of("time", label="death").outcome.title == "death"
    assert study_of("count", exposure=..., max_exposure=...).special == {"outcome": "n"}


FAULTS = [
    # kind, changes, the place that the message names, some of its words
    ("number", {"range": [3, 3]}, "outcome", "lowest < highest"),
    ("number", {"range": ...}, "outcome.range", "required"),
    ("number", {"step": 0}, "outcome.step", "greater than 0"),
    ("number", {"step": 101}, "outcome", "not be larger than the range"),
    ("number", {"positive": 1}, "outcome.positive", "not permitted"),
    ("number", {"range": [0, float("inf")]}, "outcome.range.1", "finite"),
    ("count", {"most": 0}, "outcome.most", "greater than or equal to 1"),
    ("count", {"most": 2.5}, "outcome.most", "integer"),
    ("count", {"max_exposure": ...}, "outcome", "'exposure' needs 'max_exposure'"),
    ("count", {"exposure": ...}, "outcome", "'max_exposure' is the bound of 'exposure'"),
    ("count", {"exposure": "n"}, "outcome", "outcome and exposure name the same column"),
    ("count", {"per": 0}, "outcome.per", "greater than 0"),
    ("time", {"horizons": []}, "outcome.horizons", "at least 1"),
    ("time", {"horizons": [0, 30]}, "outcome", "'horizons' must increase, and be above 0"),
    ("time", {"horizons": [365, 90]}, "outcome", "'horizons' must increase"),
    ("time", {"event": ...}, "outcome.event", "required"),
    ("time", {"event": "t"}, "outcome", "outcome and event name the same column"),
    ("time", {"entry": "status"}, "outcome", "event and entry name the same column"),
    ("time", {"positive": 0}, "outcome", "are the same value"),
    ("time", {"cuts": [90, 30]}, "outcome", "'cuts' must increase"),
    ("time", {"cuts": [30, 90, 365]}, "outcome", "between 0 and the last horizon"),
    ("time", {"cuts": [30, 60]}, "outcome", "every horizon but the last"),
    ("time", {"intervals": 1}, "outcome", "at least as many as 'horizons'"),
    ("time", {"intervals": 51}, "outcome.intervals", "less than or equal to 50"),
    ("time", {"column": "t"}, "outcome.column", "not permitted"),
    ("ordered", {"levels": [0, 1]}, "outcome.levels", "at least 3"),
    ("ordered", {"levels": [0, 1, "1.0"]}, "outcome", "names one level twice"),
    ("classes", {"levels": ["a", "b", "a"]}, "outcome", "names one level twice"),
    ("classes", {"column": "age"}, "study", "cannot be a covariate, too"),
    ("time", {"event": "age"}, "study", "cannot be a covariate, too"),
]


@pytest.mark.parametrize(("kind", "changes", "place", "words"), FAULTS)
def test_a_fault_is_named_with_its_place(
    kind: str, changes: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(StudyError) as caught:
        study_of(kind, **changes)
    faults = str(caught.value).splitlines()[1:]
    assert any(line.startswith(f"  {place}: ") and words in line for line in faults), faults


def test_a_role_and_a_weight_may_not_share_a_column() -> None:
    facts = {**study_facts(solver="exact"), "outcome": {"kind": "count", **EXAMPLES["count"]}}
    with pytest.raises(StudyError, match="exposure and weight name the same column"):
        Study.from_mapping({**facts, "weight": {"column": "days", "max": 1}})


@pytest.mark.parametrize("kind", ["ordered", "classes"])
def test_levels_are_told_as_text(kind: str) -> None:
    levels = [1, "two", 3]
    assert study_of(kind, levels=levels).family.names == ("1", "two", "3")


def test_cuts_of_a_time() -> None:
    time = study_of("time").outcome
    assert isinstance(time, TimeOutcome)
    ends = [365 * (j / 8) ** 1.5 for j in range(1, 8)]
    ends[2] = 90  # the horizon takes the place of the end next to it
    assert time.inner_cuts == pytest.approx(ends)
    assert time.instant == 0.365
    given = study_of("time", cuts=[30, 90]).outcome
    assert isinstance(given, TimeOutcome)
    assert given.inner_cuts == (30, 90)
    assert place_cuts([5.0], 1) == ()
    assert place_cuts([30.0], 4) == pytest.approx((3.75, 10.606602, 19.485572))


@given(
    st.lists(st.floats(1e-6, 1e9, allow_subnormal=False), min_size=1, max_size=6, unique=True).map(
        sorted
    ),
    st.integers(0, 44),
)
def test_cuts_increase_inside_and_hold_every_other_horizon(
    horizons: list[float], more: int
) -> None:
    n_intervals = len(horizons) + more
    cuts = place_cuts(horizons, n_intervals)
    assert len(cuts) == n_intervals - 1
    assert (np.diff([0.0, *cuts, horizons[-1]]) > 0).all()
    assert set(horizons[:-1]) <= set(cuts)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "yes/no"])
def test_the_paper_s_solver_is_refused_where_slopes_have_no_bound(kind: str) -> None:
    outcome = {"kind": kind, **EXAMPLES[kind]}
    with pytest.raises(StudyError, match="choose solver"):
        Study.from_mapping({**study_facts(solver="fedda"), "outcome": outcome})
    if kind == "number":
        robust = {**outcome, "robust": True}
        Study.from_mapping({**study_facts(solver="fedda"), "outcome": robust})


# --- events that compete ------------------------------------------------------------------------

RIVALS = {"positive": 1, "label": "readmission", "competing": {"death": 2, "transfer": "moved"}}


def test_competing_events_make_another_family_and_keep_their_order() -> None:
    study = study_of("time", **RIVALS)
    outcome = study.outcome
    assert isinstance(outcome, TimeOutcome)
    assert outcome.causes == study.family.names == ("readmission", "death", "transfer")
    assert outcome.values == (0, 1, 2, "moved")
    assert (study.family.kind, outcome.kind) == ("competing", "time")
    assert study.family.n_owners == 3
    assert "competing events death 2, transfer 'moved'" in outcome.definition
    again = Study.from_mapping(json.loads(json.dumps(study.model_dump(mode="json"))))
    assert again.digest == study.digest
    turned = study_of("time", **{**RIVALS, "competing": {"transfer": "moved", "death": 2}})
    assert turned.digest != study.digest, "sites code causes by their place"


def test_without_competing_events_nothing_is_new_in_a_study() -> None:
    """Studies of one event keep the digest that they had."""
    study = study_of("time")
    assert "competing" not in study.model_dump(mode="json")["outcome"]
    assert study.digest == study_of("time", competing={}).digest
    assert isinstance(study.outcome, TimeOutcome)
    assert study.outcome.causes == ()
    assert study.family.kind == "time"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"competing": {"death": 1}}, "names a value twice"),
        ({"competing": {"death": "0"}}, "names a value twice"),
        ({"competing": {"death": 2, "transfer": 2.0}}, "names a value twice"),
        ({"competing": {"90": 2}}, "begin with a letter"),
        ({"competing": {" ": 2}}, "begin with a letter"),
        ({"competing": {"readmission": 2}}, "differ from that of the event of interest"),
        ({"competing": {"1": 2}, "label": ""}, "begin with a letter"),
        ({"competing": 2}, "competing"),
    ],
)
def test_competing_events_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        study_of("time", **{**RIVALS, **changes})
