"""Patients' weights against the study."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tables import codes, make_columns, make_study


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 2.0] * 20, {}),
        ([None, *[1.0] * 39], {"weight-missing": "error"}),
        (["x", *["1"] * 39], {"not-a-number": "error"}),
        ([-1.0, *[1.0] * 39], {"weight-negative": "error"}),
        ([np.inf, *[1.0] * 39], {"infinite": "error"}),
        ([11.0, *[1.0] * 39], {"weight-too-large": "error"}),
        ([0.0] * 40, {"weight-zero": "error"}),
    ],
)
def test_weights(weights: list[Any], expected: dict[str, str]) -> None:
    study = make_study(weight={"column": "w", "max": 10})
    assert codes(make_columns(w=weights), study) == expected
