"""What leaves a site: nothing per patient, no patient's value, no value in errors."""

from __future__ import annotations

import dataclasses
import re
import struct
import warnings
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pytest

from fedrulefit import (
    FederatedRuleFitClassifier,
    RuleFitClassifier,
    RuleFitRegressor,
    RuleFitSurvival,
)
from fedrulefit.errors import FedRuleFitError
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.wire import to_bytes
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES, add_outcomes
from tests.samples import SOLVERS, make_frame, make_study, record

N_ROWS = {"north": 1013, "south": 997, "west": 787}
"""Primes, unlike any other length in the study."""


def make_tables(study: Any) -> dict[str, Table]:
    """Return sites whose values have many digits, so that none occurs by chance."""
    tables = {}
    for k, (name, n_rows) in enumerate(N_ROWS.items()):
        frame = make_frame(n_rows, seed=k)
        rng = np.random.default_rng(k)
        frame["age"] = 18.1 + 0.99 * (frame["age"] - 18) + 0.05 * rng.random(n_rows)
        frame["lactate"] += 0.005 * rng.random(n_rows)
        frame = add_outcomes(frame, k)
        for column in ("stay", "days", "months"):
            frame[column] = 0.99 * frame[column] + 0.005 * rng.random(n_rows)
        tables[name] = load_table(frame, study)
    return tables


Seen = list[tuple[str, Any, Any]]
CASES: list[dict[str, Any]] = [
    {"epsilon": None, "spreads": "exact"},
    {"epsilon": 1.0},
    {"epsilon": None, "min_leaf": 1, "n_cutoffs": 254, "n_bins": 1000, "n_trees": 60},
    {"epsilon": 1.0, **SOLVERS["exact"]},
    {"epsilon": 1.0, **SOLVERS["cv"]},
    *(
        {"epsilon": 1.0, **SOLVERS["exact"], "outcome": outcome, "holdout": 0.3, "per_site": True}
        for outcome in ("number", "count", "time")
    ),
]
IDS = ["exact spreads", "noisy", "fine", "exact", "cv", "number", "count", "time"]


@pytest.fixture(scope="module", params=CASES, ids=IDS)
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Table], Seen]:
    study = make_study(**{"rounds": 4, **request.param})
    tables = make_tables(study)
    sites = {
        name: Site(name, table, study, noise=UnsafeSeededLaplace(7, name))
        for name, table in tables.items()
    }
    _, seen = record(Coordinator(study, list(sites)), sites)
    fitted = m.DualRequest if study.settings.solver == "fedda" else m.CurvatureRequest
    spreads = {m.SpreadsRequest} if study.settings.spreads == "exact" else set()
    assert {type(request) for _, request, _ in seen} == spreads | {
        m.JoinRequest, m.GridRequest, m.RulesRequest, m.TermsRequest, fitted, m.SlopesRequest,
        m.SummaryRequest, m.BetweenRequest,
        *([m.EvaluateRequest, m.OfferRequest, m.ResultsRequest] if study.settings.holdout else []),
    }  # fmt: skip
    return tables, seen


def lengths(packed: Any) -> list[int]:
    """Return the length of every list and array, at any depth."""
    if isinstance(packed, dict):
        return [n for value in packed.values() for n in lengths(value)]
    if isinstance(packed, list):
        if len(packed) == 3 and packed[0] in ("<f8", "<i8"):
            return list(packed[1])
        return [len(packed), *(n for value in packed for n in lengths(value))]
    return []


def test_no_reply_is_as_long_as_the_table(case: tuple[dict[str, Table], Seen]) -> None:
    tables, seen = case
    for name, _, reply in seen:
        n_rows = tables[name].n_rows
        found = lengths(msgpack.unpackb(to_bytes(reply)))
        assert not {n_rows, n_rows + 1} & set(found), type(reply).__name__


def test_the_length_of_a_reply_does_not_depend_on_the_patients(
    case: tuple[dict[str, Table], Seen],
) -> None:
    """Every site, whatever its size, sends as many numbers as the others."""
    _, seen = case
    by_step: dict[int, set[Any]] = {}
    for _, _, reply in seen:
        if isinstance(reply, m.RulesReply):
            continue
        shape = tuple(
            np.shape(getattr(reply, field.name))
            for field in dataclasses.fields(reply)
            if field.name != "header"
        )
        by_step.setdefault(reply.header.step, set()).add((type(reply).__name__, shape))
    steps = {reply.header.step for _, _, reply in seen}
    assert len(by_step) == len(steps) - 1 >= 8
    assert all(len(shapes) == 1 for shapes in by_step.values())


def test_replies_hold_no_bytes_of_a_patient_s_value(case: tuple[dict[str, Table], Seen]) -> None:
    tables, seen = case
    sent = {name: b"".join(to_bytes(reply) for n, _, reply in seen if n == name) for name in tables}
    for name, data in sent.items():
        # As doubles at any offset; cheaper than one search per value and reply.
        windows = {data[k : k + 8] for k in range(len(data) - 7)}
        # Age and lactate, and of outcomes stays, exposures and times: values with many digits.
        columns = np.column_stack([tables[name].values[:, :2], tables[name].outcome])
        digits = columns[~np.isnan(columns) & (columns != np.rint(columns))]
        for value in np.unique(digits):
            for code in ("<d", ">d"):
                assert struct.pack(code, value) not in windows, code
            text = repr(float(value)).encode()
            assert text[:8] not in windows or text not in data


def floats_in(packed: Any) -> int:
    if isinstance(packed, dict):
        return sum(floats_in(value) for value in packed.values())
    if isinstance(packed, list):
        here = int(len(packed) == 3 and packed[0] in ("<f8", "<i8"))
        return here + sum(floats_in(value) for value in packed)
    return int(isinstance(packed, float))


def test_rules_are_sent_without_any_number_but_codes(case: tuple[dict[str, Table], Seen]) -> None:
    _, seen = case
    for _, _, reply in seen:
        packed = msgpack.unpackb(to_bytes(reply))
        if isinstance(reply, m.RulesReply):
            assert reply.rules
            assert floats_in(packed) == 0
            assert set(packed) == {"type", "header", "rules", "fold_rules", "signature"}
            for sent in (packed["rules"], *packed["fold_rules"]):
                assert set(sent) == {"conditions", "rules"}
                assert all(type(place) is int for rule in sent["rules"] for place in rule)
                assert all(type(covariate) is int for covariate, _ in sent["conditions"])
            # Canonical order: nothing of the trees' order is left.
            for rules in (reply.rules, *reply.fold_rules):
                assert list(rules) == sorted(set(rules), key=lambda r: (len(r), r))
        if isinstance(reply, m.SumReply):
            assert set(packed) == {"type", "header", "masked", "numbers"}
            assert packed["numbers"][0] == "<i8", "whole units, and nothing else"


def test_only_declared_fields_leave(case: tuple[dict[str, Table], Seen]) -> None:
    _, seen = case
    for _, _, reply in seen:
        declared = {f.name for f in dataclasses.fields(reply)} | {"type"}
        assert set(msgpack.unpackb(to_bytes(reply))) == declared
        assert not isinstance(reply, m.Refusal)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_ledger_holds_no_value(outcome: str) -> None:
    """A digest, shapes and names: nothing to read a patient from."""
    study = make_study(outcome, **SOLVERS["exact"], holdout=0.3)
    site = Site("north", make_tables(study)["north"], study)
    record(Coordinator(study, ["north"]), {"north": site})
    for release in site.ledger.releases:
        kinds = {type(value) for value in dataclasses.asdict(release).values()}
        assert kinds <= {str, tuple, int, float, type(None)}
        assert release.epsilon is None


def test_a_model_file_holds_no_exact_value_of_a_patient() -> None:
    """Cut-offs are edges of public bins, also without noise."""
    study = make_study(rounds=2, epsilon=None)
    tables = make_tables(study)
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    model, _ = record(Coordinator(study, list(sites)), sites)
    for axis, bins in zip(model.grid.axes, study.bins, strict=True):
        if axis.kind == "number" and bins.step is None:
            assert set(axis.cutoffs) <= set(bins.edges)
            assert set(axis.limits) <= set(bins.edges)


# --- errors -------------------------------------------------------------------------------

DIGITS = "847362.5"
NAME = "Erika Mustermann"


def good() -> tuple[pd.DataFrame, Any]:
    frame = make_frame(60)
    return frame, frame.pop("died")


def with_cell(column: str, value: Any) -> pd.DataFrame:
    frame, _ = good()
    frame[column] = frame[column].astype(object)
    frame.loc[7, column] = value
    return frame


BAD_CELLS = [
    ("age", NAME),
    ("age", DIGITS + "x"),
    ("age", float("inf")),
    ("lactate", "847,3625"),
    ("gcs", NAME),
    ("gcs", None),
    ("ward", NAME),
    ("sex", NAME),
    ("sex", float(DIGITS)),
]


def check_silent(text: str) -> None:
    assert NAME not in text
    assert "Erika" not in text
    assert not re.search(r"847[.,]?3", text)
    assert "row 7" not in text
    assert "line 8" not in text


@pytest.mark.parametrize(("column", "value"), BAD_CELLS)
def test_what_a_model_tells_of_unusual_cells_holds_no_value(column: str, value: Any) -> None:
    """They are no errors: the study says what becomes of them, and a flag that it did."""
    frame, y = good()
    model = RuleFitClassifier(study=make_study(rounds=2), n_trees=2).fit(frame, y).model_
    flags = model.predict_frame(with_cell(column, value))["flags"]
    assert flags[7].startswith(f"{column} ")
    assert (flags.drop(7) == "").all()
    check_silent(flags[7])
    check_silent(repr(model.explain(with_cell(column, value))[7].flags))


READABLE = ("lactate", "847,3625")
"""A decimal comma: a value beyond the range, which counts at the nearer end."""


@pytest.mark.parametrize("make", [RuleFitClassifier, FederatedRuleFitClassifier])
@pytest.mark.parametrize(("column", "value"), [c for c in BAD_CELLS if c[0] in ("age", "lactate")])
def test_what_the_estimators_tell_holds_no_value(make: Any, column: str, value: Any) -> None:
    study = make_study(rounds=2)
    frame, y = good()
    if (column, value) != READABLE:
        with pytest.raises(FedRuleFitError) as caught:
            make(study=study, n_trees=2).fit(with_cell(column, value), y)
        check_silent(str(caught.value))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            make(n_trees=2, rounds=2).fit(with_cell(column, str(value)), y)
        except FedRuleFitError as error:
            check_silent(str(error))
    for warning in told:
        check_silent(str(warning.message))
    fitted = make(study=study, n_trees=2).fit(frame, y)
    flag = fitted.predict_frame(with_cell(column, value))["flags"][7]
    assert flag.startswith(f"{column} ")
    check_silent(flag)


def test_errors_about_arrays_and_labels_hold_no_value() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + float(DIGITS)
    y = np.arange(40) % 2
    estimator = RuleFitClassifier(n_trees=2, rounds=2)
    for call in (
        lambda: estimator.fit(np.where(X[3, 1] < X, np.inf, X), y),
        lambda: estimator.fit(X, np.full(40, NAME)),
        lambda: estimator.fit(X, np.array([NAME, None, "c", "d"] * 10, dtype=object)),
        lambda: estimator.fit(X.astype(object), y[:-1]),
        lambda: estimator.fit(X, y).predict(X[:, :1]),
        lambda: estimator.fit(
            pd.DataFrame({"name": [f"{NAME} {i}" for i in range(300)]}), np.arange(300) % 2
        ),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        check_silent(str(caught.value))


def test_errors_about_numbers_counts_and_times_hold_no_value() -> None:
    X, value = np.random.default_rng(0).normal(size=(40, 2)), float(DIGITS)
    mixed = np.where(np.arange(40) % 2, value, np.inf)
    count, times = RuleFitRegressor(loss="poisson"), RuleFitSurvival()

    def followed(event: Any, time: Any) -> pd.DataFrame:
        return pd.DataFrame({"event": event, "time": time}, index=range(40))

    event = np.arange(40) % 2 == 0
    for call in (
        lambda: RuleFitRegressor().fit(X, np.full(40, value)),
        lambda: RuleFitRegressor().fit(X, mixed),
        lambda: RuleFitRegressor().fit(X, np.array([NAME, DIGITS] * 20)),
        lambda: RuleFitRegressor().fit(X, np.array([value, NAME] * 20, dtype=object)),
        lambda: count.fit(X, np.full(40, value)),
        lambda: count.fit(X, -np.full(40, value)),
        lambda: count.fit(X, np.arange(40), exposure=-np.full(40, value)),
        lambda: count.fit(X, np.arange(40), exposure=mixed),
        lambda: times.fit(X, followed(event, -value)),
        lambda: times.fit(X, followed(event, mixed)),
        lambda: times.fit(X, followed(False, value)),
        lambda: times.fit(X, followed(value, 3.0)),
        lambda: times.fit(X, followed(NAME, 3.0)),
        lambda: times.fit(X, followed(event, value), entry=np.full(40, 2 * value)),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            call()
        check_silent(str(caught.value))
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_refusals_hold_no_value() -> None:
    study = make_study(rounds=2)
    site = Site("north", make_tables(study)["north"], study)
    header = m.Header(m.PROTOCOL_VERSION, "run", 0, "north", study.digest)
    site.handle(m.JoinRequest(header, ("north",), False, "wait"))
    header = dataclasses.replace(header, step=1)
    for request in (
        m.KeyRequest(header),
        m.PeersRequest(header, ()),
        m.OpenRequest(header, 0),
        m.JoinRequest(header, ("north",), False, "wait"),
        m.DualRequest(header, 0, np.zeros(3)),
        m.SummaryRequest(header, np.zeros(1, np.int64), np.zeros(1), np.zeros(2)),
        m.SlopesRequest(header, np.zeros(1, np.int64), np.zeros(1)),
        m.CurvatureRequest(header, ()),
        m.TermsRequest(header, ()),
        m.GridRequest(dataclasses.replace(header, study="other")),
    ):
        reply = site.handle(request)
        assert isinstance(reply, m.Refusal)
        assert not re.search(r"\d\.\d", reply.reason)
        assert str(N_ROWS["north"]) not in reply.reason
