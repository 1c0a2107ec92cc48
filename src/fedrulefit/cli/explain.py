"""``fedrulefit explain``: why the model says what it says for one patient."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import friendly_errors, line, printable, stderr, stdout
from fedrulefit.cli.options import BaselineOption, JsonOption, ModelArgument, load_at
from fedrulefit.core.families import Family
from fedrulefit.core.families.survival import name_time
from fedrulefit.errors import DataError
from fedrulefit.model import Explanation, Model
from fedrulefit.model.explanation import explain_rows
from fedrulefit.model.prediction import read_patients
from fedrulefit.table.sources import Source, read_columns

EPILOG = "Example: fedrulefit explain model.json --value age=71 --value GCS=4 --value ISS=30"


@friendly_errors()
def explain(
    model: ModelArgument,
    data: Annotated[Path | None, typer.Argument(help="Patients (CSV or Parquet).")] = None,
    row: Annotated[int, typer.Option(help="Which patient of the table; the first is 1.")] = 1,
    value: Annotated[
        list[str] | None,
        typer.Option(help="Without a table: NAME=VALUE, once per covariate; others are missing."),
    ] = None,
    baseline: BaselineOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which rules hold for one patient, and what each adds to the linear predictor.

    Example: fedrulefit explain model.json --value age=71 --value GCS=4 --value ISS=30
    """
    loaded = load_at(model, baseline)
    if (data is None) == (not value):
        raise DataError("give either a table or --value NAME=VALUE")
    patient = _typed_patient(value or [], loaded) if data is None else _patient_of(data, row)
    (explanation,) = explain_rows(loaded, read_patients(loaded, patient))
    if as_json:
        typer.echo(json.dumps(_facts(explanation, loaded), indent=2))
    else:
        _show(explanation, loaded)
    show.print_hospital(stderr(), loaded)


def _patient_of(data: Path, row: int) -> Source:
    columns = read_columns(data, where=str(data))
    if not 1 <= row <= columns.n_rows:
        raise DataError(f"--row must be 1 to {columns.n_rows}")
    return {name: raw[row - 1 : row] for name, raw in columns.arrays.items()}


def _typed_patient(pairs: list[str], model: Model) -> Source:
    patient: dict[str, list[str | None]] = {name: [None] for name in model.study.names}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise DataError("--value takes NAME=VALUE, such as --value age=71")
        if name not in patient:
            known = ", ".join(map(printable, model.study.names))
            raise DataError(f"--value: the model has no covariate {name!r}; it has {known}")
        patient[name] = [text]
    return patient


def _facts(explanation: Explanation, model: Model) -> dict[str, object]:
    """Return the explanation under the names that frames and exports have, too."""
    words = model.study.family.words
    return {
        **({} if explanation.level is None else {"level": explanation.level}),
        "baseline": explanation.baseline,
        "contributions": [asdict(part) for part in explanation.contributions],
        words.predictor_column: _known(explanation.linear_predictor),
        words.prediction_column: _known(explanation.prediction),
        **{name: _known(risk) for name, risk in explanation.horizons.items()},
        **{
            f"{words.prediction_column}_{name}": _known(chance)
            for name, chance in explanation.levels.items()
        },
        "flags": explanation.flags,
    }


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _show(explanation: Explanation, model: Model) -> None:
    console, family = stdout(), model.study.family
    label = model.study.outcome.label or model.study.outcome.column
    refused = math.isnan(explanation.prediction)
    told_prediction = "no prediction" if refused else family.tell(explanation.prediction)
    alike = explanation.level is not None and not family.of_first
    what = f" = {explanation.level}" if alike else family.words.by
    console.print(line(f"{label}{what}: {told_prediction}", style="bold"))
    for flag in explanation.flags:
        console.print(line(flag, style="yellow"))
    if refused:
        return
    for horizon in model.further[:-1]:  # the last is the prediction itself
        risk = family.tell(explanation.horizons[horizon.column])
        console.print(line(f"{label} by {horizon.by}: {risk}"))
    for name, by, column in _list_risks(model):
        console.print(line(f"{name} by {by}: {family.tell(explanation.horizons[column])}"))
    if explanation.levels:
        each = ", ".join(f"{name} {family.tell(p)}" for name, p in explanation.levels.items())
        console.print(line(f"Each {family.words.one_of}: {each}"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("because", overflow="fold", ratio=1)
    what = family.words.effect_of if family.additive else family.words.predictor
    table.add_column(f"adds to the {what}", justify="right", no_wrap=True)
    for part in explanation.contributions:
        style = "red" if part.contribution > 0 else "blue"
        told = _tell_part(family, part.contribution)
        table.add_row(printable(part.term), Text(told, style=style))
    baseline = float(family.link.inverse(np.array([explanation.baseline]))[0])
    plain = not family.additive
    table.add_row("baseline", f"{explanation.baseline:+.3f}" if plain else family.tell(baseline))
    total = f"{explanation.linear_predictor:+.3f}" if plain else told_prediction
    table.add_row("total", total, style="bold")
    console.print(table)
    if told := model.tell_ranges(explanation.prediction):
        console.print(line(told))


def _list_risks(model: Model) -> list[tuple[str, str, str]]:
    """Return the event, time and column of each further risk, where events compete."""
    incidence = model.incidence
    if incidence is None:
        return []
    last = incidence.horizons[-1]
    several = len(incidence.horizons) > 1
    return [
        (incidence.causes[own.cause], own.by, own.column)
        for own in incidence.told[1:]
        # That by the last horizon is told twice, where there are several: once will do.
        if not (several and own.time == last and own.column.endswith(name_time(last)))
    ]


def _tell_part(family: Family, contribution: float) -> str:
    """Return what a term adds: to F, or to the prediction where it is a sum."""
    if not family.additive:
        return f"{contribution:+.3f}"
    return family.tell_effect(family.effect(contribution))
