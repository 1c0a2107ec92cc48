"""Hospitals of one consortium, each with a policy, and whoever asks them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from fedrulefit.core.bins import count_histograms
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import histogram_claim
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from tests.samples import SOLVERS, Talk, fit_model, make_study, make_tables

KEY = ("public", "certificate", "dropouts", "signature")
SMALL = {"n_trees": 5, "rounds": 3}
STUDY = make_study(**SMALL, spreads="exact")
THREE = ("north", "south", "west")
SIX = ("north", "south", "west", "east", "centre", "coast")
TABLES = make_tables(STUDY, sizes=(60, 50, 40, 40, 40, 40))
IDENTITIES, TRUST = make_consortium(SIX)
ALL = Policy(allow=tuple(KINDS))
"""The default policy, with exact histograms allowed: the study here has no noise."""


def change(policy: Policy, **changes: Any) -> Policy:
    return Policy.model_validate({**policy.model_dump(), **changes})


FREE = change(ALL, secure_sums=False)
REVIEW = change(ALL, approval="review")


def make_site(name: str = "north", *, study: Study = STUDY, **options: Any) -> Site:
    given = {"policy": ALL, "identity": IDENTITIES[name], "trust": TRUST, **options}
    return Site(name, TABLES[name], study, **given)


def refused(reply: Any, code: str) -> m.Refusal:
    assert isinstance(reply, m.Refusal), type(reply).__name__
    assert reply.code == code, reply
    assert reply.reason
    return reply


def granted(reply: Any, kind: Any) -> Any:
    assert isinstance(reply, kind), reply
    return reply


@cache
def peer_key(name: str, names: tuple[str, ...], run: str) -> m.KeyReply:
    policy = change(OPEN, dropouts="wait")
    talk = Talk(make_site(name, policy=policy), run=run)
    granted(talk.join(names), m.JoinReply)
    reply: m.KeyReply = granted(talk.ask(m.KeyRequest), m.KeyReply)
    return reply


def peers_of(names: Sequence[str], run: str, own: m.KeyReply | None = None) -> tuple[m.Peer, ...]:
    """Keys of honest sites; `own` is the one of the site under test."""
    peers = []
    for name in sorted(names):
        if own is not None and name == own.header.site:
            reply = own
        else:
            reply = peer_key(name, tuple(names), run)
        peers.append(m.Peer(name, reply.public, reply.certificate, reply.dropouts, reply.signature))
    return tuple(peers)


def meet(
    site: Site, names: Sequence[str], *, run: str = "run", dropouts: Any = "wait"
) -> tuple[Talk, Any]:
    """Join, exchange keys, hand them out; return the last reply."""
    talk = Talk(site, run=run)
    reply = talk.join(sorted(names), dropouts=dropouts)
    if isinstance(reply, m.Refusal):
        return talk, reply
    own = granted(talk.ask(m.KeyRequest), m.KeyReply)
    return talk, talk.ask(m.PeersRequest, peers=peers_of(names, run, own))


def named(name: str, epsilon: float = 1.0) -> Study:
    study = make_study(**{**SMALL, **SOLVERS["exact"]}, epsilon=epsilon)
    return Study.model_validate({**study.model_dump(), "name": name})


GRID = fit_model(make_study(**SMALL), {name: TABLES[name] for name in THREE}).grid


def count(name: str) -> Any:
    values = TABLES[name].values
    return count_histograms(values, np.ones(len(values), dtype=np.int64), STUDY.bins)


TOTAL = sum(count(name) for name in THREE)


def hand_out_grid(talk: Talk, names: Sequence[str]) -> dict[str, Any]:
    """Ask for histograms; return the grid, and signed histograms that add up to it."""
    own = granted(talk.ask(m.GridRequest), m.GridReply)
    first, *rest = (name for name in sorted(names) if name != talk.site.name)
    counts = {talk.site.name: own.counts, first: TOTAL - own.counts}
    counts |= dict.fromkeys(rest, 0 * TOTAL)
    signed = tuple(
        m.Histogram(name, part, IDENTITIES[name].sign(histogram_claim(talk.header(), name, part)))
        for name, part in counts.items()
    )
    return {"grid": GRID, "histograms": signed}


def ready_for_rules(site: Site) -> Talk:
    talk = Talk(site)
    granted(talk.join(THREE, secure=False), m.JoinReply)
    granted(talk.ask(m.GridRequest), m.GridReply)
    return talk


class Person:
    """Answers what it is told to, and keeps what it was shown."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers, self.shown = list(answers), []

    def __call__(self, kind: str, lines: Sequence[str]) -> bool | None:
        self.shown.append((kind, list(lines)))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
