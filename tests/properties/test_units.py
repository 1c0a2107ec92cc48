"""The unit that an outcome is measured in does not matter: nor does how large its numbers are.

The same patients, with y in mg or kg, time in days or years, exposure in months or years, give the
same rules; predictions differ by the unit alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.engines import inprocess
from fedrulefit.model import Model
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.testing.samples import SOLVERS, add_outcomes, make_frame, study_facts
from tests.samples import Talk

SIZES = (250, 240, 220)
SETTINGS: dict[str, Any] = {**SOLVERS["exact"], "holdout": 0.3, "n_trees": 20, "penalty": 0.004}
FACTORS = [1e-9, 1 / 365.25, 7.0, 1e12]


def patients(k: int) -> pd.DataFrame:
    return add_outcomes(make_frame(SIZES[k], k), k)


@cache
def learn(kind: str, factor: float, weight: float = 1.0) -> Model:
    """Fit under masks and the default policy, with the outcome's unit changed by a factor."""
    facts, own = study_facts(kind, **SETTINGS, epsilon=1.0), dict[str, Any]()
    columns: list[str] = []
    if kind.startswith("number"):
        own, columns = {"range": [0, 60 * factor]}, ["stay"]
    elif kind == "count":
        own, columns = {"max_exposure": 24 * factor, "per": factor}, ["months"]
    elif kind == "time":
        own, columns = {"horizons": [90 * factor, 365 * factor]}, ["days"]
    facts["outcome"] = {**facts["outcome"], **own}
    facts["settings"]["noise"] = False
    facts["settings"].pop("epsilon")
    if weight != 1:
        facts["weight"] = {"column": "w", "max": 1024.0}
    study = Study.from_mapping(facts)
    tables = {}
    for k, site in enumerate(("north", "south", "west")):
        frame = patients(k).assign(w=weight)
        frame[columns] *= factor
        tables[site] = load_table(frame, study)
    allow = (*Policy().allow, "exact-histograms")
    return inprocess.fit(study, tables, policy=Policy(allow=allow), secure=True).model


def describe(model: Model) -> dict[str, float]:
    return {model.describe(term): term.coefficient for term in model.terms}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("kind", ["number", "number, robust", "count", "time"])
def test_another_unit_gives_the_same_rules_and_predictions(kind: str, factor: float) -> None:
    plain, other = learn(kind, 1.0), learn(kind, factor)
    left, right = describe(plain), describe(other)
    assert left.keys() == right.keys()
    assert any(plain.rule_terms)
    for name, coefficient in left.items():
        assert right[name] == pytest.approx(coefficient, rel=1e-6, abs=1e-9)
    frame = make_frame(80, seed=9).drop(columns="died")
    scale = factor if kind.startswith("number") else 1.0
    predicted = [
        np.asarray(model.predict_frame(frame)[model.study.family.words.prediction_column])
        for model in (plain, other)
    ]
    np.testing.assert_allclose(predicted[1], scale * predicted[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["yes/no", "number", "number, robust", "count", "time"])
def test_heavy_patients_reach_the_optimum(kind: str) -> None:
    """Up to what a patient may count; what is published of them is rounded coarser."""
    plain, heavy = learn(kind, 1.0), learn(kind, 1.0, weight=512.0)
    certificate = heavy.provenance.certificate
    assert certificate.residual <= 1e-8
    assert certificate.gap is not None
    assert certificate.gap <= 1e-6
    assert heavy.provenance.objective == pytest.approx(plain.provenance.objective, rel=0.02)


@pytest.mark.parametrize("kind", ["yes/no", "number", "number, robust", "count", "time"])
def test_a_table_that_sums_cannot_bear_is_refused_in_words(kind: str) -> None:
    """1024 times the patients of a table that may join: at its door, before any is counted."""
    study = Study.from_mapping(
        {**study_facts(kind, **SETTINGS), "weight": {"column": "w", "max": 1024.0}}
    )
    table = load_table(patients(0).assign(w=1.0), study)
    many = np.tile(np.arange(table.n_rows), 12)
    assert table.outcome is not None
    assert table.events is not None
    for weight, joins in ((1.0, True), (1024.0, False)):
        full = type(table)(
            table.values[many], table.outcome[many], np.full(len(many), weight), None,
            table.events[many],
        )  # fmt: skip
        names = tuple(f"site {k}" for k in range(5))
        reply = Talk(Site("site 0", full, study)).join(names, secure=False)
        assert isinstance(reply, m.JoinReply) == joins
        if not joins:
            assert reply.code == "policy"
            assert "too many patients for a sum over 5 sites: each may have" in reply.reason
