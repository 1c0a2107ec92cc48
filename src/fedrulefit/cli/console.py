"""What every command shares: the two consoles, and errors without a traceback."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from fedrulefit.errors import FederationError, FedRuleFitError, printable

__all__ = [
    "EXIT_FAILED",
    "EXIT_FINDINGS",
    "check_writable",
    "friendly_errors",
    "indented",
    "line",
    "printable",
    "spreadsheet_cell",
    "stderr",
    "stdout",
    "whoami",
    "write_example",
]

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")

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
    return _PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)


class _PlainConsole(Console):
    """Prints no control character of a text, whoever forgot to escape it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            shown = text if control else printable(text, "\n")
            yield Segment(shown, style, control)


def line(text: str, style: str = "") -> Text:
    """Return what holds other people's names as one line of plain text."""
    return Text(printable(text), style=style)


def spreadsheet_cell(value: Any) -> Any:
    """Return a cell of a table that a spreadsheet does not take for a formula.

    A text that begins like one gets an apostrophe in front; numbers stay numbers.
    """
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return value
    return value if _NUMBER.fullmatch(value) else f"'{value}"


@contextmanager
def friendly_errors() -> Iterator[None]:
    """Turn a :class:`FedRuleFitError` into a red message and exit code 2.

    Use it as ``with friendly_errors():`` or as the decorator
    ``@friendly_errors()``.
    """
    try:
        yield
    except FedRuleFitError as error:
        first, *more = str(error).split("\n")
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


def write_example(text: str, output: Path | None, advice: str) -> None:
    """Print a file to start from, or write it where none is."""
    if output is None:
        typer.echo(text, nl=False)
    elif output.exists():
        raise FederationError(f"{output} is there already")
    else:
        output.write_text(text, encoding="utf-8")
        stdout().print(Text(f"Wrote {output}: {advice}."))


def whoami() -> str:
    """Return the name of the person at the keyboard, for approvals."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
