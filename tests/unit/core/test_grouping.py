"""Bins that are merged or grouped, by hand."""

from __future__ import annotations

import numpy as np

from fedrulefit.core.families.grouping import group_bins, group_ends, merge_bins


def test_bins_are_merged_until_each_holds_enough_of_each_part() -> None:
    parts = np.array([[5.0, 1, 4, 9, 2], [5.0, 5, 0, 5, 5]])
    starts = merge_bins(parts, 5)
    assert starts is not None
    assert starts.tolist() == [0, 1, 3]
    assert merge_bins(parts, 20.5) is None
    (alone,) = (merge_bins(parts[:1], 1),)
    assert alone is not None
    assert alone.tolist() == [0, 1, 2, 3, 4]


def test_groups_are_neighbours_of_similar_weight() -> None:
    group = group_bins(np.array([1.0, 1, 2, 0, 4]), 2)
    assert group.tolist() == [0, 0, 0, 1, 1]
    above, below = group_ends(group, np.arange(6.0), np.array([0, 1]))
    assert (above.tolist(), below.tolist()) == ([0, 3], [3, 5])
