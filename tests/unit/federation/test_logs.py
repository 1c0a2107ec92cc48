"""What others sent stays on its line of the log."""

from __future__ import annotations

import logging

import pytest

from fedrulefit.federation.logs import OneLine


@pytest.mark.parametrize("weak", [False, True])
def test_what_others_sent_stays_on_its_line_of_the_log(weak: bool) -> None:
    """A name with a line break in it writes no line of its own into a hospital's log."""
    formatter = logging.Formatter("%(message)s") if weak else OneLine("%(message)s")
    told = "bad name 'x\n2026 INFO site north is ready'\x1b[2J"
    record = logging.LogRecord("n", logging.ERROR, "f", 1, "%s", (told,), None)
    assert ("\n" in formatter.format(record)) is weak
