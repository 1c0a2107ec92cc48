"""Trying mutants: copies of the project, the tests that run a line, and a verdict on each."""

from __future__ import annotations

import compileall
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, Final

from tools.mutants import plugin
from tools.mutants.mutations import Mutant

ROOT: Final = Path(__file__).resolve().parents[2]

ROOMS: Final = ("src/fedrulefit/core", "src/fedrulefit/privacy")
"""The code that is mutated."""

TESTS: Final = ("tests/unit/core", "tests/unit/privacy", "tests/properties")
"""The tests that must notice: those of the same rooms."""

_LEFT_OUT: Final = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "fedrulefit-demo")
_MEMORY: Final = 4 << 30
_PATIENCE: Final = 20.0, 4.0
"""Seconds that a trial may take: so many, and so often as long as its tests take."""


class Verdict(Enum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    NOT_RUN = "survived: no test runs it"


@dataclass(frozen=True)
class Test:
    """One test: seconds it takes, and the lines that it runs, by file."""

    name: str
    seconds: float
    lines: Mapping[str, frozenset[int]]

    @property
    def file(self) -> str:
        """The file of the test."""
        return self.name.partition("::")[0]


class Copy:
    """A copy of the project to put faults into; the original is never written to."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self._scratch = folder / "scratch"
        self._scratch.mkdir(parents=True)
        shutil.copytree(ROOT, self.root, ignore=_LEFT_OUT)
        # Known by their content: a fault of the same length in the same second is seen.
        compileall.compile_dir(
            self.root / "src", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )

    def note_tests(self) -> list[Test]:
        """Run all tests on the sound code; return what each runs.

        Raises
        ------
        RuntimeError
            If a test fails without any fault.
        """
        note = self._scratch / "note.json"
        done = self._run(TESTS, {plugin.NOTE: str(note)}, seconds=3600, write=True)
        if done != 0:
            raise RuntimeError(f"the tests fail on the sound code:\n{self._output()}")
        facts: dict[str, Any] = json.loads(note.read_text())
        return [
            Test(name, each["seconds"], {f: frozenset(n) for f, n in each["lines"].items()})
            for name, each in facts.items()
        ]

    def try_mutant(self, mutant: Mutant, tests: Sequence[Test]) -> Verdict:
        """Run the tests that reach a fault, the quickest first, until one fails."""
        if not tests:
            return Verdict.NOT_RUN
        chosen = sorted(tests, key=lambda test: test.seconds)
        pick = self._scratch / "pick.json"
        pick.write_text(json.dumps([test.name for test in chosen]))
        files = sorted({test.file for test in chosen})
        least, share = _PATIENCE
        path = self.root / mutant.file
        source = path.read_text(encoding="utf-8")
        path.write_text(mutant.apply(source), encoding="utf-8")
        try:
            done = self._run(
                files,
                {plugin.PICK: str(pick)},
                seconds=least + share * sum(test.seconds for test in chosen),
            )
        finally:
            path.write_text(source, encoding="utf-8")
        if done is None:
            return Verdict.TIMED_OUT
        return Verdict.SURVIVED if done == 0 else Verdict.KILLED

    def _run(
        self, paths: Sequence[str], extra: Mapping[str, str], *, seconds: float, write: bool = False
    ) -> int | None:
        """Return pytest's exit code; None if it took too long."""
        rooms = "\n".join(str(self.root / room) + os.sep for room in ROOMS)
        environment = {
            **os.environ,
            **extra,
            plugin.ROOMS: rooms,
            "PYTHONPATH": os.pathsep.join((str(self.root / "src"), str(self.root))),
            "PYTHONDONTWRITEBYTECODE": "" if write else "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TMPDIR": str(self._scratch),
        }
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["-p", plugin.__name__, *paths]
        with (self._scratch / "output").open("w") as output:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_limit_memory,  # noqa: PLW1509
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end(process)

    def _output(self) -> str:
        return (self._scratch / "output").read_text()[-4000:]


def _limit_memory() -> None:
    """A fault in a loop must not eat the machine's memory."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a trial's process with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def choose_tests(mutant: Mutant, tests: Sequence[Test]) -> list[Test]:
    """Return the tests that run a mutant's statement.

    What runs at the import of a module, or once for many tests, concerns all tests in the files
    that reach the module: one may read a constant only. Of a module without functions, all.
    """
    reaching = [test for test in tests if test.lines.get(mutant.file)]
    if not mutant.call_time:
        files = {test.file for test in reaching}
        return [test for test in tests if test.file in files or not files]
    lines = frozenset(mutant.lines)
    return [test for test in reaching if test.lines[mutant.file] & lines]
