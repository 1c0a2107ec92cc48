"""The page on tables shows the warning that its own example gives."""

from __future__ import annotations

import re
import warnings
from typing import Any

from fedrulefit.errors import ReadingWarning
from tests.docs.pages import ROOT, read_blocks


def test_the_warning_shown_is_the_one_given() -> None:
    blocks = read_blocks(ROOT / "docs" / "tables.md")
    example = next(b.text for b in blocks if b.language == "python" and "categorical=" in b.text)
    shown = next(b.text for b in blocks if b.text.startswith("ReadingWarning: "))
    bare, n_taken = re.subn(r"categorical=.*?missing=\{.*?\}, ", "", example, flags=re.S)
    assert n_taken == 1
    names: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReadingWarning)
        exec(bare, names)  # noqa: S102 - the page's own example
    (given,) = [w.message for w in caught if w.category is ReadingWarning]
    assert shown.strip() == f"ReadingWarning: {given}"
