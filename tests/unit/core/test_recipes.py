"""Recipes for probabilities of levels, cooked with plain numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from fedrulefit.core.families.classes import Classes
from fedrulefit.core.families.ordered import Ordered
from fedrulefit.core.families.recipes import Language
from fedrulefit.core.families.yesno import YesNo


class Plain(Language):
    """Writes a number as Python does, and so keeps it."""

    def number(self, value: float) -> str:
        return repr(value)

    def add(self, first: str, second: str) -> str:
        return repr(float(first) + float(second))

    def multiply(self, first: str, second: str) -> str:
        return repr(float(first) * float(second))

    def negate(self, value: str) -> str:
        return repr(-float(value))

    def invert(self, value: str) -> str:
        return repr(1 / float(value))

    def exp(self, value: str) -> str:
        return repr(math.exp(min(float(value), 700.0)))

    def link(self, value: str) -> str:
        return repr(float(expit(float(value))))


@pytest.mark.parametrize("f", [-800.0, -3.0, 0.2, 40.0])
def test_ordered_levels(f: float) -> None:
    family, baseline = Ordered(("a", "b", "c", "d")), [0.0, -0.7, 1.3]
    found = [float(x) for x in family.write_levels(Plain(), [repr(f)], baseline)]
    (wanted,) = family.predict(f + np.array([baseline]))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("f", [[0.1, -2.0, 0.4], [900.0, 0.0, -900.0], [5.0, 5.0, 5.0]])
def test_classes(f: list[float]) -> None:
    family = Classes(("a", "b", "c"))
    found = [float(x) for x in family.write_levels(Plain(), [repr(x) for x in f], ())]
    np.testing.assert_allclose(found, family.predict(np.array([f]))[0], rtol=1e-12, atol=1e-300)


def test_of_one_prediction_there_is_no_recipe() -> None:
    assert YesNo().write_levels(Plain(), ["0.0"], ()) == []
