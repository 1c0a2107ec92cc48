"""Who takes part, and what a hospital remembers: attacks on identity, ledger and keys.

Each attack first meets a twin with the old, unsafe behaviour and succeeds; then the real
thing, and fails.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from fedrulefit.errors import FederationError, LedgerError
from fedrulefit.federation import folderlock
from fedrulefit.federation.coordinator import runs, serving
from fedrulefit.federation.coordinator.caller import Caller
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.kits import consortium as consortia
from fedrulefit.federation.kits.charter import Charter, accept, check_successor, read_acceptance
from fedrulefit.federation.kits.consortium import Consortium as Plan
from fedrulefit.federation.kits.kit import Kit, seal_part
from fedrulefit.federation.kits.provision import _Authority, provision
from fedrulefit.federation.site import host as hosts
from fedrulefit.federation.site import startup
from fedrulefit.federation.site.host import SiteHost
from fedrulefit.federation.site.kept import KeptLedger
from fedrulefit.federation.site.source import SourceFile
from fedrulefit.federation.state import open_state
from fedrulefit.privacy.identity import Identity, Trust, make_consortium
from fedrulefit.privacy.ledger import read_rows
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import masking
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import joining
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from tests.federations import make_consortium as make_plan
from tests.loopback import COORDINATOR, charter_of
from tests.samples import SOLVERS, make_frame, make_study, study_facts
from tests.unit.privacy.test_identity import Root

POLICY = Policy(allow=OPEN.allow)
NAMES = ("a", "b", "c")


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


class Consortium:
    """Hosts that are opened one by one, and a coordinator of any intent."""

    def __init__(self, folder: Path, study: Study) -> None:
        self.folder, self.study = folder, study
        self.hosts: dict[str, SiteHost] = {}

    def open(
        self,
        name: str,
        identity: Identity,
        trust: Trust,
        *,
        state: str | None = None,
        studies: Sequence[Study] = (),
        policy: Policy = POLICY,
        private: bool = False,
        **options: Any,
    ) -> SiteHost:
        frame = make_frame(90, seed=ord(name[0]))
        host = SiteHost(
            name,
            [(study, load_table(frame, study)) for study in studies or (self.study,)],
            policy,
            state=self.folder / (state or name),
            identity=identity,
            trust=trust,
            coordinator=COORDINATOR,
            make_noise=lambda: None if private else UnsafeSeededLaplace(3, name),
            **options,
        )
        self.hosts[name] = host
        return host

    def run(self, identity: Identity, trust: Trust, study: Path, name: str) -> dict[str, Any]:
        """Carry out a run over all hosts; return its last status."""
        caller = Caller(
            lambda site, e, _: self.hosts[site].receive(e), identity, trust, COORDINATOR
        )
        state = self.folder / "coordinator"
        folder = runs.submit(state, runs.RunRequest(name, tuple(self.hosts), wait=5.0), study)
        serving.carry_out(folder, caller)
        return runs.read_status(folder)

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.hosts.clear()


@pytest.fixture
def consortium(tmp_path: Path, study_path: Path) -> Iterator[Consortium]:
    made = Consortium(tmp_path, Study.load(study_path))
    yield made
    made.close()


def ask(host: SiteHost, study: Study, kind: Any, step: int, run: str, **fields: Any) -> Any:
    header = m.Header(m.PROTOCOL_VERSION, run, step, host.name, study.digest)
    return from_bytes(host.answer(to_bytes(kind(header, **fields))))


def join(host: SiteHost, study: Study, run: str = "one") -> Any:
    return ask(host, study, m.JoinRequest, 0, run, sites=NAMES, secure=True, dropouts="wait")


# --- A hospital surrounded by invented ones -------------------------------------------------------


def summed(host: SiteHost) -> int:
    """Releases that left "inside a secure sum"."""
    return sum(release.sum_of is not None for release in host.ledger.releases)


@pytest.mark.parametrize("invented", [("x", "y"), ("b", "c")])
@pytest.mark.parametrize("chartered", [False, True])
def test_invented_sites_surround_a_hospital(
    consortium: Consortium, study_path: Path, invented: tuple[str, str], chartered: bool
) -> None:
    """The authority and the coordinator invent two hospitals, with good certificates of the root,
    under new names or those of real ones: "a sum of three" is then the third one's own number.
    The twin has no charter."""
    root = Root()
    trust = root.trust()
    real = {name: root.identity(name) for name in (COORDINATOR, *NAMES)}
    charter = charter_of(real, trust)
    accepted = charter if chartered else None
    pinned = replace(trust, pinned=charter.pins) if chartered else trust
    victim = consortium.open("a", real["a"], pinned, charter=accepted)
    for name in invented:
        # Whoever invents a hospital says whatever charter helps, and believes anybody.
        host = consortium.open(name, root.identity(name), trust, charter=accepted)
        host._roster = None
    status = consortium.run(real[COORDINATOR], trust, study_path, "one")
    if chartered:
        assert status["state"] == "failed"
        assert "[identity]" in status["message"]
        assert summed(victim) == 0
    else:
        assert status["state"] == "done"
        assert summed(victim) > 0


@pytest.mark.parametrize("chartered", [False, True])
def test_a_second_coordinator_of_the_same_name_is_believed(
    consortium: Consortium, chartered: bool
) -> None:
    """Whoever holds the root issues a second certificate in the coordinator's name, and asks."""
    root = Root()
    trust = root.trust()
    real = {name: root.identity(name) for name in (COORDINATOR, *NAMES)}
    charter = charter_of(real, trust)
    pinned = replace(trust, pinned=charter.pins) if chartered else trust
    host = consortium.open("a", real["a"], pinned, charter=charter if chartered else None)
    forged = sign_letter(Letter("hello"), sender=root.identity(COORDINATOR), recipient="a")
    letter = read_signed(host.receive(forged), trust=trust, sender="a", recipient=COORDINATOR)
    assert letter.kind == ("done" if chartered else "here")
    if chartered:
        refusal = from_bytes(letter.body)
        assert isinstance(refusal, m.Refusal)
        assert refusal.code == "identity"


def test_hospitals_that_accepted_different_charters_do_not_sum(
    consortium: Consortium, study_path: Path
) -> None:
    """The coordinator shows one hospital another list of sites than the rest."""
    identities, trust = make_consortium([COORDINATOR, *NAMES, "d"])
    charters = {"a": charter_of({k: v for k, v in identities.items() if k != "d"}, trust)}
    for name in NAMES:
        charter = charters.get(name, charter_of(identities, trust))
        pinned = Trust(trust.root, charter.pins)
        consortium.open(name, identities[name], pinned, charter=charter)
    status = consortium.run(identities[COORDINATOR], trust, study_path, "one")
    assert status["state"] == "failed"
    assert sum(map(summed, consortium.hosts.values())) == 0


# --- Swapped kits ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weak", [True, False])
def test_swapped_kits_run_silently(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """Two hospitals' kits are exchanged by mistake: folds go by name, so another model comes
    out, and one hospital's budget is counted in the other's folder."""
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    consortium.open("a", identities["a"], trust)
    consortium.close()
    if weak:
        monkeypatch.setattr(hosts, "check_owner", lambda *_, **__: None)
        assert consortium.open("b", identities["b"], trust, state="a").name == "b"
        return
    with pytest.raises(FederationError, match="is of the site 'a'"):
        consortium.open("b", identities["b"], trust, state="a")


@pytest.mark.parametrize("weak", [True, False])
def test_two_processes_share_a_kit(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """A kit is copied to a second machine: the two displace each other without a word."""
    if weak:
        monkeypatch.setattr(hosts, "new_instance", lambda: "the same")
    identities, trust = make_consortium([COORDINATOR, "a"])
    both = [consortium.open("a", identities["a"], trust, state=state) for state in ("one", "two")]
    turns = iter([*both, *both])
    caller = Caller(
        lambda site, envelope, _: next(turns).receive(envelope),
        identities[COORDINATOR],
        trust,
        COORDINATOR,
    )
    for _ in range(4):
        assert caller.greet(("a",)) == {"a": True}
    said = "two processes use the kit of a" in "\n".join(caller.warnings(("a",)))
    assert said is not weak
    both[0].close()


@pytest.mark.parametrize("weak", [True, False])
def test_a_refreshed_table_is_silently_not_used(
    consortium: Consortium, tmp_path: Path, weak: bool
) -> None:
    """The hospital exports its patients anew, and believes that the next run uses them."""
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    table = tmp_path / "patients.csv"
    table.write_text("of yesterday")
    source = None if weak else SourceFile(table)
    host = consortium.open("a", identities["a"], trust, source=source)
    table.write_text("of today")
    join(host, consortium.study)
    said = "Restart to use the new file" in (tmp_path / "a" / "site.json").read_text()
    assert said is not weak


@pytest.mark.parametrize("weak", [True, False])
def test_an_expired_kit_starts_and_then_says_nothing_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """The kit's year is over: nobody believes the site any more, and nobody tells it."""
    kits = provision(make_plan(), tmp_path / "kits")
    make_frame(60).to_csv(tmp_path / "north.csv", index=False)
    start = startup.SiteStart(
        kit=Kit.load(kits["north"], "site"),
        studies={tmp_path / "study.toml": make_study()},
        data=tmp_path / "north.csv",
        state=tmp_path / "state",
        without_charter=True,
    )
    monkeypatch.setattr(Identity, "expires", property(lambda self: dt.date(2026, 1, 1)))
    if weak:
        monkeypatch.setattr(startup, "refuse_expired", lambda *_: None)
        opened = startup.open_site(start)
        opened.host.close()
        assert any("EXPIRED on 2026-01-01" in words for words in opened.warnings)
        return
    with pytest.raises(FederationError, match="expired on 2026-01-01"):
        startup.open_site(start)


# --- The ledger -----------------------------------------------------------------------------------


class ForgetfulLedger(KeptLedger):
    """The old ledger: believes whatever file is there."""

    def __init__(self, path: Path, journal: Journal, clock: Any = None) -> None:
        journal.put({"ledger": {"head": None}})
        super().__init__(path, journal, clock)

    def _check_file(self) -> None:
        pass


def spend(host: SiteHost, study: Study, run: str) -> Any:
    """Join, and ask for the noisy histograms."""
    reply = join(host, study, run)
    return reply if isinstance(reply, m.Refusal) else ask(host, study, m.GridRequest, 1, run)


def harm(path: Path, how: str) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "emptied" else b"".join(lines[: len(lines) // 3]))


@pytest.mark.parametrize("how", ["deleted", "emptied", "cut"])
@pytest.mark.parametrize("weak", [True, False])
def test_a_harmed_ledger_gives_the_budget_back(
    consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, weak: bool
) -> None:
    """Somebody at the hospital wants one more run than the budget pays for, and deletes, empties
    or cuts the ledger before the site is started again."""
    if weak:
        monkeypatch.setattr(hosts, "KeptLedger", ForgetfulLedger)
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    study = consortium.study
    # Of one bin more, round bins may be the same, and cost nothing more.
    quantiles = {**SOLVERS["exact"], "cutoff_style": "quantile"}
    other = Study.from_mapping(
        {**study_facts(epsilon=1.0, n_bins=11, **quantiles), "name": "other"}
    )
    third = Study.from_mapping(
        {**study_facts(epsilon=1.0, n_bins=12, **quantiles), "name": "third"}
    )
    options: dict[str, Any] = {"studies": (study, other, third), "private": True}
    free = Policy(epsilon_study=None, epsilon_dataset=None)
    host = consortium.open("a", identities["a"], trust, policy=free, **options)
    for one in (study, other):
        assert isinstance(spend(host, one, "one"), m.GridReply)
    spent = host.ledger.epsilon
    assert spent > 0
    consortium.close()
    tight = Policy(epsilon_study=None, epsilon_dataset=1.01 * spent)
    host = consortium.open("a", identities["a"], trust, policy=tight, **options)
    assert spend(host, third, "two").code == "budget"
    consortium.close()
    harm(tmp_path / "a" / "ledger.jsonl", how)
    if weak:
        host = consortium.open("a", identities["a"], trust, policy=tight, **options)
        assert isinstance(spend(host, third, "two"), m.GridReply)
        return
    with pytest.raises(LedgerError, match=r"is missing|emptied or cut"):
        consortium.open("a", identities["a"], trust, policy=tight, **options)


@pytest.mark.parametrize("how", ["deleted", "emptied", "cut"])
@pytest.mark.parametrize("weak", [True, False])
def test_a_ledger_is_harmed_while_the_site_runs(
    consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, weak: bool
) -> None:
    """Rows of a run are taken out under a running site, which goes on as if nothing were."""
    if weak:
        monkeypatch.setattr(hosts, "KeptLedger", ForgetfulLedger)
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    host = consortium.open("a", identities["a"], trust)
    assert isinstance(spend(host, consortium.study, "one"), m.GridReply)
    harm(tmp_path / "a" / "ledger.jsonl", how)
    reply = spend(host, consortium.study, "two")
    if weak:
        assert isinstance(reply, m.GridReply)
    else:
        assert reply.code == "ledger"


@pytest.mark.parametrize("weak", [True, False])
def test_a_deleted_journal_begins_anew(
    consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """Journal and ledger are deleted together: the site would know nothing of its past."""
    if weak:
        monkeypatch.setattr(hosts, "check_owner", lambda *_, **__: None)
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    host = consortium.open("a", identities["a"], trust)
    assert isinstance(spend(host, consortium.study, "one"), m.GridReply)
    consortium.close()
    for path in (tmp_path / "a").glob("*l*"):
        if path.name.startswith(("ledger", "journal")):
            path.unlink()
    if weak:
        assert consortium.open("a", identities["a"], trust).ledger.releases == []
        return
    with pytest.raises(LedgerError, match="Bring it back"):
        consortium.open("a", identities["a"], trust)


CHECK_RUNS = joining._check_runs


def check_names(header: m.Header, policy: Policy, shared: Memory) -> None:
    """The old count of runs: by name alone."""
    earlier = msgpack.unpackb(shared.get("runs") or b"\x90")
    if header.run not in {name for _, name in earlier}:
        CHECK_RUNS(header, policy, shared)


@pytest.mark.parametrize("weak", [True, False])
def test_one_name_stands_for_runs_of_many_studies(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """The policy allows one run; the coordinator gives all its studies' runs one name."""
    if weak:
        monkeypatch.setattr(joining, "_check_runs", check_names)
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    other = Study.from_mapping({**study_facts(epsilon=1.0), "name": "other"})
    policy = POLICY.model_copy(update={"max_runs": 1})
    studies = (consortium.study, other)
    host = consortium.open("a", identities["a"], trust, studies=studies, policy=policy)
    assert isinstance(join(host, consortium.study, "same"), m.JoinReply)
    reply = join(host, other, "same")
    assert isinstance(reply, m.JoinReply if weak else m.Refusal)
    assert weak or reply.code == "policy"


# --- Keys that stay -------------------------------------------------------------------------------


@pytest.mark.parametrize("weak", [True, False])
def test_keys_of_runs_that_ended_lie_about(
    consortium: Consortium,
    study_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weak: bool,
) -> None:
    """Who gets hold of a state folder years later, and kept the coordinator's traffic, unmasks
    the hospital's own sums with the keys that were left in it."""
    if weak:
        monkeypatch.setattr(SiteHost, "_erase", lambda *_: None)
    secrets: list[bytes] = []
    draw = masking.make_secret

    def listen() -> bytes:
        secrets.append(draw())
        return secrets[-1]

    monkeypatch.setattr(masking, "make_secret", listen)
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    for name in NAMES:
        consortium.open(name, identities[name], trust)
    status = consortium.run(identities[COORDINATOR], trust, study_path, "one")
    assert status["state"] == "done"
    assert len(secrets) == 3
    assert bool(_holding(tmp_path, secrets)) is weak
    consortium.close()
    assert bool(_holding(tmp_path, secrets)) is weak


def _holding(folder: Path, secrets: Sequence[bytes]) -> list[Path]:
    files = [path for name in NAMES for path in (folder / name).rglob("*") if path.is_file()]
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


@pytest.mark.parametrize("weak", [True, False])
def test_keys_of_abandoned_runs_lie_about(
    consortium: Consortium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: bool
) -> None:
    """A run is begun and never ended, so that its keys are never erased."""
    if weak:
        monkeypatch.setattr(SiteHost, "_erase_abandoned", lambda *_, **__: None)
    monkeypatch.setattr(hosts, "IDLE", hosts.IDLE * 0)
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    host, study = consortium.open("a", identities["a"], trust), consortium.study
    join(host, study, "one")
    assert isinstance(ask(host, study, m.KeyRequest, 1, "one"), m.KeyReply)
    secret = host._memory_of((study.digest, "one")).get("secret")
    assert secret is not None
    section = "\0".join(("run", study.digest, "one"))
    host._journal.put({section: {"seen": b"2026-01-01T00:00:00+00:00"}})
    join(host, study, "two")
    assert bool(_holding(tmp_path, [secret])) is weak
    reply = ask(host, study, m.GridRequest, 2, "one")
    assert isinstance(reply, m.GridReply if weak else m.Refusal)
    assert weak or reply.code == "erased"


# --- Other users of the machine -------------------------------------------------------------------


def _touch(path: Path) -> None:
    path.touch()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


@pytest.mark.parametrize("weak", [True, False])
def test_other_users_read_the_state_folder(
    consortium: Consortium,
    study_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weak: bool,
) -> None:
    """Another user of the hospital's or the coordinator's machine reads ledger, keys, runs."""
    if weak:
        for module in ("privacy.ledger", "federation.journal", "federation.coordinator.runs"):
            monkeypatch.setattr(f"fedrulefit.{module}.touch_private", _touch)
        monkeypatch.setattr(folderlock, "open_private", _open)
        monkeypatch.setattr(runs, "write_whole", lambda path, data, private: path.write_bytes(data))
    before = os.umask(0)
    try:
        identities, trust = make_consortium([COORDINATOR, *NAMES])
        for name in NAMES:
            consortium.open(name, identities[name], trust)
        status = consortium.run(identities[COORDINATOR], trust, study_path, "one")
        assert status["state"] == "done"
        readable = _open_to_others(tmp_path / name for name in (*NAMES, "coordinator/runs"))
    finally:
        os.umask(before)
    if weak:
        assert {"ledger.jsonl", "lock", "journal.sqlite"} <= {path.name for path in readable}
    else:
        assert readable == []


def _open_to_others(folders: Any) -> list[Path]:
    return [
        path
        for folder in folders
        for path in (folder, *folder.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    ]


def test_the_ledger_of_an_honest_run_is_whole(
    consortium: Consortium, study_path: Path, tmp_path: Path
) -> None:
    """None of the above disturbs those who do nothing of the kind."""
    identities, trust = make_consortium([COORDINATOR, *NAMES])
    charter = charter_of(identities, trust)
    pinned = Trust(trust.root, charter.pins)

    def open_all() -> Mapping[str, SiteHost]:
        return {
            name: consortium.open(name, identities[name], pinned, charter=charter) for name in NAMES
        }

    open_all()
    assert consortium.run(identities[COORDINATOR], trust, study_path, "one")["state"] == "done"
    consortium.close()
    open_all()
    assert consortium.run(identities[COORDINATOR], trust, study_path, "two")["state"] == "done"
    rows = list(read_rows(tmp_path / "a" / "ledger.jsonl"))
    assert {row["run"] for row in rows} == {"one", "two"}


# --- Names, seals and links -----------------------------------------------------------------------


def plan(*sites: str, host: str = "localhost") -> Plan:
    facts = {
        "name": "c",
        "coordinator": {"host": host},
        "sites": [{"name": site} for site in sites],
    }
    return Plan.model_validate(facts)


@pytest.mark.parametrize("name", ["authority", "Authority", "coordinator", "charter.toml"])
def test_a_site_named_as_a_part_of_the_kits_folder(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site named ``authority`` deleted the root's key. The twin reserves no names."""
    with pytest.raises(ValueError, match="names a part of the kits' folder"):
        plan("north", name)
    if name == "authority":
        monkeypatch.setattr(consortia, "_RESERVED", frozenset())
        provision(plan("north", name), tmp_path)
        assert not (tmp_path / "authority" / "root.json").exists()


@pytest.mark.parametrize("sites", [("north", "North"), ("a b",), ("n\u043erth",), ("x" * 64,)])
def test_names_that_people_confuse(sites: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="differ in case only|a name has letters"):
        plan(*sites)


@pytest.mark.parametrize("host", ["", "a b", "\x1b[2J", "fe80::1%\x1b[2J", "x" * 65])
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(ValueError, match="not the name or address of a machine"):
        plan("north", host=host)
    for good in ("fed.example.org", "10.0.0.1", "2001:db8::1"):
        assert plan("north", host=good).coordinator.host == good


@pytest.mark.parametrize(
    "name", ["east".ljust(80) + "Hash of this charter", "n\u043erth", "NORTH", "a:b", "10.0.0.1:1"]
)
def test_a_charter_s_names_are_plain(name: str) -> None:
    """Spaces made a name look like lines of the charter itself; Cyrillic letters like another's."""
    identities, trust = make_consortium([COORDINATOR, "north", "south"])
    facts = charter_of(identities, trust).model_dump(mode="json")
    facts["sites"][1]["name"] = name
    with pytest.raises(ValueError, match="a name has letters|case only|address of a machine"):
        Charter.model_validate(facts)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Identity]:
    """A site's part of a kit, and the root that could seal another."""
    folder = tmp_path_factory.mktemp("kits")
    kits = provision(make_plan(), folder)
    return kits["north"] / "site", _Authority.open(folder / "authority", "c").identity


def reseal(sealed: tuple[Path, Identity], folder: Path, **changes: Any) -> Path:
    part, root = sealed
    copy = Path(shutil.copytree(part, folder / "part"))
    facts = json.loads((copy / "seal.json").read_text())
    for name in ("seal.json", "seal.sig"):
        (copy / name).unlink()
    del facts["files"]
    seal_part(copy, {**facts, **changes}, root)
    return copy


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "\x1b[2Jnorth\nSite ok"},
        {"name": 5},
        {"name": "elsewhere"},
        {"sites": "north"},
        {"sites": ["north", "no\nrth"]},
        {"sites": ["north", "North"]},
        {"coordinator": "a b"},
        {"port": "x"},
        {"port": -1},
        {"side": "coordinator"},
        {"more": 1},
    ],
    ids=str,
)
def test_what_a_seal_says_is_checked(
    sealed: tuple[Path, Identity], tmp_path: Path, changes: dict[str, Any]
) -> None:
    """Whoever holds the root wrote lines of text into a kit's facts, and people read them."""
    with pytest.raises(FederationError, match="something else than a kit's facts"):
        Kit.load(reseal(sealed, tmp_path, **changes), "site")


@pytest.mark.parametrize("text", ["[]", "5", '{"files": {}}', "[" * 100_000, "x"])
def test_a_seal_that_is_no_seal(sealed: tuple[Path, Identity], tmp_path: Path, text: str) -> None:
    part = reseal(sealed, tmp_path)
    assert Kit.load(part, "site").name == "north"
    (part / "seal.json").write_text(text)
    (part / "seal.sig").write_bytes(sealed[1].sign(text.encode()))
    with pytest.raises(FederationError, match="something else than a kit's facts"):
        Kit.load(part, "site")


def test_certificate_key_and_name_of_a_kit_belong_together(
    sealed: tuple[Path, Identity], tmp_path: Path
) -> None:
    part = reseal(sealed, tmp_path, name="south")
    with pytest.raises(FederationError, match="not those of 'south'"):
        Kit.load(part, "site")
    shutil.rmtree(part)
    other = provision(make_plan(), tmp_path / "other")["north"] / "site"
    copy = Path(shutil.copytree(sealed[0], tmp_path / "copy"))
    shutil.copyfile(other / "key.pem", copy / "key.pem")
    with pytest.raises(FederationError, match="not those of 'north'"):
        Kit.load(reseal((copy, sealed[1]), tmp_path), "site")


def test_files_swapped_after_the_check_are_not_used(
    sealed: tuple[Path, Identity], tmp_path: Path
) -> None:
    """A kit's root was read again after its seal was checked: another could lie there by then."""
    kit = Kit.load(reseal(sealed, tmp_path), "site")
    root, own = kit.root_fingerprint, kit.identity
    other = provision(make_plan(), tmp_path / "other")["north"] / "site"
    for name in ("root.pem", "certificate.pem", "key.pem"):
        shutil.copyfile(other / name, kit.folder / name)
    assert kit.root_fingerprint == root
    assert kit.identity == own


def test_links_in_a_state_folder_are_not_followed(tmp_path: Path) -> None:
    """A link named ``lock`` emptied the file it led to; one named ``approvals`` closed a folder."""
    outside, state = tmp_path / "outside", tmp_path / "state"
    outside.mkdir()
    state.mkdir(mode=0o700)
    precious = outside / "precious.txt"
    precious.write_text("precious")
    for name in ("lock", "journal.sqlite"):
        (state / name).symlink_to(precious)
    (state / "approvals").symlink_to(outside)
    open_state(state)
    assert stat.S_IMODE(precious.stat().st_mode) == 0o644
    with pytest.raises(FederationError, match="is a link"):
        folderlock.lock_folder(state)
    with pytest.raises(FederationError, match="is a link"):
        Journal(state / "journal.sqlite")
    assert precious.read_text() == "precious"


def test_a_broken_charter_is_accepted_again(tmp_path: Path) -> None:
    """The advice "accept the charter again" failed with the same words."""
    identities, trust = make_consortium([COORDINATOR, "north", "south"])
    charter = charter_of(identities, trust)
    (tmp_path / "charter.json").write_text("[")
    with pytest.raises(FederationError, match="accept the charter again"):
        read_acceptance(tmp_path)
    check_successor(tmp_path, charter, "north", new_root=False)
    accept(tmp_path, charter, site="north", dataset="d", by="me")
    kept = read_acceptance(tmp_path)
    assert kept is not None
    assert kept.charter == charter
    (aside,) = tmp_path.glob("charter.json.broken-*")
    assert aside.read_text() == "["
