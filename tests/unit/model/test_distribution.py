"""How frequent each code is: estimated, rounded, saved, and what averages make of it."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit import FederatedRuleFitClassifier, Model, RuleFitClassifier, Study
from fedrulefit.core.cutoffs import estimate_shares
from fedrulefit.core.grid import Axis, Grid, encode
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ModelFileError
from fedrulefit.model import RuleTerm
from fedrulefit.model.dependence import find_dependence, list_codes
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.report.charts import draw_effects, tabulate_pair
from tests.random_models import GOLDEN, random_model


def with_shares(rng: np.random.Generator, model: Model) -> Model:
    """Return the model with uneven shares, and supports as of independent covariates."""
    lengths = [axis.every_code.bit_count() for axis in model.grid.axes]
    distribution = tuple(rng.dirichlet(np.full(n, 0.4)) for n in lengths)
    terms = [
        dataclasses.replace(
            term, inside=model.provenance.patients * _holds(term.rule, distribution)
        )
        if isinstance(term, RuleTerm)
        else term
        for term in model.terms
    ]
    return dataclasses.replace(model, distribution=distribution, terms=tuple(terms))


def _holds(rule: Rule, distribution: Any) -> float:
    share = 1.0
    for feature, codes in rule.conditions:
        n = len(distribution[feature])
        bits = [codes >> k & 1 for k in range(n)]
        if not bits[-1]:  # a missing value stands last, at bit 255; all 0 if complete
            bits[-1] = codes >> 255 & 1 or bits[-1]
        share *= float(np.dot(distribution[feature], bits))
    return share


def everybody(model: Model, chosen: list[int], row: Any) -> tuple[Any, Any]:
    """Return a patient for every combination of the other covariates' codes, and its share."""
    others = [j for j in range(model.study.n_features) if j not in chosen]
    values, weights = [], []
    for places in itertools.product(*(range(len(model.shares(j))) for j in others)):
        patient = np.empty(model.study.n_features)
        patient[chosen] = row
        for j, place in zip(others, places, strict=True):
            patient[j] = list_codes(model, j)[place]
        values.append(patient)
        weights.append(np.prod([model.shares(j)[k] for j, k in zip(others, places, strict=True)]))
    return np.array(values), np.array(weights)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_dependence_is_the_average_over_patients_of_these_shares(seed: int) -> None:
    """Enumerated, not drawn: so it is exact. Levels used to count as equally frequent."""
    rng = np.random.default_rng(seed)
    model = random_model(rng, n_rules=6)
    sizes = [axis.every_code.bit_count() for axis in model.grid.axes]
    if np.prod(sizes) > 20_000:
        return
    model = with_shares(rng, model)
    j = int(rng.integers(model.study.n_features))
    touching = tuple(term for term in model.terms if j in term.features)
    alone = dataclasses.replace(model, intercept=0.0, terms=touching)
    wanted = []
    for value in list_codes(model, j).tolist():
        values, weights = everybody(model, [j], value)
        wanted.append(weights @ alone.decision_function(values))
    found = find_dependence(model, [j], list_codes(model, j)[:, None]).predictor
    # A share of 0 has no patients to average over.
    there = model.shares(j) > 1e-9
    np.testing.assert_allclose(found[there], np.array(wanted)[there], atol=1e-7)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_a_value_of_every_code_has_that_code(seed: int) -> None:
    model = random_model(np.random.default_rng(seed))
    for j, axis in enumerate(model.grid.axes):
        values = np.zeros((axis.every_code.bit_count(), model.study.n_features))
        values[:, j] = list_codes(model, j)
        expected = [*range(axis.n_codes)] + [255] * (not axis.complete)
        codes = encode(values, model.grid)[:, j].tolist()
        covariate = model.study.covariates[model.study.names[j]]
        inside = getattr(covariate, "range", None)
        if inside is None or axis.cutoffs[0] > inside[0]:
            assert codes == expected


WARD = Axis("category", np.empty(0), 3, complete=True)
SICK = Axis("yes/no", np.array([0.5]), 2, complete=True)


def ward_model(shares: tuple[float, ...], level: int, beta: float) -> Model:
    """Return a model of one rule, ``ward = level & sick``; half of the patients are sick."""
    study = Study.from_mapping(
        {
            "name": "wards",
            "outcome": {"column": "died"},
            "covariates": {
                "ward": {"kind": "category", "levels": ["a", "b", "c"], "complete": True},
                "sick": {"kind": "yes/no", "complete": True},
            },
        }
    )
    model = Model.load(GOLDEN)
    rule = Rule((Condition(0, 1 << level), Condition(1, 0b10)))
    inside = model.provenance.patients * shares[level] * 0.5
    return dataclasses.replace(
        model,
        study=study,
        grid=Grid((WARD, SICK)),
        intercept=0.0,
        terms=(RuleTerm(rule, beta, 1.0, inside, 0.0),),
        distribution=(np.array(shares), np.array([0.5, 0.5])),
    )


@pytest.mark.parametrize(
    ("shares", "level", "even"), [((0.85, 0.1, 0.05), 0, 1.0), ((0.05, 0.85, 0.1), 0, 0.075)]
)
def test_a_frequent_and_a_rare_level(shares: Any, level: int, even: float) -> None:
    """× 3.3 was shown for × 1.7 at a level of 85 %; × 1.83 for × 3.15 at one of 5 %."""
    beta = 2.0
    model = ward_model(shares, level, beta)
    frame = model.partial_dependence("ward")
    assert frame["log_odds"].tolist() == pytest.approx([beta / 2, 0, 0])
    # Taken as equally frequent, as before: P(rest | level) = support / (1/3), at most 1.
    blind = dataclasses.replace(model, distribution=None).partial_dependence("ward")
    assert blind["log_odds"][level] == pytest.approx(even * beta)
    # Relative to the average patient.
    (chart,) = draw_effects(model, [0])
    mean = shares[level] * beta / 2
    assert [mark.effect for mark in chart.marks] == [
        f"×{np.exp(v - mean):.2f}" for v in (beta / 2, 0, 0)
    ]
    table = tabulate_pair(model, (0, 1))
    expected = [[0, beta], [0, 0], [0, 0]]
    assert [[effect for effect, _ in row] for row in table.cells] == [
        [f"×{np.exp(v - mean):.2f}" for v in row] for row in expected
    ]


def test_shares_are_mended_counts() -> None:
    found = estimate_shares([np.array([60.0, 30, 10]), np.array([0.0, 0]), np.array([9.0, -2, 3])])
    assert found[0].tolist() == [0.6, 0.3, 0.1]
    assert found[1].tolist() == [0.5, 0.5]
    # Nothing below 0, and the (unbiased) total stays.
    assert found[2].tolist() == pytest.approx([0.8, 0, 0.2])


def simulate(n_rows: int) -> tuple[pd.DataFrame, pd.Series[int], Study]:
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "ward": rng.choice(["a", "b", "c"], n_rows, p=[0.85, 0.1, 0.05]),
            "gcs": np.minimum(15.0, np.round(rng.exponential(3, n_rows)) + 3),
        }
    )
    table.loc[rng.random(n_rows) < 0.3, "gcs"] = np.nan
    y = pd.Series((rng.random(n_rows) < np.where(table["ward"] == "c", 0.8, 0.3)).astype(int))
    covariates = {
        "ward": {"kind": "category", "levels": ["a", "b", "c"], "complete": True},
        "gcs": {"kind": "number", "range": [3, 15], "step": 1},
    }
    facts = {"name": "wards", "outcome": {"column": "died"}, "covariates": covariates}
    return table, y, Study.from_mapping(facts)


@pytest.mark.parametrize("pooled", [False, True])
def test_without_noise_shares_are_those_of_the_patients(pooled: bool) -> None:
    table, y, study = simulate(500)
    options: dict[str, Any] = {"study": study, "n_trees": 5, "penalty": 0.01, "random_state": 0}
    if pooled:
        model = RuleFitClassifier(**options).fit(table, y).model_
    else:
        sites = np.arange(500) % 3
        estimator = FederatedRuleFitClassifier(noise=False, **options)
        model = estimator.fit(table, y, sites=sites).model_
    codes = encode(model.read_values(table), model.grid)
    for j, axis in enumerate(model.grid.axes):
        every = [*range(axis.n_codes)] + [255] * (not axis.complete)
        expected = [float((codes[:, j] == code).mean()) for code in every]
        assert model.shares(j).tolist() == pytest.approx(expected)


@given(
    counts=st.lists(st.integers(0, 200), min_size=1, max_size=30),
    multiple=st.integers(1, 10),
    smallest=st.integers(1, 20),
)
@settings(max_examples=100, deadline=None)
def test_published_shares_tell_no_small_count(
    counts: list[int], multiple: int, smallest: int
) -> None:
    total = sum(counts)
    if total < max(multiple, smallest, 2):
        return
    golden = Model.load(GOLDEN)
    axis = Axis("category", np.empty(0), len(counts), complete=True)
    origin = dataclasses.replace(
        golden.provenance, patients=float(total), events=total / 2, by_site=()
    )
    model = dataclasses.replace(
        ward_model((1.0, 0.0, 0.0), 0, 1.0),
        grid=Grid((axis, SICK)),
        distribution=(np.array(counts) / total, np.array([1.0, 0.0])),
        provenance=origin,
        terms=(),
        rounding=PUBLISHED.__class__(),
    )
    told = model.rounded(multiple, smallest)
    assert told.distribution is not None
    found = told.distribution[0] * told.provenance.patients
    small = np.array(counts) < smallest
    assert (np.abs(found / multiple - np.rint(found / multiple))[~small] < 1e-9).all()
    assert (found[~small] >= smallest).all()
    assert len(set(found[small].tolist())) <= 1
    rest = found[small].sum()
    assert rest == 0 or rest >= smallest - 1e-9
    again = told.rounded(multiple, smallest)
    assert again.distribution is not None
    np.testing.assert_allclose(again.distribution[0], told.distribution[0])


def test_shares_stand_in_the_file_and_old_files_have_none(tmp_path: Path) -> None:
    model = ward_model((0.85, 0.1, 0.05), 0, 2.0)
    model.save(tmp_path / "model.json")
    loaded = Model.load(tmp_path / "model.json")
    assert [s.tolist() for s in loaded.distribution or ()] == [[0.85, 0.1, 0.05], [0.5, 0.5]]
    assert Model.load(GOLDEN).distribution is None
    facts = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert facts == model_facts(loaded)
    for wrong in ([0.85, 0.15], [0.0, 0.0, 0.0], None):
        facts["grid"][0]["shares"] = wrong
        with pytest.raises(ModelFileError, match="shares of codes do not fit"):
            build_model(facts)


def test_the_words_of_a_rule_follow_the_shares_and_fit_on_loading() -> None:
    study = Study.from_mapping(
        {
            "name": "lab",
            "outcome": {"column": "died"},
            "covariates": {
                "lab": {"kind": "number", "range": [0, 100]},
                "sick": {"kind": "yes/no", "complete": True},
            },
        }
    )
    lab = Axis("number", np.array([90.0]), 2, complete=False)
    term = RuleTerm(Rule((Condition(0, 0b01), Condition(1, 0b10))), 1.0, 1.0, 20.0, 10.0)
    old = dataclasses.replace(
        Model.load(GOLDEN), study=study, grid=Grid((lab, SICK)), terms=(term,)
    )
    assert old.describe(term) == "lab < 90 & sick = 1"
    assert "does not hold where the value is missing" in old.of_missing
    assert "equally frequent" in old.averaged
    new = dataclasses.replace(old, distribution=(np.array([0.58, 0.02, 0.4]), np.array([0.5, 0.5])))
    assert new.describe(term) == "lab is not missing (and lab < 90) & sick = 1"
    assert "histograms" in new.averaged
    for model in (old, new):
        assert build_model(model_facts(model)).describe(term) == model.describe(term)
    facts = model_facts(new)
    for axis in facts["grid"]:
        axis["shares"] = None
    with pytest.raises(ModelFileError, match="words of a rule do not fit"):
        build_model(facts)
