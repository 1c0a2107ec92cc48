"""Options that several commands have, and what they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedrulefit.model import Model
from fedrulefit.model.own_file import OwnBaseline

STATE = Path("fedrulefit-coordinator")
"""The coordinator's state folder, where no other is named."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
KitOption = Annotated[Path, typer.Option("--kit", help="This hospital's start-up kit.")]
ModelArgument = Annotated[Path, typer.Argument(help="The model file.")]
ModelOption = Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")]
BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        help="The hospital's own baseline (baseline.toml), where the model expects one.",
    ),
]
TopOption = Annotated[int, typer.Option(help="Rules to print.", min=0)]

SocketOption = Annotated[
    Path | None,
    typer.Option(
        "--socket", help="Unix socket to a carrier of another user; else it is a child process."
    ),
]

StateOption = Annotated[
    Path,
    typer.Option(
        "--state",
        envvar="FEDRULEFIT_COORDINATOR_STATE",
        help="The coordinator's state folder.",
    ),
]


def load_at(model: Path, baseline: Path | None) -> Model:
    """Return the model of a file, with a hospital's own baseline if one is named."""
    loaded = Model.load(model)
    return loaded if baseline is None else loaded.at(OwnBaseline.load(baseline))
