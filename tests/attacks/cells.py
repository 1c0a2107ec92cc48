"""The weakened twin of a carrier: FLARE's own cells, as its client and server have them.

``python -m tests.attacks.cells PART HOST PORT`` answers FLARE's network manager, and a
shell command that reads a file. Made only to show that the attacks in this folder work.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.net_agent import NetAgent
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.message import Message

from fedrulefit.federation.kits.kit import CERTIFICATE, KEY, ROOT, Kit
from tests.attacks.frames import SHELL


def cat(request: Message) -> Message:
    path = bytes(request.payload).decode().removeprefix("cat ")
    return make_reply("ok", body=Path(path).read_bytes())


def main() -> None:
    kit = Kit.load(sys.argv[1], "carrier")
    side = "server" if kit.side == "coordinator" else "client"
    cell = CoreCell(
        "server" if kit.side == "coordinator" else kit.name,
        f"stcp://{sys.argv[2]}:{sys.argv[3]}",
        secure=True,
        credentials={
            DriverParams.CA_CERT.value: str(kit.folder / ROOT),
            DriverParams[f"{side.upper()}_CERT"].value: str(kit.folder / CERTIFICATE),
            DriverParams[f"{side.upper()}_KEY"].value: str(kit.folder / KEY),
        },
        auth_identity=kit.name,
        auth_identity_map={"server": kit.coordinator},
    )
    cell.register_request_cb(*SHELL, cat)
    NetAgent(cell)
    cell.start()
    time.sleep(60)


if __name__ == "__main__":
    main()
