"""CSV files: dialects, and files that cannot be read."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pytest

from fedrulefit.errors import DataError
from fedrulefit.table.check import load_table
from fedrulefit.table.findings import UnreadableError
from fedrulefit.table.size_limit import LIMIT
from fedrulefit.table.sources import read_columns
from tests.tables import codes, make_study, write_csv


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_csv_dialects(tmp_path: Path, delimiter: str, end: str, bom: str) -> None:
    rows = [["a", "b, c"], ["1", "x"], ["", "y;z|\t"]]
    lines = [delimiter.join(f'"{cell}"' for cell in row) for row in rows]
    columns = read_columns(write_csv(tmp_path / "t[1]*.csv", bom + end.join(lines) + end))
    assert columns.names == ("a", "b, c")
    assert columns.arrays["a"].tolist() == ["1", None]
    assert columns.arrays["b, c"].tolist() == ["x", "y;z|\t"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "empty-file"),
        (b"\n1,2\n", "no-header"),
        (b"age,died\nM\x81ller,1\n", "not-utf-8"),
        ("age,died\n1,2\n".encode("utf-16-le"), "not-utf-8"),
        (b"\x1f\x8brest", "damaged-gzip"),
        (gzip.compress(b"age,died\n1,2\n", mtime=0)[:-9], "damaged-gzip"),
        (gzip.compress(b"age,died\n1,2\n3\n", mtime=0), "ragged-row"),
        (gzip.compress(b"age\0died", mtime=0), "not-utf-8"),
        (bz2.compress(b"age,died\n1,2\n"), "compressed-file"),
        (lzma.compress(b"age,died\n1,2\n"), "compressed-file"),
        (b"PAR1 but not really", "malformed-parquet"),
        (b"age,died\n1,2\n3\n", "ragged-row"),
        (b"age,died\n1,2\n3,4,5\n", "ragged-row"),
        (b'age,died\n1,"x"y"\n2,3\n', "bad-quotes"),
        (b"age,died\r\n1,2\n3,4\r\n", "malformed-csv"),
    ],
)
def test_unreadable_files(tmp_path: Path, content: bytes, code: str) -> None:
    path = write_csv(tmp_path / "t.csv", content)
    with pytest.raises(UnreadableError) as caught:
        read_columns(path)
    assert caught.value.finding.code == code
    assert codes(path) == {code: "error"}


def test_a_ragged_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", 'age,died\n"1\n",0\n2,1\n3\n')
    with pytest.raises(DataError, match=r"line 5 of .* has 1 cells, the header has 2"):
        load_table(path, make_study())


TEXT = "größe;Maß\n1;€ groß\n2;–\n"


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "packed utf-8", "packed cp1252"]
)
def test_encodings_of_one_text(tmp_path: Path, encoding: str) -> None:
    """A file that Excel wrote in Western Europe was refused."""
    data = TEXT.encode(encoding.removeprefix("packed "))
    path = write_csv(
        tmp_path / "t.csv", gzip.compress(data) if encoding.startswith("packed") else data
    )
    columns = read_columns(path)
    assert columns.names == ("größe", "Maß")
    assert columns.arrays["Maß"].tolist() == ["€ groß", "–"]
    guessed = [finding.code for finding in columns.findings]
    assert guessed == ["guessed-encoding"] * encoding.endswith("cp1252")


def test_a_guessed_encoding_is_said(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", "age,died,größe\n1,0,2\n".encode("latin-1"))
    assert codes(path)["guessed-encoding"] == "warning"


def test_a_small_file_that_unpacks_to_a_large_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT, "10")
    path = write_csv(tmp_path / "t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 2_000_000))
    assert path.stat().st_size < 100_000
    assert codes(path) == {"too-large": "error"}
