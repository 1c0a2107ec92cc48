"""Real federations for tests: sites, coordinator and carriers on this machine, with mTLS.

Hermetic: own folders, a free port, and no process left behind.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import psutil

from fedrulefit.federation.coordinator import runs
from fedrulefit.federation.kits.charter import accept, make_charter
from fedrulefit.federation.kits.consortium import Consortium, CoordinatorPart, SitePart
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.kits.provision import provision
from fedrulefit.study import Study

SITES = ("north", "south", "west")

COORDINATOR = """
import json, sys
from pathlib import Path
from fedrulefit.federation.coordinator.process import start_coordinator
from fedrulefit.federation.kits.kit import Kit
facts = json.loads(sys.argv[1])
socket = facts["socket"] and Path(facts["socket"])
start_coordinator(Kit.load(facts["kit"], "coordinator"), Path(facts["state"]), socket)
"""

SITE = """
import json, sys
from pathlib import Path
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.site.process import start_site
from fedrulefit.federation.site.startup import SiteStart
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study
facts = json.loads(sys.argv[1])
start = SiteStart(
    kit=Kit.load(facts["kit"], "site"),
    studies={Path(path): Study.load(path) for path in facts["studies"]},
    data=Path(facts["data"]),
    state=Path(facts["state"]),
    policy=Policy.load(facts["policy"]),
    unsafe_noise_seed=facts["seed"],
)
start_site(start, facts["socket"] and Path(facts["socket"]))
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def make_consortium(sites: tuple[str, ...] = SITES) -> Consortium:
    return Consortium(
        name="test-consortium",
        coordinator=CoordinatorPart(host="localhost", port=free_port()),
        sites=tuple(SitePart(name=site) for site in sites),
    )


def write_study(facts: Mapping[str, Any], path: Path) -> Study:
    """Write a study file as TOML; return the study as the file gives it."""
    path.write_text("\n".join(_toml(dict(facts))) + "\n", encoding="utf-8")
    return Study.load(path)


def _toml(facts: dict[str, Any], prefix: str = "") -> Iterator[str]:
    plain = {k: v for k, v in facts.items() if not isinstance(v, dict) and v is not None}
    if prefix:
        yield f"[{prefix}]"
    for key, value in plain.items():
        yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _toml(value, f"{prefix}.{key}" if prefix else key)


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write patients as Parquet, which keeps every digit."""
    duckdb.from_df(frame).write_parquet(str(path))  # type: ignore[attr-defined]


class Federation:
    """A coordinator and sites as processes, started by their own commands."""

    def __init__(
        self,
        folder: Path,
        studies: list[Path],
        policy: str,
        seed: int | None,
        sites: tuple[str, ...] = SITES,
    ) -> None:
        self.folder = folder
        self.sites = sites
        self.consortium = make_consortium(sites)
        self.kits = provision(self.consortium, folder / "kits")
        self.charter = make_charter(
            Kit.load(self.kits["coordinator"], "coordinator"),
            {site: Kit.load(self.kits[site], "site") for site in sites},
        )
        self.state = folder / "coordinator"
        (folder / "policy.toml").write_text(policy, encoding="utf-8")
        for site in sites:
            (folder / site).mkdir(mode=0o700)
            accept(folder / site, self.charter, site=site, dataset="patients", by="a test")
        self._studies, self._seed = studies, seed
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def facts(self, name: str, socket: Path | None) -> dict[str, Any]:
        """What the process of a site or the coordinator is started with."""
        facts = {"kit": str(self.kits[name]), "socket": socket and str(socket)}
        if name == "coordinator":
            return {**facts, "state": str(self.state)}
        return {
            **facts,
            "studies": [str(path) for path in self._studies],
            "data": str(self.folder / f"{name}.parquet"),
            "policy": str(self.folder / "policy.toml"),
            "state": str(self.folder / name),
            "seed": self._seed,
        }

    def start(self, name: str, *, split: bool = False) -> None:
        """Start one process with its carrier, as its command does; or `split`, as two commands."""
        state = self.state if name == "coordinator" else self.folder / name
        state.mkdir(exist_ok=True)
        socket = self.folder / f"{name}.sock"
        facts = json.dumps(self.facts(name, socket if split else None))
        self._run(name, COORDINATOR if name == "coordinator" else SITE, facts)
        if split and f"{name}-carrier" not in self.processes:
            command = ["carrier", "start", "--kit", f"{self.kits[name]}/carrier"]
            command += ["--socket", str(socket)]
            self._run(f"{name}-carrier", f"from fedrulefit.cli.app import app; app({command!r})")

    def _run(self, name: str, code: str, *arguments: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def kill(self, name: str) -> None:
        """Kill one process at once, as a power cut does."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(10)

    def carrier(self, name: str) -> psutil.Process:
        """Return the carrier of one process."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for child in psutil.Process(self.processes[name].pid).children():
                if "fedrulefit.federation.carrier" in child.cmdline():
                    return child
            time.sleep(0.05)
        raise AssertionError(f"{name} has no carrier")

    def wait_for(self, done: Callable[[], bool], what: str, seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not done():
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead or time.monotonic() > end:
                logs = {p.name: p.read_text()[-2000:] for p in self.folder.glob("*.log")}
                raise AssertionError(f"{what}: not in {seconds} s; dead: {dead}; logs: {logs}")
            time.sleep(0.1)

    def wait_for_sites(self, seconds: float = 90) -> None:
        def online() -> bool:
            path = self.state / "sites.json"
            return path.exists() and all(json.loads(path.read_text())["sites"].values())

        self.wait_for(online, "all sites online", seconds)

    def wait_for_run(self, run: str, seconds: float = 90) -> dict[str, Any]:
        folder = runs.run_folder(self.state, run)

        def ended() -> bool:
            return runs.read_status(folder)["state"] not in ("waiting", "running")

        self.wait_for(ended, f"the end of run {run}", seconds)
        return runs.read_status(folder)

    def fit(
        self, run: str, study: Path, *, seconds: float = 90, **options: Any
    ) -> tuple[dict[str, Any], Path]:
        """Carry a run out; return its last status and its folder."""
        request = runs.RunRequest(run, self.sites, **{"wait": 30.0, **options})
        folder = runs.submit(self.state, request, study)
        return self.wait_for_run(run, seconds), folder

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


@contextmanager
def federation(
    folder: Path,
    frames: Mapping[str, pd.DataFrame],
    studies: list[Path],
    *,
    policy: str,
    seed: int | None = 3,
) -> Iterator[Federation]:
    """Start a coordinator and a site per frame; stop them all in the end."""
    made = Federation(folder, studies, policy, seed, tuple(frames))
    for site, frame in frames.items():
        write_frame(frame, folder / f"{site}.parquet")
    try:
        for name in ("coordinator", *frames):
            made.start(name)
        made.wait_for_sites(60 + 10 * len(frames))
        yield made
    finally:
        made.stop()
