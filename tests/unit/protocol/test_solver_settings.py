"""The study's settings as numbers of the solvers."""

from __future__ import annotations

import pytest

from fedrulefit.core.layout import Layout
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.solver_settings import make_factors, make_schedule
from fedrulefit.study import Settings

RULES = [Rule((Condition(0, 1),)), Rule((Condition(0, 1), Condition(1, 2)))]


def test_factors_of_the_terms_that_sites_tell_of() -> None:
    settings = Settings(linear_factor=0.2, interaction_factor=1.5)
    assert make_factors(settings, RULES, Layout(1, 2, 2)).tolist() == [0, 1, 1.5, 0.2, 0.2]
    assert make_factors(settings, RULES, Layout(1, 2, 0)).tolist() == [0, 1, 1.5]
    assert make_factors(settings, RULES, Layout(2, 2, 0)).tolist() == [0, 0, 1, 1.5]


def test_fedda_needs_a_penalty() -> None:
    with pytest.raises(ProtocolError, match="a number as penalty"):
        make_schedule(Settings())
