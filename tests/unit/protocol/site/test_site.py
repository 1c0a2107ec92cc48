"""A site as a whole: what it needs, and that nothing leaves before it is written down."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrulefit.errors import DataError
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.table.patients import Table
from tests.alone import STUDY, head, join, make_site, refusal
from tests.samples import make_tables


def test_a_site_needs_outcomes_and_patients() -> None:
    table = make_tables(STUDY)["north"]
    with pytest.raises(DataError, match="site 'north': a site needs the outcome"):
        Site("north", Table(table.values, None, table.weights), STUDY)
    with pytest.raises(DataError, match="site 'north': no patient with a weight above 0"):
        Site("north", Table(table.values, table.outcome, 0 * table.weights), STUDY)


def test_another_version_is_refused() -> None:
    other = m.PROTOCOL_VERSION + 1
    reply = make_site().handle(join(version=other))
    assert isinstance(reply, m.Refusal)
    assert reply.code == "version"
    assert f"protocol version {other}" in reply.reason
    assert "install the same version" in reply.reason


def test_a_release_that_cannot_be_written_down_does_not_leave(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    site = make_site(ledger=Ledger(folder / "ledger.jsonl"))
    site.handle(join())
    request = m.GridRequest(head())
    for _ in range(2):  # the second time the answer is known already
        assert "failed with FileNotFoundError" in refusal(site, request, "internal")
    folder.mkdir()
    assert isinstance(site.handle(request), m.GridReply)
    assert len((folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()) == 5
