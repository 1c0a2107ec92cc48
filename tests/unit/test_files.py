"""Files are there whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedrulefit.errors import FedRuleFitError
from fedrulefit.federation.kits.charter import Charter
from fedrulefit.federation.kits.consortium import Consortium
from fedrulefit.files import MAX_TOML, fill_whole, read_toml, write_whole
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"[" * 40 + b"]" * 40, "nested too deeply"),
        (b"a" + b".a" * 400_000 + b" = 1", "nested too deeply"),
        (b"[a" + b" . 'a'" * 100_000 + b"]", "nested too deeply"),
        (b"a" + b'.""' * 40 + b" = 1", "nested too deeply"),
        (b"a" + b".a" * 20 + b" = 1", "nested too deeply"),
        (b"a = " + b"9" * 100_000, "is not valid TOML"),
        (b"a = '\xff'", "is not UTF-8 text"),
        (b"#" * (MAX_TOML + 1), "has over 1000000 bytes"),
        (b"a" * MAX_TOML, "is not valid TOML"),
    ],
    ids=["lists", "40 lists", "key", "table", "quoted", "20 parts", "digits", "bytes", "long", "a"],
)
@pytest.mark.parametrize("load", [Study.load, Policy.load, Charter.load, Consortium.load])
def test_toml_that_would_end_the_program(
    tmp_path: Path, load: Callable[[Path], object], text: bytes, words: str
) -> None:
    """Nested lists ended it with a traceback; a key of many parts kept it busy for hours."""
    path = tmp_path / "x.toml"
    path.write_bytes(text)
    with pytest.raises(FedRuleFitError, match=words):
        load(path)


def test_plain_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"# a. b. c. " + b"w. " * 20 + b"\r\n[a.b.c]\r\nd = [[0.5, 1.5]]\r\n")
    assert read_toml(path) == {"a": {"b": {"c": {"d": [[0.5, 1.5]]}}}}


def test_thousands_of_faults_are_not_all_told(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("".join(f"{'x' * 900}{k} = 1\n" for k in range(500)))
    with pytest.raises(FedRuleFitError, match="and 450 more") as caught:
        Policy.load(path)
    assert len(str(caught.value)) < 40_000
