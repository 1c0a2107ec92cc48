"""CONTRIBUTING.md names commands, paths and classes that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import ROOT, read_prose

PAGE = ROOT / "CONTRIBUTING.md"
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", " ".join(read_prose(PAGE).split("\n")))))
COMMANDS = [words for words in QUOTED if words.startswith("make ")]
PATHS = [
    words for words in QUOTED if re.fullmatch(r"[\w./-]*(/|\.(py|md|toml|cff|lock))[\w./-]*", words)
]
NAMES = [words for words in QUOTED if re.fullmatch(r"[A-Z]\w+", words)]
MADE = ("build/", ".venv")


def defined_names() -> set[str]:
    """Return the classes and constants of the package."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_a_target(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{command.removeprefix('make ')}:", makefile, flags=re.MULTILINE)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path: str) -> None:
    if path.startswith(MADE) or path == "utils.py":
        return
    assert (ROOT / path).exists() or (ROOT / "src" / "fedrulefit" / path).exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_defined(name: str) -> None:
    assert name in defined_names()


def test_every_room_is_on_the_map() -> None:
    section = read_prose(PAGE).partition("## How the house is laid out")[2].partition("\n## ")[0]
    rooms = (ROOT / "src" / "fedrulefit").glob("*/__init__.py")
    for room in rooms:
        assert f"`{room.parent.name}`" in section


def test_the_page_names_enough_to_be_checked() -> None:
    assert min(len(COMMANDS), len(PATHS), len(NAMES)) > 5, "the search has gone blind"
