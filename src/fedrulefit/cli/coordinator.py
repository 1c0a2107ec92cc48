"""``fedrulefit coordinator``: the process that leads the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, printable, stderr, stdout
from fedrulefit.cli.federation import STATE, SocketOption, StateOption, need_flare

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
    from fedrulefit.federation import service
    from fedrulefit.federation.consortium import Kit
    from fedrulefit.federation.startup import check_coordinator

    need_flare()
    checked = Kit.load(kit, "coordinator")
    if socket is None:
        checked.carrier()
    for warning in check_coordinator(checked, state):
        stderr().print(Text.assemble(("Warning: ", "yellow"), printable(warning)))
    console = stdout()
    console.print(Text(f"Coordinator of {checked.consortium} at {checked.name}; Ctrl-C stops it."))
    console.print(Text(f"Sites: {', '.join(checked.sites)}. State: {state.resolve()}"))
    console.print(
        Text(f"Certificate {checked.identity.fingerprint}, until {checked.identity.expires}"),
        soft_wrap=True,
    )
    service.start_coordinator(checked, state.resolve(), socket)
