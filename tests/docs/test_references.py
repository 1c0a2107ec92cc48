"""What docstrings and pages refer to exists: names that moved once went stale."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), ROOT / "pyproject.toml"]
ROLE = re.compile(r":(?:mod|class|func|meth|data|attr|exc):`~?(fedrulefit[\w.]*)`")
TEST = re.compile(r"tests/[\w/]+(?:\.\w+)?")


def find(name: str) -> Any:
    """Return the object of a dotted name; an annotation counts."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:]:
            annotated = getattr(found, "__annotations__", {})
            found = annotated[part] if part in annotated else getattr(found, part)
        return found
    raise AttributeError(name)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_in_docstrings_exist(path: Path) -> None:
    for name in ROLE.findall(path.read_text(encoding="utf-8")):
        assert find(name) is not None


@pytest.mark.parametrize(
    "path", [*SOURCES, *PAGES], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_test_files_that_are_named_exist(path: Path) -> None:
    named = {match.rstrip("/") for match in TEST.findall(path.read_text(encoding="utf-8"))}
    assert not {name for name in named if not (ROOT / name).exists()}


def test_a_name_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AttributeError):
        find("fedrulefit.federation.kept")
