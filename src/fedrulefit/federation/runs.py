"""The coordinator's runs, each in a folder of its own.

``fedrulefit federation run`` writes a folder; the coordinator's process finds it,
carries the run out, and writes how far it is. Killed at any moment, it goes on with
every folder that is not finished.

=================  ==========================================================
``run.json``       what was asked: sites, options
``study.toml``     the study
``journal.sqlite`` every completed step
``status.json``    how far it is
``model.json``     the model, in the end
``stop``           the wish to stop
=================  ==========================================================
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import msgpack
from pydantic import TypeAdapter
from threadpoolctl import threadpool_limits

from fedrulefit.engines.drive import Status, drive
from fedrulefit.errors import FederationError, FedRuleFitError, ProtocolError
from fedrulefit.federation.envelope import Letter, close, unseal
from fedrulefit.federation.host import write_json
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.presence import Presence
from fedrulefit.federation.state import SOON, own_certificates, read_json, warn_of_expiry
from fedrulefit.files import close_to_others, make_private_folder, touch_private, write_private
from fedrulefit.model.file import save_model
from fedrulefit.privacy.identity import Identity, Trust, expiry
from fedrulefit.privacy.ledger import now
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import RUN_NAME
from fedrulefit.protocol.wire import digest
from fedrulefit.study import Study

log = logging.getLogger(__name__)

State = Literal["waiting", "running", "done", "failed", "stopped"]
Send = Callable[[str, bytes, float], bytes | None]
"""Sends a site an envelope; returns its answer, or None if it is out of reach."""

OnSign = Callable[[str, bool, float], None]
"""Told of every call: the site, whether it is there, and seconds without an answer from it."""

CALL_SECONDS: Final = 15.0
"""Longest that one call may take, if little is sent."""

SECONDS_PER_MB: Final = 10.0
"""And so much more for each megabyte sent or expected: slow lines are slow."""

MOST_EXPECTED: Final = 64_000_000
"""Bytes of an answer that a call waits for, at most: eleven minutes."""

SIGNATURES: Final = "signatures"
"""Section of a run's journal: of each question, who signed which answer."""

SLOW_SECONDS: Final = 600.0
"""After so long without an answer to a step, a run's status says which site it waits for."""

AFTER_TROUBLE: Final = 5.0
"""Seconds until the coordinator goes on after an error of its own."""

MOST_RUNS: Final = 4
"""Runs carried out at the same time."""


@dataclass(frozen=True)
class RunRequest:
    """What ``federation run`` asks for.

    Parameters
    ----------
    run : str
    sites : tuple of str
    secure : bool
    dropouts : {"wait", "continue"}
    wait : float
        Seconds without a sign of a site after which it is lost.
    give_up : float, optional
        Seconds without an answer to a step after which a site is lost, even if it
        gives signs; by default it is waited for.
    """

    run: str
    sites: tuple[str, ...]
    secure: bool = True
    dropouts: Literal["wait", "continue"] = "wait"
    wait: float = 86_400.0
    give_up: float | None = None


_REQUEST: Final = TypeAdapter(RunRequest)


class _StoppedError(Exception):
    """A person wants the run to stop."""


def submit(state: Path, request: RunRequest, study: Path) -> Path:
    """Put a run into the coordinator's folder; return its own.

    Raises
    ------
    FederationError
        If there is a run of that name.
    StudyError
        If the study cannot be read.
    """
    Study.load(study)
    if not RUN_NAME.fullmatch(request.run):
        raise FederationError(f"{request.run!r} cannot name a run: use letters, digits, - _ .")
    folder = run_folder(state, request.run)
    if folder.exists():
        raise FederationError(f"there is a run {request.run!r}: resume it, or choose another name")
    make_private_folder(folder.parent)
    folder.mkdir(mode=0o700)
    write_private(folder / "study.toml", study.read_bytes())
    write_json(folder / "status.json", {"state": "waiting", "updated": now()})
    write_json(folder / "run.json", asdict(request))  # last: with it the run exists
    return folder


def resume(state: Path, run: str, *, give_up: float | None = None) -> Path:
    """Let a failed or stopped run go on, perhaps with less patience; return its folder."""
    folder = run_folder(state, run)
    if not (folder / "run.json").exists():
        known = ", ".join(path.name for path in run_folders(state)) or "none"
        raise FederationError(f"there is no run {run!r}; there are: {known}")
    (folder / "stop").unlink(missing_ok=True)
    if give_up is not None:
        write_json(folder / "run.json", asdict(replace(read_request(folder), give_up=give_up)))
    if read_status(folder).get("state") in ("failed", "stopped"):
        write_json(folder / "status.json", {"state": "waiting", "updated": now()})
    return folder


def stop(state: Path, run: str) -> None:
    """Ask the coordinator to stop a run; the step it is at is asked again on resuming."""
    folder = run_folder(state, run)
    if not folder.exists():
        raise FederationError(f"there is no run {run!r}")
    state_of_run = read_status(folder)["state"]
    if state_of_run not in ("waiting", "running"):
        raise FederationError(f"run {run!r} is not under way: it is {state_of_run}")
    touch_private(folder / "stop")


def run_folder(state: Path, run: str) -> Path:
    """Return the folder of a run."""
    return state / "runs" / run


def run_folders(state: Path) -> list[Path]:
    """Return the folders of all runs, oldest first."""
    found = (state / "runs").glob("*/run.json")
    return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime)]


def read_status(folder: Path) -> dict[str, Any]:
    """Return how far a run is."""
    try:
        status = json.loads((folder / "status.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        status = None
    return status if isinstance(status, dict) and "state" in status else {"state": "waiting"}


class Caller:
    """Asks sites by signed envelopes, each in short calls, all at the same time.

    Parameters
    ----------
    send : Send
    identity, trust : Identity, Trust
    name : str
        The name in the coordinator's own certificate.
    """

    def __init__(self, send: Send, identity: Identity, trust: Trust, name: str) -> None:
        self._send = send
        self._identity = identity
        self._trust = trust
        self._name = name
        self._largest: dict[str, int] = {}
        self._presence = Presence()
        self._troubles: dict[str, str] = {}
        self.expires: dict[str, dt.date] = {}

    def greet(self, sites: tuple[str, ...]) -> dict[str, bool]:
        """Return which sites are there."""
        with ThreadPoolExecutor(len(sites)) as pool:
            found = pool.map(lambda site: self._call(site, Letter("hello")), sites)
            return {site: letter is not None for site, letter in zip(sites, found, strict=True)}

    def warnings(self, sites: Iterable[str], within: int = SOON[0]) -> list[str]:
        """Return what a person should know: of certificates, and of kits used twice."""
        sites = list(sites)
        certificates = own_certificates("coordinator", self._identity, self._trust)
        certificates |= {
            f"the certificate of {site}": self.expires[site]
            for site in sites
            if site in self.expires
        }
        doubled = [
            f"two processes use the kit of {site}: stop one of them"
            for site in sites
            if self._presence.doubled(site)
        ]
        troubles = [self._troubles[site] for site in sites if site in self._troubles]
        return [*doubled, *troubles, *warn_of_expiry(certificates, within=within)]

    def ask(
        self,
        requests: Mapping[str, bytes],
        *,
        wait: float,
        stopped: Callable[[], bool],
        on_sign: OnSign,
        give_up: float | None = None,
        on_letter: Callable[[Letter], None] = lambda letter: None,
    ) -> dict[str, bytes]:
        """Return the answers of all sites that give a sign of life within `wait` seconds.

        With `give_up`, of those that answer within so many seconds, whatever signs they give.
        `on_letter` is told each answer as its site signed it.
        """
        with ThreadPoolExecutor(len(requests)) as pool:

            def ask_one(site: str) -> Letter | None:
                return self._ask_one(site, requests[site], wait, give_up, stopped, on_sign)

            found = dict(zip(requests, pool.map(ask_one, requests), strict=True))
        letters = {site: letter for site, letter in found.items() if letter is not None}
        for letter in letters.values():
            on_letter(letter)
        return {site: letter.body for site, letter in letters.items()}

    def _ask_one(
        self,
        site: str,
        body: bytes,
        wait: float,
        give_up: float | None,
        stopped: Callable[[], bool],
        on_sign: OnSign,
    ) -> Letter | None:
        subject = digest(body)
        call, pause, asked = Letter("ask", subject, body), 0.05, time.monotonic()
        last_sign = asked
        while time.monotonic() - last_sign < wait and not stopped():
            if give_up is not None and time.monotonic() - asked >= give_up:
                return None
            began = time.monotonic()
            reply = self._call(site, call)
            on_sign(site, reply is not None, time.monotonic() - asked)
            if reply is None:
                time.sleep(pause)
                pause = min(2 * pause, 2.0)
                continue
            last_sign = time.monotonic()
            if reply.kind == "done" and reply.subject in (subject, ""):
                on_sign(site, True, 0.0)
                return reply
            # An honest site takes about a second to say that it works; one that does not must
            # not keep the coordinator busy.
            rest = pause - (last_sign - began)
            time.sleep(max(rest, 0.0))
            pause = min(2 * pause, 1.0) if rest > 0 else 0.05
            # A site that was restarted does not know the question any more.
            call = (
                Letter("poll", subject) if reply.kind == "working" else Letter("ask", subject, body)
            )
        return None

    def _call(self, site: str, letter: Letter) -> Letter | None:
        asked = time.monotonic()
        envelope = close(letter, sender=self._identity, recipient=site)
        # A greeting waits for no long answer, whatever the site sent before.
        size = len(envelope) if letter.kind == "hello" else self._largest.get(site, 0)
        size = max(size, len(envelope))
        answer = self._send(site, envelope, CALL_SECONDS + SECONDS_PER_MB * size / 1e6)
        if answer is None:
            return None
        try:
            reply = unseal(answer, trust=self._trust, sender=site, recipient=self._name)
        except ProtocolError as error:
            log.warning("site %s: %s", site, error)
            self._troubles[site] = str(error)
            return None  # not from this site: as if nothing had come
        self._troubles.pop(site, None)
        expected = max(self._largest.get(site, 0), len(answer))
        self._largest[site] = min(expected, MOST_EXPECTED)
        if reply.kind == "here":
            self.expires[site] = expiry(reply.signed[0])
        if reply.instance:
            self._presence.note(site, reply.instance, asked)
        return reply


def carry_out(folder: Path, caller: Caller) -> None:
    """Carry one run out, from where its journal says; leave a model or the reason why not."""
    teller = _Teller(folder, caller)
    log.info("run %s: begun, or taken up again", folder.name)
    try:
        _carry_out(folder, caller, teller)
        teller.end("done", "")
    except _StoppedError:
        teller.end("stopped", "stopped by a person: it can be resumed")
    except FedRuleFitError as error:
        faults = caller.warnings(teller.sites, within=-1)
        teller.end("failed", "\n".join([str(error), *faults]), getattr(error, "code", ""))
    except Exception as error:
        log.exception("run %s", folder.name)
        teller.end("failed", f"the coordinator failed with {type(error).__name__}: see its log")


def _carry_out(folder: Path, caller: Caller, teller: _Teller) -> None:
    request = read_request(folder)
    teller.expect(request.sites)
    coordinator = Coordinator(
        Study.load(folder / "study.toml"),
        request.sites,
        run=request.run,
        secure=request.secure,
        dropouts=request.dropouts,
    )

    threadpool_limits(1, "blas")  # for good: more threads could change the order of sums
    journal = Journal(folder / "journal.sqlite")
    signatures = journal.section(SIGNATURES)

    def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
        answers = caller.ask(
            requests,
            wait=request.wait,
            give_up=request.give_up,
            stopped=teller.stopped,
            on_sign=teller.sign,
            on_letter=lambda letter: signatures.put({letter.subject: _evidence(letter)}),
        )
        if teller.stopped():
            raise _StoppedError
        return answers

    try:
        model = drive(
            coordinator,
            exchange,
            journal=journal.section("run"),
            on_status=teller.tell,
            give_up=request.give_up,
        )
    finally:
        journal.close()
    save_model(model, folder / "model.json")
    close_to_others(folder)


def _evidence(letter: Letter) -> bytes:
    """Return what shows later who signed an answer; its body is in the step's own entry."""
    data: bytes = msgpack.packb([digest(letter.body), letter.instance, *letter.signed])
    return data


def read_request(folder: Path) -> RunRequest:
    """Return what was asked for in a run's folder.

    Raises
    ------
    FederationError
        If its file says something else.
    """
    try:
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return _REQUEST.validate_python(facts)
    except (ValueError, RecursionError):
        raise FederationError(f"{folder / 'run.json'} is not what a run was asked for") from None


def serve(state: Path, caller: Caller, sites: tuple[str, ...], stop: threading.Event) -> None:
    """Carry out every run that is not finished, and watch who is there, until stopped."""
    told: set[str] | None = None
    busy: dict[Path, threading.Thread] = {}
    greeted = 0.0
    while True:
        try:
            if told is None:
                told = _open_state(state, caller, sites)
            if stop.wait(0.2):
                break
            _take_up_runs(state, caller, busy)
            if time.monotonic() - greeted > 3.0:
                told = _tell_sites(state, caller, caller.greet(sites), told)
                greeted = time.monotonic()
        except Exception:  # a full disk must not end the service
            log.exception("the coordinator goes on after an error")
            if stop.wait(AFTER_TROUBLE):
                break
    for thread in busy.values():
        thread.join(CALL_SECONDS)


def _open_state(state: Path, caller: Caller, sites: tuple[str, ...]) -> set[str]:
    """Make the state folder ready; return what was told a person."""
    make_private_folder(state)
    make_private_folder(state / "runs")
    ends = read_json(state / "sites.json").get("expires", {})
    try:
        caller.expires |= {site: dt.date.fromisoformat(end) for site, end in ends.items()}
    except (AttributeError, TypeError, ValueError):
        log.warning("sites.json is not as it was written: sites tell anew when certificates end")
    return _tell_sites(state, caller, dict.fromkeys(sites, False), set())


def _tell_sites(state: Path, caller: Caller, sites: Mapping[str, bool], told: set[str]) -> set[str]:
    """Write down who is there and what a person should know; log what was not told yet."""
    warnings = caller.warnings(sites)
    for warning in sorted(set(warnings) - told):
        log.warning("%s", warning)
    facts = {
        "sites": dict(sites),
        "warnings": warnings,
        "expires": {site: end.isoformat() for site, end in caller.expires.items()},
        "updated": now(),
    }
    write_json(state / "sites.json", facts)
    return set(warnings)


def _take_up_runs(state: Path, caller: Caller, busy: dict[Path, threading.Thread]) -> None:
    """Begin every run that is not finished, a few at a time."""
    for folder in [folder for folder, thread in busy.items() if not thread.is_alive()]:
        del busy[folder]
    for folder in run_folders(state):
        waits = read_status(folder).get("state") in ("waiting", "running")
        if waits and folder not in busy and len(busy) < MOST_RUNS:
            thread = threading.Thread(target=carry_out, args=(folder, caller), daemon=True)
            busy[folder] = thread
            thread.start()


class _Teller:
    """Writes how far a run is, at most a few times a second."""

    def __init__(self, folder: Path, caller: Caller) -> None:
        self._folder = folder
        self._caller = caller
        self._online: dict[str, bool] = {}
        self._slow: dict[str, int] = {}
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._written = 0.0
        self._stopped = False

    def expect(self, sites: tuple[str, ...]) -> None:
        self._online = dict.fromkeys(sites, True)

    def stopped(self) -> bool:
        """Whether a person wants to stop; once said, it holds until the run is resumed."""
        self._stopped = self._stopped or (self._folder / "stop").exists()
        return self._stopped

    def tell(self, status: Status) -> None:
        self._status = status
        self._write("running", "")

    def sign(self, site: str, here: bool, waited: float) -> None:
        minutes = int(waited // 60) if waited >= SLOW_SECONDS else 0
        changed = (self._online.get(site), self._slow.get(site, 0)) != (here, minutes)
        self._online[site] = here
        self._slow[site] = minutes
        if changed:
            self._write("running", "")

    @property
    def sites(self) -> tuple[str, ...]:
        """The run's sites."""
        return tuple(self._online)

    def end(self, state: State, message: str, code: str = "") -> None:
        log.info("run %s: %s%s", self._folder.name, state, f" [{code}]" if code else "")
        self._write(state, message, code)

    def _write(self, state: State, message: str, code: str = "") -> None:
        status = self._status
        with self._lock:
            if state == "running" and time.monotonic() - self._written < 0.1:
                return
            self._written = time.monotonic()
            facts: dict[str, Any] = {"state": state, "message": message, "updated": now()}
            if code:
                facts["code"] = code
            if status is not None:
                progress = asdict(status.progress)
                facts |= {"progress": progress, "sent": status.sent, "received": status.received}
                facts |= {"pending": list(status.pending), "taking_part": list(status.sites)}
                facts |= {"waited": round(status.waited), "given_up": list(status.given_up)}
            facts["slow"] = {site: minutes for site, minutes in self._slow.items() if minutes}
            facts["sites"] = dict(self._online)
            facts["warnings"] = self._caller.warnings(self._online)
            write_json(self._folder / "status.json", facts)
