"""The site's own record of everything that left it.

One :class:`Release` per quantity that leaves, appended in the order of leaving.
The ledger belongs to the site; the coordinator never sees it. Kept in memory,
and as JSON lines where the site gives a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

EXACT = "exact"
"""Mechanism of a quantity that left without noise: its ε is infinite."""


@dataclass(frozen=True)
class Release:
    """One quantity of one message that left the site.

    Parameters
    ----------
    message, quantity : str
        The message's type and its field.
    shape : tuple of int
        Numbers sent; () for a single one.
    mechanism : str
        Name of the noise mechanism, or ``"exact"``.
    epsilon : float or None
        ε of this release; None stands for "no bound" (exact).
    digest : str
        SHA-256 of the message's bytes.
    round : int or None
        Round of the fit, where there are rounds (the exact solver's are counted
        from the start of the run).
    time : str
        When, as the site's clock says; empty without a clock.
    """

    message: str
    quantity: str
    shape: tuple[int, ...]
    mechanism: str
    epsilon: float | None
    digest: str
    round: int | None = None
    time: str = ""


@dataclass
class Ledger:
    """Append-only list of releases.

    Parameters
    ----------
    path : Path or None
        JSON-lines file that every release is appended to.
    clock : callable or None
        Gives the time as text; the protocol itself has no clock.
    """

    path: Path | None = None
    clock: Callable[[], str] | None = None
    releases: list[Release] = field(default_factory=list)

    def append(self, release: Release) -> None:
        """Record a release before it leaves."""
        if self.clock is not None:
            release = Release(**{**asdict(release), "time": self.clock()})
        self.releases.append(release)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(release), ensure_ascii=False) + "\n")

    @property
    def epsilon(self) -> float:
        """ε of all noisy releases so far (they add up)."""
        return sum(r.epsilon for r in self.releases if r.epsilon is not None)

    @property
    def n_exact(self) -> int:
        """Releases without noise."""
        return sum(r.epsilon is None for r in self.releases)
