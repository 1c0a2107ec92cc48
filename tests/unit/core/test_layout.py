"""The order of the coefficient vector, against its terms written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedrulefit.core.layout import Layout

LAYOUTS = [Layout(*sizes) for sizes in ((1, 0, 0), (1, 4, 2), (2, 3, 0), (3, 0, 2), (0, 2, 2))]
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def names(layout: Layout) -> Any:
    """Return the kind of every term, and its place in its block."""
    sizes = {"baseline": layout.n_baseline, "rule": layout.n_rules, "linear": layout.n_linear}
    kinds = [kind for kind, size in sizes.items() for _ in range(size)]
    return np.array(kinds, dtype="<U8"), np.array([k for n in sizes.values() for k in range(n)])


@every_layout
def test_the_blocks_share_the_vector(layout: Layout) -> None:
    kinds, _ = names(layout)
    assert layout.n_terms == len(kinds)
    blocks = {"baseline": layout.baseline, "rule": layout.rules, "linear": layout.linear}
    for kind, block in blocks.items():
        assert np.flatnonzero(kinds == kind).tolist() == list(range(block.start, block.stop))
    effects = layout.effects
    assert np.flatnonzero(kinds != "baseline").tolist() == list(range(effects.start, effects.stop))
    vector = np.arange(float(layout.n_terms))
    parts = [vector[block] for block in blocks.values()]
    np.testing.assert_array_equal(layout.join(*parts), vector)


@every_layout
@given(data=st.data())
@settings(max_examples=30, derandomize=True)
def test_terms_and_places(layout: Layout, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=layout.n_terms, max_size=layout.n_terms))
    terms = np.flatnonzero(chosen)
    kinds, places = (each[terms] for each in names(layout))
    assert layout.are_rules(terms).tolist() == (kinds == "rule").tolist()
    assert layout.are_linear(terms).tolist() == (kinds == "linear").tolist()
    rules, linear = layout.rules_among(terms), layout.linear_among(terms)
    assert rules.tolist() == places[kinds == "rule"].tolist()
    assert linear.tolist() == places[kinds == "linear"].tolist()
    assert layout.of_rules(rules).tolist() == terms[kinds == "rule"].tolist()
    assert layout.of_linear(linear).tolist() == terms[kinds == "linear"].tolist()
    counts = [(kinds == kind).sum() for kind in ("baseline", "rule", "linear")]
    assert layout.among(terms) == Layout(*map(int, counts))
    whole = layout.with_baseline(terms)
    assert whole.tolist() == sorted({*range(layout.n_baseline), *terms.tolist()})
    assert layout.holds(whole)
    assert layout.holds(terms) == (counts[0] == layout.n_baseline)


@pytest.mark.parametrize(
    ("terms", "fine"),
    [
        ([0, 1], True), ([0, 1, 2, 6], True), ([0, 1, 6, 5], False), ([0, 1, 3, 3], False),
        ([0, 2], False), ([1, 2], False), ([], False), ([0, 1, 7], False), ([-1, 0, 1], False),
    ],
)  # fmt: skip
def test_a_model_holds_the_whole_baseline(terms: list[int], fine: bool) -> None:
    assert Layout(2, 3, 2).holds(np.array(terms, dtype=np.int64)) is fine


def test_what_is_left_over_is_linear() -> None:
    assert Layout.of_length(9, 5) == Layout(1, 5, 3)
    assert Layout.of_length(9, 5, n_baseline=4) == Layout(4, 5, 0)
    with pytest.raises(ValueError, match="fewer terms than"):
        Layout.of_length(5, 5)
