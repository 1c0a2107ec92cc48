"""The question what lies between sites: refused on public grounds, and the numbers by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.fixed import from_units
from fedrulefit.core.grid import linear_values
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.study import Study
from tests.samples import make_study
from tests.talks import make_patients, make_public

STUDY = make_study()
PUBLIC = make_public(STUDY).with_sites(3)
PATIENTS = make_patients(STUDY, PUBLIC)
TERMS = np.array([0, 1, 3, 4, 5])
HEAD = m.Header(m.PROTOCOL_VERSION, "run", 0, "north", STUDY.digest)
BOUNDS = PUBLIC.bounds.terms[TERMS][3:]


def columns(patients: Patients) -> Any:
    """Return the terms of the site's patients, linear ones divided by their bounds."""
    hit = patients.design.take(TERMS).dense_rules()
    linear = linear_values(patients.learnt.values, PUBLIC.grid)[:, :2] / BOUNDS
    return np.hstack([hit, linear])


POOLED = np.vstack([columns(patients) for patients in PATIENTS.values()])


def ask(**changes: Any) -> m.BetweenRequest:
    facts: dict[str, Any] = {
        "n_sites": 3,
        "terms": TERMS,
        "total": float(len(POOLED)),
        "means": POOLED.mean(axis=0),
        "squares": (POOLED[:, 2:] ** 2).mean(axis=0),
        **changes,
    }
    return m.BetweenRequest(HEAD, **facts)


def test_an_honest_question_is_answered_in_steps_of_a_thirtieth() -> None:
    request = ask()
    request.check(PUBLIC)
    for patients in PATIENTS.values():
        own = columns(patients)
        part = len(own) * (own.mean(axis=0) - POOLED.mean(axis=0)) ** 2
        expected = np.rint(part / (len(POOLED) * POOLED.var(axis=0)) / (0.1 / 3))
        (units,) = request.add_up(patients)
        assert from_units(units).tolist() == expected.tolist()


def near(place: int, value: float) -> Any:
    means = POOLED.mean(axis=0)
    means[place] = value
    return means


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_sites": 1}, "not 2 to 3 sites"),
        ({"n_sites": 4}, "not 2 to 3 sites"),
        ({"terms": TERMS[1:]}, "increasing positions"),
        ({"means": np.zeros(3)}, "expected 4 means"),
        ({"squares": np.zeros(1)}, "expected 2 mean squares"),
        ({"total": 0.0}, "there must be patients"),
        ({"total": float("nan")}, "there must be patients"),
        ({"total": float("inf")}, "there must be patients"),
        ({"means": near(0, float("nan"))}, "within the terms' bounds"),
        ({"means": near(0, -0.1)}, "within the terms' bounds"),
        ({"means": near(2, 1.1)}, "within the terms' bounds"),
        ({"squares": np.array([0.1, -0.1])}, "within the terms' bounds"),
        ({"squares": np.array([0.1, 1.1])}, "within the terms' bounds"),
        # Where all but few have the same value, a step would be few patients.
        ({"means": near(0, 0.001)}, "varies too little"),
        ({"means": near(0, 0.999)}, "varies too little"),
        ({"means": near(0, 9 / len(POOLED))}, "varies too little"),
        ({"total": 19.0}, "varies too little"),
        ({"squares": POOLED.mean(axis=0)[2:] ** 2 + 1e-6}, "varies too little"),
    ],
)
def test_what_would_be_finer_than_coarse_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        ask(**changes).check(PUBLIC)


def test_among_one_site_there_is_nothing_between() -> None:
    for n_sites in (1, 2):
        with pytest.raises(ProtocolError, match="sites, between which something lies"):
            ask(n_sites=n_sites).check(PUBLIC.with_sites(1))


def test_a_weight_counts_as_that_many_patients() -> None:
    """Ten patients of weight 1 are few where one may count 3."""
    facts = {**STUDY.model_dump(), "weight": {"column": "w", "max": 3.0}}
    heavy = Public(Study.model_validate(facts), PUBLIC.agreed, PUBLIC.rules, 3)
    few = {"means": near(0, 12 / len(POOLED))}
    ask(**few).check(PUBLIC)
    with pytest.raises(ProtocolError, match="varies too little"):
        ask(**few).check(heavy)


def test_a_model_without_terms_asks_for_no_number() -> None:
    empty = ask(terms=np.array([0]), means=np.empty(0), squares=np.empty(0))
    empty.check(PUBLIC)
    assert empty.size(PUBLIC) == 0
    (units,) = empty.add_up(PATIENTS["north"])
    assert units.tolist() == []
