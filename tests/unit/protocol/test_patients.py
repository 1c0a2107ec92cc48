"""A site's patients as the questions of a run see them: weights, who is enough, scores."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.messages.results import offer_results
from fedrulefit.protocol.patients import Patients, outcome_of
from fedrulefit.protocol.public import SITE_WEIGHT, Public
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.oracles import fires
from tests.samples import make_study, repeat, study_facts
from tests.unit.protocol.test_public import GRID

RULES = (Rule((Condition(3, 0b0001),)), Rule((Condition(0, 0b001), Condition(4, 0b10))))
NAN = np.nan
VALUES = np.array(
    [
        # age, lactate, gcs, ward, sex
        [30.0, 1.5, 3.0, 0.0, 1.0],
        [50.0, NAN, 9.0, 1.0, 0.0],
        [70.0, 5.0, 15.0, NAN, 1.0],
        [NAN, 2.0, 8.0, 0.0, 0.0],
    ]
)
OUTCOME = np.array([1.0, 0.0, 1.0, 0.0])
WEIGHTS = np.array([1.0, 2.0, 0.0, 0.5])
TABLE = Table(VALUES, OUTCOME, WEIGHTS)
NOBODY = Table(VALUES[:0], OUTCOME[:0], WEIGHTS[:0])


def weighted(**settings: Any) -> Study:
    facts = study_facts(**settings)
    return Study.from_mapping({**facts, "weight": {"column": "w", "max": 2.5}})


def make_patients(
    study: Study, learnt: Table = TABLE, held: Table = NOBODY, least: int = 1
) -> Patients:
    folds = np.zeros(learnt.n_rows, dtype=np.int64)
    return Patients(Public(study), learnt, held, folds, least)


def ready(study: Study, **options: Any) -> Patients:
    public = Public(study).with_grid(GRID)
    patients = make_patients(study, **options).on_grid(public)
    return patients.with_terms(public.with_rules(RULES))


def test_codes_and_design_come_in_their_order() -> None:
    patients = make_patients(make_study())
    for name in ("ready_codes", "design"):
        with pytest.raises(ProtocolError) as caught:
            getattr(patients, name)
        assert caught.value.code == "order"
    public = Public(make_study()).with_grid(GRID)
    with pytest.raises(ProtocolError, match="before the grid"):
        patients.with_terms(public.with_rules(RULES))
    # The cut-offs that are at or below a value; 255 for missing.
    coded = patients.on_grid(public)
    assert coded.ready_codes.tolist() == [
        [0, 0, 0, 0, 1],
        [1, 255, 1, 1, 0],
        [2, 1, 1, 255, 1],
        [255, 1, 1, 0, 0],
    ]
    assert patients.codes is None, "nothing is changed in place"


@pytest.mark.parametrize("linear", [True, False])
def test_the_design_holds_the_rules_and_the_linear_terms_of_the_study(linear: bool) -> None:
    patients = ready(make_study(linear_terms=linear))
    design, codes = patients.design, patients.ready_codes
    assert design.n_terms == patients.public.n_terms
    expected = np.column_stack([fires(rule, codes) for rule in RULES])
    np.testing.assert_array_equal(design.dense_rules() > 0, expected)
    assert expected.T.tolist() == [[True, False, False, True], [True, False, False, False]]
    if linear:
        # 0.4·(x − centre)/s*, within the limits; what is missing stands at `fill`.
        np.testing.assert_allclose(design.linear[:, 0], [-0.8, 0, 0.8, 0])
        np.testing.assert_allclose(design.linear[:, 1], [0.3, 0.4, 1.0, 0.4])


def test_patients_count_by_their_weight_or_all_sites_equally() -> None:
    own = make_patients(weighted(weighting="patients"))
    np.testing.assert_array_equal(own.scaled_weights, WEIGHTS)
    assert own.counts == 3.5
    equal = make_patients(weighted(weighting="sites"))
    np.testing.assert_allclose(equal.scaled_weights, WEIGHTS * SITE_WEIGHT / 3.5)
    assert equal.counts == SITE_WEIGHT
    np.testing.assert_array_equal(equal.weights, WEIGHTS)


def make_table(n_cases: int, n_others: int, *, n_silent: int = 0, weight: float = 1.0) -> Table:
    """Patients with and without the outcome, and some of no weight."""
    outcome = np.r_[np.ones(n_cases), np.zeros(n_others), np.ones(n_silent)]
    weights = np.r_[np.full(n_cases + n_others, weight), np.zeros(n_silent)]
    return Table(np.zeros((len(outcome), 5)), outcome, weights)


@pytest.mark.parametrize(
    ("least", "cases", "others", "silent", "enough"),
    [
        (0, 5, 5, 0, True),
        (0, 4, 9, 0, False),  # never fewer than five, whatever the policy says
        (0, 9, 4, 0, False),
        (0, 4, 5, 9, False),  # who has no weight is not counted
        (7, 7, 7, 0, True),
        (7, 6, 20, 0, False),
        (7, 20, 6, 0, False),
    ],
)
def test_results_rest_on_enough_patients_of_either_kind(
    least: int, cases: int, others: int, silent: int, enough: bool
) -> None:
    patients = make_patients(make_study(), least=least)
    assert patients.fewest == max(least, 5)
    assert patients.has_enough(make_table(cases, others, n_silent=silent)) == enough


@pytest.mark.parametrize(("n_each", "enough"), [(4, False), (5, True)])
def test_results_rest_on_enough_distinct_patients(n_each: int, enough: bool) -> None:
    """Twenty rows with and twenty without the outcome, of fewer patients of either kind."""
    table = make_table(20, 20)
    whose = np.r_[np.arange(20) % n_each, 20 + np.arange(20) % 5]
    own = dataclasses.replace(table, patients=whose)
    several = make_patients(repeat(make_study(), 5), least=5)
    assert several.has_enough(own) == enough
    # Of a patient with both kinds of rows only the one with the outcome counts.
    both = dataclasses.replace(own, patients=np.r_[whose[:20], 0, whose[21:]])
    assert several.has_enough(both) == enough
    both = dataclasses.replace(own, patients=np.where(whose == 24, 0, whose))
    assert not several.has_enough(both)
    # Their rows must weigh what k patients of the most rows weigh.
    assert not make_patients(repeat(make_study(), 9), least=5).has_enough(own)


def test_a_site_offers_results_on_distinct_patients() -> None:
    """Ten rows in each cell of rule × outcome; ten, five or four patients."""
    four = np.repeat(np.arange(4), 10)
    table = Table(VALUES[four], OUTCOME[four], np.ones(40))
    study = repeat(make_study(holdout=0.5), 10)
    for n_each, few in ((10, 0.0), (5, 0.0), (4, 1.0)):
        own = dataclasses.replace(table, patients=10 * four + np.tile(np.arange(10) % n_each, 4))
        learnt = ready(study, learnt=own, held=table.take(four < 0), least=5)
        assert offer_results(learnt, np.arange(3)).rules[0] == few
        held = ready(study, learnt=own, held=own, least=5)
        assert offer_results(held, np.arange(3)).held_out[0] == few
        assert offer_results(held, np.arange(3)).rules[1] == 1.0, "nobody without the outcome"


def test_rows_of_a_patient_are_counted_in_the_mean() -> None:
    assert make_patients(make_study()).rows_each == 1.0
    own = dataclasses.replace(TABLE, patients=np.array([0, 0, 1, 2]))  # the third has no weight
    assert make_patients(repeat(make_study(), 2), learnt=own).rows_each == 1.5
    nobody = dataclasses.replace(NOBODY, patients=np.empty(0, np.int64))
    assert make_patients(repeat(make_study(), 2), learnt=nobody).rows_each == 0.0


def test_light_patients_are_not_enough() -> None:
    """Their weights must be those of k patients of the largest weight: 5 × 2.5."""
    patients = make_patients(weighted(), least=5)
    for weight, enough in ((12.4 / 20, False), (12.6 / 20, True)):
        assert patients.has_enough(make_table(10, 10, weight=weight)) == enough


def test_scores_are_counted_over_those_who_were_held_out() -> None:
    patients = ready(weighted(holdout=0.3), held=TABLE)
    fewer = TABLE.take(np.array([True, True, True, False]))
    other = ready(weighted(holdout=0.3), learnt=fewer, held=TABLE)
    terms, coef = np.array([0, 1, 3]), np.array([-0.5, 1.0, 0.5])
    sums: Any = patients.count_scores(terms, coef)
    inside, age = np.array([1, 0, 0, 1]), np.array([-0.8, 0, 0.8, 0])
    chances = 1 / (1 + np.exp(0.5 - inside - 0.5 * age))
    assert sums.cases.sum() == WEIGHTS @ OUTCOME
    assert sums.others.sum() == WEIGHTS @ (1 - OUTCOME)
    assert sums.chances == WEIGHTS @ (chances * 1024).round() / 1024
    assert sums.squares == WEIGHTS @ ((OUTCOME - chances) ** 2 * 1024).round() / 1024
    again: Any = other.count_scores(terms, coef)
    assert again.chances == sums.chances, "those who are learnt from do not matter"


def test_weights_of_scores_are_whole_units() -> None:
    """1/1024 of a patient: sums do not depend on how sites share patients."""
    held = dataclasses.replace(TABLE, weights=np.array([1 / 3, 2 / 3, 1.0, 0.1]))
    sums: Any = ready(weighted(), held=held).count_scores(np.array([0]), np.zeros(1))
    assert sums.cases.sum() == (341 + 1024) / 1024
    assert sums.others.sum() == (683 + 102) / 1024


def test_a_table_without_outcomes_is_an_error() -> None:
    with pytest.raises(ProtocolError) as caught:
        outcome_of(Table(VALUES, None, WEIGHTS))
    assert caught.value.code == "internal"
    assert outcome_of(TABLE) is OUTCOME
