"""A hospital's end of a federation: one process, one data set, many studies and runs.

In: an envelope from the coordinator. Out: an envelope. The host keeps everything
that must survive a crash in its state folder:

=================  =========================================================
``ledger.jsonl``   what left, hash-chained
``journal.sqlite`` replies and keys of each run (only the owner may read it)
``approvals/``     what a person was asked, and decided
``lock``           held while the host runs
=================  =========================================================
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import secrets
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import IO, Any, Final

from fedrulefit.engines.envelope import Letter, close, unseal
from fedrulefit.engines.journal import Journal, Section
from fedrulefit.errors import FederationError, PolicyError, ProtocolError
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.privacy.ledger import Ledger, now
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site, blank_header, read_request
from fedrulefit.protocol.wire import digest, to_bytes
from fedrulefit.study import Study
from fedrulefit.table import Table

log = logging.getLogger(__name__)

HELD: Final = 2
"""Runs whose patients' designs are held in memory at the same time."""

PATIENCE: Final = 1.0
"""Seconds that a call waits for an answer before it says "working"."""


class SiteHost:
    """Answers a coordinator on behalf of one hospital.

    Parameters
    ----------
    name : str
    tables : sequence of (Study, Table)
        The studies that the hospital takes part in, each with its patients.
    policy : Policy
    state : Path
        The state folder; made if it is not there.
    identity, trust : Identity, Trust
    coordinator : str
        The name in the coordinator's certificate.
    roster : collection of str, optional
        The consortium's sites; any may take part, if not given.
    make_noise : callable
        Gives each run its noise; None for OpenDP's.
    secret_folds : bool
        Whether patients are dealt into folds by a secret that only this hospital has.
        Without it, by the study's seed: for tests that compare engines.
    n_threads : int

    Raises
    ------
    FederationError
        If another process uses the state folder.
    """

    def __init__(
        self,
        name: str,
        tables: Sequence[tuple[Study, Table]],
        policy: Policy,
        *,
        state: Path,
        identity: Identity,
        trust: Trust,
        coordinator: str,
        roster: Collection[str] | None = None,
        make_noise: Callable[[], Noise | None] = lambda: None,
        secret_folds: bool = True,
        n_threads: int = 1,
    ) -> None:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock_file = lock_folder(state)
        self.name = name
        self._tables = {study.digest: (study, table) for study, table in tables}
        self._policy = policy
        self._identity, self._trust, self._coordinator = identity, trust, coordinator
        self._roster = roster
        self._make_noise, self._n_threads = make_noise, n_threads
        self._state = state
        self._journal = Journal(state / "journal.sqlite")
        self._check_dataset()
        self._dealing = _keep_secret(self._journal.section("dataset")) if secret_folds else None
        self.ledger = Ledger(state / "ledger.jsonl", clock=now)
        self._sites: dict[tuple[str, str], Site] = {}
        self._lock = threading.Lock()
        self._work: _Work | None = None

    def receive(self, envelope: bytes) -> bytes:
        """Open an envelope and answer it, within about a second."""
        try:
            letter = unseal(
                envelope, trust=self._trust, sender=self._coordinator, recipient=self.name
            )
        except ProtocolError as error:
            log.warning("refused an envelope: %s", error.code)
            refusal = to_bytes(m.Refusal(blank_header(self.name), error.code, str(error)))
            return self._close(Letter("done", "", refusal))
        match letter.kind:
            case "ask":
                subject = digest(letter.body)
                self._start(subject, letter.body)
                return self._close(self._result(subject))
            case "poll":
                return self._close(self._result(letter.subject))
            case _:
                return self._close(Letter("here"))

    def answer(self, data: bytes) -> bytes:
        """Answer a request, in the run that it belongs to."""
        try:
            request = read_request(data)
        except ProtocolError as error:
            return to_bytes(m.Refusal(blank_header(self.name), error.code, str(error)))
        if request.header.study not in self._tables:
            reason = "the site does not hold this study: all sites need the same study file"
            return to_bytes(m.Refusal(request.header, "study", reason))
        try:
            site = self._site_of(request.header)
        except ProtocolError as error:
            return to_bytes(m.Refusal(request.header, error.code, str(error)))
        except Exception as error:  # whatever it says could hold a patient's value
            kind = type(error).__name__
            log.error("the run's memory cannot be read (%s)", kind)
            reason = f"the site failed with {kind}: see its log"
            return to_bytes(m.Refusal(request.header, "internal", reason))
        return site.respond(request, data)

    def close(self) -> None:
        """Let go of the state folder."""
        self._journal.close()
        self._lock_file.close()

    def _close(self, letter: Letter) -> bytes:
        return close(letter, sender=self._identity, recipient=self._coordinator)

    def _start(self, subject: str, body: bytes) -> None:
        """Begin to answer, unless something is under way.

        What was answered before is asked of the site again: it repeats itself, or
        a person has decided meanwhile.
        """
        with self._lock:
            if self._work is not None and not self._work.done.is_set():
                return
            self._work = _Work(subject, lambda: self.answer(body))
            self._work.start()

    def _result(self, subject: str) -> Letter:
        work = self._work
        if work is None or work.subject != subject:
            # Restarted, or busy with something else: to be asked again.
            busy = work is not None and not work.done.is_set()
            return Letter("working" if busy else "unknown", subject)
        if not work.done.wait(PATIENCE):
            return Letter("working", subject)
        return Letter("done", subject, work.answer)

    def _site_of(self, header: m.Header) -> Site:
        """Return the site as it takes part in a run; the last few are held."""
        key = (header.study, header.run)
        if key not in self._sites:
            while len(self._sites) >= HELD:
                self._let_go(next(iter(self._sites)))
            study, table = self._tables[header.study]
            self._sites[key] = Site(
                self.name,
                table,
                study,
                policy=self._policy,
                ledger=self.ledger,
                noise=self._make_noise(),
                identity=self._identity,
                trust=self._trust,
                roster=self._roster,
                approver=lambda kind, words: ask_person(self._state, header.run, kind, words),
                memory=self._memory_of(key),
                shared=self._journal.section("dataset"),
                dealing=self._dealing,
                n_threads=self._n_threads,
            )
        return self._sites[key]

    def _memory_of(self, key: tuple[str, str]) -> Section:
        return run_memory(self._journal, *key)

    def _let_go(self, key: tuple[str, str]) -> None:
        """Forget a run's site; of a finished run, its secret for good."""
        site = self._sites.pop(key)
        if site.finished:
            self._memory_of(key).put({"secret": None})

    def _check_dataset(self) -> None:
        memory = self._journal.section("dataset")
        kept = memory.get("name")
        if kept is None:
            memory.put({"name": self._policy.dataset.encode()})
        elif kept.decode() != self._policy.dataset:
            raise PolicyError(
                f"the state folder {self._state} is of the data set {kept.decode()!r}, but the "
                f"policy names {self._policy.dataset!r}: use one folder per data set"
            )


def run_memory(journal: Journal, study: str, run: str) -> Section:
    """Return what a hospital remembers of a run."""
    return journal.section("\0".join(("run", study, run)))


def _keep_secret(memory: Section) -> bytes:
    """Return the data set's secret; draw it the first time."""
    secret = memory.get("dealing")
    if secret is None:
        secret = secrets.token_bytes(32)
        memory.put({"dealing": secret})
    return secret


class _Work(threading.Thread):
    """One request being answered."""

    def __init__(self, subject: str, compute: Callable[[], bytes]) -> None:
        super().__init__(daemon=True, name="fedrulefit answer")
        self.subject = subject
        self.done = threading.Event()
        self.answer = b""
        self._compute = compute

    def run(self) -> None:
        try:
            self.answer = self._compute()
        finally:
            self.done.set()


def lock_folder(folder: Path) -> IO[str]:
    """Hold a folder for this process; the file must stay open."""
    file = (folder / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise FederationError(f"another process uses {folder}: stop it first") from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def is_held(folder: Path) -> bool:
    """Whether the process that last held a folder is alive."""
    try:
        os.kill(int((folder / "lock").read_text()), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


# --- Approvals: a person decides, in another process ---------------------------------------


def ask_person(state: Path, run: str, kind: str, words: Sequence[str]) -> bool | None:
    """Write down what is about to leave; return the decision, None before there is one."""
    folder = state / "approvals"
    folder.mkdir(exist_ok=True, mode=0o700)
    asked = {"run": run, "kind": kind, "words": list(words)}
    name = f"{kind}-{hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]}"
    path = folder / f"{name}.json"
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if any(kept[key] != value for key, value in asked.items()):
            return False  # a decision on something else
        decision = kept["decision"]
        return None if decision is None else decision == "accepted"
    write_json(path, {**asked, "asked": now(), "decision": None})
    return None


def approvals(state: Path) -> dict[str, dict[str, Any]]:
    """Return every question put to a person, by its id."""
    return {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted((state / "approvals").glob("*.json"))
    }


def decide(state: Path, approval: str, *, accept: bool, by: str) -> None:
    """Write down a person's decision."""
    path = state / "approvals" / f"{approval}.json"
    if approval not in approvals(state):
        raise FederationError(f"there is nothing to decide under {approval!r}")
    facts = json.loads(path.read_text(encoding="utf-8"))
    if facts["decision"] is not None:
        raise FederationError(f"{approval} was {facts['decision']} by {facts['by']} already")
    decision = "accepted" if accept else "declined"
    write_json(path, {**facts, "decision": decision, "by": by, "decided": now()})


def write_json(path: Path, facts: Any) -> None:
    """Write a small file whole or not at all, readable by its owner only."""
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(facts, file, ensure_ascii=False, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    entry = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
