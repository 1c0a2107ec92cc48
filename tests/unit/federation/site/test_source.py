"""The file that the patients were read from."""

from __future__ import annotations

import os
from pathlib import Path

from fedrulefit.federation.site.source import SourceFile


def test_a_changed_file_is_noticed_by_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "north.csv"
    path.write_text("one")
    source = SourceFile(path)
    assert not source.changed()
    os.utime(path, (1, 1))  # touched, but the same
    assert not source.changed()
    path.write_text("two")
    os.utime(path, (2, 2))
    assert source.changed()
    assert source.changed()
    path.write_text("one")
    assert not source.changed()
    path.unlink()
    assert source.changed()
