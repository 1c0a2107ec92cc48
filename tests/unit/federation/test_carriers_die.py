"""Carriers killed at any moment change no byte of the model."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from pathlib import Path

from fedrulefit.federation.carrier.link import Frame, Link
from fedrulefit.federation.coordinator import process as coordinator_process
from fedrulefit.federation.coordinator import runs
from fedrulefit.federation.site import process as site_process
from fedrulefit.model.file import load_model, model_facts
from fedrulefit.study import Study
from tests.federations import write_study
from tests.links import pair, pump
from tests.loopback import Loopback
from tests.samples import SOLVERS, make_frame, study_facts

SITES = ("north", "south", "west")


class Mortal:
    """Carriers of three sites and a coordinator, one of which dies at every third frame.

    Phases: ``unsent`` (a call is lost before the site has it), ``unanswered`` (the site
    has answered, the answer is lost) and ``torn`` (half of the answer arrives).
    """

    PHASES = ("unsent", "unanswered", "torn")

    def __init__(self, calls: coordinator_process.Calls, net: Loopback) -> None:
        self.calls, self.net = calls, net
        self.frames, self.deaths = 0, 0
        self.lock = threading.Lock()
        self.done = threading.Event()

    def live(self) -> None:
        """Be one carrier after another."""
        while not self.done.is_set():
            ours, theirs = socket.socketpair()
            far = Link(theirs)
            pump(far, lambda frame, far=far, raw=theirs: self._carry(frame, far, raw))  # type: ignore[misc]
            self.calls.attend(Link(ours))

    def _carry(self, frame: Frame, far: Link, raw: socket.socket) -> None:
        if frame.kind != "call":
            return None
        with self.lock:
            self.frames += 1
            dies = self.frames % 3 == 0
            phase = self.PHASES[self.deaths % 3] if dies else ""
            self.deaths += dies
        if phase == "unsent":
            return far.close()
        answer = self._ask_site(frame)
        if phase == "torn":
            raw.sendall(struct.pack(">IBQB", len(answer), 1, frame.number, len(frame.name)))
            raw.sendall(frame.name.encode() + answer[: len(answer) // 2])
        if phase:
            return far.close()
        far.send(Frame("answer", frame.number, frame.name, answer))
        return None

    def _ask_site(self, frame: Frame) -> bytes:
        """The site's own carrier: a new link for every call, so that it dies each time, too."""
        ours, theirs = pair()
        host = self.net.hosts[frame.name]
        thread = threading.Thread(target=site_process.answer_calls, args=(theirs, host.receive))
        thread.start()
        ours.send(Frame("call", 1, "coordinator", frame.body))
        answer = ours.receive()
        ours.close()
        thread.join(10)
        assert answer is not None
        return answer.body


def test_carriers_killed_at_any_moment_change_no_byte_of_the_model(tmp_path: Path) -> None:
    """Every third frame kills the coordinator's carrier, in each phase; sites' after each call."""
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), tmp_path / "study.toml")
    study = Study.load(tmp_path / "study.toml")
    frames = {site: make_frame(90, seed=k) for k, site in enumerate(SITES)}
    models = {}
    for kind in ("whole", "killed"):
        folder = tmp_path / kind
        folder.mkdir()
        net = Loopback(folder, frames, study)
        mortal = None
        if kind == "killed":
            calls = coordinator_process.Calls()
            mortal = Mortal(calls, net)
            net.caller._send = calls.send
            threading.Thread(target=mortal.live, daemon=True).start()
        with net.serving():
            request = runs.RunRequest("run", SITES, wait=60.0)
            run = runs.submit(net.state, request, tmp_path / "study.toml")
            end = time.monotonic() + 90
            while runs.read_status(run)["state"] in ("waiting", "running"):
                assert time.monotonic() < end
                time.sleep(0.05)
        assert runs.read_status(run)["state"] == "done", runs.read_status(run)
        models[kind] = json.dumps(model_facts(load_model(run / "model.json")))
        if mortal is not None:
            mortal.done.set()
            assert mortal.deaths > 20
        net.close()
    assert models["killed"] == models["whole"]
