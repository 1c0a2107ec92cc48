"""A pytest plugin: notes which lines each test runs, or runs the chosen tests in their order.

Told by environment variables, since it lives in pytest's process: ``MUTANTS_NOTE`` names the
file to write, ``MUTANTS_PICK`` one with the chosen tests.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import Phase, settings

NOTE = "MUTANTS_NOTE"
PICK = "MUTANTS_PICK"
ROOMS = "MUTANTS_ROOMS"
"""Folders of the code that is mutated, one a line."""

_ROOMS = tuple(os.environ.get(ROOMS, "").splitlines())
_noted: dict[str, dict[str, Any]] = {}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Take the code from the copy; find a failing example, but do not make it small."""
    import fedrulefit

    if not Path(fedrulefit.__file__).is_relative_to(Path.cwd()):
        raise pytest.UsageError(f"the tests would run {fedrulefit.__file__}, not the copy")
    quick = settings(
        derandomize=True,
        deadline=None,
        database=None,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.register_profile("mutants", quick)
    settings.load_profile("mutants")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests, the quickest first."""
    if PICK not in os.environ:
        return
    chosen = json.loads(Path(os.environ[PICK]).read_text())
    place = {name: k for k, name in enumerate(chosen)}
    kept = [item for item in items if item.nodeid in place]
    if len(kept) != len(chosen):
        raise pytest.UsageError("some chosen tests were not found")
    items[:] = sorted(kept, key=lambda item: place[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the lines that a test runs, and its seconds."""
    if NOTE not in os.environ:
        return (yield)
    lines: dict[str, set[int]] = defaultdict(set)

    def trace_line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            lines[frame.f_code.co_filename].add(frame.f_lineno)
        return trace_line

    def trace_call(frame: FrameType, _: str, __: object) -> Any:
        return trace_line if frame.f_code.co_filename.startswith(_ROOMS) else None

    start = time.perf_counter()
    sys.settrace(trace_call)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        here = Path.cwd()
        _noted[item.nodeid] = {
            "seconds": time.perf_counter() - start,
            "lines": {str(Path(file).relative_to(here)): sorted(n) for file, n in lines.items()},
        }


def pytest_sessionfinish() -> None:
    """Write what was noted."""
    if NOTE in os.environ:
        Path(os.environ[NOTE]).write_text(json.dumps(_noted))
