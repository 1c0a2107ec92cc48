"""The command line, a file per command or group of commands."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130
"""What a shell reports of a program that was stopped by Ctrl-C."""


def main() -> None:
    """Run the command line."""
    # Loading takes a second or two; until then nothing is open that would have to be closed.
    signal.signal(signal.SIGINT, _leave_at_once)
    from fedrulefit.cli.app import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    app()


def _leave_at_once(number: int, frame: FrameType | None) -> None:
    """Stop without a traceback, wherever a library stands while it loads."""
    del number, frame
    os._exit(INTERRUPTED)
