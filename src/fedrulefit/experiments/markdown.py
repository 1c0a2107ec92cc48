"""Markdown: tables, files, and generated parts of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def make_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def fill_parts(page: str, text: str, parts: Mapping[str, str]) -> str:
    """Return `text` with what stands between a part's two markers replaced.

    The markers of the part NAME are ``<!-- NAME:start -->`` and
    ``<!-- NAME:end -->``; `page` names the text where they are missing.
    """
    for name, part in parts.items():
        start, end = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{page} lacks the markers {start} and {end}")
        text = f"{before}{start}\n\n{part}\n\n{end}{after}"
    return text


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files of text, by their names."""
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
