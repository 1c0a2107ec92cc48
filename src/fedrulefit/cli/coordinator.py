"""``fedrulefit coordinator``: the process that leads the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, printable, stderr, stdout
from fedrulefit.cli.options import STATE, SocketOption, StateOption

app = typer.Typer(
    name="coordinator", help="Start the coordinator of a consortium.", no_args_is_help=True
)


@app.command(epilog="Example: fedrulefit coordinator start --kit kits/coordinator")
@friendly_errors()
def start(
    kit: Annotated[Path, typer.Option("--kit", help="The coordinator's start-up kit.")],
    state: StateOption = STATE,
    socket: SocketOption = None,
) -> None:
    """Start the coordinator, and keep it running until Ctrl-C.

    It goes on with every run that is not finished. Keep its state folder.
    """
    from fedrulefit.federation.coordinator import process
    from fedrulefit.federation.kits.kit import Kit
    from fedrulefit.federation.transport import TRANSPORTS

    own = Kit.load(kit, "coordinator")
    TRANSPORTS.check(own.transport)
    state = state.resolve()

    def tell(warnings: list[str]) -> None:
        for warning in warnings:
            stderr().print(Text.assemble(("Warning: ", "yellow"), printable(warning)))
        console = stdout()
        console.print(Text(f"Coordinator of {own.consortium} at {own.name}; Ctrl-C stops it."))
        console.print(Text(f"Sites: {', '.join(own.sites)}. State: {state}"))
        ends = f"Certificate {own.identity.fingerprint}, until {own.identity.expires}"
        console.print(Text(ends), soft_wrap=True)

    process.start_coordinator(own, state, socket, tell)
