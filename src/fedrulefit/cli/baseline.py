"""``fedrulefit baseline``: a hospital's own baseline of a finished model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Rows
from rich.text import Text

from fedrulefit.cli.console import (
    check_writable,
    friendly_errors,
    line,
    printable,
    stderr,
    stdout,
)
from fedrulefit.cli.options import ModelArgument
from fedrulefit.model import Model
from fedrulefit.model.own_estimate import (
    FAR,
    InTheLarge,
    estimate_own,
    is_far,
    judge_in_the_large,
)
from fedrulefit.model.own_file import OwnBaseline
from fedrulefit.numerals import name_count
from fedrulefit.table.check import load_table

EPILOG = "Example: fedrulefit baseline model.json --data hospital.csv -o baseline.toml"

_REACH = 1.96
"""Standard errors on either side of a 95 % interval."""


@friendly_errors()
def baseline(
    model: ModelArgument,
    data: Annotated[
        Path,
        typer.Option("--data", help="The hospital's patients with their outcomes (CSV, Parquet)."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path(
        "baseline.toml"
    ),
    site: Annotated[str, typer.Option("--name", help="The hospital's name, for the file.")] = "",
) -> None:
    """Estimate a hospital's own baseline of a model, from its own patients.

    Nothing is sent: the baseline is written to a file that stays here, and predictions with
    --baseline add it. It takes patients whose outcomes are known, 200 or more, at least 20 of them
    with the outcome and 20 without.

    Example: fedrulefit baseline model.json --data hospital.csv -o baseline.toml
    """
    check_writable(output)
    loaded = Model.load(model)
    table = load_table(data, loaded.study, where=str(data))
    own = estimate_own(loaded, table, site=site)
    before, after = (judge_in_the_large(m, table) for m in (loaded, loaded.at(own)))
    own.save(output)
    console = stdout()
    _print_own(console, loaded, own, table.take(table.weights > 0).n_patients)
    _print_in_the_large(console, loaded, before, after)
    for told in _list_doubts(loaded, own, before, after):
        stderr().print(Text(told, style="yellow"))
    console.print(line(f"Wrote {output}: keep it here, nothing was sent. Use it as --baseline."))


def _list_doubts(
    model: Model, own: OwnBaseline, before: InTheLarge, after: InTheLarge
) -> list[str]:
    """Return what should be looked at before the baseline is used, in sentences."""
    doubts = []
    if is_far(model, own):
        doubts.append(
            f"This is farther from 0 than {FAR:g}·τ, with the study's spread τ = "
            f"{model.own_baselines:g} of hospitals' baselines: look whether the outcome and all "
            "units mean here what the study says."
        )
    if after.off > before.off:
        doubts.append(
            "With this baseline the mean prediction is farther from what was observed than "
            "without: the model's terms count for too much here, or for too little, and no "
            "baseline mends that. Look how well it predicts these patients before you use it."
        )
    return doubts


def _print_own(console: Console, model: Model, own: OwnBaseline, n_patients: int) -> None:
    """Print what the baseline does, with intervals."""
    family, words = model.study.family, model.study.family.words
    whose = f" of {own.site}" if own.site else ""
    console.print(
        line(f"Own baseline{whose}, from {name_count(n_patients, 'patient')}, beside the model's:")
    )
    rows = Rows(box=None, pad_edge=False, header_style="bold")
    rows.add_column("added to")
    for name in (f"{words.effect} (95 %)", "b", "standard error"):
        rows.add_column(name, justify="right")
    for name, value, error in zip(own.names, own.values, own.errors, strict=True):
        ends = (value - _REACH * error, value + _REACH * error)
        low, effect, high = (
            family.tell_effect(family.effect(x), unit=x == value) for x in (ends[0], value, ends[1])
        )
        rows.add_row(printable(name), f"{effect} ({low} to {high})", f"{value:.3f}", f"{error:.3f}")
    console.print(rows)


def _print_in_the_large(
    console: Console, model: Model, before: InTheLarge, after: InTheLarge
) -> None:
    """Print observed and mean predicted outcomes, without the baseline and with it."""
    words = model.study.family.words
    rows = Rows(box=None, pad_edge=False, header_style="bold")
    rows.add_column(f"mean {words.prediction}{words.by}")
    for name in ("observed", "without it", "with it"):
        rows.add_column(name, justify="right")
    for level, observed in before.observed.items():
        told = (observed, before.expected[level], after.expected[level])
        rows.add_row(
            printable(level or "all patients"),
            *("not known" if math.isnan(x) else model.study.family.tell(x) for x in told),
        )
    console.print(rows)
