"""The report on paper: nothing cut, no head without its table, no figure without its heading."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.model import Model
from tests.reports import (
    empty_model,
    evaluated_model,
    hostile_model,
    huge_model,
    many_levels_model,
    outcome_model,
    path_model,
    time_model,
    wide_model,
)

paper = pytest.importorskip("tests.browser.paper", reason="pypdfium2 is not installed")

MODELS: dict[str, Callable[[], Model]] = {
    "path": path_model,
    "evaluated": evaluated_model,
    "wide": wide_model,
    "long": lambda: huge_model(120),
    "hostile": hostile_model,
    "empty": empty_model,
    "time": time_model,
    "ordered levels": lambda: outcome_model("ordered"),
    "classes": lambda: outcome_model("classes"),
    "many classes": lambda: many_levels_model("classes"),
}


BOTH = ("evaluated", "wide")
PRINTS = [(name, "A4") for name in MODELS] + [(name, "Letter") for name in BOTH]


@pytest.fixture(params=PRINTS, ids="-".join)
def printed(request: Any, open_report: Callable[..., Any], tmp_path: Path) -> Any:
    """Print one model's report; each is looked at from all sides."""
    name, form = request.param
    return paper.print_page(open_report(MODELS[name](), scheme="dark"), tmp_path / "out.pdf", form)


def test_the_printed_report(printed: Any) -> None:
    """On one print, since printing is what takes the time."""
    nothing_is_cut(printed)
    every_page_of_a_table_has_its_head(printed)
    no_row_is_split(printed)
    figures_stand_with_their_headings(printed)
    headings_stand_with_what_they_head(printed)
    no_page_is_empty(printed)
    the_calculator_is_left_out(printed)


def nothing_is_cut(printed: Any) -> None:
    assert printed.wide <= printed.room, "wider than the page: the browser would shrink or cut it"
    beyond = {k + 1: sheet.beyond() for k, sheet in enumerate(printed.sheets) if sheet.beyond()}
    assert beyond == {}
    wanted = {mark for table in printed.marks["tables"] for row in table["rows"] for mark in row}
    wanted |= {mark for figure in printed.marks["figures"] for mark in figure["marks"]}
    found = frozenset().union(*(sheet.marks for sheet in printed.sheets))
    assert wanted
    assert wanted - found == set()


def every_page_of_a_table_has_its_head(printed: Any) -> None:
    for table in printed.marks["tables"]:
        pages = {printed.sheet_of(mark) for row in table["rows"] for mark in row}
        for head in table["heads"]:
            without = [k + 1 for k in pages if not printed.sheets[k].marks & {*head["marks"]}]
            assert without == [], f"{table['words']}: {head['words']} is not on every page"


def no_row_is_split(printed: Any) -> None:
    for table in printed.marks["tables"]:
        for row in table["rows"]:
            assert len({printed.sheet_of(mark) for mark in row}) == 1, table["words"]


def figures_stand_with_their_headings(printed: Any) -> None:
    for figure in printed.marks["figures"]:
        assert len({printed.sheet_of(mark) for mark in figure["marks"]}) == 1, figure["words"]


def headings_stand_with_what_they_head(printed: Any) -> None:
    for heading in printed.marks["headings"]:
        if heading["text"] is not None:
            head, text = printed.sheet_of(heading["head"]), printed.sheet_of(heading["text"])
            assert head == text is not None, heading["words"]


def no_page_is_empty(printed: Any) -> None:
    assert min(len(sheet.words) for sheet in printed.sheets) > 130, "besides the foot"


def the_calculator_is_left_out(printed: Any) -> None:
    words = "".join(sheet.words for sheet in printed.sheets)
    assert "Modelreport" in words
    for said in (
        "Riskcalculator",
        "JavaScript",
        "Thepatient",
        "Stillneeded",
        "Ifonevaluewere",
        "byeachhorizon",
        "Chancetohave",
        "Moveit",
        "Showall",
    ):
        assert said not in words
