"""What everybody in a run knows, and what a question may be on these grounds alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import public as module
from fedrulefit.protocol.public import SITE_WEIGHT, Public, check_length
from fedrulefit.study import Study
from tests.samples import SOLVERS, make_study, repeat, study_facts

STUDY = make_study()
AGE = Axis("number", np.array([40.0, 60.0]), 3, False, (20.0, 90.0), 10.0, 50.0, 50.0)
LACTATE = Axis("number", np.array([2.0]), 2, False, (1.0, 9.0), 2.0, 0.0, 2.0)
GCS = Axis("number", np.array([8.0]), 2, True, (3.0, 15.0), 4.0, 0.0, 9.0)
WARD = Axis("category", np.empty(0), 4, False)
SEX = Axis("yes/no", np.array([0.5]), 2, True, (0.0, 1.0), 0.5)
GRID = Grid((AGE, LACTATE, GCS, WARD, SEX))
RULES = (
    Rule((Condition(3, 0b0001),)),
    Rule((Condition(0, 0b001), Condition(4, 0b10))),
)
PUBLIC = Public(STUDY).with_grid(GRID).with_rules(RULES)
"""Terms: 0 the intercept, 1 and 2 the rules, 3 age, 4 lactate, 5 gcs, 6 sex."""


def ints(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.int64)


def code_of(check: Any, *args: Any, **options: Any) -> str | None:
    try:
        check(*args, **options)
    except ProtocolError as error:
        return error.code
    return None


def test_what_is_not_handed_out_yet_is_an_error_of_order() -> None:
    for early, name in (
        (Public(STUDY), "grid"),
        (Public(STUDY), "fitted_rules"),
        (Public(STUDY).with_grid(GRID), "layout"),
        (Public(STUDY).with_rules(RULES), "bounds"),
    ):
        assert code_of(getattr, early, name) == "order"
    assert Public(STUDY).with_grid(GRID).grid is GRID
    assert PUBLIC.fitted_rules is RULES


@pytest.mark.parametrize(("linear", "n_terms"), [(True, 7), (False, 3)])
def test_terms_are_intercept_rules_and_linear_terms_if_the_study_has_some(
    linear: bool, n_terms: int
) -> None:
    public = Public(make_study(linear_terms=linear)).with_grid(GRID).with_rules(RULES)
    layout = public.layout
    assert (layout.n_baseline, layout.n_rules, public.n_terms) == (1, 2, n_terms)
    assert len(public.factors) == n_terms
    assert public.factors[0] == 0, "the intercept is never penalised"


@pytest.mark.parametrize(
    ("settings", "n_folds"),
    [({}, 0), (SOLVERS["exact"], 0), (SOLVERS["cv"], 3), ({**SOLVERS["cv"], "folds": 7}, 7)],
)
def test_there_are_folds_only_where_the_penalty_is_chosen_by_them(
    settings: Any, n_folds: int
) -> None:
    assert Public(make_study(**settings)).n_folds == n_folds


def test_a_patient_s_numbers_are_bounded_by_study_and_grid() -> None:
    """0.4·x/s*, from the centre to the limit that is further off."""
    np.testing.assert_allclose(PUBLIC.bounds.terms, [1, 1, 1, 1.6, 1.8, 1.5, 0.8])
    assert PUBLIC.bounds.weight == 1
    facts = study_facts(weighting="patients")
    weighted = Study.from_mapping({**facts, "weight": {"column": "w", "max": 2.5}})
    assert Public(weighted).with_grid(GRID).with_rules(RULES).bounds.weight == 2.5
    # Each row of a patient is rounded and added by itself.
    several = repeat(weighted, 4)
    assert several.most_weight == 10
    assert Public(several).with_grid(GRID).with_rules(RULES).bounds.weight == 2.5
    equal = Study.from_mapping({**study_facts(weighting="sites"), "weight": facts.get("weight")})
    public = Public(equal).with_grid(GRID).with_rules(RULES)
    assert (public.by_patients, public.bounds.weight) == (False, SITE_WEIGHT)


def test_a_model_s_rules_and_covariates_stand_where_its_terms_say() -> None:
    assert PUBLIC.rules_of(ints(0, 2, 4, 6)) == [RULES[1]]
    assert PUBLIC.linear_of(ints(0, 2, 4, 6)) == [1, 4], "lactate and sex: ward has no linear term"
    assert PUBLIC.rules_of(ints(0)) == PUBLIC.linear_of(ints(0, 1)) == []


# --- what a question may be -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ((0,), True),
        ((0, 1, 6), True),
        ((0, 1, 2, 3, 4, 5, 6), True),
        ((), False),
        ((1, 2), False),
        ((0, 7), False),
        ((0, -1), False),
        ((0, 2, 1), False),
        ((0, 1, 1), False),
    ],
)
def test_terms_increase_and_start_with_the_baseline(terms: tuple[int, ...], fits: bool) -> None:
    found = code_of(PUBLIC.check_terms, ints(*terms))
    assert found == (None if fits else "bad-request")
    coef = np.zeros(len(terms))
    assert code_of(PUBLIC.check_coefs, ints(*terms), coef) == found


@pytest.mark.parametrize("n", [0, 1, 3])
def test_there_is_a_coefficient_for_each_term(n: int) -> None:
    assert code_of(PUBLIC.check_coefs, ints(0, 1), np.zeros(n)) == "bad-request"
    with pytest.raises(ProtocolError, match=r"expected 2 folds, got \(3,\)"):
        check_length(np.zeros(3), 2, "folds")
    check_length(np.zeros(2), 2, "folds")


@pytest.mark.parametrize(
    ("coef", "code"),
    [
        ((2048.0, 0.0, 0.0), None),
        ((2049.0, 0.0, 0.0), "overflow"),
        ((1000.0, -1048.0, 0.0), None),
        ((1000.0, -1049.0, 0.0), "overflow"),
        ((0.0, 0.0, 1280.0), None),  # times 1.6, the largest size of age
        ((0.0, 0.0, -1281.0), "overflow"),
        ((1e308, 1e308, 1e308), "overflow"),
    ],
)
def test_coefficients_are_no_larger_than_a_sum_can_bear(
    coef: tuple[float, ...], code: str | None
) -> None:
    terms = ints(0, 1, 3)
    assert code_of(PUBLIC.check_coefs, terms, np.array(coef)) == code
    assert code_of(PUBLIC.check_size, terms, np.array(coef), most=1e3) == "overflow"


def test_a_coefficient_that_is_no_number_is_refused() -> None:
    assert code_of(PUBLIC.check_size, ints(0), np.array([np.nan])) == "overflow"


def test_rules_are_canonical_on_this_grid_and_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert code_of(PUBLIC.check_rules, RULES) is None
    assert code_of(PUBLIC.check_rules, ()) is None
    for bad in (Rule(()), Rule((Condition(5, 1),)), Rule((Condition(0, 0b101),))):
        assert code_of(PUBLIC.check_rules, (*RULES, bad)) == "bad-request"
    monkeypatch.setattr(module, "MAX_RULES", 2)
    assert code_of(PUBLIC.check_rules, RULES) is None
    assert code_of(PUBLIC.check_rules, (*RULES, Rule((Condition(3, 0b10),)))) == "bad-request"
    assert code_of(Public(STUDY).check_rules, RULES) == "order"
