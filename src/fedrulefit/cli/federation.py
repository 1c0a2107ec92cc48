"""``fedrulefit federation``: set a consortium up, and run studies in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from fedrulefit.cli import audit, runs
from fedrulefit.cli.console import (
    friendly_errors,
    stdout,
    write_example,
)
from fedrulefit.errors import FederationError

app = typer.Typer(
    name="federation",
    help="Set up a consortium of hospitals, and learn models in it.",
    no_args_is_help=True,
)


@app.command(epilog="Example: fedrulefit federation draft -o consortium.toml")
@friendly_errors()
def draft(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write a consortium file to start from: who takes part, and where to call."""
    from fedrulefit.federation.kits.consortium import EXAMPLE

    write_example(EXAMPLE, output, "put in your own names, host and port")


@app.command(epilog="Example: fedrulefit federation init consortium.toml -o kits")
@friendly_errors()
def init(
    consortium: Annotated[Path, typer.Argument(help="Who takes part.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the kits.")] = Path(
        "kits"
    ),
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace the kits; the consortium's root stays.")
    ] = False,
) -> None:
    """Make a sealed start-up kit for the coordinator and each hospital.

    Each has two parts: one for the process that has the network, one for the one that
    signs. Hand each hospital its own folder over a private channel, and keep authority/
    safe: it can make new kits.
    """
    from fedrulefit.federation.kits.charter import make_charter
    from fedrulefit.federation.kits.consortium import Consortium
    from fedrulefit.federation.kits.kit import Kit
    from fedrulefit.federation.kits.provision import provision
    from fedrulefit.federation.transport import TRANSPORTS
    from fedrulefit.files import close_to_others, write_whole

    facts = Consortium.load(consortium)
    if output.exists() and any(output.iterdir()) and not renew:
        raise FederationError(
            f"{output} is not empty: choose another folder, or --renew the kits in it"
        )
    TRANSPORTS.find(facts.transport)
    folders = provision(facts, output)
    close_to_others(output)
    kits = {
        name: Kit.load(folder, "coordinator" if name == "coordinator" else "site")
        for name, folder in folders.items()
    }
    sites = {name: kit for name, kit in kits.items() if name != "coordinator"}
    charter = make_charter(kits["coordinator"], sites)
    write_whole(output / "charter.toml", charter.text().encode(), private=True)
    console = stdout()
    console.print(Text(f"Root certificate {charter.root}"), soft_wrap=True)
    for name, kit in kits.items():
        console.print(Text.assemble((str(folders[name]), "bold"), f"  for {kit.name}"))
        console.print(Text(f"  certificate {kit.identity.fingerprint}"), soft_wrap=True)
    console.print(Text.assemble((str(output / "charter.toml"), "bold"), "  for all hospitals"))
    console.print(Text(f"  hash {charter.hash}"), soft_wrap=True)
    console.print(
        Text(
            f"Hand each hospital its folder over a private channel, and the charter; keep "
            f"{output / 'authority'} safe. Each hospital compares the charter's hash with the "
            "others by another way, such as the telephone, and accepts it with 'fedrulefit site "
            "accept'."
        )
    )


# After those that set a consortium up, in the order of their use.
for part in (runs, audit):
    app.add_typer(part.app)
