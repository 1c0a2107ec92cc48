"""Markdown: tables, files, and generated parts of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def make_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files of text, by their names."""
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
