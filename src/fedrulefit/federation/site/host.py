"""A hospital's end of a federation: one process, one data set, many studies and runs.

In: an envelope from the coordinator. Out: an envelope. The host keeps everything
that must survive a crash in its state folder:

=================  =========================================================
``charter.json``   who takes part, as a person accepted it
``owner.json``     whose the folder is
``ledger.jsonl``   what left, hash-chained
``journal.sqlite`` replies and keys of each run, and where the ledger ends
``approvals/``     what a person was asked, and decided
``audits.json``    which runs were audited
``runs/``          ``baseline.toml`` of each run whose sites have baselines of their own
``site.json``      what the running host knows, for ``site status``
``lock``           held while the host runs
=================  =========================================================

Only their owner can read them.
"""

from __future__ import annotations

import datetime as dt
import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Final, TypedDict

import msgpack

from fedrulefit.errors import FederationError, PolicyError, ProtocolError
from fedrulefit.federation.envelope import Letter, read_signed, sign_letter
from fedrulefit.federation.expiry import own_certificates, warn_of_expiry
from fedrulefit.federation.folderlock import lock_folder
from fedrulefit.federation.journal import Journal, Section
from fedrulefit.federation.kits.charter import Charter
from fedrulefit.federation.site.approvals import ask_person
from fedrulefit.federation.site.audits import without_audit
from fedrulefit.federation.site.baselines import keep_baseline
from fedrulefit.federation.site.kept import KeptLedger, RunMemory
from fedrulefit.federation.site.remembered import read_runs, run_section
from fedrulefit.federation.site.source import SourceFile
from fedrulefit.federation.state import (
    JOURNAL,
    LEDGER,
    Owner,
    check_owner,
    new_instance,
    open_state,
    write_owner,
)
from fedrulefit.files import write_json
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.privacy.ledger import now
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import digest, read_request, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

log = logging.getLogger(__name__)

HELD: Final = 2
"""Runs whose patients' designs are held in memory at the same time."""

PATIENCE: Final = 1.0
"""Seconds that a call waits for an answer before it says "working"."""

IDLE: Final = dt.timedelta(days=1)
"""A run without a question for so long is abandoned when another one joins: a coordinator
gives a lost site up after a day, too."""

_DAY: Final = 86_400.0

STATUS: Final = "site.json"


class TableFacts(TypedDict):
    """Which patients a site takes part in a study with, as ``site.json`` says it."""

    study: str
    study_hash: str
    patients: int
    hash: str


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
        The consortium's sites; the charter's, or any, if not given.
    charter : Charter, optional
        Who takes part, as a person accepted it.
    source : SourceFile, optional
        The file that the tables were read from, to notice that it changed.
    make_noise : callable
        Gives each run its noise; None for OpenDP's.
    secret_folds : bool
        Whether patients are dealt into folds by a secret that only this hospital has.
        Without it, by the study's seed: for tests that compare engines.
    n_threads : int
    lock : file, optional
        The state folder's lock, where it is held already.

    Raises
    ------
    FederationError
        If another process uses the state folder, or it is another site's.
    LedgerError
        If ledger or journal are not as this site left them.
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
        charter: Charter | None = None,
        source: SourceFile | None = None,
        make_noise: Callable[[], Noise | None] = lambda: None,
        secret_folds: bool = True,
        n_threads: int = 1,
        lock: IO[str] | None = None,
    ) -> None:
        self._mended = open_state(state)
        self._lock_file = lock_folder(state) if lock is None else lock
        self.name = name
        self._instance = new_instance()
        self._tables = {study.digest: (study, table) for study, table in tables}
        self._policy = policy
        self._identity, self._trust, self._coordinator = identity, trust, coordinator
        self._charter, self._source = charter, source
        self._roster = charter.site_names if roster is None and charter is not None else roster
        self._make_noise, self._n_threads = make_noise, n_threads
        self._state = state
        self._secret_folds = secret_folds
        self._sites: dict[tuple[str, str], Site] = {}
        self._lock = threading.Lock()
        self._work: _Work | None = None
        self._warned: list[str] = []
        try:
            self._open()
        except BaseException:
            self._lock_file.close()
            raise

    def _open(self) -> None:
        """Take up what the state folder holds, if it is this site's and whole."""
        owner = Owner.of("site", self.name, self._identity, self._trust)
        check_owner(self._state, owner, chartered=self._charter is not None)
        self._journal = Journal(self._state / JOURNAL)
        try:
            self._check_dataset()
            dataset = self._journal.section("dataset")
            self._dealing = _keep_secret(dataset) if self._secret_folds else None
            self.ledger = KeptLedger(self._state / LEDGER, self._journal, clock=now)
            write_owner(self._state, owner)
            self._tidy()
        except BaseException:
            self._journal.close()
            raise

    def receive(self, envelope: bytes) -> bytes:
        """Open an envelope and answer it, within about a second."""
        try:
            letter = read_signed(
                envelope, trust=self._trust, sender=self._coordinator, recipient=self.name
            )
        except ProtocolError as error:
            log.warning("refused an envelope: %s", error.code)
            refusal = to_bytes(m.Refusal(m.blank_header(self.name), error.code, str(error)))
            return self._close(Letter("done", "", refusal))
        match letter.kind:
            case "ask":
                subject = digest(letter.body)
                self._start(subject, letter.body)
                return self._close(self._result(subject))
            case "poll":
                return self._close(self._result(letter.subject))
            case _:
                self._tidy_daily()
                return self._close(Letter("here"))

    def answer(self, data: bytes) -> bytes:
        """Answer a request, in the run that it belongs to."""
        try:
            request = read_request(data)
        except ProtocolError as error:
            return to_bytes(m.Refusal(m.blank_header(self.name), error.code, str(error)))
        if request.header.study not in self._tables:
            reason = "the site does not hold this study: all sites need the same study file"
            return to_bytes(m.Refusal(request.header, "study", reason))
        key = (request.header.study, request.header.run)
        try:
            erased = self._memory_of(key).get("erased")
            if erased is not None:
                return self._repeat(request, data, erased.decode())
            if isinstance(request, m.JoinRequest):
                self._look_around(key)
            site = self._site_of(request.header)
        except ProtocolError as error:
            return to_bytes(m.Refusal(request.header, error.code, str(error)))
        except Exception as error:  # whatever it says could hold a patient's value
            kind = type(error).__name__
            log.error("the run's memory cannot be read (%s)", kind)
            reason = f"the site failed with {kind}: see its log"
            return to_bytes(m.Refusal(request.header, "internal", reason))
        answer = site.respond(request, data)
        if isinstance(request, m.ShareModelRequest) and (own := site.own_baseline) is not None:
            keep_baseline(self._state, request.header.run, own)
        if _is_last(site, request, self._memory_of(key)):
            with suppress(OSError, sqlite3.Error):  # a full disk: then with the abandoned ones
                self._erase(key, "it has ended")
        return answer

    def _repeat(self, request: m.Request, data: bytes, reason: str) -> bytes:
        """Answer in a run whose secrets are erased: only what was answered before."""
        key = (request.header.study, request.header.run)
        kept = self._memory_of(key).get(f"reply/{request.header.step}")
        if kept is not None:
            asked, reply, _ = msgpack.unpackb(kept)
            if asked == digest(data):
                return bytes(reply)
        words = f"the site has erased the keys of this run, since {reason}: begin a new run"
        return to_bytes(m.Refusal(request.header, "erased", words))

    def close(self) -> None:
        """Let go of the state folder."""
        self._journal.close()
        self._lock_file.close()

    def _close(self, letter: Letter) -> bytes:
        if letter.kind != "done":  # an answer is the site's, whichever process gave it
            letter = replace(letter, instance=self._instance)
        return sign_letter(letter, sender=self._identity, recipient=self._coordinator)

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
                del self._sites[next(iter(self._sites))]
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
                charter=b"" if self._charter is None else self._charter.digest,
                n_threads=self._n_threads,
            )
        return self._sites[key]

    def _memory_of(self, key: tuple[str, str]) -> RunMemory:
        return RunMemory(self._journal, run_section(*key), self.ledger)

    # --- What is done when a run begins or ends -------------------------------------------------

    def _look_around(self, joining: tuple[str, str]) -> None:
        """Before a run joins, see whether others are abandoned, and what a person should know."""
        self._erase_abandoned(IDLE, but=joining)
        self._tell()
        if self._memory_of(joining).get("place") is None:
            self._check_audits()

    def _check_audits(self) -> None:
        """Before a new run, say which earlier ones were never audited; refuse, if policy wants."""
        try:
            due = without_audit(self._state, read_runs(self._journal))
        except FederationError as error:
            words = str(error)
            reason = "the site's list of audits cannot be read: see its log"
        else:
            if not due:
                return
            runs = ", ".join(run for _, run in due)
            words = f"never audited ('federation audit'): {runs}"
            reason = (
                f"the site's policy asks for an audit of earlier runs first ({runs}): give the "
            )
            reason += "site their records, and resume this run"
        log.warning("%s", words)
        if self._policy.audits == "require":
            raise ProtocolError(reason, "policy")

    def _tidy(self) -> None:
        """Erase what lay too long, and say what a person should know."""
        self._tidied = time.monotonic()
        self._erase_abandoned(dt.timedelta(days=self._policy.keep_runs_days))
        self._tell()

    def _tidy_daily(self) -> None:
        """Tidy up once a day, unless something is being answered."""
        with self._lock:
            busy = self._work is not None and not self._work.done.is_set()
            if not busy and time.monotonic() - self._tidied > _DAY:
                with suppress(OSError, sqlite3.Error):  # a full disk: the next day, then
                    self._tidy()

    def _erase(self, key: tuple[str, str], reason: str) -> None:
        """Forget a run's keys for good; what was answered can still be repeated."""
        self._sites.pop(key, None)
        self._memory_of(key).put({"secret": None, "erased": reason.encode()})
        self._journal.scrub()
        log.info("erased the keys of run %s: %s", key[1], reason)

    def _erase_abandoned(self, idle: dt.timedelta, but: tuple[str, str] | None = None) -> None:
        """Erase the keys of runs that nobody has asked anything in for a while."""
        latest = dt.datetime.now(dt.UTC) - idle
        for facts in read_runs(self._journal):
            key = (facts["study"], facts["run"])
            memory = self._memory_of(key)
            if key == but or memory.get("secret") is None:
                continue
            if not facts["seen"] or dt.datetime.fromisoformat(facts["seen"]) < latest:
                self._erase(key, "it was left unfinished")

    @property
    def tables(self) -> list[TableFacts]:
        """Which patients the site takes part with."""
        return [
            TableFacts(
                study=study.name,
                study_hash=study.digest,
                patients=table.n_patients,
                hash=table.digest.hex()[:16],
            )
            for study, table in self._tables.values()
        ]

    @property
    def warnings(self) -> list[str]:
        """All that a person at the hospital should know."""
        certificates = own_certificates("site", self._identity, self._trust)
        if self._charter is not None:
            party = self._charter.coordinator
            certificates[f"the certificate of the coordinator {party.name}"] = party.expires
        said = [*self._mended, *warn_of_expiry(certificates)]
        if self._source is not None and self._source.changed():
            said.append(
                f"{self._source.path} on disk is not the table that is used: it changed since "
                "this site was started. Restart to use the new file"
            )
        return said

    def _tell(self) -> None:
        """Write what is known for ``site status``, and log warnings once."""
        warnings = self.warnings
        for warning in warnings:
            if warning not in self._warned:
                log.warning("%s", warning)
        self._warned = warnings
        facts = {
            "site": self.name,
            "instance": self._instance,
            "dataset": self._policy.dataset,
            "charter": None if self._charter is None else self._charter.hash,
            "data": None if self._source is None else str(self._source.path),
            "tables": self.tables,
            "certificates": {
                whose: end.isoformat()
                for whose, end in own_certificates("site", self._identity, self._trust).items()
            },
            "warnings": warnings,
            "updated": now(),
        }
        write_json(self._state / STATUS, facts)

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


def _keep_secret(memory: Section) -> bytes:
    """Return the data set's secret; draw it the first time."""
    secret = memory.get("dealing")
    if secret is None:
        secret = secrets.token_bytes(32)
        memory.put({"dealing": secret})
    return secret


def _is_last(site: Site, request: m.Request, memory: Memory) -> bool:
    """Whether nothing that needs the run's keys can follow this request."""
    if not site.finished:
        return False
    join = memory.get("stage/JoinRequest")
    opens = join is not None and getattr(read_request(join), "dropouts", "") == "continue"
    return not (opens and isinstance(request, m.SumRequest))


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
