"""The pages of the documentation, taken apart."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line where it starts."""

    language: str
    text: str
    line: int


def load_script(name: str) -> Any:
    """Return a script of the docs folder as a module; it finds those beside it, as when run."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return module


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def read_blocks(page: Path) -> Iterator[Block]:
    language, start, lines = None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if language is None:
            if line.startswith("```"):
                language, start, lines = line[3:].strip(), number, []
        elif line.startswith("```"):
            yield Block(language, "\n".join(lines), start)
            language = None
        else:
            lines.append(line)
    assert language is None, f"{page}: the block of line {start} does not end"


def read_commands(block: Block) -> Iterator[str]:
    """Yield the block's lines that call fedrulefit, continued lines joined."""
    for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
        command = line.removeprefix("$ ").strip()
        if command.startswith("fedrulefit "):
            yield command


def read_prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
