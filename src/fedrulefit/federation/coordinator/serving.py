"""Carries out the runs of a state folder, and tells in its files how far they are."""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import msgpack
from threadpoolctl import threadpool_limits

from fedrulefit.engines.drive import Status, drive
from fedrulefit.errors import FedRuleFitError
from fedrulefit.federation.coordinator.caller import CALL_SECONDS, Caller
from fedrulefit.federation.coordinator.runs import State, read_run_request, read_status, run_folders
from fedrulefit.federation.envelope import Letter
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.state import read_json
from fedrulefit.files import (
    close_to_others,
    make_private_folder,
    write_json,
)
from fedrulefit.model.file import save_model
from fedrulefit.privacy.ledger import now
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.wire import digest
from fedrulefit.study import Study

log = logging.getLogger(__name__)

SIGNATURES: Final = "signatures"
"""Section of a run's journal: of each question, who signed which answer."""

SLOW_SECONDS: Final = 600.0
"""After so long without an answer to a step, a run's status says which site it waits for."""

AFTER_TROUBLE: Final = 5.0
"""Seconds until the coordinator goes on after an error of its own."""

MOST_RUNS: Final = 4
"""Runs carried out at the same time."""


class _StoppedError(Exception):
    """A person wants the run to stop."""


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
    request = read_run_request(folder)
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
