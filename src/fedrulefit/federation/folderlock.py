"""One process per folder: held while the process lives, and free again when it was killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from fedrulefit.errors import FederationError
from fedrulefit.files import open_private


def lock_folder(folder: Path) -> IO[str]:
    """Hold a folder for this process; the file must stay open.

    The lock is the system's own, on the open file: it ends with the process, however that
    ends, and a program that the process starts has no part in it.

    Raises
    ------
    FederationError
        If another process holds it, or a link lies in the place of its ``lock``.
    """
    # We open the file ourselves: it is private, follows no link, and keeps the holder's number.
    file = os.fdopen(open_private(folder / "lock"), "r+")
    if not lock_descriptor(file.fileno(), blocking=False):
        file.close()
        raise FederationError(f"another process uses {folder}: stop it first")
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def is_held(folder: Path) -> bool:
    """Whether the process that last held a folder is alive."""
    if os.name != "posix":  # elsewhere no such process runs, and signal 0 would end another
        return False
    try:
        os.kill(int((folder / "lock").read_text()), 0)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True
