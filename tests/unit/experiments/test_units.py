"""A run goes on where it stopped, and never mixes with another."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

from fedrulefit.errors import DataError, FitError
from fedrulefit.experiments.units import Folder, run_units, write_parquet


@dataclass(frozen=True)
class Toy:
    """A unit that counts how often it ran, by a file."""

    number: int
    log: str

    @property
    def key(self) -> str:
        return f"toy-{self.number}"

    def run(self) -> list[dict[str, object]]:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{self.number}\n")
        draw = np.random.default_rng(self.number).random()
        return [{"number": self.number, "part": part, "draw": draw} for part in ("a", "b")]


@dataclass(frozen=True)
class Broken(Toy):
    """A unit that fails."""

    def run(self) -> list[dict[str, object]]:
        raise RuntimeError("stopped")


def toys(folder: Path, n: int) -> list[Toy]:
    return [Toy(k, str(folder / "log.txt")) for k in range(n)]


def ran(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "log.txt").read_text().split()]


@pytest.mark.parametrize("jobs", [1, 2])
def test_order_and_jobs_change_nothing(tmp_path: Path, jobs: int) -> None:
    units = toys(tmp_path, 6)
    straight = run_units(units, Folder(tmp_path / "a", "toy", {}))
    mixed = random.Random(jobs).sample(units, len(units))
    folder = Folder(tmp_path / "b", "toy", {})
    run_units(mixed, folder, jobs=jobs)
    pd.testing.assert_frame_equal(straight, folder.read(units))


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    units = toys(tmp_path, 5)
    folder = Folder(tmp_path / "out", "toy", {"seed": 1})
    with pytest.raises(RuntimeError, match="stopped"):
        run_units([*units[:3], Broken(3, units[3].log)], folder)
    (folder.path / "parts" / "toy-4.parquet.1.part").write_text("half a file")
    told: list[tuple[int, int]] = []
    again = Folder(tmp_path / "out", "toy", {"seed": 1})
    rows = run_units(units, again, on_progress=lambda done, total: told.append((done, total)))
    assert ran(tmp_path) == [0, 1, 2, 3, 4]
    assert told == [(3, 5), (4, 5), (5, 5)]
    assert rows["number"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """Killed without warning, with two jobs: finished units stay, workers end."""
    program = (
        "from pathlib import Path\n"
        f"from {Slow.__module__} import Slow\n"
        "from fedrulefit.experiments.units import Folder, run_units\n"
        "if __name__ == '__main__':\n"
        f"    out = Path({str(tmp_path)!r})\n"
        "    units = [Slow(k, str(out / 'log.txt')) for k in range(50)]\n"
        "    run_units(units, Folder(out / 'out', 'toy', {}), jobs=2)\n"
    )
    script = tmp_path / "run.py"
    script.write_text(program, encoding="utf-8")
    root = str(Path(__file__).resolve().parents[3])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": paths}
    )
    parts = tmp_path / "out" / "parts"
    deadline = time.monotonic() + 60
    while len(list(parts.glob("*.parquet"))) < 3 and time.monotonic() < deadline:
        assert process.poll() is None, "the run must not end before it is killed"
        time.sleep(0.05)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, left = psutil.wait_procs(workers, timeout=30)
    assert workers
    assert not left, "workers must end with their parent"
    kept = {path.stem for path in parts.glob("*.parquet")}
    assert 3 <= len(kept) < 50
    before = ran(tmp_path)
    units = toys(tmp_path, 50)
    rows = run_units(units, Folder(tmp_path / "out", "toy", {}))
    assert rows["number"].tolist() == [k for k in range(50) for _ in "ab"]
    assert not {f"toy-{k}" for k in ran(tmp_path)[len(before) :]} & kept


@dataclass(frozen=True)
class Slow(Toy):
    """A unit that takes a moment."""

    def run(self) -> list[dict[str, object]]:
        time.sleep(0.1)
        return super().run()


def test_fewer_repetitions_read_fewer_rows(tmp_path: Path) -> None:
    units = toys(tmp_path, 4)
    folder = Folder(tmp_path / "out", "toy", {})
    run_units(units, folder)
    assert run_units(units[:2], folder)["number"].tolist() == [0, 0, 1, 1]


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    run_units(toys(tmp_path, 1), Folder(tmp_path / "out", "toy", {"seed": 1}))
    with pytest.raises(DataError, match=r"holds another run \(toy: seed 1"):
        Folder(tmp_path / "out", "toy", {"seed": 2})
    with pytest.raises(DataError, match="holds another run"):
        Folder(tmp_path / "out", "other", {"seed": 1})


def test_the_record_adds_up_time_over_sessions(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out", "toy", {})
    run_units(toys(tmp_path, 1), folder)
    first = folder.read_record()
    run_units(toys(tmp_path, 2), folder)
    second = folder.read_record()
    assert first is not None
    assert second is not None
    assert 0 < first.seconds < second.seconds
    assert "cores" in second.machine


@dataclass(frozen=True)
class Refused(Toy):
    """A unit whose method refuses its data."""

    def run(self) -> list[dict[str, object]]:
        raise DataError("no patients")


@dataclass(frozen=True)
class Killed(Toy):
    """A unit whose process dies."""

    def run(self) -> list[dict[str, object]]:
        os._exit(9)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_names_its_unit_and_keeps_the_others(tmp_path: Path, jobs: int) -> None:
    units = [*toys(tmp_path, 2), Refused(7, "")]
    folder = Folder(tmp_path / "out", "toy", {})
    with pytest.raises(FitError, match="toy-7: no patients"):
        run_units(units, folder, jobs=jobs)
    assert folder.read(units[:2])["number"].tolist() == [0, 0, 1, 1]
    with pytest.raises(RuntimeError) as caught:
        run_units([Broken(8, ""), Broken(9, "")], folder, jobs=jobs)
    assert "toy-8" in caught.value.__notes__[0] or "toy-9" in caught.value.__notes__[0]


def test_a_process_that_is_killed_is_told(tmp_path: Path) -> None:
    units = [*toys(tmp_path, 2), Killed(50, ""), *toys(tmp_path, 9)[2:]]
    with pytest.raises(FitError, match="toy-50.*was ended from outside.*fewer --jobs"):
        run_units(units, Folder(tmp_path / "out", "toy", {}), jobs=2)


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    units = toys(tmp_path, 3)
    folder = Folder(tmp_path / "out", "toy", {})
    run_units(units, folder)
    folder.part(units[1]).write_text("half a file")
    with pytest.raises(DataError, match=r"toy-1\.parquet is damaged: delete it"):
        run_units(units, folder)


def test_parts_of_an_unknown_run_are_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out", "toy", {"seed": 1})
    run_units(toys(tmp_path, 1), folder)
    (folder.path / "run.json").unlink()
    with pytest.raises(DataError, match=r"no run\.json"):
        Folder(tmp_path / "out", "toy", {"seed": 2})


def test_rows_that_cannot_be_kept_are_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "out", "toy", {})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(DataError, match=r"run\.json: No space left"):
        run_units(toys(tmp_path, 1), folder)
    assert not (tmp_path / "log.txt").exists()
    with pytest.raises(DataError, match="cannot write"):
        write_parquet(tmp_path / "no folder" / "rows.parquet", pd.DataFrame({"a": [1]}))


def test_the_time_is_told_of_all_the_work(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out", "toy", {"seed": 1, "quick": False})
    units = toys(tmp_path, 4)
    run_units(units, folder)
    assert "took 0 h 0 min (" in folder.describe(units, 4)
    assert "took 0 h 0 min for 2 times as many repetitions (" in folder.describe(units[:2], 2)


def test_faults_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no finished repetition"):
        Folder(tmp_path / "empty", "toy", {}).read(toys(tmp_path, 1))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write to"):
        Folder(tmp_path / "file", "toy", {})
    (tmp_path / "bad" / "parts").mkdir(parents=True)
    (tmp_path / "bad" / "run.json").write_text(json.dumps({"experiment": "toy"}))
    with pytest.raises(DataError, match="is damaged"):
        Folder(tmp_path / "bad", "toy", {})
