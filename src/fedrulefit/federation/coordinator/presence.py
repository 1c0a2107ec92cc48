"""Whether one process answers for a site, or two with the same kit.

Every process of a site has a name of its own (its *instance*), which it signs whenever it
is greeted, or says how far it is. A site that was restarted answers under a new one, and
never again under the old; if the old one answers a call that was made after the new one
was first heard, both run.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

REMEMBERED: Final = 600.0
"""Seconds for which two processes are spoken of after they were last noticed."""

_MOST: Final = 64
"""Instances of a site that are remembered."""


@dataclass
class _Site:
    current: str = ""
    replaced: dict[str, float] = field(default_factory=dict)
    noticed: float | None = None


class Presence:
    """Which processes have answered for each site."""

    def __init__(self) -> None:
        self._sites: dict[str, _Site] = {}
        self._lock = threading.Lock()

    def note(self, site: str, instance: str, asked: float) -> None:
        """Note an answer to a call that was made at `asked` (monotonic)."""
        with self._lock:
            known = self._sites.setdefault(site, _Site(instance))
            if instance == known.current:
                return
            replaced = known.replaced.get(instance)
            if replaced is not None and asked <= replaced:
                return  # a late answer of the one that is gone
            known.replaced.pop(instance, None)
            known.replaced[known.current] = time.monotonic()
            while len(known.replaced) > _MOST:
                del known.replaced[next(iter(known.replaced))]
            known.current = instance
            if replaced is not None:
                known.noticed = time.monotonic()

    def doubled(self, site: str) -> bool:
        """Whether two processes have answered for a site of late."""
        with self._lock:
            known = self._sites.get(site)
            if known is None or known.noticed is None:
                return False
            return time.monotonic() - known.noticed < REMEMBERED
