"""Running an experiment's repetitions: in parallel, in any order, and on after a stop.

An experiment is a list of units. A unit has a key and makes rows from nothing
but its own fields, so that neither the order of execution nor the number of
jobs changes anything. Each finished unit is one Parquet file in ``parts/``;
a run that was killed goes on with the units that have none. ``run.json`` says what the
folder holds, so that two runs are never mixed.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from threadpoolctl import threadpool_limits

from fedrulefit import __version__
from fedrulefit.errors import DataError, FedRuleFitError, FitError
from fedrulefit.files import fill_whole

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


class Unit(Protocol):
    """A piece of work that can be done by itself; it must pickle."""

    @property
    def key(self) -> str:
        """Its name among the units of the run, fit for a file."""
        ...

    def run(self) -> list[Row]:
        """Do the work."""
        ...


@dataclass(frozen=True)
class Record:
    """What ``run.json`` holds.

    Parameters
    ----------
    experiment : str
    facts : mapping
        All that the results depend on: seed, effort, version.
    machine : str
    jobs : int
        Of the last session.
    seconds : float
        Wall clock over all sessions, up to the last finished unit of each.
    """

    experiment: str
    facts: Mapping[str, Any]
    machine: str
    jobs: int
    seconds: float


class Folder:
    """A folder of results.

    Parameters
    ----------
    path : Path
        Made where it does not exist.
    experiment : str
    facts : mapping of str to int, bool or str
        All that the results depend on, beside the version.

    Raises
    ------
    DataError
        Where the folder holds another run, or cannot be written.
    """

    def __init__(self, path: Path, experiment: str, facts: Mapping[str, Any]) -> None:
        self.path = path
        self.experiment = experiment
        self._facts = {**facts, "version": __version__}
        try:
            (path / "parts").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot write to {path}: {error.strerror}") from None
        found = self.read_record()
        if found is None and any((path / "parts").glob("*.parquet")):
            raise DataError(
                f"{path} holds repetitions, but no run.json that says of what run: delete its "
                "folder 'parts', or give another folder with --output"
            )
        if found is not None and (found.experiment, found.facts) != (experiment, self._facts):
            raise DataError(
                f"{path} holds another run ({found.experiment}: {_words(found.facts)}), this one "
                f"is {experiment}: {_words(self._facts)}; give another folder with --output"
            )

    def part(self, unit: Unit) -> Path:
        """Return where a unit's rows are kept."""
        return self.path / "parts" / f"{unit.key}.parquet"

    def read_record(self) -> Record | None:
        """Return what ``run.json`` says; None before a run."""
        try:
            return Record(**json.loads((self.path / "run.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise DataError(f"{self.path / 'run.json'} is damaged: give another folder") from None

    def write_record(self, *, jobs: int, seconds: float) -> None:
        """Write ``run.json``."""
        facts = vars(Record(self.experiment, self._facts, machine(), jobs, seconds))
        text = json.dumps(facts, indent=2)
        _write(self.path / "run.json", lambda path: path.write_text(text, encoding="utf-8"))

    def describe(self, units: Sequence[Unit], repetitions: int) -> str:
        """Return the command, how long it took, and on what machine."""
        record = self.read_record()
        if record is None:
            raise DataError(f"{self.path} holds no finished repetition")
        command = f"fedrulefit experiment {record.experiment} --repetitions {repetitions}"
        command += f" --jobs {record.jobs} --seed {record.facts['seed']}"
        command += " --quick" * bool(record.facts["quick"])
        command += "".join(
            f" --{option} {record.facts[option]}"
            for option in ("methods", "earlier")
            if option in record.facts
        )
        hours, minutes = divmod(round(record.seconds / 60), 60)
        n_parts = sum(1 for _ in (self.path / "parts").glob("*.parquet"))
        times = n_parts / len(units)
        more = "" if times == 1 else f" for {times:.3g} times as many repetitions"
        return (
            f"`{command}` took {hours} h {minutes} min{more} ({record.machine}; "
            f"fedrulefit {record.facts['version']})."
        )

    def read(self, units: Sequence[Unit]) -> pd.DataFrame:
        """Return the rows of finished units, in the order of `units`."""
        import duckdb

        parts = [str(part) for part in map(self.part, units) if part.exists()]
        if not parts:
            raise DataError(f"{self.path} holds no finished repetition")
        with duckdb.connect() as connection:
            connection.execute("SET preserve_insertion_order = true")
            try:
                rows: pd.DataFrame = connection.read_parquet(parts).df()
            except duckdb.Error as error:
                damaged = next((part for part in parts if not _is_parquet(part)), None)
                if damaged is None:
                    raise DataError(f"cannot read {self.path}: {_first_line(error)}") from None
                raise DataError(
                    f"{damaged} is damaged: delete it, and run the command again"
                ) from None
        return rows


def read_rows(path: Path) -> pd.DataFrame:
    """Return the rows of an earlier run, from its Parquet file.

    Raises
    ------
    DataError
        Where there is no such file, or none that can be read.
    """
    import duckdb

    if not path.is_file():
        raise DataError(f"{path} does not exist: give the results.parquet of an earlier run")
    try:
        rows: pd.DataFrame = duckdb.read_parquet(str(path)).df()
    except duckdb.Error as error:
        raise DataError(f"cannot read {path}: {_first_line(error)}") from None
    return rows


def write_parquet(path: Path, rows: pd.DataFrame) -> None:
    """Write rows as Parquet; the file is there whole or not at all."""
    import duckdb

    def write(target: Path) -> None:
        with duckdb.connect() as connection:
            connection.from_df(rows).write_parquet(str(target))

    _write(path, write)


def run_units(
    units: Sequence[Unit],
    folder: Folder,
    *,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Run the units that are not finished yet; return the rows of all.

    Parameters
    ----------
    units : sequence of Unit
    folder : Folder
    jobs : int
        Processes that work at the same time.
    on_progress : callable, optional
        Told how many units are finished, and how many there are: at the start,
        and after each.

    Raises
    ------
    FitError
        Where a unit fails; those that were finished are kept.
    DataError
        Where rows cannot be written or read.
    """
    import pandas as pd

    left = [unit for unit in units if not folder.part(unit).exists()]
    done = len(units) - len(left)
    record = folder.read_record()
    before = 0.0 if record is None else record.seconds
    if record is None:
        folder.write_record(jobs=jobs, seconds=0.0)  # before any work: can it be kept, and whose?
    started = time.monotonic()
    if on_progress is not None:
        on_progress(done, len(units))
    for unit, rows in _work_through(left, jobs):
        write_parquet(folder.part(unit), pd.DataFrame(rows))
        folder.write_record(jobs=jobs, seconds=before + time.monotonic() - started)
        done += 1
        if on_progress is not None:
            on_progress(done, len(units))
    return folder.read(units)


def machine() -> str:
    """Return the machine in a line."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line for line in file if line.startswith("model name")).split(":")[1]
    except (OSError, StopIteration):
        pass
    return f"{model.strip()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _work_through(units: Sequence[Unit], jobs: int) -> Iterator[tuple[Unit, list[Row]]]:
    """Yield units with their rows as they are finished."""
    if jobs == 1 or len(units) < 2:
        for unit in units:
            yield unit, _name_failure(unit, partial(_work, unit))
        return
    # Fresh processes: a fork would copy the locks of libraries' threads.
    context = multiprocessing.get_context("spawn")
    waiting = iter(units)
    with ProcessPoolExecutor(jobs, context, initializer=_start_worker) as pool:
        running: dict[Future[list[Row]], Unit] = {}
        try:
            while True:
                for unit in islice(waiting, jobs + 1 - len(running)):
                    running[pool.submit(_work, unit)] = unit
                if not running:
                    return
                done = wait(running, return_when=FIRST_COMPLETED).done
                if any(future.exception() is not None for future in done):
                    done = wait(running).done  # what is under way can still be kept
                for future in sorted(done, key=lambda future: future.exception() is not None):
                    unit = running[future]
                    yield unit, _name_failure(unit, future.result)
                    del running[future]
        except BrokenProcessPool:
            one_of = " or ".join(sorted(unit.key for unit in running.values()))
            raise FitError(
                f"the process of {one_of} was ended from outside, perhaps for lack of memory: run "
                "the command again, with fewer --jobs"
            ) from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _work(unit: Unit) -> list[Row]:
    # Jobs share the cores: threads inside them would only wait for one another.
    with threadpool_limits(1):
        rows = unit.run()
    gc.collect()
    return rows


def _start_worker() -> None:
    """End this process with its parent, even where that is killed; collect garbage less."""
    # Rules are many small objects and no cycles: between units is often enough to look for some.
    gc.disable()
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _name_failure(unit: Unit, result: Callable[[], list[Row]]) -> list[Row]:
    """Return a unit's rows; an error says which unit it is of."""
    try:
        return result()
    except FedRuleFitError as error:
        raise FitError(f"{unit.key}: {error}") from error
    except Exception as error:
        error.add_note(f"This happened in {unit.key}.")
        raise


def _write(path: Path, fill: Callable[[Path], object]) -> None:
    import duckdb

    try:
        fill_whole(path, fill)
    except (OSError, duckdb.Error) as error:
        reason = getattr(error, "strerror", None) or _first_line(error)
        raise DataError(f"cannot write {path}: {reason}") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _is_parquet(path: str) -> bool:
    import duckdb

    try:
        duckdb.read_parquet(path).fetchall()
    except duckdb.Error:
        return False
    return True


def _words(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())
