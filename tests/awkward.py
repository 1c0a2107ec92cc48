"""Awkward columns: what each holds, as Python and as a file, and what must become of it.

One list for all who read a column: the estimators (``tests/unit/table/test_awkward_columns.py``)
read :attr:`Awkward.series`, whose type may say something; a file has only
:attr:`Awkward.cells`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pytest

N: Final = 120
"""Rows of most columns."""


@dataclass(frozen=True)
class AsFile:
    """What becomes of the cells as a column of CSV.

    Parameters
    ----------
    drafted : str or None
        The kind of covariate in ``study draft``; None where the column is left out.
    draft_says : str
        A part of what the draft says of the column.
    finds : frozenset of str
        Codes that ``check`` finds with the drafted study, or the study of the case.
    """

    drafted: str | None
    draft_says: str = ""
    finds: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Awkward:
    """One column.

    Parameters
    ----------
    name : str
        What is awkward.
    cells : tuple of str
        As a CSV file has them; empty where missing.
    make : callable
        Makes the column of Python from the cells.
    kind : str or None
        Of the covariate that an estimator reads; None where it is refused.
    levels : tuple
        Of the covariate, where it has some: all of them, in order.
    says : str
        A part of the warning, or of the refusal; empty where nothing must be said.
    options : mapping
        ``categorical=``, ``ordered=`` and ``missing=`` of the estimator.
    column : str
        The name of the column.
    range : tuple of float, optional
        Of a number.
    """

    name: str
    cells: tuple[str, ...]
    make: Callable[[Sequence[str]], Any]
    kind: str | None
    levels: tuple[Any, ...] = ()
    says: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    column: str = "x"
    range: tuple[float, float] | None = None

    @property
    def series(self) -> Any:
        """The column in Python."""
        return self.make(self.cells)


# --- what a column of Python is made of -------------------------------------------------------


def text(cells: Sequence[str]) -> Any:
    return pd.Series([cell or None for cell in cells], dtype=object)


def strings(cells: Sequence[str]) -> Any:
    return pd.Series([cell or None for cell in cells], dtype="string")


def floats(cells: Sequence[str]) -> Any:
    return pd.Series([float(cell) if cell else np.nan for cell in cells])


def ints(cells: Sequence[str]) -> Any:
    return pd.Series([int(cell) for cell in cells])


def nullable(dtype: str) -> Callable[[Sequence[str]], Any]:
    return lambda cells: floats(cells).astype(dtype)


def objects(*convert: Callable[[str], Any]) -> Callable[[Sequence[str]], Any]:
    """Make objects by the first converter that takes the cell."""

    def one(cell: str) -> Any:
        for function in convert:
            try:
                return function(cell)
            except (ValueError, ArithmeticError):
                continue
        return cell

    return lambda cells: pd.Series([one(cell) if cell else None for cell in cells], dtype=object)


def levels(*categories: Any, ordered: bool = False) -> Callable[[Sequence[str]], Any]:
    def make(cells: Sequence[str]) -> Any:
        by_text = {str(category): category for category in categories}
        values = [by_text.get(cell) for cell in cells]
        return pd.Series(pd.Categorical(values, categories=categories, ordered=ordered))

    return make


def arrow(cells: Sequence[str], *, ordered: bool = False, listed: Sequence[str] = ()) -> Any:
    pa = pytest.importorskip("pyarrow")
    if not listed:
        return pa.array([cell or None for cell in cells])
    places = pa.array([listed.index(cell) if cell else None for cell in cells], pa.int8())
    return pa.DictionaryArray.from_arrays(places, list(listed), ordered=ordered)


def enum(*categories: str) -> Callable[[Sequence[str]], Any]:
    return lambda cells: pl.Series([c or None for c in cells], dtype=pl.Enum(categories))


def days(cells: Sequence[str]) -> Any:
    return pd.to_datetime(text(cells))


# --- cells ------------------------------------------------------------------------------------


def cycle(*cells: object, n: int = N) -> tuple[str, ...]:
    return tuple(str(cells[i % len(cells)]) for i in range(n))


def put(cells: Sequence[str], value: str, *rows: int) -> tuple[str, ...]:
    """Return the cells with another in some rows."""
    return tuple(value if i in rows else cell for i, cell in enumerate(cells))


AGES: Final = cycle(*(20 + 7 * i % 71 for i in range(71)))
WEIGHTS: Final = cycle(*(f"{50 + 0.7 * i:.1f}" for i in range(67)))
COMA: Final = cycle(*range(3, 16))
COMA_9: Final = put(COMA, "-9", *range(0, N, 5))
ROMAN: Final = ("I", "II", "III", "IV")
NYHA: Final = cycle(*ROMAN)
BLOOD: Final = cycle("A", "B", "0", "AB", "")
SMOKING: Final = cycle("none", "former", "current")
ONE_TO_FOUR: Final = cycle(1, 2, 3, 4)
DATES: Final = cycle(*(dt.date(2020, 1, 1) + dt.timedelta(days=13 * i) for i in range(60)))
FEW: Final = (3, 50)
"""Two rows, too few for their text to be shown."""

COLUMNS: Final[tuple[Awkward, ...]] = (
    # Numbers are numbers.
    Awkward("whole numbers", AGES, ints, "number", range=(20, 90)),
    Awkward("decimals with gaps", put(WEIGHTS, "", *FEW), floats, "number"),
    Awkward("float32", WEIGHTS, nullable("float32"), "number"),
    Awkward("nullable Int64", put(AGES, "", *FEW), nullable("Int64"), "number", range=(20, 90)),
    Awkward("nullable Float64", put(WEIGHTS, "", *FEW), nullable("Float64"), "number"),
    Awkward("sparse", AGES, nullable("Sparse[float]"), "number"),
    Awkward("Decimal", WEIGHTS, objects(Decimal), "number"),
    Awkward("polars Decimal", WEIGHTS, lambda c: pl.Series(list(map(Decimal, c))), "number"),
    Awkward("objects of int and float", put(AGES, "63.5", 5, 6), objects(int, float), "number"),
    Awkward("objects of int and None", put(AGES, "", *FEW), objects(int), "number"),
    Awkward("counts from 0", cycle(0, 1, 2, 3, 0, 0), ints, "number", range=(0, 3)),
    Awkward("pain from 0 to 9", cycle(*range(10)), ints, "number"),
    Awkward("postcodes as numbers", cycle(*(10115 + 97 * i for i in range(40))), ints, "number"),
    Awkward("very large numbers", cycle("1e300", "2e299", "7e300"), floats, None,
            says="holds numbers beyond 1e+100"),
    Awkward("infinity", put(WEIGHTS, "inf", 7), floats, None, says="holds infinity"),
    Awkward(
        "a number that is always the same", cycle("7"), ints, "number",
        says="column 'x': has the same value in every row",
    ),
    Awkward("a number that is always missing", cycle(""), floats, "number", says="no value"),
    Awkward("objects that are all None", cycle(""), objects(int), "category", says="no value"),
    # Codes for a missing value.
    Awkward(
        "-9 in a coma score", COMA_9, ints, "number", range=(-9, 15),
        says="-9 (24 rows) may stand for a missing value, and counts as a number; if so, "
        "missing={'x': [-9]}",
    ),
    Awkward(
        "-9 said to be missing", COMA_9, ints, "number", range=(3, 15),
        options={"missing": {"x": [-9]}},
    ),
    Awkward(
        "-9 said to be missing everywhere", COMA_9, ints, "number", range=(3, 15),
        options={"missing": [-9, "unknown"]},
    ),
    Awkward(
        "999 in a blood pressure", put(cycle(*range(90, 180)), "999", 0, 9, 99), ints, "number",
        says="999 (3 rows) may stand",
    ),
    Awkward(
        "-1 in a count", put(cycle(0, 1, 2, 3, 5), "-1", *range(40)), ints, "number",
        says="-1 (40 rows) may stand",
    ),
    Awkward("77, 88 and 99", cycle(0, 1, 2, 3, 4, 77, 88, 99), ints, "number", says="77 (15 rows)"),
    Awkward(
        "9 beside yes and no", cycle(0, 1, 1, 0, 9), ints, "number",
        says="if so, missing={'x': [9]}",
    ),
    Awkward(
        "9 beside yes and no, said to be missing", cycle(0, 1, 1, 0, 9), ints, "yes/no",
        levels=(0, 1), options={"missing": {"x": [9]}},
    ),
    # Numbers that may be codes of kinds.
    Awkward(
        "blood groups from 1 to 4", ONE_TO_FOUR, ints, "number", column="blood",
        says="column 'blood': holds 1 to 4, read as a number; if these name kinds, "
        "categorical=['blood']",
    ),
    Awkward(
        "codes by their name", cycle(*range(12)), ints, "number", column="ward_code",
        says="holds 12 different whole numbers, codes by its name, read as a number; if these "
        "name kinds, categorical=['ward_code']",
    ),
    Awkward("1 to 4 by a name with an order", ONE_TO_FOUR, ints, "number", column="nyha_class"),
    Awkward(
        "1 to 4, said to be a category", ONE_TO_FOUR, ints, "category", levels=(1, 2, 3, 4),
        options={"categorical": ["x"]},
    ),
    Awkward(
        "1 to 4, said to have an order", ONE_TO_FOUR, ints, "ordered", levels=(1, 2, 3, 4),
        options={"ordered": {"x": [1, 2, 3, 4]}},
    ),
    Awkward(
        "an order that lacks a level", ONE_TO_FOUR, ints, None,
        options={"ordered": {"x": [1, 2, 3]}},
        says="30 of 120 cells of column 'x' are none of the levels that ordered= lists",
    ),
    Awkward(
        "running numbers", tuple(map(str, range(1, N + 1))), ints, "number",
        says="another whole number in every row: an identifier?",
    ),
    Awkward(
        "long numbers", tuple(str(10**7 + 7919 * i) for i in range(N)), ints, "number",
        says="an identifier?",
    ),
    # Yes and no.
    Awkward("0 and 1", cycle(0, 1, 1), ints, "yes/no", levels=(0, 1)),
    Awkward("booleans", cycle(0, 1, 1), lambda c: ints(c).astype(bool), "yes/no", levels=(0, 1)),
    Awkward("nullable booleans", cycle("0", "1", ""), nullable("boolean"), "yes/no", levels=(0, 1)),
    Awkward(
        "objects of True, False and None", cycle("1", "", "0"), objects(lambda c: c == "1"),
        "yes/no", levels=(0, 1),
    ),
    Awkward("yes and no", cycle("yes", "no", ""), text, "yes/no", levels=("no", "yes")),
    Awkward("ja and nein", cycle("ja", "nein"), text, "yes/no", levels=("nein", "ja")),
    Awkward("text of 0 and 1", cycle(0, 1), text, "yes/no", levels=("0", "1")),
    # Text is levels.
    Awkward("text", BLOOD, text, "category", levels=("0", "A", "AB", "B")),
    Awkward("nullable strings", BLOOD, strings, "category", levels=("0", "A", "AB", "B")),
    Awkward("text of Arrow", BLOOD, arrow, "category", levels=("0", "A", "AB", "B")),
    Awkward(
        "none is a level", SMOKING, text, "category", levels=("current", "former", "none")
    ),
    Awkward("no is a level", cycle("no", "mild", "severe"), text, "category"),
    Awkward(
        "unknown is a level", cycle("a", "b", "unknown"), text, "category",
        levels=("a", "b", "unknown"),
    ),
    Awkward("text of 1 to 4", ONE_TO_FOUR, text, "category", levels=("1", "2", "3", "4")),
    Awkward("strings of 1 to 4", ONE_TO_FOUR, strings, "category", levels=("1", "2", "3", "4")),
    Awkward("text of 1 to 10", cycle(*range(1, 11)), text, "category",
            levels=tuple(map(str, range(1, 11)))),
    Awkward("text from 01 to 04", cycle("01", "02", "03", "04"), text, "category",
            levels=("01", "02", "03", "04")),
    Awkward("1 to 3, and 3+", cycle(1, 2, 3, "3+"), text, "category",
            levels=("1", "2", "3", "3+")),
    Awkward("1 to 3, and unknown", cycle(1, 2, 3, "unknown"), text, "category",
            levels=("1", "2", "3", "unknown")),
    Awkward("1 and 1.0", cycle("1", "1.0", "2", "x"), text, "category", levels=("1", "2", "x")),
    Awkward("blanks around", cycle("a", " a", "b ", "c"), text, "category",
            levels=("a", "b", "c")),
    Awkward("capitals", cycle("male", "Male", "female"), text, "category",
            levels=("Male", "female", "male"), says="1 of which repeat another in other letters"),
    Awkward("bytes", cycle("a", "b", "c"), objects(str.encode), "category",
            levels=("a", "b", "c")),
    Awkward("diagnoses", cycle(*(f"I{i}.{i % 7}" for i in range(10, 40))), text, "category"),
    Awkward("a text that is always the same", cycle("a", ""), text, "category",
            says="has the same value in every row that has one"),
    Awkward("free text", tuple(f"slept {i} h, {i % 9} drinks" for i in range(N)), text, "category",
            says="has 120 different texts in 120 rows: an identifier, or free text?"),
    Awkward("names of more patients than levels", tuple(f"p{i}" for i in range(300)), text, None,
            says="column 'x' has 300 different texts, at most 255"),
    Awkward("postcodes with a 0", tuple(f"0{1067 + 13 * i}" for i in range(N)), text, "category",
            says="an identifier, or free text?"),
    # Numbers in text.
    Awkward("numbers in text", AGES, text, "number", range=(20, 90),
            says="is text, but all of it is numbers: read as a number"),
    Awkward("numbers and NA in text", put(WEIGHTS, "NA", *FEW), text, "number",
            says="all of it is numbers"),
    Awkward("numbers and unknown", put(AGES, "unknown", *FEW), text, "number", range=(20, 90),
            says="118 of 120 cells are numbers: read as a number, with 'unknown' (2 cells) as "
            "missing; to have no doubt, missing={'x': ['unknown']}; if its values are levels, "
            "categorical=['x']"),
    Awkward("numbers and unknown, said to be missing", put(AGES, "unknown", *FEW), text, "number",
            range=(20, 90), options={"missing": {"x": ["unknown"]}}),
    Awkward("numbers and a rare remark", put(AGES, "Mr Smith", 8), text, "number",
            says="with 1 rare text(s) (1 cells) as missing"),
    Awkward("numbers in text, said to be levels", AGES, text, "category",
            levels=tuple(map(str, range(20, 91))), options={"categorical": ["x"]}),
    Awkward("decimal commas", cycle(*(f"{i},5" for i in range(40))), text, "number",
            range=(0.5, 39.5),
            says="read as a number, and 3,5 as 3.5, 1 234 as 1234 (120 cells)"),
    Awkward("decimal commas, said to be levels", cycle("1,5", "2,5", "3,5"), text, "category",
            levels=("1,5", "2,5", "3,5"), options={"categorical": ["x"]}),
    Awkward("a few decimal commas", put(WEIGHTS, "63,5", *FEW), text, "number",
            says="3,5 as 3.5, 1 234 as 1234 (2 cells)"),
    Awkward("a comma that may be either", cycle("1,200", "850", "12,340"), text, None,
            says="80 of 120 cells have a comma or a point that may be decimal"),
    Awkward("decimal commas, and points that may be either",
            put(cycle(*(f"{i},5" for i in range(40))), "1.234", *FEW), text, None,
            says="2 of 120 cells have a comma or a point that may be decimal"),
    Awkward("thousands by points", cycle("1.200.000", "850.000.000"), text, "number",
            range=(1.2e6, 8.5e8), says="1 234 as 1234 (120 cells)"),
    Awkward("thousands by blanks", cycle("1 200", "850", "12 340"), text, "number",
            range=(850, 12340), says="1 234 as 1234 (80 cells)"),
    Awkward("limits", put(WEIGHTS, "<0.5", *FEW), text, None, says="such as a limit ('<5')"),
    Awkward("many limits", put(WEIGHTS, "<0.5", *range(0, N, 3)), text, None,
            says="such as a limit ('<5')"),
    Awkward("ages up to 90+", put(AGES, "90+", *range(0, N, 10)), text, None,
            says="beside something else, such as a limit"),
    Awkward("units", put(WEIGHTS, "63 kg", *FEW), text, None, says="or a unit ('5 mg')"),
    # Dates and times.
    Awkward("days as text", DATES, text, None, says="give a number instead, such as the age"),
    Awkward("days of Germany", cycle("03.02.2020", "14.11.2021", "1.1.20"), text, None,
            says="looks like dates"),
    Awkward("days and times", cycle("2020-01-02T08:30:00", "2021-05-06 11:00"), text, None,
            says="looks like dates"),
    Awkward("times of day", cycle("08:30", "14:05", "23:59:59"), text, None,
            says="dates or times"),
    Awkward("datetime64", DATES, days, None, says="column 'x' holds dates or times"),
    Awkward("objects of date", DATES, objects(dt.date.fromisoformat), None, says="holds dates"),
    Awkward("polars Date", DATES, lambda c: pl.Series(list(map(dt.date.fromisoformat, c))), None,
            says="holds dates"),
    Awkward("timedelta64", AGES, lambda c: pd.to_timedelta(ints(c), unit="D"), None,
            says="holds dates or times"),
    Awkward("periods", DATES, lambda c: days(c).dt.to_period("M"), None, says="holds dates"),
    Awkward("days, said to be levels", cycle("2020-01", "2020-02", "2020-03"), text, "category",
            levels=("2020-01", "2020-02", "2020-03"), options={"categorical": ["x"]}),
    # Levels that the type lists.
    Awkward("categories, one of them unused", NYHA, levels(*ROMAN, "V"), "category",
            levels=(*ROMAN, "V")),
    Awkward("categories of numbers", ONE_TO_FOUR, levels(4, 3, 2, 1), "category",
            levels=(4, 3, 2, 1)),
    Awkward("categories of 1 to 4 as text", ONE_TO_FOUR, levels("1", "2", "3", "4"), "category",
            levels=("1", "2", "3", "4")),
    Awkward("two categories", cycle("f", "m"), levels("m", "f"), "yes/no", levels=("m", "f")),
    Awkward("categories of booleans", cycle(False, True), levels(False, True), "yes/no",
            levels=(False, True)),
    Awkward("categories with none", SMOKING, levels("none", "former", "current"), "category",
            levels=("none", "former", "current")),
    Awkward("categories with nan", cycle("a", "b", "nan"), levels("a", "b", "nan"), "category",
            levels=("a", "b", "nan"), says="lists 'nan' as a level; if it says that nothing"),
    Awkward("ordered categories", NYHA, levels(*ROMAN, ordered=True), "ordered", levels=ROMAN),
    Awkward("two ordered categories", cycle("low", "high"),
            levels("low", "high", ordered=True), "ordered", levels=("low", "high")),
    Awkward("ordered categories and unknown", cycle(*ROMAN, "unknown"),
            levels("unknown", *ROMAN, ordered=True), "ordered", levels=ROMAN,
            options={"missing": {"x": ["unknown"]}}),
    Awkward("ordered categories, said to have no order", NYHA, levels(*ROMAN, ordered=True),
            "category", levels=ROMAN, options={"categorical": ["x"]}),
    Awkward("intervals", AGES, lambda c: pd.Series(pd.cut(ints(c), [0, 40, 60, 90])), "ordered",
            levels=("(0, 40]", "(40, 60]", "(60, 90]")),
    Awkward("polars Enum", NYHA, enum(*ROMAN, "V"), "category", levels=(*ROMAN, "V")),
    Awkward("polars Enum, said to have an order", NYHA, enum(*ROMAN), "ordered", levels=ROMAN,
            options={"ordered": {"x": enum(*ROMAN)(()).dtype.categories}}),
    Awkward("polars Categorical", cycle("b", "a", "c"),
            lambda c: pl.Series(c, dtype=pl.Categorical), "category", levels=("a", "b", "c")),
    Awkward("Arrow's dictionary", NYHA, lambda c: arrow(c, listed=(*ROMAN, "V")), "category",
            levels=(*ROMAN, "V")),
    Awkward("Arrow's dictionary with an order", NYHA,
            lambda c: arrow(c, listed=ROMAN, ordered=True), "ordered", levels=ROMAN),
    # Cells of several types.
    Awkward("objects of int, and a word", put(AGES, "unknown", *FEW), objects(int), "number",
            range=(20, 90), says="is of several types, 118 of 120 cells are numbers"),
    Awkward("objects of words, and an int", cycle("a", "b", "c", 7), objects(int), "category",
            levels=("7", "a", "b", "c"), says="not all of it is numbers: read as 4 levels"),
    Awkward("objects of 1 to 3, and 3+", cycle(1, 2, 3, "3+"), objects(int), "category",
            levels=("1", "2", "3", "3+"), says="read as 4 levels"),
    Awkward("an array of text", ONE_TO_FOUR, np.array, "number",
            says="is of several types, but all of it is numbers"),
    Awkward("lists", cycle("1", "2"), objects(lambda c: [c]), None, says="cells hold a list"),
    Awkward("complex numbers", cycle("1", "2"), objects(complex), None, says="hold a complex"),
)  # fmt: skip
