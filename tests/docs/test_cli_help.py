"""Every command explains itself with an example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fedrulefit.cli.app import app

runner = CliRunner(env={"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"})


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that is not hidden."""
    for name, child in getattr(command, "commands", {}).items():
        if child.hidden:
            continue
        if getattr(child, "commands", None):
            yield from walk(child, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(walk(typer.main.get_command(app)))


def test_the_commands_are_found() -> None:
    assert {("demo",), ("check",), ("fit",), ("study", "draft")} <= set(COMMANDS)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_an_example(path: tuple[str, ...]) -> None:
    result = runner.invoke(app, [*path, "--help"])
    assert result.exit_code == 0
    assert f"Example: fedrulefit {' '.join(path)}" in " ".join(result.output.split())


@pytest.mark.parametrize("arguments", [["--help"], ["study", "--help"], ["experiment", "--help"]])
def test_groups_list_their_commands(arguments: list[str]) -> None:
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0
    for path in COMMANDS:
        if list(path[:-1]) == arguments[:-1]:
            assert path[-1] in result.output
