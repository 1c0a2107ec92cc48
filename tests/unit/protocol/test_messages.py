"""Every message keeps what its declaration promises; whoever adds one is told what is missing.

Driven by the registries (``REQUESTS``, ``MESSAGES``), and by a recorded run of either solver.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any, get_type_hints

import numpy as np
import pytest

import fedrulefit.protocol.messages
from fedrulefit.core.families import FAMILIES
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.policy import KINDS
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site.work import Known, Work
from fedrulefit.protocol.wire import from_bytes, question_digest, to_bytes
from fedrulefit.testing.samples import OUTCOMES
from tests.examples import EXAMPLES
from tests.samples import SOLVERS, make_sites, make_study, make_tables, record

EVERYTHING: dict[str, Any] = {
    "spreads": "exact", "holdout": 0.3, "per_site": True, "adjusted": True,
}  # fmt: skip
KINDS_OF_OUTCOME = [kind for kind in OUTCOMES if kind != "yes/no"]
STUDIES = {
    "fedda": make_study(rounds=2, **EVERYTHING),
    "cv": make_study(**{**SOLVERS["cv"], **EVERYTHING}),
    "plain": make_study(**SOLVERS["exact"]),
    "pruned": make_study(**SOLVERS["pruned"]),
    "own baselines": make_study(**{**SOLVERS["cv"], **EVERYTHING, "baseline": "site"}),
    **{kind: make_study(kind, **{**SOLVERS["exact"], **EVERYTHING}) for kind in KINDS_OF_OUTCOME},
}


@cache
def play(name: str) -> tuple[list[m.Request], dict[str, Public]]:
    """Return what one site was asked in a run, and what each site knows at its end."""
    study = STUDIES[name]
    sites = make_sites(study, make_tables(study, sizes=(200, 150, 150)), secure=False)
    _, seen = record(Coordinator(study, list(sites)), sites)
    asked = [request for site, request, _ in seen if site == "north"]
    return asked, {site: made.patients.public for site, made in sites.items()}


def sums_asked() -> list[tuple[m.SumRequest, dict[str, Public]]]:
    """Return every sum that was asked for in a run, and what the sites knew."""
    return [
        (request, publics)
        for name in STUDIES
        for asked, publics in [play(name)]
        for request in asked
        if isinstance(request, m.SumRequest)
    ]


# --- the registries ---------------------------------------------------------------------------


def declared_classes() -> set[type]:
    """Return every message class of the package, from its modules."""
    package = fedrulefit.protocol.messages
    found: set[type] = set()
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        found |= {
            cls
            for cls in vars(module).values()
            if isinstance(cls, type) and issubclass(cls, (m.Request, m.Reply))
        }
    return found - {m.Request, m.Reply, m.SumRequest}


def test_the_closed_set_is_every_class_of_the_package() -> None:
    classes = declared_classes()
    assert len(m.MESSAGES) == len({*m.MESSAGES})
    assert {*m.MESSAGES} == classes
    assert {*m.REQUESTS} == {cls for cls in classes if issubclass(cls, m.Request)}
    assert {*m.SUM_REQUESTS} == {cls for cls in classes if issubclass(cls, m.SumRequest)}
    assert not any(inspect.isabstract(cls) for cls in m.MESSAGES)
    assert {cls.__name__ for cls in classes} <= {*dir(m)}, "all are found at one place"


@pytest.mark.parametrize("cls", m.MESSAGES)
def test_a_message_is_frozen_and_says_what_it_is(cls: type[m.Message]) -> None:
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    words = cls.__dict__.get("__doc__") or ""
    assert words
    assert not words.startswith(f"{cls.__name__}("), "made by the machine"
    assert words.split("\n\n")[0].rstrip().endswith(".")


def test_questions_are_listed_as_they_come() -> None:
    turns = [kind.turn for kind in m.REQUESTS]
    assert m.REQUESTS[-1] is m.OpenRequest
    assert turns[-1] is None, "an opening comes whenever its sum is open"
    assert None not in turns[:-1]
    assert turns[:-1] == sorted(turns[:-1])  # type: ignore[type-var]
    alike = [turn for turn in m.Turn if turns.count(turn) != 1]
    assert alike == [m.Turn.FIT], "of both solvers, and a study has one"


# --- what a request says of itself --------------------------------------------------------------


@pytest.mark.parametrize("kind", m.REQUESTS)
def test_what_is_told_of_patients_has_a_kind_and_words(kind: type[m.Request]) -> None:
    """And what tells nothing has neither."""
    for study in STUDIES.values():
        assert bool(kind.tells(study)) == (kind.release is not None)
    assert kind.release is None or kind.release in KINDS
    if issubclass(kind, m.SumRequest):
        assert kind.release is not None, "a sum is over patients"


def test_every_question_is_asked_in_some_study_and_every_kind_by_some_question() -> None:
    for kind in m.REQUESTS:
        assert any(kind.asked_by(study) for study in STUDIES.values())
    dispersed = STUDIES["count, negative binomial"]
    of_dispersion = {kind for kind in m.REQUESTS if kind.of_dispersion}
    assert of_dispersion == {m.DispersionRequest, m.ShareDispersionRequest}
    for kind in of_dispersion:
        assert [study for study in STUDIES.values() if kind.asked_by(study)] == [dispersed]
    assert {kind.release for kind in m.REQUESTS} - {None} == {*KINDS} - {
        "exact-histograms",
        "own-baselines",
    }


def test_what_is_masked_and_what_is_handed_out() -> None:
    assert {kind for kind in m.REQUESTS if kind.masked} == {
        *m.SUM_REQUESTS,
        m.VoteRequest,
        m.VariantVoteRequest,
    }
    assert [kind for kind in m.REQUESTS if kind.hands_out] == [
        m.JoinRequest, m.KeyRequest, m.PeersRequest, m.RulesRequest, m.VoteRequest, m.TermsRequest,
        m.ShareDispersionRequest, m.VariantVoteRequest, m.VariantsRequest, m.ShareModelRequest,
    ]  # fmt: skip
    assert not any(kind.hands_out for kind in m.SUM_REQUESTS), "a sum changes nothing"


@pytest.mark.parametrize("kind", m.REQUESTS)
def test_without_evidence_it_is_the_same_question_without_signatures(kind: Any) -> None:
    request = EXAMPLES[kind.__name__]
    assert isinstance(request, m.Request)
    bare = request.without_evidence()
    assert type(bare) is kind
    assert bare.header == request.header
    assert question_digest(bare.without_evidence()) == question_digest(bare)
    changed = {
        field.name
        for field in dataclasses.fields(kind)
        if getattr(bare, field.name) is not getattr(request, field.name)
    }
    signed = {
        name
        for name, hint in get_type_hints(kind).items()
        if hint in (tuple[m.Histogram, ...], tuple[m.Sender, ...], tuple[m.Ballot, ...])
    }
    assert changed == signed
    assert all(getattr(bare, name) == () for name in signed)


# --- sums -------------------------------------------------------------------------------------


def test_every_sum_was_asked_for() -> None:
    assert {type(request) for request, _ in sums_asked()} == {*m.SUM_REQUESTS}


def test_the_sums_that_a_question_declares_are_those_of_its_answer() -> None:
    found: dict[type, set[type]] = {}
    for request, publics in sums_asked():
        for packing in request.packings(publics["north"]):
            found.setdefault(type(request), set()).add(packing.of)
    others = {
        declared
        for family in FAMILIES.values()
        if family not in {type(study.family) for study in STUDIES.values()}  # all that is asked
        for declared in (family.judge_type.sums, family.judge_type.within_sums)
    }
    assert found == {kind: {*kind.sums} - others for kind in m.SUM_REQUESTS}


@pytest.mark.parametrize("kind", m.SUM_REQUESTS)
def test_every_quantity_of_a_sum_is_told_with_unit_and_bound(kind: type[m.SumRequest]) -> None:
    for declared in kind.sums:
        assert declared.__doc__
        assert declared.quantities()
        for told in declared.quantities().values():
            assert told.formula
            assert told.most
            assert 0 < told.bits <= 40


def test_how_numbers_lie_depends_on_public_facts_alone() -> None:
    """All sites and the coordinator make the same packing, whatever the patients are."""
    for request, publics in sums_asked():
        again = from_bytes(to_bytes(request))
        assert isinstance(again, m.SumRequest)
        moved = dataclasses.replace(
            again, header=dataclasses.replace(request.header, site="elsewhere", step=99)
        )
        expected = request.packings(publics["north"])
        for site in ("south", "west"):
            for one, other in zip(expected, moved.packings(publics[site]), strict=True):
                assert one.of is other.of
                assert one.lengths == other.lengths
                assert one.scales.keys() == other.scales.keys()
                for name in one.scales:
                    np.testing.assert_array_equal(one.scale(name), other.scale(name))


@pytest.mark.parametrize("kind", m.SUM_REQUESTS)
@pytest.mark.parametrize("method", ["check", "packings", "size", "shapes"])
def test_only_adding_up_is_given_patients(kind: type[m.SumRequest], method: str) -> None:
    assert [*inspect.signature(getattr(kind, method)).parameters] == ["self", "public"]


class Untouchable:
    """Patients of whom nothing but what is public may be looked at."""

    def __init__(self, public: Public) -> None:
        self.public = public

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"patients were touched: {name}")


def answer(request: m.SumRequest, public: Public) -> str:
    """Ask a site whose patients cannot be touched; return the code of its refusal."""
    patients: Any = Untouchable(public)
    work = Work(
        "north", None, None, patients, noise=None, memory=None, shared=None,
        n_threads=1,
    )  # type: ignore[arg-type]  # fmt: skip
    try:
        work.answer(request, Known(patients))
    except ProtocolError as refusal:
        return refusal.code
    raise AssertionError("a site without patients has answered")


def changed_questions() -> list[tuple[m.SumRequest, Public]]:
    """Return questions that no coordinator of ours asks: each with one field spoilt."""
    made: list[tuple[m.SumRequest, Public]] = []
    seen: set[type] = set()
    for request, publics in sums_asked():
        if type(request) in seen:
            continue
        seen.add(type(request))
        for field in dataclasses.fields(request):
            value = getattr(request, field.name)
            spoilt: Any = None
            if isinstance(value, np.ndarray):
                spoilt = np.append(value, value[:1] * 0 + 7)
            elif isinstance(value, tuple):
                spoilt = value * 2
            elif type(value) is int:
                spoilt = -1
            if spoilt is not None:
                question = dataclasses.replace(request, **{field.name: spoilt})
                made.append((question, publics["north"]))
    return made


def test_a_bad_question_is_refused_before_a_patient_is_touched() -> None:
    """So a refusal tells nothing of them."""
    questions = changed_questions()
    kinds = {kind for kind in m.SUM_REQUESTS if len(dataclasses.fields(kind)) > 1}
    assert (
        {type(question) for question, _ in questions}
        == kinds
        == {*m.SUM_REQUESTS} - {m.SpreadsRequest}
    )
    for question, public in questions:
        assert answer(question, public) in ("bad-request", "overflow")


def test_a_good_question_is_answered_by_touching_them() -> None:
    """Else the test above would say nothing."""
    for request, publics in sums_asked():
        request.check(publics["north"])
        with pytest.raises(AssertionError, match="patients were touched"):
            answer(request, publics["north"])


# --- replies ----------------------------------------------------------------------------------


def test_a_class_from_elsewhere_is_no_message() -> None:
    """Had the set followed every subclass, importing a program would have widened it."""
    before = m.MESSAGES, m.REQUESTS, m.SUM_REQUESTS

    class Stray(m.Request):
        turn = m.Turn.FIT

    class StraySum(m.SumRequest):
        turn = m.Turn.FIT

    class StrayReply(m.Reply):
        pass

    again = importlib.reload(m)
    assert before == (again.MESSAGES, again.REQUESTS, again.SUM_REQUESTS)
    strays = {Stray, StraySum, StrayReply}
    assert not strays & {*again.MESSAGES}
    assert m.SumRequest not in again.MESSAGES


def test_questions_come_in_the_order_of_their_turns() -> None:
    turns = [kind.turn for kind in m.REQUESTS if kind.turn is not None]
    assert turns == sorted(turns)
    assert {kind for kind in m.REQUESTS if kind.turn is None} == {m.OpenRequest}


@pytest.mark.parametrize("field", ["formula", "mechanism", "shape"])
def test_every_field_of_a_reply_is_declared(field: str) -> None:
    for cls in m.Reply.__subclasses__():
        for entry in dataclasses.fields(cls):
            if entry.name != "header":
                assert field in entry.metadata, f"{cls.__name__}.{entry.name}"
                assert field == "shape" or entry.metadata[field], f"{cls.__name__}.{entry.name}"


def test_what_protects_a_field_is_one_of_a_few_things() -> None:
    found = {
        entry.metadata["mechanism"]
        for cls in m.MESSAGES
        if issubclass(cls, m.Reply)
        for entry in dataclasses.fields(cls)
        if entry.name != "header"
    }
    assert found == {"exact", "discrete Laplace", "secure sum", m.NO_PATIENT_DATA}


def test_a_module_of_messages_knows_no_site_and_no_coordinator() -> None:
    package = fedrulefit.protocol.messages
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith(
                    ("fedrulefit.protocol.site", "fedrulefit.protocol.coordinator")
                )
