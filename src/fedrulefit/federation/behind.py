"""What a hospital's process and the coordinator's share: both are behind a carrier."""

from __future__ import annotations

import datetime as dt
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier import sandbox
from fedrulefit.federation.carrier.keeper import Keeper, accept_carriers
from fedrulefit.federation.carrier.link import Link
from fedrulefit.federation.expiry import own_certificates
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.logs import set_up_logging
from fedrulefit.federation.state import warn_of_open
from fedrulefit.files import close_to_others

log = logging.getLogger(__name__)


def begin(kit: Kit, socket: Path | None) -> Keeper | None:
    """Harden this process, and make ready to start its carrier where it has one of its own.

    Raises
    ------
    FederationError
        If the kit has no carrier beside it, and none comes over a socket.
    """
    sandbox.need_posix()
    keeper = Keeper(kit.carrier()) if socket is None else None
    set_up_logging()
    sandbox.harden()
    if keeper is None:
        return None
    keeper.start()

    def end(number: int, _frame: object) -> None:
        """End at once: all that matters is on disk."""
        keeper.end()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return keeper


def give_up_network() -> None:
    """Give up TCP for good, in this thread and all that it starts."""
    if not sandbox.forbid_tcp():
        log.warning("this kernel has no Landlock for TCP: this process could open connections")


def attend(keeper: Keeper | None, socket: Path | None, take: Callable[[Link], None]) -> None:
    """Serve one carrier after another."""
    if socket is not None:
        accept_carriers(socket, take)
    while keeper is not None:
        take(keeper.next())


def kit_certificates(kit: Kit) -> dict[str, dt.date]:
    """Return when each certificate ends that a process and its carrier need."""
    ends = own_certificates(kit.role, kit.identity, kit.trust())
    if (kit.folder.parent / "carrier").exists():
        ends[f"the certificate of this {kit.role}'s carrier"] = kit.carrier().identity.expires
    return ends


def close_kit(kit: Kit) -> list[str]:
    """Close a kit to others, with its carrier's part if that lies beside; return warnings."""
    folder = kit.folder.parent if (kit.folder.parent / "carrier").exists() else kit.folder
    try:
        return warn_of_open(folder, close_to_others(folder))
    except FederationError as error:  # on a disk of somebody else's, perhaps by intent
        return [str(error)]
