"""``fedrulefit predict``: score a table with a model file."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, spreadsheet_cell, stderr
from fedrulefit.cli.options import ModelArgument
from fedrulefit.errors import DataError
from fedrulefit.model import Model
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
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, not CSV.")] = False,
) -> None:
    """Write each patient's prediction, in the order of the table.

    Of a yes/no outcome that is its probability, and the log_odds that it follows from.

    Example: fedrulefit predict model.json new.csv -o risks.csv
    """
    loaded = Model.load(model)
    family = loaded.study.family
    predictor = loaded.decision_function(data)
    prediction = family.link.inverse(predictor)
    results = {
        family.words.prediction_column: prediction.tolist(),
        family.words.predictor_column: predictor.tolist(),
    }
    label: dict[str, list[Any]] = {}
    if id_column is not None:
        if id_column in results:
            raise DataError(f"--id {id_column} is the name of a result: rename the column")
        label[id_column] = read_texts(data, id_column)
    found = {**label, **results}
    if output is None:
        _write(sys.stdout, found, as_json=as_json)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write(file, found, as_json=as_json)
    except OSError as error:
        raise DataError(f"cannot write {output}: {error.strerror}") from None
    stderr().print(Text(f"Wrote {len(prediction)} {family.words.predictions} to {output}."))


def _write(file: TextIO, found: dict[str, list[Any]], *, as_json: bool) -> None:
    rows = zip(*found.values(), strict=True)
    if as_json:
        json.dump([dict(zip(found, row, strict=True)) for row in rows], file)
        file.write("\n")
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(spreadsheet_cell, found))
    writer.writerows(map(spreadsheet_cell, row) for row in rows)
