"""``fedrulefit report``: a model as one web page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import check_writable, friendly_errors, stderr, stdout
from fedrulefit.cli.options import BaselineOption, ModelArgument, load_at
from fedrulefit.model import Model

EPILOG = "Example: fedrulefit report model.json -o report.html"

ReportOption = Annotated[
    Path | None,
    typer.Option("--report", help="The report to write; beside the model, if not named."),
]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.")]


@friendly_errors()
def report(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    baseline: BaselineOption = None,
) -> None:
    """Write a model as one web page: rules, effects, privacy bill, risk calculator.

    The page needs no network, and opens from disk in any browser. With --baseline its
    calculator is that hospital's.

    Example: fedrulefit report model.json -o report.html
    """
    check_writable(output)
    from fedrulefit.report import write_report

    loaded = load_at(model, baseline)
    write_report(loaded, output, file=model.name)
    show.print_warning(loaded, model)
    show.print_hospital(stderr(), loaded, in_file=True)
    stdout().print(Text(f"Wrote {output}: open it in a browser."))


def choose_page(output: Path, report: Path | None, *, no_report: bool) -> Path | None:
    """Return where the report of a model file goes: beside it, unless said otherwise."""
    page = None if no_report else report or output.with_suffix(".html")
    if page is not None:
        check_writable(page)
    return page


def write_page(model: Model, file: Path, path: Path | None) -> str:
    """Write the report of `model`, which lies in `file`, where one is asked for.

    Returns
    -------
    str
        What a command wrote, for its last line.
    """
    if path is None:
        return str(file)
    from fedrulefit.report import write_report

    write_report(model, path, file=file.name)
    return f"{file} and {path}"
