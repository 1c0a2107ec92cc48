"""Links between the pages resolve, anchors too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name, read_prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.+)$", read_prose(page), flags=re.M):
        text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        found.add(text.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    broken = []
    for target in LINK.findall(read_prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        wrong_anchor = anchor and other.suffix == ".md" and anchor not in anchors(other)
        if not other.exists() or wrong_anchor:
            broken.append(target)
    assert not broken


def test_every_page_is_on_the_map() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES if page.stem == "index")
    readme = PAGES[0].read_text(encoding="utf-8")
    for page in PAGES[2:]:
        assert page.name in text + readme or page.stem == "index"
