"""Wishes of a study: what contradicts, and what leaves a study as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.cutoffs import estimate_grid, exact_grid
from fedrulefit.errors import StudyError
from fedrulefit.study import Study
from fedrulefit.testing.samples import study_facts


def make_facts(outcome: str = "yes/no", **changes: Any) -> dict[str, Any]:
    facts = study_facts(outcome, solver="exact", max_conditions=changes.pop("max_conditions", None))
    for name, value in changes.pop("direction", {}).items():
        facts["covariates"][name]["direction"] = value
    for name in changes.pop("keep", ()):
        facts["covariates"][name]["keep"] = True
    facts["settings"] |= changes.pop("settings", {})
    if changes:
        facts["wishes"] = changes
    return facts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"never": ["height"]}, "'never' names no covariate 'height'"),
        ({"never": [["age", "gsc"]]}, "did you mean 'gcs'"),
        ({"never": ["age"], "keep": ["age"]}, "'age' is both kept and in 'never'"),
        ({"never": ["age", "lactate", "gcs", "ward", "sex"]}, "'never' names every covariate"),
        ({"never": ["age"], "rules": ["age >= 65"]}, "'age' is not to be used"),
        (
            {"never": [["age", "gcs"]], "rules": ["age >= 65 & gcs < 9"]},
            "'age' and 'gcs' are not to meet",
        ),
        (
            {"max_conditions": 1, "kept_rules": ["age >= 65 & gcs < 9"]},
            "it has 2 conditions, of at most 1",
        ),
        ({"direction": {"age": "up"}, "rules": ["40 <= age < 65"]}, "goes against a 'direction'"),
        (
            {"direction": {"age": "up", "gcs": "up"}, "rules": ["age >= 65 & gcs < 9"]},
            "goes against a 'direction'",
        ),
        ({"rules": ["age < 65"], "forbidden_rules": ["age >= 65"]}, "it is forbidden, too"),
        ({"forbidden_rules": ["gcs >= 9 & gcs < 9"]}, "every patient satisfies it, or none"),
        ({"keep": ["age"], "settings": {"linear_terms": False}}, "'linear_terms'"),
        ({"keep": ["ward"], "settings": {"max_rules": 2}}, "3 are kept in the model, of at most 2"),
        ({"keep": ["age", "sex"], "settings": {"max_terms": 1}}, "2 are kept"),
        ({"direction": {"ward": "up"}}, "direction"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(StudyError, match=None) as error:
        Study.from_mapping(make_facts(**changes))
    assert message in str(error.value)


@pytest.mark.parametrize("outcome", ["classes", "time, competing"])
def test_directions_need_an_outcome_with_one(outcome: str) -> None:
    Study.from_mapping(make_facts(outcome))
    with pytest.raises(StudyError, match="'direction' of 'age'.*what raises one lowers others"):
        Study.from_mapping(make_facts(outcome, direction={"age": "up"}))


@pytest.mark.parametrize("outcome", ["yes/no", "number", "count", "time", "ordered"])
def test_wishes_that_agree_are_taken(outcome: str) -> None:
    study = Study.from_mapping(
        make_facts(
            outcome,
            direction={"age": "up", "gcs": "down"},
            rules=["age >= 65 & gcs < 9"],
            keep=["sex", "ward"],
            never=[["lactate", "ward"]],
            max_conditions=2,
        )
    )
    assert study.wished.directions == (1, 0, -1, 0, 0)
    assert study.wished.kept == {3, 4}
    assert study.wished.apart == ({1, 3},)


def test_a_study_without_wishes_is_the_same_as_before() -> None:
    plain = Study.from_mapping(make_facts())
    facts = make_facts(rules=[], never=[])
    for covariate in facts["covariates"].values():
        covariate |= {"keep": False}
    facts["covariates"]["age"]["direction"] = None
    same = Study.from_mapping(facts)
    assert same.digest == plain.digest
    assert not same.wished.any
    dumped = same.model_dump()
    assert "wishes" not in dumped
    assert not {"keep", "direction"} & {
        key for each in dumped["covariates"].values() for key in each
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"rules": ["age >= 65"]}, {"kept_rules": ["age >= 65"]}, {"never": ["age"]},
        {"forbidden_rules": ["age >= 65"]}, {"keep": ["age"]}, {"direction": {"age": "up"}},
        {"max_conditions": 3},
    ],
)  # fmt: skip
def test_each_wish_is_part_of_the_study(changes: Any) -> None:
    study = Study.from_mapping(make_facts(**changes))
    assert study.digest != Study.from_mapping(make_facts()).digest
    assert study.wished.any
    assert Study.from_mapping(study.model_dump()).digest == study.digest
    assert study.with_settings(n_trees=3).wished.any


# --- Cut-offs of own rules --------------------------------------------------------------------

RULES = ["age >= 64.3 & gcs < 9", "lactate < 2.25"]


@pytest.mark.parametrize("style", ["round", "quantile"])
@pytest.mark.parametrize("n_cutoffs", [3, 254])
def test_own_cut_offs_are_shared_ones(style: str, n_cutoffs: int) -> None:
    settings = {"cutoff_style": style, "n_cutoffs": n_cutoffs}
    study = Study.from_mapping(make_facts(rules=RULES, settings=settings))
    rng = np.random.default_rng(0)
    counts = rng.integers(20, 60, sum(b.n_cells for b in study.bins))
    options = {"n_cutoffs": n_cutoffs, "winsor": 0.025, "centre": True, "style": style}
    values = np.column_stack(
        [rng.uniform(18, 100, 900), rng.uniform(0.1, 25, 900), rng.integers(3, 16, 900),
         rng.integers(0, 4, 900), rng.integers(0, 2, 900)]
    )  # fmt: skip
    for grid in (
        estimate_grid(counts, study.bins, repair="clip", spreads=None, **options),
        exact_grid(values, np.ones(900), study.bins, **options),
    ):
        assert 64.3 in grid.axes[0].cutoffs
        assert 2.25 in grid.axes[1].cutoffs
        assert 9 in grid.axes[2].cutoffs
        assert max(axis.n_codes for axis in grid.axes) <= 255
        study.check_grid(grid)
        assert len(study.wished.on_grid(grid).own) == 2
    study.check_public(estimate_grid(counts, study.bins, repair="clip", spreads=None, **options))
    plain = Study.from_mapping(make_facts(settings=settings))
    bare = estimate_grid(counts, plain.bins, repair="clip", spreads=None, **options)
    with pytest.raises(ValueError, match="lacks a cut-off"):
        study.check_grid(bare)


def test_estimated_cut_offs_give_way_to_own_ones_that_are_too_near() -> None:
    """Between 64 and 64.3 lie hardly any patients: a rule and its neighbour would tell of them."""
    study = Study.from_mapping(make_facts(rules=["age >= 64.3"]))
    age = study.bins[0]
    counts = [np.full(b.n_cells, 50) for b in study.bins]
    options = {
        "n_cutoffs": 40, "winsor": 0.0, "centre": True, "style": "round", "repair": "clip",
        "spreads": None,
    }  # fmt: skip
    for fewest in (0.0, 200.0):
        found = estimate_grid(np.concatenate(counts), study.bins, fewest=fewest, **options).axes[0]
        below = [counts[0][:-1][age.samples < cut].sum() for cut in found.cutoffs]
        own = int(np.searchsorted(found.cutoffs, 64.3))
        near = np.abs(np.array(below) - below[own])
        near = np.delete(near, own)
        assert (near.min() >= 200) == (fewest == 200)


def test_fixed_cut_offs_are_joined_with_those_of_own_rules() -> None:
    facts = make_facts(rules=["age >= 65"])
    facts["covariates"]["age"]["cutoffs"] = [40, 60, 80]
    assert Study.from_mapping(facts).bins[0].cutoffs.tolist() == [40, 60, 65, 80]
