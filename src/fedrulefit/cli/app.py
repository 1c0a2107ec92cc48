"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from fedrulefit import __version__
from fedrulefit.cli import (
    baseline,
    carrier,
    check,
    coordinator,
    demo,
    edit,
    experiment,
    explain,
    export,
    federation,
    fit,
    ledger,
    predict,
    report,
    rounding,
    rules,
    site,
    study,
)

app = typer.Typer(
    name="fedrulefit",
    help="Hospitals learn one readable model together; no patient's record leaves its hospital.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
)
for group in (study, federation, site, coordinator, carrier, ledger, experiment):
    app.add_typer(group.app)
for module, command in (
    (demo, demo.demo),
    (check, check.check),
    (fit, fit.fit),
    (edit, edit.edit),
    (predict, predict.predict),
    (rules, rules.rules),
    (explain, explain.explain),
    (export, export.export),
    (report, report.report),
    (baseline, baseline.baseline),
):
    app.command(epilog=module.EPILOG)(command)
app.command("round", epilog=rounding.EPILOG)(rounding.round_file)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedrulefit {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and stop.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Hospitals learn one readable model together; no patient's record leaves its hospital."""
