"""``fedrulefit carrier``: the process with the network, as a user or container of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli.console import friendly_errors, stdout

app = typer.Typer(
    name="carrier",
    help="Run the part that has the network as another user; see deploy/.",
    no_args_is_help=True,
)


@app.command(
    epilog="Example: fedrulefit carrier start --kit kit/carrier --socket /run/fedrulefit/link"
)
@friendly_errors()
def start(
    kit: Annotated[Path, typer.Option("--kit", help="The carrier's part of a start-up kit.")],
    socket: Annotated[
        Path,
        typer.Option("--socket", help="The Unix socket that 'site start' was given."),
    ],
) -> None:
    """Carry envelopes between the network and a local socket, until Ctrl-C.

    It needs its part of the kit and the socket: no table, no policy, no state.
    """
    from fedrulefit.federation.carrier.process import carry_over
    from fedrulefit.federation.kits.kit import Kit
    from fedrulefit.federation.logs import set_up_logging
    from fedrulefit.federation.transport import TRANSPORTS

    checked = Kit.load(kit, "carrier")
    TRANSPORTS.check(checked.transport)
    set_up_logging()
    console = stdout()
    console.print(Text(f"Carrier of {checked.name} in {checked.consortium}; Ctrl-C stops it."))
    console.print(Text(f"TLS certificate valid until {checked.identity.expires}. Socket: {socket}"))
    carry_over(checked, socket)
