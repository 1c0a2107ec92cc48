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

import json
import logging
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import TypeAdapter

from fedrulefit.errors import FederationError
from fedrulefit.files import (
    make_private_folder,
    touch_private,
    write_json,
    write_whole,
)
from fedrulefit.privacy.ledger import now
from fedrulefit.protocol.site import RUN_NAME
from fedrulefit.study import Study

log = logging.getLogger(__name__)

State = Literal["waiting", "running", "done", "failed", "stopped"]


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
    write_whole(folder / "study.toml", study.read_bytes(), private=True)
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
        write_json(folder / "run.json", asdict(replace(read_run_request(folder), give_up=give_up)))
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


def read_run_request(folder: Path) -> RunRequest:
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
