"""The claims of section 4."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.experiments.methods import OURS, PROPOSED
from fedrulefit.experiments.trauma.claims import check_claims
from fedrulefit.experiments.trauma.patients import trauma_study
from fedrulefit.experiments.trauma.repetitions import (
    COVARIATES,
)
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.file import load_model
from tests.random_models import GOLDEN


def make_splits(**changes: dict[str, list[float]]) -> pd.DataFrame:
    """Splits in which all that the paper claims is true, with `changes` by method."""
    truth = {
        PROPOSED: {"auc": [0.93, 0.95, 0.94], "GCS": [100] * 3, "age": [80] * 3},
        OURS: {"auc": [0.94, 0.96, 0.95], "GCS": [100] * 3, "age": [80] * 3},
        "bfi": {"auc": [0.92, 0.94, 0.93], "GCS": [100] * 3, "age": [60] * 3},
    }
    parts = []
    for name, columns in truth.items():
        rest = {"ISS": [50.0 if name != "bfi" else 30.0] * 3, "sex": [5.0] * 3}
        frame = pd.DataFrame({**rest, **columns, **changes.get(name, {})})
        parts.append(frame.assign(method=name, repetition=range(3)))
    return pd.concat(parts, ignore_index=True)


def make_model(*terms: tuple[tuple[Condition, ...], float, tuple[float, float]]) -> Model:
    """A model of the trauma study: rules with coefficients, patients and deaths inside."""
    study = trauma_study()
    axes = []
    for name in study.names:
        if name == "sex":
            axes.append(Axis("yes/no", np.array([0.5]), 2, True, (0.0, 1.0), 0.5))
        else:
            axes.append(Axis("number", np.array([5.0, 10.0]), 3, True, (0.0, 99.0), 3.0))
    rules = tuple(
        RuleTerm(Rule(conditions), coefficient, 1.0 / (place + 1), inside, deaths)
        for place, (conditions, coefficient, (inside, deaths)) in enumerate(terms)
    )
    base = load_model(GOLDEN)
    origin = dataclasses.replace(base.provenance, patients=100.0, events=40.0, candidates=100)
    return dataclasses.replace(
        base, study=study, grid=Grid(tuple(axes)), terms=rules, provenance=origin, evaluation=None
    )


def codes(name: str, bits: int) -> Condition:
    return Condition(COVARIATES.index(name), bits)


LOW, MIDDLE, HIGH = 0b001, 0b010, 0b100
GOOD = (
    ((codes("GCS", HIGH),), -0.5, (50.0, 5.0)),
    ((codes("GCS", LOW | MIDDLE),), 0.5, (50.0, 30.0)),
    ((codes("ISS", HIGH), codes("age", HIGH)), 0.4, (30.0, 20.0)),
    ((codes("ISS", LOW),), -0.4, (40.0, 5.0)),
    ((codes("GCS", MIDDLE),), 0.4, (40.0, 5.0)),
)


def verdict(model: Model, words: str, splits: pd.DataFrame | None = None) -> str:
    rows = make_splits() if splits is None else splits
    claims = check_claims(rows, {PROPOSED: model, OURS: model})
    (found,) = [claim.paper for claim in claims if words in claim.text]
    return f"{found.word}: {found.numbers}"


def test_directions_of_rules_are_judged_by_their_open_ends() -> None:
    assert verdict(make_model(*GOOD), "raise the risk") == "holds: 4 of 4"
    wrong = (((codes("ISS", LOW),), 0.8, (40.0, 5.0)), *GOOD[:3])
    assert verdict(make_model(*wrong), "raise the risk").startswith(
        "does not hold: 3 of 4; against it: ISS"
    )
    mixed = (((codes("GCS", HIGH), codes("ISS", HIGH)), 0.1, (40.0, 5.0)),)
    assert verdict(make_model(*mixed), "raise the risk") == "not decided: 0 of 0"


def test_separation_is_judged_on_every_rule_shown() -> None:
    assert verdict(make_model(*GOOD), "clearly separated").startswith("holds")
    alike = (*GOOD[:2], ((codes("age", LOW),), 0.1, (50.0, 20.0)))
    assert verdict(make_model(*alike), "clearly separated").startswith("does not hold")
    assert verdict(make_model(), "clearly separated").startswith("not decided")
    assert verdict(make_model(*GOOD), "rules that involve GCS").startswith("holds: 0.60: GCS")
    wider = (((codes("age", HIGH),), 0.5, (50.0, 39.0)), *GOOD)
    assert verdict(make_model(*wider), "rules that involve GCS").startswith("does not hold: 0.76")
    for one_sided in (GOOD[2:4], GOOD[:2]):
        found = verdict(make_model(*one_sided), "rules that involve GCS")
        assert found.startswith("not decided")


def test_rules_are_counted_kept_and_as_candidates() -> None:
    model = make_model(*GOOD)
    assert verdict(model, "generated 82 rules") == "does not hold: 5 rules"
    assert verdict(model, "if candidates are meant") == "holds: 100 rules"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"auc": [0.91, 0.93, 0.92]}, "higher median AUC"),
        ({"auc": [0.85, 0.99, 0.94]}, "stable variability"),
        ({"age": [120.0] * 3}, "most important covariate"),
        ({"sex": [60.0] * 3}, "most important covariate"),
        ({"ISS": [20.0] * 3}, "more important than in BFI"),
    ],
)
def test_claims_on_splits(changes: dict[str, list[float]], words: str) -> None:
    model = make_model(*GOOD)
    assert verdict(model, words).startswith("holds")
    changed = make_splits(federated=changes)
    assert verdict(model, words, changed).startswith("does not hold")


def test_the_difference_in_auc_counts_that_splits_overlap() -> None:
    told = verdict(make_model(*GOOD), "higher median AUC")
    assert "higher in 3 of 3 splits; mean difference +0.0100 ± 0.0000" in told
    changed = make_splits(federated={"auc": [0.92, 0.96, 0.94]})
    gaps = np.array([0.0, 0.02, 0.01])
    error = gaps.std(ddof=1) * np.sqrt(1 / 3 + 3 / 7)
    assert f"± {error:.4f}" in verdict(make_model(*GOOD), "higher median AUC", changed)
