"""The command line, a file per command or group of commands."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from fedrulefit.cli.app import app

    app()
