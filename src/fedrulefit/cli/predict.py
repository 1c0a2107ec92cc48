"""``fedrulefit predict``: score a table with a model file."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import friendly_errors, indented, spreadsheet_cell, stderr
from fedrulefit.cli.options import BaselineOption, ModelArgument, load_at
from fedrulefit.core.arrays import Floats
from fedrulefit.errors import DataError
from fedrulefit.model.prediction import (
    BETWEEN_FLAGS,
    FLAGS_COLUMN,
    Predictions,
    predict_patients,
)
from fedrulefit.table.sources import read_texts

EPILOG = "Example: fedrulefit predict model.json new.csv -o risks.csv"


@friendly_errors()
def predict(
    model: ModelArgument,
    data: Annotated[Path, typer.Argument(help="Patients to score (CSV or Parquet).")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="CSV file to write; else printed.")
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id",
            help="A column to copy beside each prediction; in CSV, a text that begins like a "
            "formula gets an apostrophe in front.",
        ),
    ] = None,
    baseline: BaselineOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, not CSV.")] = False,
) -> None:
    """Write each patient's prediction, in the order of the table, and what is unusual.

    Of a yes/no outcome that is its probability, and the log_odds that it follows from. Of a time
    with several horizons there is a risk by each, such as risk_90; risk is that by the last. The
    column flags says where a value was none that the study foresees, and what was made of it;
    a patient whom the study has refused for it has no prediction. With --baseline these are
    predictions for the hospital whose baseline it is.

    Example: fedrulefit predict model.json new.csv -o risks.csv
    """
    loaded = load_at(model, baseline)
    words, found = loaded.study.family.words, predict_patients(loaded, data)
    results: dict[str, list[Any]] = {
        name: _without_nan(numbers) for name, numbers in found.columns.items()
    }
    results[FLAGS_COLUMN] = found.flags
    label: dict[str, list[Any]] = {}
    if id_column is not None:
        if id_column in results:
            raise DataError(f"--id {id_column} is the name of a result: rename the column")
        label[id_column] = read_texts(data, id_column)
    columns = {**label, **results}
    if output is None:
        _write(sys.stdout, columns, as_json=as_json)
    else:
        try:
            with output.open("w", encoding="utf-8", newline="") as file:
                _write(file, columns, as_json=as_json)
        except OSError as error:
            raise DataError(f"cannot write {output}: {error.strerror}") from None
        n_told = int(np.isfinite(found.prediction).sum())
        stderr().print(Text(f"Wrote {n_told} {words.predictions} to {output}."))
    show.print_hospital(stderr(), loaded)
    _tell_unusual(found)


def _without_nan(numbers: Floats) -> list[float | None]:
    return [
        None if missing else x
        for x, missing in zip(numbers.tolist(), np.isnan(numbers), strict=True)
    ]


def _write(file: TextIO, columns: dict[str, list[Any]], *, as_json: bool) -> None:
    rows = zip(*columns.values(), strict=True)
    if as_json:
        json.dump([dict(zip(columns, row, strict=True)) for row in rows], file)
        file.write("\n")
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, columns))
    writer.writerows(map(_csv_cell, row) for row in rows)


def _csv_cell(value: Any) -> Any:
    return spreadsheet_cell(BETWEEN_FLAGS.join(value) if isinstance(value, tuple) else value)


def _tell_unusual(found: Predictions) -> None:
    """Say how many patients have which flag."""
    counts = Counter(flag for flags in found.flags for flag in flags)
    if not counts:
        return
    console, n_rows = stderr(), len(found.flags)
    console.print(Text("Values that the study does not foresee:", style="yellow"))
    for flag, n in counts.most_common():
        unit = "; is the unit another one?" if 2 * n > n_rows and " the range: " in flag else ""
        console.print(indented(f"  {n} of {n_rows} patients: {flag}{unit}"))
