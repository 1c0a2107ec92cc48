"""What every command shares: the two consoles, and errors without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from fedrulefit.errors import FedRuleFitError

EXIT_FINDINGS = 1
"""The command ran and found errors in the data."""
EXIT_FAILED = 2
"""The command could not run."""


def stdout() -> Console:
    """Return the console for results. Made anew, so that tests and pipes are seen."""
    return Console(highlight=False, soft_wrap=False)


def stderr() -> Console:
    """Return the console for errors and notes."""
    return Console(stderr=True, highlight=False, soft_wrap=False)


@contextmanager
def friendly_errors() -> Iterator[None]:
    """Turn a :class:`FedRuleFitError` into a red message and exit code 2.

    Use it as ``with friendly_errors():`` or as the decorator
    ``@friendly_errors()``.
    """
    try:
        yield
    except FedRuleFitError as error:
        stderr().print(Text.assemble(("Error: ", "bold red"), printable(str(error), "\n")))
        raise typer.Exit(EXIT_FAILED) from None


def printable(text: str, keep: str = "") -> str:
    """Escape control characters, which a column name could use to steer the terminal."""
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before a long run."""
    if path.is_dir() or not path.parent.is_dir():
        raise FedRuleFitError(f"cannot write {path}: give a file in a folder that exists")
