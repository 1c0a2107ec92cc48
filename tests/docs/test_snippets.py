"""Every Python block and every fedrulefit command of README and docs runs.

Commands in ``sh`` blocks start processes or need several machines: they are not run
here (tests/conformance does), but must be spelt as the program takes them.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import typer
from typer.testing import CliRunner, Result

from fedrulefit.cli.app import app
from tests.docs.pages import PAGES, ROOT, Block, name, read_blocks, read_commands

runner = CliRunner(env={"NO_COLOR": "1"})


def run(command: str, columns: int = 80) -> Result:
    arguments = shlex.split(command, comments=True)[1:]
    result = runner.invoke(app, arguments, env={"COLUMNS": str(columns)})
    assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"
    return result


def is_run(block: Block) -> bool:
    if block.language in ("console", "bash"):
        return any(read_commands(block))
    return block.language == "python"


RUNNABLE = [page for page in PAGES if any(is_run(block) for block in read_blocks(page))]


@pytest.fixture(scope="session")
def find_demo(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """What ``fedrulefit demo`` writes of each outcome; it runs once, other pages get a copy."""

    @cache
    def find(outcome: str) -> Path:
        folder = tmp_path_factory.mktemp("demo") / "fedrulefit-demo"
        run(f"fedrulefit demo --outcome {outcome} --output {shlex.quote(str(folder))}")
        return folder

    return find


@pytest.fixture
def workplace(
    tmp_path: Path, find_demo: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder such as a clone after ``make demo``."""
    shutil.copytree(find_demo("yes/no"), tmp_path / "fedrulefit-demo")
    shutil.copytree(ROOT / "docs" / "results", tmp_path / "docs" / "results")
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    yield tmp_path
    plt.close("all")


def run_commands(block: Block, find_demo: Callable[[str], Path]) -> None:
    """Run a block's commands; where it shows output, that must be theirs."""
    outputs = []
    for command in read_commands(block):
        words = shlex.split(command, comments=True)
        if words[1] == "demo":
            options = {"--outcome": "yes/no", "--output": "fedrulefit-demo"}
            options |= dict(zip(words[2::2], words[3::2], strict=True))
            found = find_demo(options["--outcome"])
            shutil.copytree(found, options["--output"], dirs_exist_ok=True)
            continue
        outputs.append(run(command, columns=max(80, *map(len, block.text.splitlines()))).output)
    if block.language != "console":
        return
    printed = " ".join(" ".join(outputs).split())
    for line in block.text.splitlines():
        if line.startswith("$ ") or not line.strip("… "):
            continue
        assert " ".join(line.split()) in printed, f"the command does not print: {line}"


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_the_page_runs(page: Path, workplace: Path, find_demo: Callable[[str], Path]) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in read_blocks(page):
        if block.language == "python":
            # The line numbers of a traceback are then those of the page.
            code = "\n" * block.line + block.text
            exec(compile(code, str(page), "exec"), namespace)  # noqa: S102
        elif is_run(block):
            run_commands(block, find_demo)


SPELT = [
    pytest.param(command, id=f"{name(page)}:{block.line}")
    for page in PAGES
    for block in read_blocks(page)
    if block.language == "sh"
    for command in read_commands(block)
]


@pytest.mark.parametrize("command", SPELT)
def test_a_command_is_spelt_as_the_program_takes_it(command: str) -> None:
    arguments = shlex.split(command, comments=True)[1:]
    while arguments and arguments[-1] in ("&", "|", "…"):
        arguments.pop()
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        found = found.commands[arguments.pop(0)]
    found.make_context("fedrulefit", arguments)  # raises on what it does not know


def test_the_pages_are_found() -> None:
    names = {name(page) for page in RUNNABLE}
    assert {"README.md", "docs/tutorial.md", "docs/howto-data-protection.md"} <= names
