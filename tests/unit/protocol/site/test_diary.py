"""What a site remembers of a run, and what its ledger tells."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import Query
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.ledger import EXACT, Ledger, Release
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.masking import Subject
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.diary import RECENT, Diary, Place
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.wire import to_bytes
from tests.alone import STUDY, head, join, make_site, refusal
from tests.samples import SOLVERS, make_study, make_tables, record


def conversation(**settings: Any) -> tuple[Site, list[tuple[str, m.Request, m.Reply]]]:
    study = make_study(rounds=3, **settings)
    site = make_site(study)
    _, seen = record(Coordinator(study, ["north"]), {"north": site})
    return site, seen


@pytest.mark.parametrize(
    "settings",
    [{}, {"epsilon": 0.5}, {"spreads": "exact"}, SOLVERS["exact"], SOLVERS["cv"]],
    ids=["fedda", "noisy", "exact spreads", "exact", "cv"],
)
def test_every_patient_derived_field_has_an_entry(settings: dict[str, Any]) -> None:
    """Written from the message classes, not from the site's own code."""
    site, seen = conversation(**settings)
    bins = site.study.bins
    expected = []
    for _, request, reply in seen:
        digest = hashlib.sha256(to_bytes(reply)).hexdigest()
        round_ = request.round if isinstance(request, m.DualRequest) else None
        if isinstance(request, m.CurvatureRequest):
            round_ = request.header.step
        if isinstance(request, m.SumRequest):
            expected += sum_rows(request, site, digest, round_)
            continue
        for field in dataclasses.fields(reply):
            if field.name == "header" or field.metadata["mechanism"] == "no patient data":
                continue
            value = getattr(reply, field.name)
            name = type(reply).__name__
            if field.name == "counts":
                expected += [
                    (name, f"histogram of {covariate}", (b.n_cells,), digest, round_)
                    for covariate, b in zip(site.study.names, bins, strict=True)
                ]
            elif field.name == "fold_rules":
                n_rules = sum(len(rules) for rules in value)
                expected += [(name, field.name, (n_rules,), digest, round_)] * bool(n_rules)
            elif not isinstance(value, (np.ndarray, tuple)):
                expected.append((name, field.name, (), digest, round_))
            elif len(value):
                expected.append((name, field.name, (len(value),), digest, round_))
    found = [(r.message, r.quantity, r.shape, r.digest, r.round) for r in site.ledger.releases]
    assert found == expected
    kinds = {message for message, *_ in found}
    fitted = "RoundSums" if site.study.settings.solver == "fedda" else "CurvatureSums"
    always = {"GridReply", "RulesReply", fitted, "SlopeSums", "TermSums", "GapSums"}
    assert kinds == always | ({"SpreadSums"} if settings.get("spreads") == "exact" else set())


def sum_rows(request: m.SumRequest, site: Site, digest: str, round_: int | None) -> list[Any]:
    """Return what the ledger must tell of a sum: what is declared, over all its points."""
    packings = request.packings(site.patients.public)
    rows: dict[tuple[str, str], list[int]] = {}
    for packing in packings:
        for name, told in packing.of.quantities().items():
            n = packing.lengths[name]
            rows.setdefault((packing.of.__name__, name), []).append(n if told.shape else -1)
    expected = []
    for (message, name), lengths in rows.items():
        if lengths == [-1]:
            shape: tuple[int, ...] = ()
        else:
            shape = (sum(abs(n) for n in lengths),)
        if shape != (0,):
            expected.append((message, name, shape, digest, round_))
    return expected


def test_the_ledger_says_which_releases_are_exact() -> None:
    site, _ = conversation(epsilon=0.5)
    noisy = [r for r in site.ledger.releases if r.quantity.startswith("histogram of ")]
    rest = [r for r in site.ledger.releases if not r.quantity.startswith("histogram of ")]
    assert len(noisy) == 5
    for release in noisy:
        assert "discrete Laplace, OpenDP" in release.mechanism
        assert release.epsilon == pytest.approx(0.5)
    assert {(r.mechanism, r.epsilon) for r in rest} == {(EXACT, None)}
    assert site.ledger.epsilon == pytest.approx(5 * 0.5)
    assert sum(r.epsilon is None for r in site.ledger.releases) == len(rest)


def test_without_noise_histograms_are_exact_releases() -> None:
    site, _ = conversation()
    assert {(r.mechanism, r.epsilon) for r in site.ledger.releases} == {(EXACT, None)}
    assert site.ledger.epsilon == 0


def test_seeded_noise_earns_no_epsilon() -> None:
    study = make_study(epsilon=1.0)
    site = make_site(study, noise=UnsafeSeededLaplace(0, "north"))
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert {r.epsilon for r in site.ledger.releases} == {None}
    assert all("UNSAFE" in r.mechanism for r in site.ledger.releases)


def test_asked_again_the_site_repeats_itself_and_nothing_new_is_written(joined: Site) -> None:
    request = m.GridRequest(head())
    data = joined.answer(to_bytes(request))
    before = list(joined.ledger.releases)
    assert len(before) == 5
    assert {r.digest for r in before} == {hashlib.sha256(data).hexdigest()}
    assert joined.answer(to_bytes(request)) == data
    assert joined.ledger.releases == before


def test_a_step_is_answered_once(ready: Site) -> None:
    """Another question under a number that was answered gets no answer."""
    header = head()
    first = ready.answer(to_bytes(m.DualRequest(header, 0, np.zeros(6))))
    other = m.DualRequest(header, 0, np.ones(6))
    assert "answered to another question" in refusal(ready, other, "conflict")
    assert ready.answer(to_bytes(m.DualRequest(header, 0, np.zeros(6)))) == first
    for _ in range(RECENT):
        ready.handle(m.DualRequest(head(), 1, np.zeros(6)))
    # Sums are kept only for a while: the same question is then over, too.
    old = m.DualRequest(header, 0, np.zeros(6))
    assert f"step {header.step} is over" in refusal(ready, old, "stale")
    never = m.DualRequest(head(step=-1), 0, np.zeros(6))
    assert "step -1 is over" in refusal(ready, never, "stale")


def test_the_ledger_file_has_one_line_per_release(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    times = iter(f"2024-01-01T00:00:{second:02d}" for second in range(60))
    site = make_site(ledger=Ledger(path, clock=lambda: next(times)))
    site.handle(join())
    site.handle(m.GridRequest(head()))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    chain = ("epsilon_so_far", "previous", "hash")
    assert lines == [
        {**dataclasses.asdict(r), "shape": list(r.shape), **{key: line[key] for key in chain}}
        for r, line in zip(site.ledger.releases, lines, strict=True)
    ]
    assert [line["time"][-2:] for line in lines] == ["00"] * 5  # one message, one time
    assert lines[0]["epsilon"] is None
    assert {(line["study"], line["run"]) for line in lines} == {(STUDY.name, "run-1")}
    # A second run goes on where the first ended.
    Site("north", make_tables(STUDY)["north"], STUDY, ledger=Ledger(path))
    again = make_site(ledger=Ledger(path))
    again.handle(join())
    again.handle(m.GridRequest(head()))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 10


# --- where a run is -------------------------------------------------------------------------

RULE = Rule((Condition(3, 0b1),))
KEYS = b"KeyRequest\0study\0\x80"
TERMS = b"TermsRequest\0study\0\x82\xa5rules\x82\xaaconditions\x90\xa5rules\x90\xa7ballots\x90"
DUAL = b"DualRequest\0study\0\x82\xa5round\x00\xa4dual\x93\xa3<f8\x91\x00\xc4\x00"
"""What these requests ask, written by hand: name, study, and the fields as MessagePack."""
TRANSCRIPT = "e19d5336f1b7c058f5dc6712d8856e42970d7e9def3c7f25425f130d27be2b15"
"""After keys and terms: the bytes that any implementation must come to."""


def at(step: int) -> m.Header:
    return m.Header(m.PROTOCOL_VERSION, "run", step, "north", "study")


def sha(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def round_zero(step: int) -> m.DualRequest:
    return m.DualRequest(at(step), 0, np.empty(0))


def test_the_transcript_is_a_chain_of_all_that_was_handed_out() -> None:
    place = Place()
    assert (place.transcript, place.about) == (b"", b"")
    place = place.after(m.KeyRequest(at(1)))
    assert place.transcript == sha(b"", sha(KEYS))
    assert place.about == b"", "keys are not what a question is about"
    terms = m.TermsRequest(at(2), ())
    place = place.after(terms)
    assert place.transcript == sha(sha(b"", sha(KEYS)), sha(TERMS))
    assert place.about == sha(b"", sha(TERMS))
    assert place.transcript.hex() == TRANSCRIPT
    assert place.after(round_zero(3)).transcript == place.transcript, "a sum hands out nothing"


def test_what_sites_signed_is_in_the_transcript_but_not_in_what_a_question_is_about() -> None:
    """Signatures are of one run; a question is the same in any."""
    signed = m.TermsRequest(at(2), (RULE,), (m.Ballot("south", bytes(4), b"s", b""),))
    plain, told = Place().after(signed.without_evidence()), Place().after(signed)
    assert told.transcript != plain.transcript
    assert told.about == plain.about != b""


def test_a_place_moves_with_each_answer() -> None:
    place = Place()
    for step, request in enumerate(
        (m.KeyRequest(at(0)), m.GridRequest(at(1)), m.SpreadsRequest(at(2)), m.KeyRequest(at(3)))
    ):
        place = place.after(request)
        assert place.step == step
    assert place.turn == m.Turn.SPREADS, "the furthest, not the last"
    assert (place.n_sums, place.recent) == (1, (2,))
    place = place.after(m.OpenRequest(at(4), 2))
    assert (place.turn, place.n_sums, place.recent) == (m.Turn.SPREADS, 1, (2, 4))
    for step in range(5, 12):
        place = place.after(round_zero(step))
    assert (place.n_sums, place.recent) == (8, (8, 9, 10, 11)), "the last four can be repeated"


def test_masks_are_bound_to_question_transcript_and_what_it_is_about() -> None:
    place = Place(transcript=b"handed out", about=b"grid and rules")
    assert place.subject(round_zero(7)) == Subject(7, sha(DUAL), b"handed out", b"grid and rules")
    signed = m.TermsRequest(at(2), (), (m.Ballot("south", bytes(4), b"s", b""),))
    assert place.subject(signed).question == sha(TERMS), "without what sites signed"


# --- what is kept ---------------------------------------------------------------------------


class Breaking(Transient):
    """A memory whose disk is full."""

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        raise OSError(28, "No space left on device")


def row(name: str) -> Release:
    return Release("SumReply", name, (2,), EXACT, None, digest="d" * 64, study="s", run="run")


ROWS = [row("one"), row("two"), row("three")]


def keep(diary: Diary, request: m.Request, **changes: Any) -> None:
    facts: dict[str, Any] = {
        "asked": "q",
        "answer": b"a",
        "releases": ROWS,
        "beside": {},
        "masks": None,
        **changes,
    }
    diary.keep(request, b"received", **facts)


def test_a_step_is_recalled_only_to_the_same_question() -> None:
    diary = Diary(Transient(), Ledger(), "s")
    assert diary.recall(0, "q") is None, "not answered yet"
    keep(diary, round_zero(0), releases=[])
    assert diary.recall(1, "q") is None
    assert diary.recall(0, "q") == b"a"
    for step, asked, code in ((0, "other", "conflict"), (-1, "q", "stale")):
        with pytest.raises(ProtocolError) as caught:
            diary.recall(step, asked)
        assert caught.value.code == code


@pytest.mark.parametrize("n_written", [0, 1, 2, 3])
def test_rows_that_a_crash_left_out_are_written_when_the_reply_is_asked_for(n_written: int) -> None:
    """The process died after the reply was kept, and before all of it was recorded."""
    memory, ledger = Transient(), Ledger()
    keep(Diary(memory, ledger, "s"), round_zero(0))
    ledger.append(*ROWS[:n_written])
    again = Diary(memory, ledger, "s")
    assert list(again.remember(Masking())) == []
    for _ in range(2):
        assert again.recall(0, "q") == b"a"
        assert ledger.releases == ROWS, "each once"


def test_a_reply_that_cannot_be_kept_leaves_the_run_where_it_was() -> None:
    diary = Diary(Breaking(), Ledger(), "s")
    with pytest.raises(OSError, match="No space"):
        keep(diary, round_zero(0))
    assert diary.place == Place()
    assert diary.recall(0, "q") is None


def test_only_the_last_sums_stay() -> None:
    memory = Transient()
    diary = Diary(memory, Ledger(), "s")
    keep(diary, m.KeyRequest(at(0)))
    for step in range(1, RECENT + 3):
        keep(diary, round_zero(step))
    kept = [step for step in range(RECENT + 3) if memory.get(f"reply/{step}") is not None]
    assert kept == [0, *range(3, RECENT + 3)], "what is no sum stays, and the last sums"
    assert all(memory.get(f"asked/{step}") == b"q" for step in range(RECENT + 3))


class Masking:
    """Stands for the masks: notes what it is told to know again."""

    def __init__(self) -> None:
        self.place: Any = "nothing"
        self.n_given_up = 0

    def give_up(self) -> None:
        self.n_given_up += 1


def hand_out(diary: Diary, *requests: m.Request, masks: Any = None) -> None:
    for request in requests:
        data = to_bytes(request)
        diary.keep(
            request, data, asked="q", answer=b"a", releases=[], beside={}, masks=masks
        )  # fmt: skip


JOIN = m.JoinRequest(at(0), ("north",), True, "wait")
PEERS = m.PeersRequest(at(2), ())


def test_a_restarted_site_is_where_it_was() -> None:
    memory, masking = Transient(), Masking()
    before = Diary(memory, Ledger(), "s")
    terms = m.TermsRequest(at(4), (RULE,))
    hand_out(before, JOIN, m.KeyRequest(at(1)), PEERS, m.GridRequest(at(3)), terms)
    hand_out(before, round_zero(5), masks=[[5, b"bound", b"asked"], True])
    after = Diary(memory, Ledger(), "s")
    again = list(after.remember(masking))  # type: ignore[arg-type]
    assert [to_bytes(request) for request in again] == [
        to_bytes(request) for request in (JOIN, m.KeyRequest(at(1)), PEERS, terms)
    ], "all that changes what the site knows, in its order"
    assert after.place == before.place
    assert masking.place == [[5, b"bound", b"asked"], True]
    assert masking.n_given_up == 0


def test_a_set_of_sites_takes_effect_although_the_process_died_just_then() -> None:
    """The place was kept before the last sum was given up: else it could still be opened."""
    memory, masking = Transient(), Masking()
    hand_out(Diary(memory, Ledger(), "s"), JOIN, PEERS, masks=[[1, b"", b""], False])
    list(Diary(memory, Ledger(), "s").remember(masking))  # type: ignore[arg-type]
    assert masking.n_given_up == 1


def test_a_site_that_was_nowhere_remembers_nothing() -> None:
    masking = Masking()
    diary = Diary(Transient(), Ledger(), "s")
    assert list(diary.remember(masking)) == []  # type: ignore[arg-type]
    assert (diary.place, masking.place) == (Place(), "nothing")


# --- what the ledger tells --------------------------------------------------------------------


def tell(request: m.Request, reply: m.Reply, public: Public, sum_of: int | None = None) -> Any:
    diary = Diary(Transient(), Ledger(), "sepsis")
    rows = list(diary.tell(request, reply, digest="d", public=public, sum_of=sum_of))
    common = {(r.digest, r.study, r.run, r.step, r.mechanism, r.epsilon, r.sum_of) for r in rows}
    assert common <= {("d", "sepsis", "run", 9, EXACT, None, sum_of)}
    return [(r.message, r.quantity, r.shape, r.round) for r in rows]


def test_a_row_for_each_quantity_with_its_shape_and_nothing_for_what_is_empty(grid: Grid) -> None:
    public = Public(STUDY).with_grid(grid).with_rules((RULE,))
    head = at(9)
    sums = m.SumReply(head, False, np.zeros(8, np.int64))
    dual = m.DualRequest(head, 2, np.zeros(6))
    assert tell(dual, sums, public, sum_of=3) == [
        ("RoundSums", "increment", (6,), 2),
        ("RoundSums", "loss", (), 2),
        ("RoundSums", "weight", (), 2),
    ]
    one = np.zeros(1)
    query = Query(-1, one.astype(np.int64), one, one, np.array([0, 1]))
    assert tell(m.CurvatureRequest(head, (query,)), sums, public)[-1] == (
        "CurvatureSums", "hessian", (3,), 9,
    )  # fmt: skip
    sent = m.RulesReply(head, (RULE,), ((RULE,), ()), b"")
    assert tell(m.RulesRequest(head, grid), sent, public) == [
        ("RulesReply", "rules", (1,), None),
        ("RulesReply", "fold_rules", (1,), None),
    ]
    votes = m.VoteReply(head, bytes(4 * 7), b"signed")
    assert tell(m.VoteRequest(head, (), ()), votes, public) == [
        ("VoteReply", "votes", (7,), None)
    ]  # fmt: skip
    assert tell(m.KeyRequest(head), m.KeyReply(head, b"k", b"c", "wait", b"s"), public) == []
    nothing, some = np.empty(0), np.array([9.0, 3.0])
    results = m.ResultsReply(head, some, nothing, nothing, np.array([0, 1]), some, some, nothing)
    none = np.empty(0, np.int64)
    ask = m.ResultsRequest(head, np.array([0]), one, none, True, True, none)
    assert [quantity for _, quantity, _, _ in tell(ask, results, public)] == [
        "totals", "known", "measures", "held_out",
    ]  # fmt: skip
