"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

STATE = Path("fedrulefit-coordinator")
"""The coordinator's state folder, where no other is named."""

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
