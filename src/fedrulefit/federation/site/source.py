"""The file that the patients were read from."""

from __future__ import annotations

import hashlib
from pathlib import Path


class SourceFile:
    """The file that a site's patients were read from.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mark, self._hash = self._look(), self._read()

    def changed(self) -> bool:
        """Whether the file differs from what it was; looks inside only if size or time do."""
        try:
            mark = self._look()
            if mark == self._mark:
                return False
            same = self._read() == self._hash
        except OSError:
            return True
        if same:
            self._mark = mark
        return not same

    def _look(self) -> tuple[int, int]:
        found = self.path.stat()
        return found.st_size, found.st_mtime_ns

    def _read(self) -> str:
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
