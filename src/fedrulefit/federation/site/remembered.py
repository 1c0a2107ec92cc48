"""What a hospital remembers of its runs, in its journal."""

from __future__ import annotations

from typing import Any, Final

import msgpack

from fedrulefit.federation.journal import Journal, Section

_RUN: Final = "run"
"""Begins the names of the journal's sections that are of a run."""


def run_section(study: str, run: str) -> str:
    """Return the name of what a hospital's journal keeps of a run."""
    return "\0".join((_RUN, study, run))


def run_memory(journal: Journal, study: str, run: str) -> Section:
    """Return what a hospital remembers of a run."""
    return journal.section(run_section(study, run))


def read_runs(journal: Journal) -> list[dict[str, Any]]:
    """Return the runs that a journal knows: study (hash), name, when last asked, answers, state."""
    found = []
    for section in journal.names(_RUN + "\0"):
        _, study, run = section.split("\0")
        memory = journal.section(section)
        place, erased = memory.get("place"), memory.get("erased")
        if place is None:
            continue
        found.append(
            {
                "study": study,
                "run": run,
                "seen": (memory.get("seen") or b"").decode(),
                "steps": msgpack.unpackb(place)[0] + 1,
                "sums": msgpack.unpackb(place)[2],
                "erased": None if erased is None else erased.decode(),
            }
        )
    return found
