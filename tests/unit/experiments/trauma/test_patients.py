"""The file of the trauma patients: found, downloaded, and the right one."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedrulefit.errors import DataError
from fedrulefit.experiments.trauma.patients import DATA_VARIABLE, URL, load_trauma


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


class Reply:
    """What the network would answer."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        return self._content

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def as_shipped(path: Path) -> bytes:
    """The file as the R package's repository has it: other names, order, line ends."""
    frame = pd.read_csv(path).rename(columns={"site": "hospital"})
    columns = ["sex", "age", "hospital", "ISS", "GCS", "mortality"]
    return frame[columns].to_csv(sep=";", index=False, lineterminator="\r\n").encode()


def test_the_file_is_downloaded_checked_and_kept(
    data_dir: Path, tmp_path: Path, no_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = as_shipped(data_dir / "trauma.csv")
    asked: list[str] = []

    def answer(url: str, timeout: float) -> Any:
        asked.append(url)
        return Reply(content)

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    frame = load_trauma(None, folder=tmp_path / "new")
    assert asked == [URL]
    assert frame.shape == (371, 6)
    again = load_trauma(None, folder=tmp_path / "new")
    pd.testing.assert_frame_equal(frame, again)
    assert len(asked) == 1
    assert (tmp_path / "new" / "trauma.csv").read_bytes() == (data_dir / "trauma.csv").read_bytes()


def test_a_file_a_folder_and_the_variable_are_the_same(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_file = load_trauma(data_dir / "trauma.csv", folder=tmp_path)
    by_folder = load_trauma(data_dir, folder=tmp_path)
    monkeypatch.setenv(DATA_VARIABLE, str(data_dir))
    by_variable = load_trauma(None, folder=tmp_path)
    pd.testing.assert_frame_equal(by_file, by_folder)
    pd.testing.assert_frame_equal(by_file, by_variable)


def test_without_file_and_network_the_error_says_where_to_get_it(
    tmp_path: Path, no_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str, timeout: float) -> Any:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    with pytest.raises(DataError, match=r"no network.*raw\.githubusercontent\.com.*--data"):
        load_trauma(None, folder=tmp_path)
    with pytest.raises(DataError, match="does not exist: get https"):
        load_trauma(tmp_path / "missing.csv", folder=tmp_path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trauma.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="has the columns site, age"):
        load_trauma(tmp_path, folder=tmp_path)
    (tmp_path / "trauma.csv").write_text("site,age,sex,ISS,GCS,mortality\n1,2,0,4,5,0\n")
    with pytest.raises(DataError, match="checksum differs"):
        load_trauma(tmp_path, folder=tmp_path)
    (tmp_path / "trauma.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read as text"):
        load_trauma(tmp_path, folder=tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trauma.csv").write_text("")
    with pytest.raises(DataError, match=r"is not the trauma data.*get https"):
        load_trauma(tmp_path, folder=tmp_path)


def test_a_variable_that_names_no_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"FEDRULEFIT_DATA is .*elsewhere, but"):
        load_trauma(None, folder=tmp_path)
