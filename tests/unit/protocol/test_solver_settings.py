"""The study's settings as numbers of the solvers."""

from __future__ import annotations

import pytest

from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.solver_settings import make_factors
from fedrulefit.study import Settings

RULES = [Rule((Condition(0, 1),)), Rule((Condition(0, 1), Condition(1, 2)))]


def test_factors_of_the_terms_that_sites_tell_of() -> None:
    settings = Settings(linear_factor=0.2, interaction_factor=1.5)
    assert make_factors(settings, RULES, 5).tolist() == [0, 1, 1.5, 0.2, 0.2]
    assert make_factors(settings, RULES, 3).tolist() == [0, 1, 1.5]


@pytest.mark.parametrize("n_terms", [-1, 0, 2])
def test_sites_that_tell_of_fewer_terms_than_rules_are_refused(n_terms: int) -> None:
    with pytest.raises(ProtocolError, match="fewer terms than"):
        make_factors(Settings(), RULES, n_terms)
