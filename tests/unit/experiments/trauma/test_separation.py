"""Mortality inside and outside rules, of training and of test patients."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.experiments.trauma.repetitions import COVARIATES
from fedrulefit.experiments.trauma.separation import PARTS, PLACES, TOP, separate, shown_rules
from tests.unit.experiments.trauma.test_claims import GOOD, make_model


def test_rates_are_those_counted_patient_by_patient() -> None:
    """The rules of the model ask for codes: below 5, 5 to 10, and from 10."""
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.uniform(3, 15, 300), rng.integers(0, 2, 300), *rng.uniform(3, 15, (2, 300))]
    )
    outcome = rng.integers(0, 2, 300)
    train = rng.random(300) < 0.7
    model = make_model(*GOOD)
    row = separate(model, values, outcome, train)
    for place, term in enumerate(shown_rules(model), start=1):
        for part, here in (("trained", train), ("tested", ~train)):
            deaths: dict[bool, list[int]] = {True: [], False: []}
            for patient in np.flatnonzero(here):
                met = [
                    condition.codes
                    >> sum(values[patient, condition.feature] >= cut for cut in (5, 10))
                    & 1
                    for condition in term.rule
                ]
                deaths[all(met)].append(outcome[patient])
            expected = np.mean(deaths[True]) - np.mean(deaths[False])
            assert row[f"{part}_{place}"] == pytest.approx(expected)
        assert row[f"gcs_{place}"] == (COVARIATES.index("GCS") in term.rule.features)


def test_what_is_not_there_is_no_number() -> None:
    values = np.full((20, 4), 7.0)
    model = make_model(*GOOD[:2])
    row = separate(model, values, np.arange(20) % 2, np.arange(20) < 10)
    assert len(row) == len(PARTS) * TOP
    assert all(np.isnan(row[f"{part}_{k}"]) for part in ("trained", "tested") for k in PLACES)
    assert [row[f"gcs_{k}"] for k in (1, 2)] == [1, 1]
    assert np.isnan(row["gcs_3"])
