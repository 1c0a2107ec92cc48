"""The study's settings as numbers of the solvers."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.layout import Layout
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.solver_settings import make_factors, make_schedule
from fedrulefit.study import Settings, resolve_settings

GRID = Grid(
    (Axis("number", np.array([1.0, 2.0]), 3, False), Axis("yes/no", np.array([0.5]), 2, True))
)
RULES = [Rule((Condition(0, 1),)), Rule((Condition(0, 1), Condition(1, 2)))]


def test_factors_of_the_terms_that_sites_tell_of() -> None:
    settings = Settings(linear_factor=0.2, interaction_factor=1.5)
    assert make_factors(settings, RULES, Layout(1, 2, 2), GRID).tolist() == [0, 1, 1.5, 0.2, 0.2]
    assert make_factors(settings, RULES, Layout(1, 2, 0), GRID).tolist() == [0, 1, 1.5]
    assert make_factors(settings, RULES, Layout(2, 2, 0), GRID).tolist() == [0, 0, 1, 1.5]


def test_missing_is_a_main_effect_beside_the_linear_term() -> None:
    absent, present = Rule((Condition(0, 1 << MISSING),)), Rule((Condition(0, 0b111),))
    both = Rule((Condition(0, 1 << MISSING), Condition(1, 1)))
    settings = Settings(linear_factor=0.2, interaction_factor=1.5)
    factors = make_factors(settings, [absent, present, both], Layout(1, 3, 1), GRID)
    assert factors.tolist() == [0, 0.2, 0.2, 1.5, 0.2]
    paper = resolve_settings("paper")
    assert make_factors(paper, [absent, both], Layout(1, 2, 1), GRID).tolist() == [0, 1, 1, 1]


def test_fedda_needs_a_penalty() -> None:
    with pytest.raises(ProtocolError, match="a number as penalty"):
        make_schedule(Settings())
