"""What a run must not forget when its process dies.

The protocol itself does no I/O: it is handed a :class:`Memory`. An engine between
hospitals gives one on disk; the embedded one forgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Memory(Protocol):
    """A small durable store of bytes."""

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`."""
        ...

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        """Keep all entries, or none of them; None deletes. Durable on return."""
        ...


class Transient:
    """A memory that lives as long as its process."""

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """Return what was put under `key`."""
        return self._entries.get(key)

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        """Keep all entries; None deletes."""
        for key, value in entries.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
