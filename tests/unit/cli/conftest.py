"""Commands that would start a process, without one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from fedrulefit.federation.coordinator import process as coordinator_process
from fedrulefit.federation.kits.kit import Kit
from fedrulefit.federation.site import process as site_process
from fedrulefit.federation.site import startup
from fedrulefit.federation.site.startup import SiteStart


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What would have become a process, opened and closed again.

    A site's start with its host, or a coordinator's kit, state and socket.
    """
    seen: list[Any] = []

    def open_site(start: SiteStart, socket: Any, tell: Any) -> None:
        opened = startup.open_site(start)
        with contextlib.closing(opened.host):
            tell(opened)
        seen.append((start, opened.host))

    def open_coordinator(kit: Kit, state: Path, socket: Any, tell: Any) -> None:
        tell(coordinator_process.open_coordinator(kit, state))
        seen.append((kit, state, socket))

    monkeypatch.setattr(site_process, "start_site", open_site)
    monkeypatch.setattr(coordinator_process, "start_coordinator", open_coordinator)
    return seen
