"""``fedrulefit export``: a model for programs that do not run Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import friendly_errors, stderr
from fedrulefit.cli.options import BaselineOption, ModelArgument, load_at
from fedrulefit.errors import FedRuleFitError, ModelFileError
from fedrulefit.model import Model

EPILOG = "Example: fedrulefit export model.json --sql duckdb -o score.sql"


class _Dialect(StrEnum):
    duckdb = "duckdb"
    sqlite = "sqlite"
    postgresql = "postgresql"


ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STUDY=TABLE",
        help="SQL: the table's name of a covariate, where it is another. May be repeated.",
    ),
]
PredictorOption = Annotated[
    bool,
    typer.Option(
        "--linear-predictor",
        help="SQL: give the linear predictor, too (of a yes/no outcome, the column log_odds).",
    ),
]


@friendly_errors()
def export(
    model: ModelArgument,
    sql: Annotated[
        _Dialect | None, typer.Option("--sql", help="Write a query for this database.")
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX graph.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; else printed (SQL).")
    ] = None,
    table: Annotated[
        str, typer.Option(help="SQL: the table or view with the patients.")
    ] = "patients",
    schema: Annotated[str | None, typer.Option(help="SQL: the schema of the table.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(help="SQL: a column to show beside the prediction. May be repeated."),
    ] = None,
    column: ColumnOption = None,
    linear_predictor: PredictorOption = False,
    baseline: BaselineOption = None,
) -> None:
    """Write a model as one SQL query, or as an ONNX graph.

    With --baseline they predict for that hospital's patients.

    Example: fedrulefit export model.json --sql duckdb -o score.sql
    """
    if (sql is None) == (not onnx):
        raise FedRuleFitError("say what to write: either --sql DATABASE or --onnx")
    loaded = load_at(model, baseline)
    show.print_warning(loaded, model)
    show.print_hospital(stderr(), loaded, in_file=True)
    if sql is None:
        _write_graph(loaded, output)
        return
    query = loaded.to_sql(
        sql.value,
        table=table if schema is None else (schema, table),
        key=key or (),
        columns=_read_columns(column or []),
        linear_predictor=linear_predictor,
    )
    if output is None:
        typer.echo(query, nl=False)
    else:
        _write(output, query.encode())


def _write_graph(model: Model, output: Path | None) -> None:
    if output is None:
        raise FedRuleFitError("an ONNX graph is not text: name a file with -o")
    _write(output, model.to_onnx().SerializeToString())


def _read_columns(pairs: list[str]) -> dict[str, str]:
    columns = {}
    for pair in pairs:
        covariate, sign, name = pair.partition("=")
        if not sign:
            raise FedRuleFitError(f"--column {pair}: write STUDY=TABLE, such as ISS=iss")
        columns[covariate] = name
    return columns


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror}") from None
    stderr().print(Text(f"Wrote {path}."))
