"""What pages name of the package exists: modules, messages and sums."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedrulefit.core.sums import Sum
from fedrulefit.protocol import messages
from tests.docs.pages import PAGES, ROOT, name, read_prose

# These tell of the past, or are made from the code.
PAST = {"CHANGELOG.md", "docs/api.md"}
AWAITED = {"docs/architecture.md"}  # until it is written anew
CHECKED = [page for page in PAGES if name(page) not in PAST | AWAITED]
PLACES = (ROOT, ROOT / "src" / "fedrulefit", ROOT / "docs", ROOT / "tests")


def find_sums(kind: type[Sum] = Sum) -> set[type[Sum]]:
    """Return all declared sums, also those that are of another's kind."""
    return {kind}.union(*map(find_sums, kind.__subclasses__()))


KINDS = {kind.__name__ for kind in (*messages.MESSAGES, *find_sums())}
NOT_OURS = {"utils.py"}


def named_modules(page: Path) -> set[str]:
    """Return paths of modules that a page names."""
    return set(re.findall(r"`([\w/]+\.py)`", read_prose(page)))


def named_messages(page: Path) -> set[str]:
    """Return words, in commands and programs, too, that look like a message or a sum."""
    return set(re.findall(r"\b[A-Z][a-z]\w*(?:Request|Reply|Sums)\b", page.read_text("utf-8")))


@pytest.mark.parametrize("page", CHECKED, ids=name)
def test_a_module_that_is_named_exists(page: Path) -> None:
    for path in named_modules(page) - NOT_OURS:
        at_home = any((place / path).exists() for place in PLACES)
        assert at_home or list((ROOT / "tests").rglob(path)), path


@pytest.mark.parametrize("page", CHECKED, ids=name)
def test_a_message_or_sum_that_is_named_exists(page: Path) -> None:
    assert named_messages(page) - KINDS - {"SumRequest"} == set()


def test_pages_name_enough_to_be_checked() -> None:
    assert sum(len(named_modules(page)) for page in CHECKED) > 20, "the search has gone blind"
    assert sum(len(named_messages(page)) for page in CHECKED) > 30, "the search has gone blind"
