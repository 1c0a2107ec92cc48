"""Survivors that are no gap in the tests: ``tests/mutants.toml``.

Each entry names the file, the function, the line by its text, the changes, and why no test
can or need notice them. An entry whose code is gone is an error, so that the list stays true.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from tools.mutants.mutations import Mutant

Key: TypeAlias = tuple[str, str, str, str]


def key_of(mutant: Mutant) -> Key:
    """Return what a mutant is known by: no line number, since these move."""
    return mutant.file, mutant.function, mutant.line, mutant.change


def read_explained(path: Path) -> dict[Key, str]:
    """Return why each explained mutant may survive.

    Raises
    ------
    ValueError
        If one has no reason, or two.
    """
    reasons: dict[Key, str] = {}
    for key, why in _read(path):
        if not why.strip() or key in reasons:
            raise ValueError(f"{path}: one reason is needed for {key[-1]!r} in {key[0]}")
        reasons[key] = why
    return reasons


def read_keys(path: Path) -> set[Key]:
    """Return the mutants that a file names, explained or not."""
    return {key for key, _ in _read(path)}


def _read(path: Path) -> Iterator[tuple[Key, str]]:
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("survivor", []):
        for change in entry["changes"]:
            yield (entry["file"], entry["function"], entry["line"], change), entry["why"]


def outdated(reasons: Iterable[Key], mutants: Iterable[Mutant]) -> list[Key]:
    """Return the explained mutants that the code has no more."""
    known = {key_of(mutant) for mutant in mutants}
    return [key for key in reasons if key not in known]


def draft(mutant: Mutant) -> str:
    """Return an entry to fill in."""
    file, function, line, change = (_quote(text) for text in key_of(mutant))
    return (
        f"[[survivor]]\nfile = {file}\nfunction = {function}\nline = {line}\n"
        f'changes = [{change}]\nwhy = ""\n'
    )


def _quote(text: str) -> str:
    if "'" not in text and "\n" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
