"""Partial dependence against the model's own predictions."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit import Model, plot
from fedrulefit.core.grid import encode, linear_values
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import LinearTerm
from fedrulefit.model.dependence import find_dependence, strongest_pairs
from fedrulefit.study import Number
from tests.random_models import GOLDEN, random_model
from tests.reports import huge_model


def alone(model: Model, features: set[int]) -> Model:
    """Return the model of the terms that name nothing else."""
    kept = tuple(t for t in model.terms if set(t.features) <= features)
    return dataclasses.replace(model, intercept=0.0, terms=kept)


def touching(model: Model, features: set[int]) -> Model:
    kept = tuple(t for t in model.terms if set(t.features) & features)
    return dataclasses.replace(model, intercept=0.0, terms=kept)


def any_patients(rng: np.random.Generator, model: Model, n_rows: int) -> Any:
    values = np.empty((n_rows, model.study.n_features))
    for j, axis in enumerate(model.grid.axes):
        x = rng.integers(axis.n_codes, size=n_rows).astype(float)
        if axis.kind == "number":
            x = rng.uniform(-60, 210, n_rows)
        if not axis.complete:
            x[rng.random(n_rows) < 0.2] = np.nan
        values[:, j] = x
    return values


def pick(rng: np.random.Generator, model: Model, size: int) -> list[int]:
    return [int(j) for j in rng.choice(model.study.n_features, size, replace=False)]


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1, 2]))
@settings(max_examples=80, deadline=None)
def test_the_model_itself_says_the_same(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    chosen = pick(rng, model, min(size, model.study.n_features))
    names = tuple(model.study.names[j] for j in chosen)
    frame = model.partial_dependence(names[0] if len(names) == 1 else (names[0], names[1]))
    columns = ["value"] if len(names) == 1 else ["value_1", "value_2"]
    for _ in range(5):  # whatever the other covariates are
        values = any_patients(rng, model, len(frame))
        values[:, chosen] = frame[columns]
        wanted = alone(model, set(chosen)).linear_predictor(values)
        np.testing.assert_allclose(frame["alone"], wanted, atol=1e-12)
        reached = touching(model, set(chosen)).linear_predictor(values)
        assert (reached >= frame["lowest"] - 1e-12).all()
        assert (reached <= frame["highest"] + 1e-12).all()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_between_two_points_of_a_number_it_is_linear(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    numbers = [n for n, c in model.study.covariates.items() if isinstance(c, Number)]
    for name in numbers:
        j = model.study.names.index(name)
        frame = model.partial_dependence(name).dropna(subset="value")
        x = np.sort(rng.uniform(-50, 200, 40))
        values = any_patients(rng, model, len(x))
        values[:, j] = x
        wanted = alone(model, {j}).linear_predictor(values)
        # np.interp is exact where the points are apart by one float: there it jumps.
        np.testing.assert_allclose(np.interp(x, frame["value"], frame["alone"]), wanted, atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), size=st.sampled_from([1, 2]))
@settings(max_examples=40, deadline=None)
def test_a_naive_loop_over_points_and_terms_says_the_same(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    chosen = pick(rng, model, min(size, model.study.n_features))
    rows = any_patients(rng, model, 8)
    found = find_dependence(model, chosen, rows[:, chosen])
    codes, linear = encode(rows, model.grid), linear_values(rows, model.grid)
    for i in range(len(rows)):
        total = joint = 0.0
        for term in model.terms:
            named = set(term.features) & set(chosen)
            if not named:
                continue
            if isinstance(term, LinearTerm):
                adds = term.coefficient * linear[i, model.grid.linear.index(term.feature)]
            else:
                adds, share_of_codes = term.coefficient, 1.0
                for condition in term.rule:
                    axis = model.grid.axes[condition.feature]
                    if condition.feature in named:
                        adds *= condition.codes >> int(codes[i, condition.feature]) & 1
                        every = axis.n_codes + (not axis.complete)
                        share_of_codes *= bin(condition.codes).count("1") / every
                if named != set(term.features):
                    adds *= min(1.0, term.inside / model.provenance.patients / share_of_codes)
            total += adds
            joint += adds if len(named) == len(chosen) else 0.0
        assert found.predictor[i] == pytest.approx(total, abs=1e-12)
        assert found.interaction[i] == pytest.approx(joint, abs=1e-12)
    assert (found.lowest <= found.predictor + 1e-12).all()
    assert (found.predictor <= found.highest + 1e-12).all()


def test_the_strongest_pairs_come_first() -> None:
    model = huge_model(80)
    pairs = strongest_pairs(model, 100)
    weight = {
        pair: sum(t.importance for t in model.rule_terms if set(pair) <= set(t.features))
        for pair in itertools.combinations(range(model.study.n_features), 2)
    }
    assert [weight[p] for p in pairs] == sorted(weight.values(), reverse=True)[: len(pairs)]


def test_the_bounds_are_reached_by_brute_force() -> None:
    """One joint rule: the other covariate can switch it on and off."""
    model = Model.load(GOLDEN)
    joint = next(t for t in model.rule_terms if len(t.features) == 2)
    model = dataclasses.replace(model, intercept=0.0, terms=(joint,))
    j, other = joint.features
    frame = model.partial_dependence(model.study.names[j])
    axis = model.grid.axes[other]
    candidates = [np.nan, *range(axis.n_codes), *axis.cutoffs, -1e6, 1e6]
    if not axis.ordered:
        candidates = [np.nan, *range(axis.n_codes)]
    if axis.complete:
        candidates = candidates[1:]
    found = []
    for x, z in itertools.product(frame["value"], candidates):
        row = np.array([[0.0 if a.complete else np.nan for a in model.grid.axes]])
        row[0, [j, other]] = x, z
        found.append(model.linear_predictor(row)[0])
    reached = np.array(found).reshape(len(frame), -1)
    np.testing.assert_allclose(reached.min(axis=1), frame["lowest"])
    np.testing.assert_allclose(reached.max(axis=1), frame["highest"])
    assert (frame["alone"] == 0).all()


def test_the_columns() -> None:
    model = Model.load(GOLDEN)
    one = model.partial_dependence("ward")
    assert list(one) == ["value", "label", "log_odds", "alone", "lowest", "highest"]
    assert one["label"].tolist() == ["icu", "er", "general", "other", "missing"]
    assert model.partial_dependence("sex")["label"].tolist() == ["male", "female"]
    two = model.partial_dependence(("ward", "sex"))
    assert list(two) == [
        "value_1", "label_1", "value_2", "label_2",
        "log_odds", "interaction", "alone", "lowest", "highest",
    ]  # fmt: skip
    assert len(two) == 10
    age = model.partial_dependence("age")
    assert age["value"].iloc[[0, -2]].tolist() == [18, 100]
    assert np.isnan(age["value"].iloc[-1])


@pytest.mark.parametrize("feature", ["weight", ("age", "age"), ("age", "sex", "gcs"), ()])
def test_what_is_refused(feature: Any) -> None:
    with pytest.raises(FedRuleFitError, match="no covariate 'weight'|two different"):
        Model.load(GOLDEN).partial_dependence(feature)


@pytest.mark.parametrize(
    "feature", ["age", "ward", "sex", *itertools.permutations(["age", "gcs", "ward", "sex"], 2)]
)
@pytest.mark.parametrize("terms", [True, False])
def test_figures(feature: Any, terms: bool) -> None:
    mpl.use("Agg")
    model = Model.load(GOLDEN)
    if not terms:
        model = dataclasses.replace(model, terms=())
    _, ax = plt.subplots()
    assert plot.partial_dependence(model, feature, ax) is ax
    ax.figure.canvas.draw()
    if isinstance(feature, tuple):
        assert feature[0] in ax.get_xlabel()
        assert feature[1] in ax.get_ylabel()
    plt.close("all")


def test_a_figure_draws_the_frame() -> None:
    mpl.use("Agg")
    model = Model.load(GOLDEN)
    ax = plot.partial_dependence(model, "age")
    frame = model.partial_dependence("age").dropna(subset="value")
    drawn = next(line for line in ax.lines if str(line.get_label()).startswith("on average"))
    np.testing.assert_array_equal(drawn.get_ydata(), frame["log_odds"])
    plt.close("all")
