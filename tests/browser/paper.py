"""A report as a printer gets it: PDF pages, and which part of the page came to stand on which.

Marks of two pixels are put where it matters (both ends of a table's row, its head, both ends of a
figure, a heading and the text behind it), and looked for on the pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pypdfium2

MARGIN: Final = 14 / 25.4 * 72
"""Of the page's sides, in points: as in its style."""
WIDTHS: Final = {"A4": 210 / 25.4 * 96 - 2 * MARGIN / 0.75, "Letter": 816 - 2 * MARGIN / 0.75}
"""Of what is between them, in the browser's pixels."""
MARK: Final = re.compile(r"q(\d+)z")

MARK_ALL: Final = (Path(__file__).parent / "marks.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Sheet:
    """A page: its words without space between them, and where each sign of them stands."""

    width: float
    text: str
    boxes: Sequence[tuple[str, float, float]]

    @cached_property
    def marks(self) -> frozenset[int]:
        return frozenset(map(int, MARK.findall(self.text)))

    @cached_property
    def words(self) -> str:
        return MARK.sub("", self.text)

    def beyond(self) -> str:
        """Return the signs that stand in the left or the right margin."""
        left, right = MARGIN - 1, self.width - MARGIN + 1
        return "".join(sign for sign, low, high in self.boxes if low < left or high > right)


@dataclass(frozen=True)
class Paper:
    """All pages, and the marks that were set."""

    sheets: Sequence[Sheet]
    marks: Mapping[str, Any]
    wide: float
    room: float

    def sheet_of(self, mark: int) -> int | None:
        """Return on which page a mark stands, None if on none, or the first of several."""
        return next((k for k, sheet in enumerate(self.sheets) if mark in sheet.marks), None)


def print_page(page: Any, path: Path, form: str) -> Paper:
    """Print a page that is open in the browser, and read the pages."""
    room = WIDTHS[form]
    page.set_viewport_size({"width": int(room), "height": 900})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    wide = page.evaluate("document.documentElement.scrollWidth")
    marks = page.evaluate(MARK_ALL)
    page.pdf(path=path, format=form)
    document = pypdfium2.PdfDocument(path)
    try:
        return Paper([_read(sheet) for sheet in document], marks, wide, room)
    finally:
        document.close()


def _read(page: Any) -> Sheet:
    text = page.get_textpage()
    signs = [text.get_text_range(k, 1) for k in range(text.count_chars())]
    boxes = []
    for k, sign in enumerate(signs):
        if sign.strip():
            left, _, right, _ = text.get_charbox(k)
            boxes.append((sign, left, right))
    return Sheet(page.get_width(), "".join("".join(signs).split()), boxes)
