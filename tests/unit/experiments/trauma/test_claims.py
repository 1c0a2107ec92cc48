"""The claims of section 4."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.experiments.methods import OURS, PROPOSED
from fedrulefit.experiments.trauma.claims import _share, check_claims
from fedrulefit.experiments.trauma.patients import trauma_study
from fedrulefit.experiments.trauma.repetitions import COVARIATES
from fedrulefit.experiments.trauma.separation import PARTS, PLACES
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.file import load_model
from tests.random_models import GOLDEN

RULES = {
    f"{part}_{place}": values
    for place in PLACES
    for part, values in {
        "trained": [-0.6, 0.5, -0.6] if place < 3 else [0.3] * 3,
        "tested": [-0.5, 0.4, -0.5] if place < 3 else [0.2] * 3,
        "gcs": [1.0] * 3 if place < 3 else [0.0] * 3,
    }.items()
}
"""Five rules; the first two involve GCS and separate more."""


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
        rules = {} if name == "bfi" else RULES
        frame = pd.DataFrame({**rest, **rules, **columns, **changes.get(name, {})})
        parts.append(frame.assign(method=name, repetition=range(3), n_train=259, n_test=112))
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


def test_directions_of_rules_are_described_by_their_open_ends() -> None:
    said = "described, not tested: "
    assert verdict(make_model(*GOOD), "raise the risk") == f"{said}4 of 4"
    wrong = (((codes("ISS", LOW),), 0.8, (40.0, 5.0)), *GOOD[:3])
    assert verdict(make_model(*wrong), "raise the risk").startswith(
        f"{said}3 of 4; against it: ISS"
    )
    mixed = (((codes("GCS", HIGH), codes("ISS", HIGH)), 0.1, (40.0, 5.0)),)
    assert verdict(make_model(*mixed), "raise the risk") == f"{said}0 of 0"


def test_rules_are_counted_kept_and_as_candidates() -> None:
    told = verdict(make_model(*GOOD), "generated 82 rules")
    assert told == "described, not tested: 5 rules (100)"


def test_separation_is_judged_on_test_patients() -> None:
    model = make_model(*GOOD)
    told = verdict(model, "clearly separated")
    assert told.startswith("holds: differences 0.47 ± 0.05, 0.47 ± 0.05, 0.20 ± 0.00")
    assert told.endswith("on training patients 0.57, 0.57, 0.30, 0.30, 0.30")
    vanished = make_splits(federated={"tested_4": [0.001, 0.002, 0.0]})
    assert verdict(model, "clearly separated", vanished).startswith("does not hold")
    turned = make_splits(federated={"tested_1": [0.5, -0.4, 0.5]})
    assert verdict(model, "clearly separated", turned).startswith("does not hold")
    varying = make_splits(federated={"tested_4": [0.6, 0.1, 0.2]})
    assert verdict(model, "clearly separated", varying).startswith("not decided")
    nan = float("nan")
    none = {f"{part}_{place}": [nan] * 3 for part in PARTS for place in PLACES}
    assert verdict(model, "clearly separated", make_splits(federated=none)).startswith("not dec")
    few = {"tested_5": [0.2, nan, 0.3]}
    assert "(2 splits)" in verdict(model, "clearly separated", make_splits(federated=few))


def test_rules_with_gcs_are_compared_with_those_without() -> None:
    model = make_model(*GOOD)
    told = verdict(model, "rules that involve GCS")
    assert told.startswith("holds: 6 of 15 rules involve it; wider by +0.27 ± 0.05 (3 splits)")
    narrow = make_splits(federated={f"tested_{k}": [-0.1, 0.1, -0.1] for k in (1, 2)})
    assert verdict(model, "rules that involve GCS", narrow).startswith("does not hold")
    alone = make_splits(federated={f"gcs_{place}": [1.0] * 3 for place in PLACES})
    assert verdict(model, "rules that involve GCS", alone) == (
        "not decided: 15 of 15 rules involve it"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"auc": [0.91, 0.93, 0.92]}, "higher median AUC"),
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


def test_a_small_difference_of_overlapping_splits_is_not_decided() -> None:
    """A higher median or mean in every split is no proof where splits share patients."""
    model = make_model(*GOOD)
    wins = make_splits(federated={"auc": [0.921, 0.961, 0.94]})
    told = verdict(model, "higher median AUC", wins)
    assert told.startswith("not decided")
    assert "higher in 3 of 3 splits" in told
    higher = make_splits(federated={"age": [100.0, 62.0, 70.0]})
    assert verdict(model, "more important than in BFI", higher).startswith("not decided")
    assert verdict(model, "relatively stable").startswith("described, not tested")


def test_the_difference_in_auc_counts_that_splits_overlap() -> None:
    told = verdict(make_model(*GOOD), "higher median AUC")
    assert "higher in 3 of 3 splits; mean difference +0.0100 ± 0.0000" in told
    changed = make_splits(federated={"auc": [0.92, 0.96, 0.94]})
    gaps = np.array([0.0, 0.02, 0.01])
    error = gaps.std(ddof=1) * np.sqrt(1 / 3 + 112 / 259)
    assert f"± {error:.4f}" in verdict(make_model(*GOOD), "higher median AUC", changed)


def test_a_share_of_importance_is_a_ratio_of_means_with_its_error() -> None:
    """Against the delete-one jackknife of the ratio of means."""
    rng = np.random.default_rng(0)
    splits = pd.DataFrame({"age": rng.normal(60, 9, 200), "GCS": rng.normal(95, 7, 200)})
    found = _share(splits, "age")
    assert found.mean() == pytest.approx(splits["age"].mean() / splits["GCS"].mean())
    left = [
        rest["age"].mean() / rest["GCS"].mean() for rest in (splits.drop(k) for k in range(200))
    ]
    jackknife = np.sqrt(199**2 / 200) * np.std(left, ddof=1)
    assert found.std() / np.sqrt(200) == pytest.approx(jackknife, rel=0.01)
