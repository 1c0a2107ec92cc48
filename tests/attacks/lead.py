"""A coordinator of any intent: asks all sites by hand, and adds their masked answers up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedrulefit.core.grid import Grid
from fedrulefit.privacy.masks import add_rings
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import count_rules, make_grid
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from tests.samples import Talk, take_apart

KEY = ("public", "certificate", "dropouts", "signature")


class RefusedError(Exception):
    """A site refused; the code is its first argument."""


class Lead:
    """Leads sites step by step, as far as they let it."""

    def __init__(self, sites: Mapping[str, Site], run: str = "run") -> None:
        self.sites = dict(sorted(sites.items()))
        self.talks = {name: Talk(site, run=run) for name, site in self.sites.items()}
        self.study = next(iter(sites.values())).study

    def ask(
        self, kind: Any, each: Mapping[str, Any] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Ask all sites; `each` gives fields by site."""
        replies = {
            name: talk.ask(kind, **{**fields, **(each or {}).get(name, {})})
            for name, talk in self.talks.items()
        }
        for name, reply in replies.items():
            if isinstance(reply, m.Refusal):
                raise RefusedError(reply.code, name, reply.reason)
        return replies

    @property
    def public(self) -> Public:
        """What everybody knows, as a site has it."""
        return next(iter(self.sites.values())).patients.public

    def sum(self, kind: Any, **fields: Any) -> list[Any]:
        """Ask for a sum and take its total apart, in whole units."""
        masked = [answer.numbers for answer in self.ask(kind, **fields).values()]
        question = kind(next(iter(self.talks.values())).header(), **fields)
        return take_apart(question, add_rings(masked, len(masked[0])), self.public)

    def join(self, dropouts: str = "wait") -> None:
        """Join, and exchange keys."""
        self.ask(m.JoinRequest, sites=tuple(self.sites), secure=True, dropouts=dropouts)
        keys = self.ask(m.KeyRequest)
        peers = tuple(m.Peer(n, *(getattr(key, f) for f in KEY)) for n, key in keys.items())
        self.ask(m.PeersRequest, peers=peers)

    def agree(self) -> tuple[Grid, tuple[m.Histogram, ...]]:
        """Ask for histograms; return the grid that follows, and what was signed."""
        counted = self.ask(m.GridRequest)
        signed = tuple(m.Histogram(n, r.counts, r.signature) for n, r in counted.items())
        total = sum(reply.counts for reply in counted.values())
        return make_grid(self.study, total, None), signed

    def collect(self, grid: Grid, signed: tuple[m.Histogram, ...]) -> dict[str, m.RulesReply]:
        return self.ask(m.RulesRequest, grid=grid, histograms=signed)

    def vote(self, rules: Any, sent: Mapping[str, m.RulesReply]) -> tuple[m.Ballot, ...]:
        """Let all sites vote; return their ballots."""
        senders = tuple(m.Sender(n, count_rules(r), r.signature) for n, r in sent.items())
        votes = self.ask(m.VoteRequest, rules=rules, senders=senders)
        return tuple(m.Ballot(n, reply.votes, reply.signature, b"") for n, reply in votes.items())
