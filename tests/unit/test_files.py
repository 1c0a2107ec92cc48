"""Files are there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrulefit.files import fill_whole, write_whole


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("disk full"), RuntimeError("of the library")])
def test_what_fails_leaves_the_old_file_and_no_draft(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"old")

    def fill(draft: Path) -> None:
        draft.write_bytes(b"half")
        raise error

    with pytest.raises(type(error)):
        fill_whole(path, fill)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_processes_do_not_share_a_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"

    def fill(draft: Path) -> None:
        draft.write_bytes(b"first")
        monkeypatch.setattr("os.getpid", lambda: 4242)
        write_whole(path, b"second")
        assert draft.read_bytes() == b"first"

    fill_whole(path, fill)
    assert path.read_bytes() == b"first"
