"""What every command shares: the two consoles, and errors without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedrulefit.errors import FedRuleFitError, printable

__all__ = [
    "EXIT_FAILED",
    "EXIT_FINDINGS",
    "check_writable",
    "friendly_errors",
    "indented",
    "printable",
    "stderr",
    "stdout",
]

EXIT_FINDINGS = 1
"""The command ran and found errors in the data."""
EXIT_FAILED = 2
"""The command could not run."""


def stdout() -> Console:
    """Return the console for results. Made anew, so that tests and pipes are seen."""
    return _console()


def stderr() -> Console:
    """Return the console for errors and notes."""
    return _console(stderr=True)


def _console(*, stderr: bool = False) -> Console:
    # Names come from studies, tables and sites: brackets in them are no markup, ":x:" no emoji.
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)


@contextmanager
def friendly_errors() -> Iterator[None]:
    """Turn a :class:`FedRuleFitError` into a red message and exit code 2.

    Use it as ``with friendly_errors():`` or as the decorator
    ``@friendly_errors()``.
    """
    try:
        yield
    except FedRuleFitError as error:
        first, *more = str(error).splitlines() or [""]
        console = stderr()
        console.print(Text.assemble(("Error: ", "bold red"), printable(first)))
        for line in more:
            console.print(indented(line))
        raise typer.Exit(EXIT_FAILED) from None


def indented(line: str) -> Padding:
    """Return a line of details, which stays indented where it is folded.

    It can hold another's words: at the left edge they could pass for the program's own.
    """
    depth = max(2, len(line) - len(line.lstrip(" ")))
    return Padding(Text(printable(line.lstrip(" "))), (0, 0, 0, depth), expand=False)


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before a long run."""
    if path.is_dir() or not path.parent.is_dir():
        raise FedRuleFitError(f"cannot write {path}: give a file in a folder that exists")
