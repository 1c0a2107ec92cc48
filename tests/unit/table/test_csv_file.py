"""CSV files: dialects, and files that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrulefit.errors import DataError
from fedrulefit.table.check import load_table
from fedrulefit.table.findings import UnreadableError
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
        ("age,died\nMüller,1\n".encode("latin-1"), "not-utf-8"),
        ("age,died\n1,2\n".encode("utf-16"), "not-utf-8"),
        ("age,died\n1,2\n".encode("utf-16-le"), "not-utf-8"),
        (b"PK\x03\x04rest", "excel-file"),
        (b"\x1f\x8brest", "compressed-file"),
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
