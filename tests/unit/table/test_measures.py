"""Public ranges that are no patient's values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedrulefit.table.header import fold
from fedrulefit.table.measures import KNOWN, widen


def test_measures_are_found_by_any_spelling_of_their_name() -> None:
    assert all(fold(name) == name for name in KNOWN)
    assert KNOWN[fold("Age at admission")].unit == "years"


@given(st.tuples(*[st.floats(-1e12, 1e12).filter(lambda x: x == 0 or abs(x) > 1e-12)] * 2))
def test_ranges_are_round_and_hold_the_data(ends: tuple[float, float]) -> None:
    lowest, highest = sorted(ends)
    if lowest == highest:
        return
    low, high = widen(lowest, highest)
    assert low <= lowest < highest <= high
    assert low < high
    for bound in (low, high):
        assert bound == 0 or f"{abs(bound):e}"[:8] in ("1.000000", "2.000000", "5.000000")
