"""From the first request to the model, whatever the network does on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fedrulefit.engines.drive import ATTEMPTS, Status, drive
from fedrulefit.errors import FederationError, FedRuleFitError, FitError, ProtocolError
from fedrulefit.federation.journal import Journal
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.testing.engines import model_bytes
from tests.samples import SOLVERS, fit_model, make_sites, make_study, make_tables

SMALL = {"n_trees": 5, "rounds": 3, "epsilon": 1.0, "spreads": "exact"}
FOUR = ("east", "north", "south", "west")
Requests = Mapping[str, bytes]


class Stop(Exception):  # noqa: N818
    """The process dies here."""


def study_of(solver: str = "fedda") -> Any:
    return make_study(**{**SMALL, **SOLVERS[solver]})


def sites_of(study: Any, **options: Any) -> dict[str, Site]:
    return make_sites(
        study,
        make_tables(study, sizes=(50, 45, 40, 40)),
        each=lambda name: {"noise": UnsafeSeededLaplace(7, name)},
        **options,
    )


def lead(study: Any, **options: Any) -> Coordinator:
    return Coordinator(study, FOUR, **{"secure": True, **options})


def exchange_with(sites: Mapping[str, Site]) -> Callable[[Requests], dict[str, bytes]]:
    return lambda requests: {name: sites[name].answer(data) for name, data in requests.items()}


def expected(study: Any) -> str:
    return model_bytes(drive(lead(study), exchange_with(sites_of(study))))


def kind_of(data: bytes) -> str:
    return type(from_bytes(data)).__name__


def record_kinds(study: Any, **options: Any) -> list[str]:
    sites, kinds = sites_of(study), []

    def exchange(requests: Requests) -> dict[str, bytes]:
        kinds.append(kind_of(next(iter(requests.values()))))
        return exchange_with(sites)(requests)

    drive(lead(study, **options), exchange)
    return kinds


# --- resuming ---------------------------------------------------------------------------------


class Mortal:
    """An exchange that dies at one step: before, in the middle of, or after the sites' answers."""

    def __init__(self, sites: Mapping[str, Site], step: int, phase: str) -> None:
        self.sites, self.left, self.phase = sites, step, phase

    def __call__(self, requests: Requests) -> dict[str, bytes]:
        self.left -= 1
        if self.left == -1:
            some = {"before": 0, "middle": 2, "after": 4}[self.phase]
            for name in list(requests)[:some]:
                self.sites[name].answer(requests[name])
            raise Stop
        return exchange_with(self.sites)(requests)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("phase", ["before", "middle", "after"])
@pytest.mark.parametrize("dropouts", ["wait", "continue"])
def test_a_run_that_dies_at_every_step_ends_with_the_same_model(
    solver: str, phase: str, dropouts: Any, tmp_path: Path
) -> None:
    """One life per step; the sites live on, the coordinator does not."""
    study = study_of(solver)
    whole = expected(study)
    sites = sites_of(study, policy=OPEN)
    for life in range(200):
        journal = Journal(tmp_path / "journal.db")
        try:
            # Each life gets one step further than the one before it.
            exchange = Mortal(sites, 0 if phase == "before" and life == 0 else 1, phase)
            model = drive(lead(study, dropouts=dropouts), exchange, journal=journal.section("run"))
            break
        except Stop:
            journal.close()
    assert life > 6
    assert model_bytes(model) == whole
    for site in sites.values():
        # Nothing was released twice: one row per quantity and step.
        rows = [(r.step, r.quantity) for r in site.ledger.releases]
        assert len(rows) == len(set(rows))


class Forgetful(Transient):
    """A journal whose process dies while it keeps the nth entry."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 0

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stop
        super().put(entries)


def test_a_journal_that_dies_at_every_entry_changes_nothing() -> None:
    study = study_of()
    sites, journal = sites_of(study), Forgetful()
    lives, model = 0, None
    while model is None:
        lives, journal.left = lives + 1, 1
        try:
            model = drive(lead(study), exchange_with(sites), journal=journal)
        except Stop:
            assert lives < 100
    assert lives > 8
    assert model_bytes(model) == expected(study)


def test_a_finished_run_is_told_again_without_a_site() -> None:
    study, journal = study_of("exact"), Transient()
    model = drive(lead(study), exchange_with(sites_of(study)), journal=journal)

    def nobody(requests: Requests) -> dict[str, bytes]:
        raise Stop

    assert model_bytes(drive(lead(study), nobody, journal=journal)) == model_bytes(model)


def test_the_journal_of_another_run_is_refused() -> None:
    study = study_of()
    journal = Transient()
    with pytest.raises(Stop):
        drive(lead(study), Mortal(sites_of(study), 3, "after"), journal=journal)
    kept = dict(journal._entries)
    others = [
        lead(study, run="another"),
        lead(study_of("exact")),
        lead(study, secure=False),
        lead(study, dropouts="continue"),
        Coordinator(study, FOUR[:3], run=lead(study).run, secure=True),
    ]
    for other in others:
        with pytest.raises(FederationError, match="another study, other sites"):
            drive(other, exchange_with(sites_of(study)), journal=journal)
        assert journal._entries == kept


def test_a_refused_step_is_asked_again_on_resuming() -> None:
    """A person says no, and later yes."""
    study, journal, says = study_of(), Transient(), [False]
    policy = Policy.model_validate({**OPEN.model_dump(), "approval": "review", "secure_sums": True})
    sites = sites_of(study, policy=policy, approver=lambda kind, lines: says[0])
    with pytest.raises(FitError, match="declined"):
        drive(lead(study), exchange_with(sites), journal=journal)
    says[0] = True
    model = drive(lead(study), exchange_with(sites), journal=journal)
    assert model_bytes(model) == expected(study)


# --- late, doubled and foreign answers -----------------------------------------------------------


class Unruly:
    """Answers every question wrongly at first, in ways that a network can."""

    def __init__(self, sites: Mapping[str, Site], how: str, times: int = 1) -> None:
        self.sites, self.how, self.times = sites, how, times
        self.asked: dict[tuple[str, bytes], int] = {}
        self.before: dict[str, bytes] = {}
        self.last: dict[str, bytes] = {}
        self.n_asked = 0

    def __call__(self, requests: Requests) -> dict[str, bytes]:
        right = exchange_with(self.sites)(requests)
        if not any(key in self.asked for key in requests.items()):
            self.before = dict(self.last)  # a new step
        answers = {"stranger": b"not of this run", **right}
        for name, data in requests.items():
            self.n_asked += 1
            key = name, data
            self.asked[key] = self.asked.get(key, 0) + 1
            if self.asked[key] <= self.times:
                wrong = self.wrong(name, data, right)
                if wrong is not None:
                    answers[name] = wrong
        self.last |= right
        return dict(reversed(answers.items()))

    def wrong(self, name: str, data: bytes, right: Mapping[str, bytes]) -> bytes | None:
        if self.how == "late":
            return self.before.get(name)
        if self.how == "foreign":  # another site's; alone, it has none to give
            return next((right[other] for other in right if other != name), None)
        if self.how == "late refusal":
            header = from_bytes(data).header
            earlier = m.Header(
                header.version, header.run, header.step - 1, header.site, header.study
            )
            return to_bytes(m.Refusal(earlier, "order", "an answer to an earlier question"))
        return None


@pytest.mark.parametrize("how", ["late", "foreign", "reordered", "late refusal"])
@pytest.mark.parametrize("times", range(1, ATTEMPTS))
def test_wrong_answers_are_not_taken_and_asked_again(how: str, times: int) -> None:
    study = study_of()
    unruly = Unruly(sites_of(study), how, times)
    model = drive(lead(study), unruly)
    assert model_bytes(model) == expected(study)
    n_steps = len({data for _, data in unruly.asked})
    if how != "reordered":
        assert unruly.n_asked > n_steps


def test_a_site_that_never_answers_the_question_ends_the_run() -> None:
    study = study_of()
    unruly = Unruly(sites_of(study), "foreign", times=10**6)
    with pytest.raises(ProtocolError, match="answered another question"):
        drive(lead(study), unruly)
    assert unruly.n_asked == ATTEMPTS * len(FOUR)


@pytest.mark.parametrize("bad", [b"", b"\xc1", b"x" * 100, msgpack.packb({"type": "JoinReply"})])
def test_garbage_ends_the_run_with_an_error_in_words(bad: bytes) -> None:
    study, sites = study_of(), sites_of(study_of())

    def exchange(requests: Requests) -> dict[str, bytes]:
        return {**exchange_with(sites)(requests), "west": bad}

    with pytest.raises(ProtocolError):
        drive(lead(study), exchange)
    request = to_bytes(m.KeyRequest(m.Header(m.PROTOCOL_VERSION, "r", 0, "west", "s")))
    bad = request
    with pytest.raises(ProtocolError, match="a request where a reply"):
        drive(lead(study), exchange)


# --- people who decide slowly ------------------------------------------------------------------


def test_pending_refusals_are_asked_again_until_a_person_has_decided() -> None:
    study = study_of()
    policy = Policy.model_validate({**OPEN.model_dump(), "approval": "review", "secure_sums": True})
    thinking: dict[tuple[str, str], int] = {}

    def approver_of(name: str) -> Any:
        def decide(kind: str, lines: Sequence[str]) -> bool | None:
            thinking[name, kind] = thinking.get((name, kind), 0) + 1
            slow = {"north": 5, "west": 2}.get(name, 1)
            return True if thinking[name, kind] >= slow else None

        return decide

    sites = make_sites(
        study,
        make_tables(study, sizes=(50, 45, 40, 40)),
        policy=policy,
        each=lambda name: {
            "noise": UnsafeSeededLaplace(7, name),
            "approver": approver_of(name),
        },
    )
    seen: list[Status] = []
    model = drive(lead(study), exchange_with(sites), on_status=seen.append, pause=0)
    assert model_bytes(model) == expected(study)
    waits = [status.pending for status in seen if status.pending]
    kinds = {kind for _, kind in thinking}
    assert kinds == {"exact-histograms", "spreads", "rules", "dual", "slopes", "summary",
                     "between-sites"}  # fmt: skip
    assert waits == [("north", "west"), *[("north",)] * 3] * len(kinds)
    assert {count for (name, _), count in thinking.items() if name == "south"} == {1}
    assert not seen[-1].pending


def test_traffic_is_counted() -> None:
    study, sites, seen = study_of(), None, []
    sites = sites_of(study)
    passed = [0, 0]

    def exchange(requests: Requests) -> dict[str, bytes]:
        answers = exchange_with(sites)(requests)
        passed[0] += sum(map(len, requests.values()))
        passed[1] += sum(map(len, answers.values()))
        return answers

    drive(lead(study), exchange, on_status=seen.append)
    assert [seen[-1].sent, seen[-1].received] == passed
    assert [status.sent for status in seen] == sorted(status.sent for status in seen)


# --- lost sites ---------------------------------------------------------------------------------


class Lossy:
    """Loses one site for good at the nth request of a kind."""

    def __init__(self, sites: Mapping[str, Site], lost: str, kind: str, nth: int = 1) -> None:
        self.sites, self.lost, self.kind, self.left = sites, lost, kind, nth
        self.kinds: list[tuple[str, int, int]] = []

    def __call__(self, requests: Requests) -> dict[str, bytes]:
        first = from_bytes(next(iter(requests.values())))
        kind = type(first).__name__
        self.kinds.append((kind, first.header.step, len(requests)))
        if self.left and kind == self.kind:
            self.left -= 1
        here = {n: d for n, d in requests.items() if self.left or n != self.lost}
        return exchange_with(self.sites)(here)


def facts(model: Any) -> dict[str, Any]:
    told = model_facts(model)
    told.pop("privacy")
    return told


CASES = [
    (solver, kind)
    for solver in ("fedda", "exact")
    for kind in (
        "JoinRequest", "KeyRequest", "PeersRequest", "GridRequest", "SpreadsRequest",
        "RulesRequest", "TermsRequest",
        {"fedda": "DualRequest", "exact": "CurvatureRequest"}[solver],
    )
]  # fmt: skip


@pytest.mark.parametrize(("solver", "kind"), CASES)
@pytest.mark.parametrize("secure", [True, False])
def test_a_run_that_may_goes_on_without_a_lost_site(solver: str, kind: str, secure: bool) -> None:
    if not secure and kind in ("KeyRequest", "PeersRequest"):
        pytest.skip("not asked")
    study = study_of(solver)
    sites = sites_of(study)
    lossy = Lossy(sites, "east", kind)
    model = drive(lead(study, secure=secure, dropouts="continue"), lossy)
    assert model.provenance.sites == ("north", "south", "west")
    steps = [step for _, step, _ in lossy.kinds]
    assert steps == sorted(set(steps))  # every attempt under a step of its own
    kinds = [name for name, _, _ in lossy.kinds]
    place = kinds.index(kind)
    assert [n for _, _, n in lossy.kinds[: place + 1]] == [4] * (place + 1)
    assert {n for _, _, n in lossy.kinds[place + 1 :]} == {3}
    if secure and kind in ("SpreadsRequest", "DualRequest", "CurvatureRequest"):
        assert kinds[place : place + 4] == [kind, "PeersRequest", kind, "OpenRequest"]
    if secure:
        opens = sum(name == "OpenRequest" for name in kinds)
        sums = {"SpreadsRequest", "DualRequest", "CurvatureRequest", "SlopesRequest",
                "SummaryRequest", "BetweenRequest"}  # fmt: skip
        given_up = kind in sums
        assert opens == sum(name in sums for name in kinds) - given_up
    if solver == "exact":
        assert model.provenance.certificate.residual <= 1e-8
    if kind in ("JoinRequest", "KeyRequest", "PeersRequest", "GridRequest"):
        # Nothing of the lost site's is in it: as if it had never been there.
        tables = make_tables(study, sizes=(50, 45, 40))
        assert facts(model) == facts(fit_model(study, tables))
    if secure:
        plain = Lossy(sites_of(study), "east", kind)
        if kind not in ("KeyRequest", "PeersRequest"):
            other = drive(lead(study, secure=False, dropouts="continue"), plain)
            assert facts(other) == facts(model)


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("solver", ["exact", "cv"])
def test_the_exact_solver_reaches_the_optimum_of_the_sites_that_stayed(
    solver: str, nth: int
) -> None:
    study = study_of(solver)
    lossy = Lossy(sites_of(study), "east", "CurvatureRequest", nth)
    model = drive(lead(study, dropouts="continue"), lossy)
    certificate = model.provenance.certificate
    assert model.provenance.sites == ("north", "south", "west")
    assert certificate.residual <= 1e-8
    assert certificate.gap is not None
    assert certificate.gap <= 1e-7


@pytest.mark.parametrize("kind", ["OpenRequest", "SlopesRequest", "SummaryRequest"])
def test_some_steps_need_every_site_and_the_run_waits(kind: str) -> None:
    study, journal = study_of(), Transient()
    sites = sites_of(study)
    with pytest.raises(ProtocolError, match="east") as caught:
        drive(lead(study, dropouts="continue"), Lossy(sites, "east", kind), journal=journal)
    assert caught.value.code == "lost"
    model = drive(lead(study, dropouts="continue"), exchange_with(sites), journal=journal)
    assert model_bytes(model) == expected(study)


@pytest.mark.parametrize("kind", sorted(set(record_kinds(study_of()))))
def test_a_run_that_waits_goes_on_once_the_site_is_back(kind: str) -> None:
    study, journal = study_of(), Transient()
    sites = sites_of(study)
    with pytest.raises(ProtocolError, match="can be resumed") as caught:
        drive(lead(study), Lossy(sites, "east", kind), journal=journal)
    assert caught.value.code == "lost"
    assert model_bytes(drive(lead(study), exchange_with(sites), journal=journal)) == expected(study)


def test_losing_everyone_is_an_error_and_not_a_model() -> None:
    study = study_of()
    for dropouts in ("wait", "continue"):
        with pytest.raises(FedRuleFitError):
            drive(lead(study, dropouts=dropouts), lambda requests: {})


def test_a_run_that_lost_a_site_is_resumed_without_it() -> None:
    """The journal remembers who left; whoever is back by then is not asked."""
    study, journal = study_of(), Transient()
    sites = sites_of(study)
    lossy = Lossy(sites, "east", "DualRequest")
    whole = drive(lead(study, dropouts="continue"), Lossy(sites_of(study), "east", "DualRequest"))
    calls = [0]

    def dies(requests: Requests) -> dict[str, bytes]:
        calls[0] += 1
        answers = lossy(requests)
        kinds = [name for name, _, _ in lossy.kinds]
        if kinds.count("DualRequest") >= 2:
            raise Stop
        return answers

    with pytest.raises(Stop):
        drive(lead(study, dropouts="continue"), dies, journal=journal)
    model = drive(lead(study, dropouts="continue"), exchange_with(sites), journal=journal)
    assert model.provenance.sites == ("north", "south", "west")
    assert model_bytes(model) == model_bytes(whole)
