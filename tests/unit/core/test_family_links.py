"""A link is the same in every language that we write, and effects are what the family says."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.families import EXAMPLES

from fedrulefit.core.families import FAMILIES, Family
from fedrulefit.model.export.dialects import find_dialect

every_family = pytest.mark.parametrize("family", EXAMPLES.values(), ids=EXAMPLES)
F = np.concatenate([np.linspace(-40, 40, 81), [-1e4, -709.0, 709.0, 1e4]])


@every_family
def test_forward_undoes_inverse(family: Family) -> None:
    # A capped rate, and a risk that is 1 to the last digits, cannot be undone.
    middle = np.linspace(-10, 2 if family.kind in ("count", "time", "competing") else 10, 101)
    np.testing.assert_allclose(family.link.forward(family.link.inverse(middle)), middle, atol=1e-9)


@every_family
def test_sql_is_the_inverse(family: Family) -> None:
    written = family.link.sql("f", find_dialect("duckdb").real)
    values = ", ".join(f"({f!r}::DOUBLE)" for f in F.tolist())
    query = f"SELECT {written} FROM (VALUES {values}) AS t(f)"  # noqa: S608
    found = np.array(duckdb.sql(query).fetchall())[:, 0]
    np.testing.assert_allclose(found, family.link.inverse(F), rtol=1e-12, atol=1e-300)


@every_family
def test_the_onnx_operator_is_the_inverse(family: Family) -> None:
    helper = pytest.importorskip("onnx.helper")
    runtime = pytest.importorskip("onnxruntime")
    double = helper.TensorProto.DOUBLE if hasattr(helper, "TensorProto") else 11
    steps = list(enumerate(family.link.onnx))
    numbers = {f"number{k}": number for k, (_, *rest) in steps for number in rest}
    nodes = [
        helper.make_node(kind, [f"f{k}", *(f"number{k}" for _ in rest)], [f"f{k + 1}"])
        for k, (kind, *rest) in steps
    ]
    graph = helper.make_graph(
        nodes,
        "link",
        [helper.make_tensor_value_info("f0", double, [None])],
        [helper.make_tensor_value_info(f"f{len(nodes)}", double, [None])],
        initializer=[helper.make_tensor(name, double, [], [x]) for name, x in numbers.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (found,) = runtime.InferenceSession(made.SerializeToString()).run(None, {"f0": F})
    np.testing.assert_allclose(found, family.link.inverse(F), rtol=1e-9, atol=1e-15)


MAY_BE_EMPTY = ("effect_sign", "effect_short")
"""A difference has no sign of its own before it, and no short name."""


@every_family
def test_every_phrase_is_there(family: Family) -> None:
    needed = [f.name for f in dataclasses.fields(family.words) if f.default is dataclasses.MISSING]
    assert len(needed) > 20
    assert all(getattr(family.words, name) for name in needed if name not in MAY_BE_EMPTY)


@every_family
@given(low=st.floats(-50, 50), span=st.floats(0.5, 100))
def test_ticks_lie_inside_and_tell_their_effect(family: Family, low: float, span: float) -> None:
    ticks = family.effect_ticks(low, low + span)
    assert len(ticks) <= 6
    for place, effect in ticks:
        assert low - 1e-9 <= place <= low + span + 1e-9
        assert family.effect(place) == pytest.approx(effect, rel=1e-9)


@every_family
def test_an_effect_is_what_a_term_does_to_predictions(family: Family) -> None:
    """A difference, or a ratio of odds, rates or hazards, wherever the other terms stand."""
    at, coefficient = np.linspace(-3, 0.5, 15), 0.7
    before, after = family.link.inverse(at), family.link.inverse(at + coefficient)
    if family.kind == "competing":  # of the first event, the hazard of the other being nothing
        spans = [np.repeat(np.column_stack([f, 0 * f - 80]), 3, axis=1) for f in (at, at + 0.7)]
        before, after = (family.predict(part)[:, 0] for part in spans)
    elif family.own_terms:  # of the first class, against the second
        shares = [family.predict(np.stack([f, 0 * f, 0 * f], axis=1)) for f in (at, at + 0.7)]
        before, after = (part[:, 0] / part[:, 1] for part in shares)
    compare: dict[str, Callable[[Any, Any], Any]] = {
        "number": lambda new, old: new - old,
        "count": lambda new, old: new / old,
        "time": lambda new, old: np.log1p(-new) / np.log1p(-old),
        "competing": lambda new, old: np.log1p(-new) / np.log1p(-old),
        "classes": lambda new, old: new / old,
    }
    found = compare.get(family.kind, _odds_ratio)(after, before)
    np.testing.assert_allclose(found, family.effect(coefficient), rtol=1e-9)


def _odds_ratio(new: Any, old: Any) -> Any:
    return new / (1 - new) / (old / (1 - old))


def test_effects_on_levels_are_odds_ratios() -> None:
    """Of going on from each level of an order to a higher one, at all steps alike."""
    family = EXAMPLES["ordered"]
    steps = np.array([[-0.4, 0.3, 1.1]])
    before, after = (family.predict(steps + shift)[0] for shift in (0.0, 0.7))
    odds = [part[k + 1 :].sum() / part[k] for part in (before, after) for k in range(3)]
    np.testing.assert_allclose(np.divide(odds[3:], odds[:3]), family.effect(0.7), rtol=1e-9)


@every_family
def test_information_is_the_curvature_of_patients_with_that_mean(family: Family) -> None:
    mean = family.link.inverse(np.array([-0.3]))
    outcome, predictor = {
        "count": (np.array([[float(mean[0]), 365.0]]), np.full(1, -0.3)),
        # All the time at risk in one interval.
        "time": (np.array([[0.0, 30.0, 0.0]]), np.array([[np.log(mean[0]), 0.0, 0.0]])),
        # And of one of two causes; the other's hazard is nothing.
        "competing": (
            np.array([[0.0, 30.0, 0.0]]),
            np.array([[np.log(mean[0]), 0.0, 0.0, -80.0, 0.0, 0.0]]),
        ),
        # At the first level: the first step alone is tried.
        "ordered": (np.zeros(1), np.array([[-0.3, 0.0, 0.0]])),
    }.get(family.kind, (mean, np.full(1, -0.3)))
    if family.crossed:  # of one class; crossed curvatures add up to 0
        others = np.log((1 - mean[0]) / 2)
        predictor = np.array([[np.log(mean[0]), others, others]])
        curvature = family.curvature(predictor, np.zeros(1), np.full(1, 12.0))[0, 0, 0]
    else:
        curvature = family.curvature(predictor, outcome, np.full(1, 12.0)).sum()
    assert family.information(12.0, float(mean[0])) == pytest.approx(float(curvature))


def test_every_kind_has_an_example() -> None:
    assert {family.kind for family in EXAMPLES.values()} == set(FAMILIES)
    assert all(type(family) is FAMILIES[family.kind] for family in EXAMPLES.values())


def test_no_risk_moves_further_than_is_told() -> None:
    family = EXAMPLES["yes/no"]
    f = np.linspace(-6, 6, 2001)
    for most in (0.01, 0.3, 2.0):
        words = family.tell_move(most)
        told = float(words.split("by at most ")[-1].split()[0])
        move = 100 * np.abs(family.link.inverse(f + most) - family.link.inverse(f)).max()
        assert move <= told + 1e-9
        assert told <= move + 0.1 + 1e-9
        assert f"move by at most {math.ceil(1000 * most) / 1000:g}," in words


def test_what_a_yes_no_model_tells() -> None:
    family = EXAMPLES["yes/no"]
    assert family.effect(math.log(2)) == pytest.approx(2.0)
    assert family.tell(0.3214) == "32.1 %"
    assert family.effect_ticks(-1.5, 1.5) == [(k * math.log(2), 2.0**k) for k in (-2, -1, 0, 1, 2)]
