"""One site, as far as a run has got with it."""

from __future__ import annotations

import pytest

from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from tests.alone import head, join, make_site, shared_grid


@pytest.fixture(scope="module")
def grid() -> Grid:
    return shared_grid()


@pytest.fixture
def joined() -> Site:
    site = make_site()
    assert isinstance(site.handle(join()), m.JoinReply)
    return site


@pytest.fixture
def ready(joined: Site, grid: Grid) -> Site:
    """A site with its design built: intercept, one rule, linear terms."""
    joined.handle(m.RulesRequest(head(), grid))
    reply = joined.handle(m.TermsRequest(head(), (Rule((Condition(3, 0b1),)),)))
    assert isinstance(reply, m.TermsReply)
    assert reply.n_terms == 1 + 1 + 4
    return joined
