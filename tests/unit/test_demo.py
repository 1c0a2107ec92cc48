"""The synthetic hospitals: of every kind of outcome the same patients, who follow its rules."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest

from fedrulefit import demo
from fedrulefit.core.families import FAMILIES
from fedrulefit.engines import inprocess
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import Model
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.table import inspect_table
from fedrulefit.table.check import load_table

KINDS = pytest.mark.parametrize("kind", demo.OUTCOMES)


def fit(kind: str) -> Model:
    """Return the model of all three hospitals, with seeded noise: the same on every run."""
    study = demo.demo_study(kind)
    patients = {
        name: load_table(frame, study) for name, frame in demo.draw_registry(kind=kind).items()
    }
    return inprocess.fit(
        study, patients, make_noise=lambda site: UnsafeSeededLaplace(1, site), n_threads=2
    ).model


# --- patients -----------------------------------------------------------------------------


def test_yes_no_patients_are_those_of_the_first_version() -> None:
    """Documents, golden files and benchmarks stand on them, bit for bit."""
    digest = hashlib.sha256(demo.STUDY_TOML.encode())
    for frame in (*demo.draw_registry().values(), demo.draw_fresh()):
        coded = frame.assign(sex=frame["sex"] == "female")
        digest.update(coded.to_numpy(dtype=np.float64).tobytes())
    assert digest.hexdigest() == "3c56c86e379b458e30c407360a10c703b2f3e4ab076a347b56c937668938324a"


@KINDS
def test_the_patients_are_the_same_whatever_their_outcome(kind: str) -> None:
    plain, other = demo.draw_registry(seed=3), demo.draw_registry(seed=3, kind=kind)
    for name, frame in plain.items():
        pd.testing.assert_frame_equal(frame[[*demo.COVARIATES]], other[name][[*demo.COVARIATES]])
        assert [*other[name]] == [*demo.COVARIATES, *demo.OUTCOMES[kind].columns]


@KINDS
def test_a_study_names_the_columns_that_are_drawn(kind: str) -> None:
    study = demo.demo_study(kind)
    assert study.synthetic
    assert {*study.outcome.columns.values()} == {*demo.OUTCOMES[kind].columns}
    assert study.outcome.column == demo.OUTCOMES[kind].columns[0]
    for frame in demo.draw_registry(kind=kind).values():
        assert not inspect_table(frame, study).errors


def test_every_kind_has_its_family() -> None:
    assert {*demo.OUTCOMES} <= {*FAMILIES}
    assert {*demo.OTHER_WORDS.values()} <= {*demo.OUTCOMES}


def test_other_words_are_taken() -> None:
    assert demo.demo_study("survival") == demo.demo_study("time")
    assert demo.demo_study("Continuous") == demo.demo_study("number")
    with pytest.raises(FedRuleFitError, match="no outcome 'colour': it has yes/no, number"):
        demo.draw_registry(kind="colour")


def test_an_outcome_of_several_columns_is_pooled_as_a_frame() -> None:
    X, y, sites = demo.pool(demo.draw_registry(kind="time"))
    assert [*X] == [*demo.COVARIATES]
    assert [*y] == ["days", "status", "entry"]
    assert len(X) == len(y) == len(sites) == 2500
    assert demo.pool(demo.draw_registry(kind="number"))[1].name == "stay"


# --- what they follow ---------------------------------------------------------------------


def draw_groups(kind: str) -> list[pd.DataFrame]:
    """Return patients for whom no planted rule holds, and for whom only the first does."""
    crowd = demo.Hospital(40_000, 46, 20, 0.3)
    frame = demo.draw_hospital(crowd, np.random.default_rng(0), kind=kind)
    frame = frame[frame["GCS"].notna()]
    first, *others = (planted.holds(frame) for planted in demo.OUTCOMES[kind].planted)
    nothing_else = ~np.any(others, axis=0)
    return [frame[~first & nothing_else], frame[first & nothing_else]]


def test_stays_follow_their_rules() -> None:
    """Standard errors of the means are below 0.1 days: these bounds are five times as wide."""
    plain, coma = (group["stay"].mean() for group in draw_groups("number"))
    assert abs(plain - 8) < 0.2
    assert abs(coma - 15) < 0.6


def test_rates_follow_their_rules() -> None:
    plain, coma = (
        group["readmissions"].sum() / group["months"].sum() for group in draw_groups("count")
    )
    assert abs(plain / np.exp(-2.6) - 1) < 0.05
    assert abs(coma / plain / np.e - 1) < 0.08


def test_times_follow_their_rules() -> None:
    """Of those followed from the first day on; nobody is lost before 100 days."""
    for group, hazard in zip(draw_groups("time"), (np.exp(-2.4), np.exp(-0.6)), strict=True):
        early = group[group["entry"] == 0]
        died = ((early["status"] == "dead") & (early["days"] <= 100)).mean()
        assert abs(died - -np.expm1(-hazard * (100 / 365) ** 0.6)) < 0.025
        assert (group["days"] > group["entry"]).all()
        assert group["days"].between(1, 800).all()
        assert 0.10 < (group["entry"] > 0).mean() < 0.15


def shares_of(group: pd.DataFrame, column: str, kind: str) -> list[float]:
    """Return the share of patients at each level of a study."""
    counts = group[column].value_counts() / len(group)
    return [float(counts.get(level, 0)) for level in demo.demo_study(kind).outcome.levels]  # type: ignore[union-attr]


def test_ordered_levels_follow_their_rules() -> None:
    """At each step alike; standard errors of shares are below 0.01, so these bounds are five."""
    for group, adds in zip(draw_groups("ordered"), (0.0, 2.0), strict=True):
        going = 1 / (1 + np.exp(-(-0.5 + adds + np.array([0.0, -0.6, -1.2]))))
        reached = np.cumprod([1.0, *going])
        wanted = -np.diff([*reached, 0.0])
        np.testing.assert_allclose(shares_of(group, "disability", "ordered"), wanted, atol=0.05)


def test_classes_follow_their_own_rules() -> None:
    for group, adds in zip(draw_groups("classes"), (0.0, 2.0), strict=True):
        heights = np.exp([0.0, -1.0 + adds, -1.3, -1.4])
        wanted = heights / heights.sum()
        np.testing.assert_allclose(shares_of(group, "discharge", "classes"), wanted, atol=0.05)


def test_a_rule_of_one_class_is_looked_for_among_its_own() -> None:
    study = demo.demo_study("classes")
    model, fresh = fit("classes"), demo.draw_fresh(kind="classes")
    for match in demo.match_planted(model, fresh):
        assert match.planted.level in study.family.names
        assert match.rule.startswith(f"{match.planted.level}: ")


# --- what the models find -----------------------------------------------------------------


@KINDS
def test_the_planted_rules_are_found(kind: str) -> None:
    """The demo itself draws real noise: that it finds the rules is likely, not certain."""
    matches = demo.match_planted(fit(kind), demo.draw_fresh(kind=kind))
    assert all(match.found for match in matches)
    assert [match.planted for match in matches] == [*demo.OUTCOMES[kind].planted]
