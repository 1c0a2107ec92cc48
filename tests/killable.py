"""Sites and a coordinator as processes that kill themselves at chosen moments.

``python -m tests.killable FOLDER`` forks one process per site and one for the
coordinator, which talk over sockets in FOLDER. Each dies by SIGKILL at every
(message, phase) that ``plan.json`` names for it, once, and is started again, until
the coordinator has written the model. Every death is a line of ``deaths.log``.

Phases of a site: ``unkept`` (computed, not yet kept), ``kept`` (not yet in the
ledger) and ``unsent`` (recorded, not yet sent). Of the coordinator: ``asking``
(some sites have answered), ``unkept`` and ``kept`` (of the journal).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fedrulefit.engines.drive import drive
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.site.kept import KeptLedger, RunMemory
from fedrulefit.model.file import save_model
from fedrulefit.privacy.identity import Identity, Trust, make_consortium
from fedrulefit.privacy.ledger import Ledger, Release
from fedrulefit.privacy.masks import Masks, make_secret, public_key
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import from_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

PATIENCE = 40.0
"""Seconds after which a process gives up."""

Plan = Mapping[str, list[tuple[str, str]]]
"""For each process, the (message, phase) at which it dies."""


def write_folder(
    folder: Path,
    study: Study,
    tables: Mapping[str, Table],
    plan: Plan,
    *,
    seed: int | None,
    dropouts: str = "wait",
) -> None:
    """Lay out all that the processes need; without a seed, noise is OpenDP's."""
    identities, trust = make_consortium(list(tables))
    facts = {"study": study.model_dump(mode="json"), "seed": seed, "dropouts": dropouts}
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (folder / "root.der").write_bytes(trust.root)
    (folder / "fired").mkdir()
    for name, table in tables.items():
        home = folder / name
        home.mkdir()
        arrays = {"values": table.values, "outcome": table.outcome, "weights": table.weights}
        np.savez(home / "table.npz", **arrays, events=table.events)
        (home / "site.der").write_bytes(identities[name].certificate)
        (home / "key.der").write_bytes(identities[name].private_key)


def site_names() -> list[str]:
    return sorted(path.parent.name for path in Path().glob("*/table.npz"))


class Fate:
    """Knows when this process is to die."""

    def __init__(self, who: str) -> None:
        self.who, self.now = who, ""
        plan = json.loads(Path("plan.json").read_text(encoding="utf-8"))
        self.plan = {tuple(entry) for entry in plan.get(who, [])}

    def meet(self, phase: str) -> None:
        """Die, if this is the moment and it has not come before."""
        if (self.now, phase) not in self.plan:
            return
        mark = Path("fired") / f"{self.who}-{self.now}-{phase}"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class FatefulMemory:
    """A memory whose process may die around the moment of keeping."""

    def __init__(self, memory: Memory, fate: Fate, prefix: str) -> None:
        self.memory, self.fate, self.prefix = memory, fate, prefix

    def get(self, key: str) -> bytes | None:
        return self.memory.get(key)

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        fateful = any(key.startswith(self.prefix) and entries[key] for key in entries)
        if fateful:
            self.fate.meet("unkept")
        self.memory.put(entries)
        if fateful:
            self.fate.meet("kept")


def load_table(name: str) -> Table:
    arrays = np.load(Path(name) / "table.npz")
    return Table(arrays["values"], arrays["outcome"], arrays["weights"], None, arrays.get("events"))


def read_run() -> tuple[Study, dict[str, Any]]:
    facts = json.loads(Path("run.json").read_text(encoding="utf-8"))
    return Study.model_validate(facts.pop("study")), facts


def policy_of(facts: Mapping[str, Any]) -> Policy:
    """Everything may leave, sums only under masks."""
    careful = {"secure_sums": True, "min_count": 3, "min_sites": 3, "dropouts": facts["dropouts"]}
    return Policy.model_validate({**OPEN.model_dump(), **careful})


def make_site(name: str, fate: Fate | None = None) -> Site:
    """The site as its folder has it: what a restarted process does."""
    study, facts = read_run()
    home = Path(name)
    journal = Journal(home / "journal.db")
    ledger = KeptLedger(home / "ledger.jsonl", journal)
    memory: Memory = RunMemory(journal, "run", ledger)
    if fate is not None:
        memory = FatefulMemory(memory, fate, "reply/")
    return Site(
        name,
        load_table(name),
        study,
        policy=policy_of(facts),
        ledger=ledger,
        noise=None if facts["seed"] is None else UnsafeSeededLaplace(facts["seed"], name),
        identity=Identity((home / "site.der").read_bytes(), (home / "key.der").read_bytes()),
        trust=Trust(Path("root.der").read_bytes()),
        memory=memory,
        shared=journal.section("shared"),
    )


def serve(name: str) -> NoReturn:
    """Be a site, one connection after another."""
    fate = Fate(name)
    site = make_site(name, fate)
    address = Path(f"{name}.sock")
    address.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{name}.new")
        server.listen()
        os.rename(f"{name}.new", address)
        server.settimeout(PATIENCE)
        while True:
            connection, _ = server.accept()
            with connection:
                while (data := receive(connection)) is not None:
                    fate.now = type(from_bytes(data)).__name__
                    answer = site.answer(data)
                    fate.meet("unsent")
                    send(connection, answer)


def lead() -> None:
    """Be the coordinator, until the model is written."""
    study, facts = read_run()
    fate = Fate("coordinator")
    names = site_names()
    coordinator = Coordinator(study, names, secure=True, dropouts=facts["dropouts"])
    journal = FatefulMemory(Journal(Path("coordinator.db")).section("run"), fate, "step/")

    def exchange(requests: Mapping[str, bytes]) -> dict[str, bytes]:
        fate.now = type(from_bytes(next(iter(requests.values())))).__name__
        answers: dict[str, bytes] = {}
        for name, data in requests.items():
            answers[name] = ask(name, data)
            if len(answers) == 2:
                fate.meet("asking")
        return answers

    save_model(drive(coordinator, exchange, journal=journal), Path("model.json"))


def ask(name: str, data: bytes) -> bytes:
    """Ask until the site answers: it may be dead for a moment."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(PATIENCE)
                connection.connect(f"{name}.sock")
                send(connection, data)
                answer = receive(connection)
        except OSError:
            answer = None
        if answer is not None:
            return answer
        time.sleep(0.01)
    raise TimeoutError(name)


def send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(struct.pack(">I", len(data)) + data)


def receive(connection: socket.socket) -> bytes | None:
    """Return one message, or None where the other end is gone."""
    head = _read(connection, 4)
    return None if head is None else _read(connection, struct.unpack(">I", head)[0])


def _read(connection: socket.socket, length: int) -> bytes | None:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            return None
        data += part
    return data


def start(role: str) -> int:
    """Fork a process of a role; imports are done, so that this takes milliseconds."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if role == "coordinator":
            lead()
        else:
            serve(role)
    except BaseException as error:
        print(role, type(error).__name__, error, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def warm_up() -> None:
    """Use all that imports on first use."""
    identities, trust = make_consortium(["a", "b"])
    trust.verify("a", identities["a"].certificate, b"", identities["a"].sign(b""))
    keys = {name: make_secret() for name in identities}
    masks = Masks("a", keys["a"], {name: public_key(key) for name, key in keys.items()}, b"")
    masks.mask(np.zeros(1, np.int64), step=0, question=b"", self_mask=True)


def supervise(folder: Path) -> int:
    """Start all, and again whoever was killed, until the coordinator is done."""
    import lightgbm  # noqa: F401 - before the forks, not in each of them
    import opendp.prelude  # noqa: F401

    warm_up()
    os.chdir(folder)
    running = {start(role): role for role in [*site_names(), "coordinator"]}
    status = 1
    try:
        while True:
            pid, ended = os.wait()
            role = running.pop(pid)
            if os.WIFSIGNALED(ended) and os.WTERMSIG(ended) == signal.SIGKILL:
                with Path("deaths.log").open("a", encoding="utf-8") as file:
                    file.write(f"{role}\n")
                running[start(role)] = role
            else:
                status = os.waitstatus_to_exitcode(ended)
                return status if role == "coordinator" else 2
    finally:
        for pid in running:
            os.kill(pid, signal.SIGTERM)
        for pid in running:
            os.waitpid(pid, 0)


class NoLedger(Ledger):
    """A ledger that cannot be written, as on a full disk."""

    def append(self, *releases: Release) -> None:
        raise OSError(28, "No space left on device")


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1])))
