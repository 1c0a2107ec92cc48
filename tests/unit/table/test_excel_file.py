"""Excel workbooks: which sheet, what its cells are, and files that only look like one."""

from __future__ import annotations

import random
import sys
import zipfile
from contextlib import suppress
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from fedrulefit.table.check import load_table
from fedrulefit.table.findings import UnreadableError
from fedrulefit.table.size_limit import LIMIT
from fedrulefit.table.sources import read_columns, read_texts
from tests.tables import codes, make_columns, make_study, write_csv
from tests.workbooks import write_workbook

ROWS = [
    ["age", "id", "born", "sex", "well"],
    [30, 7, date(1990, 5, 1), "f", True],
    [None, 123456789012345, None, None, False],
    [31.5, None, date(1980, 5, 1), "m ", None],
    ["#N/A", 8, None, "", None],
    [None, None, None, None, None],
]


def refuse(path: Path) -> str:
    with pytest.raises(UnreadableError) as caught:
        read_columns(path)
    assert codes(path) == {caught.value.finding.code: "error"}
    return caught.value.finding.code


def test_cells(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"Patients": ROWS, "Empty": []})
    columns = read_columns(path)
    assert columns.names == ("age", "id", "born", "sex", "well")
    assert columns.n_rows == 4, "an empty row is no patient"
    np.testing.assert_array_equal(columns.arrays["age"], [30, np.nan, 31.5, np.nan])
    assert columns.arrays["born"].tolist() == ["1990-05-01", None, "1980-05-01", None]
    assert columns.arrays["sex"].tolist() == ["f", None, "m ", None]
    np.testing.assert_array_equal(columns.arrays["well"], [1, 0, np.nan, np.nan])
    assert read_texts(path, "id") == ["7", "123456789012345", None, "8"]


def test_a_workbook_and_its_csv_are_the_same_table(tmp_path: Path) -> None:
    columns = make_columns()
    rows = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    path = write_workbook(tmp_path / "t.xlsx", {"Sheet1": rows})
    found, expected = load_table(path, make_study()), load_table(columns, make_study())
    assert found.digest == expected.digest


def test_one_of_several_sheets_is_named(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"A": ROWS, "B": [["x"], [1]]})
    with pytest.raises(UnreadableError, match=r"'A', 'B'; name .*'t.xlsx#A'"):
        read_columns(path)
    assert read_columns(Path(f"{path}#B")).names == ("x",)
    with pytest.raises(UnreadableError, match="no sheet 'b'"):
        read_columns(Path(f"{path}#b"))


def test_a_hash_in_a_files_name_is_no_sheet(tmp_path: Path) -> None:
    assert read_columns(write_csv(tmp_path / "t#1.csv", "a\n1\n")).names == ("a",)
    assert refuse(Path(f"{write_csv(tmp_path / 't.csv', 'a')}#1")) == "no-sheets"
    assert refuse(tmp_path / "none.xlsx#1") == "file-not-found"


def test_files_that_are_no_workbook(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as packed:
        packed.writestr("t.csv", "a\n1\n")
    assert refuse(tmp_path / "t.xlsx") == "not-a-workbook"
    with zipfile.ZipFile(tmp_path / "d.xlsx", "w") as packed:
        packed.writestr("xl/workbook.xml", "<workbook")
    assert refuse(tmp_path / "d.xlsx") == "damaged-workbook"
    assert refuse(write_csv(tmp_path / "c.xlsx", b"PK\x03\x04rest")) == "damaged-workbook"
    assert refuse(write_csv(tmp_path / "c.xls", b"\xd0\xcf\x11\xe0rest")) == "damaged-workbook"
    assert refuse(write_workbook(tmp_path / "e.xlsx", {"A": []})) == "empty-workbook"


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_workbook_is_read_or_refused_in_words(tmp_path: Path, seed: int) -> None:
    """A wrong checksum was a traceback of Python's zipfile."""
    rng = random.Random(seed)
    good = write_workbook(tmp_path / "t.xlsx", {"A": ROWS * 5}).read_bytes()
    for _ in range(60):
        bad = bytearray(good[: rng.choice([len(good), rng.randrange(4, len(good))])])
        for _ in range(rng.randint(1, 5)):
            bad[rng.randrange(4, len(bad))] = rng.randrange(256)
        path = write_csv(tmp_path / "bad.xlsx", bytes(bad))
        with suppress(UnreadableError):
            read_columns(path)


def test_dates_that_no_calendar_has(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"A": [["born"], [date(2020, 1, 1)], ["x"]]})
    with zipfile.ZipFile(path) as parts:
        texts = {name: parts.read(name) for name in parts.namelist()}
    sheet = "xl/worksheets/sheet0.xml"
    texts[sheet] = texts[sheet].replace(b"<v>43831</v>", b"<v>1e12</v>")
    with zipfile.ZipFile(path, "w") as parts:
        for name, text in texts.items():
            parts.writestr(name, text)
    assert read_columns(path).n_rows == 2


def test_a_cell_far_out_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader makes room for all cells between; one in the last corner took 400 GB."""
    monkeypatch.setenv(LIMIT, "100")
    path = write_workbook(tmp_path / "t.xlsx", {"A": ROWS})
    with zipfile.ZipFile(path) as parts:
        texts = {name: parts.read(name) for name in parts.namelist()}
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    sheet = "xl/worksheets/sheet0.xml"
    texts[sheet] = texts[sheet].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w") as parts:
        for name, text in texts.items():
            parts.writestr(name, text)
    assert refuse(path) == "too-large"


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_workbook(tmp_path / "t.xlsx", {"A": ROWS})
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(UnreadableError, match="install python-calamine .*extra 'excel'"):
        read_columns(path)
