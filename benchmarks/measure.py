"""Run a piece of work in a fresh process; tell its CPU time and peak memory."""

from __future__ import annotations

import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any


@dataclass(frozen=True)
class Measured:
    """What one piece of work took.

    ``cpu`` and ``wall`` are seconds of the work itself, without imports and
    data; ``peak`` is the process's largest resident memory in MB, all told.
    """

    cpu: float
    wall: float
    peak: float
    facts: dict[str, Any]


def measure(
    prepare: Callable[..., Callable[[], dict[str, Any]]], *args: Any, limit: float = 3600
) -> Measured | None:
    """Measure ``prepare(*args)()`` in a process of its own.

    `prepare` imports and makes the data; what it returns does the work and
    returns facts about the result. None if it takes more than `limit` seconds.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_child, args=(there, prepare, args))
    process.start()
    there.close()
    if not here.poll(limit):
        process.kill()
        process.join()
        return None
    try:
        measured: Measured = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the measured process ended with code {process.exitcode}") from None
    process.join()
    return measured


def _child(pipe: Connection, prepare: Callable[..., Any], args: tuple[Any, ...]) -> None:
    warnings.simplefilter("ignore")  # peers warn of their own dependencies
    work = prepare(*args)
    cpu, wall = time.process_time(), time.perf_counter()
    facts = work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send(Measured(cpu, wall, peak, facts))
