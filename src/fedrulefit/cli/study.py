"""``fedrulefit study``: write a first study file, and say what its settings mean."""

from __future__ import annotations

import json
import shlex
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedrulefit.cli.budget import budget_of, print_budget
from fedrulefit.cli.console import friendly_errors, indented, line, printable, stderr, stdout
from fedrulefit.cli.plan import print_plan
from fedrulefit.errors import StudyError
from fedrulefit.study import Settings, Study, describe_settings
from fedrulefit.study.outcome_base import KINDS
from fedrulefit.table.draft import Draft, draft_study

app = typer.Typer(
    name="study", help="Write and read the study file that all sites sign.", no_args_is_help=True
)


@app.callback()
def _study() -> None:
    """Write and read the study file that all sites sign."""


@app.command(epilog="Example: fedrulefit study draft trauma.csv --outcome mortality")
@friendly_errors()
def draft(
    data: Annotated[Path, typer.Argument(help="One site's table (CSV, Excel or Parquet).")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write; - prints it.")
    ] = Path("study.toml"),
    outcome: Annotated[
        str | None,
        typer.Option(help="The outcome column, or TIME,EVENT. Guessed where it has a usual name."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(help=f"What the outcome is: {', '.join(KINDS)}. Guessed from its values."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="The column of the time to an event, or to its end.")
    ] = None,
    event: Annotated[
        str | None, typer.Option(help="The column that says whether the event came.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The study's name.")] = None,
    site_column: Annotated[
        str | None, typer.Option(help="A column that says which site a patient is from.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write a first study file from a table, for a person to complete."""
    if str(output) != "-" and output.exists() and not force:
        raise StudyError(f"{output} exists: pass --force to overwrite it, or another name with -o")
    drafted = draft_study(
        data,
        outcome=outcome,
        name=name,
        site_column=site_column,
        kind=kind,
        time=time,
        event=event,
    )
    if str(output) == "-":
        typer.echo(drafted.text, nl=False)
        _tell(stderr(), drafted)
        return
    try:
        output.write_text(drafted.text, encoding="utf-8")
    except OSError as error:
        raise StudyError(f"{output} cannot be written: {error.strerror}") from None
    console = stdout()
    n_checks = _count(drafted.text.count("# CHECK"), "line")
    command = ["fedrulefit", "check", str(data), "--study", str(output)]
    console.print(line(f"Wrote {output}, with {_count(drafted.n_covariates, 'covariate')}."))
    _tell(console, drafted)
    console.print(f"Next: open it and settle its {n_checks} marked CHECK, with all sites.")
    console.print(line(f"Then: {shlex.join(command)}"))
    study = Study.load(output)
    print_plan(console, study)
    print_budget(console, budget_of(study, policy=None))


def _tell(console: Console, drafted: Draft) -> None:
    """Say what is not in the draft, what was guessed, and what is odd in the table."""
    for warning in drafted.warnings:
        console.print(Text.assemble(("Warning: ", "yellow"), printable(warning)))
    for heading, facts in (
        ("Left out, and why:", drafted.left_out),
        ("Guessed, and marked CHECK:", drafted.guesses),
    ):
        if facts:
            console.print(heading)
            for column, words in facts:
                console.print(indented(f"  {column}: {words}"))


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" + "s" * (n != 1)


@app.command(epilog="Example: fedrulefit study settings")
@friendly_errors()
def settings(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON schema, for programs.")
    ] = False,
) -> None:
    """Tell every setting: what it means and holds, and its value in each preset."""
    if as_json:
        typer.echo(json.dumps(Settings.model_json_schema(), indent=2))
        return
    for group, members in groupby(describe_settings(), key=lambda setting: setting.group):
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        table.add_column(group, no_wrap=True, min_width=18)
        for preset in ("default", "paper"):
            table.add_column(preset, no_wrap=True, min_width=11)
        table.add_column("meaning", overflow="fold", ratio=1)
        for setting in members:
            meaning = Text.assemble(f"{setting.meaning} ", (f"({setting.holds})", "dim"))
            table.add_row(setting.name, setting.default, setting.paper, meaning)
        stdout().print(table)
        stdout().print()
