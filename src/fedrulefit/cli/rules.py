"""``fedrulefit rules``: read a model's rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import friendly_errors, line, stdout
from fedrulefit.cli.options import JsonOption, ModelArgument
from fedrulefit.errors import ModelFileError
from fedrulefit.model import Model
from fedrulefit.model.subgroups import Among, choose_patients

EPILOG = "Example: fedrulefit rules model.json --top 5 --min-support 0.1"


@friendly_errors()
def rules(
    model: ModelArgument,
    top: Annotated[int | None, typer.Option(help="At most so many.", min=1)] = None,
    min_support: Annotated[
        float, typer.Option(help="Only rules with more support than this.", min=0, max=1)
    ] = 0.0,
    subgroups: Annotated[
        bool, typer.Option("--subgroups", help="Outcome rates inside and outside each rule.")
    ] = False,
    patients: Annotated[
        Among | None,
        typer.Option(
            help="Of which patients --subgroups tells: 'held-out' (where the model has them) or "
            "'training', whose differences look larger than they are.",
        ),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the model to this file (png, svg, pdf).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the rules and linear terms of a model, most important first.

    Example: fedrulefit rules model.json --top 5 --min-support 0.1
    """
    loaded = Model.load(model)
    among = choose_patients(loaded, patients)
    if subgroups:
        frame = loaded.subgroups_frame(top=top, min_support=min_support, patients=among)
    else:
        frame = loaded.rules_frame(top=top, min_support=min_support)
    if figure is not None:
        _draw(loaded, figure)
    if as_json:
        typer.echo(json.dumps(json.loads(frame.to_json(orient="records"))))
        return
    console = stdout()
    show.print_summary(console, loaded, model)
    console.print()
    if not len(frame):
        show.print_no_rules(console, loaded)
    elif subgroups:
        show.print_subgroups(console, loaded, frame, among)
    else:
        show.print_rules(console, loaded, frame)
    if loaded.of_missing and len(frame):
        console.print()
        console.print(line(loaded.of_missing))
    console.print()
    show.print_wishes(console, loaded)
    console.print(Text(f"Covariates by importance: {show.importance_line(loaded)}"))


def _draw(model: Model, path: Path) -> None:
    from fedrulefit import plot

    try:
        plot.overview(model).savefig(path)
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot draw {path}: {error}") from None
