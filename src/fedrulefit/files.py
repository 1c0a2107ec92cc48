"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write beside `path`, then rename; on an error nothing is left behind."""
    fill_whole(path, lambda draft: draft.write_bytes(data))


def fill_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let `fill` write a file beside `path`, then rename; on an error nothing is left behind."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")  # two processes may write at once
    try:
        fill(draft)
        draft.replace(path)
    except Exception:
        with suppress(OSError):
            draft.unlink()
        raise
