"""One question to all sites: replies that should not have come, and sums that do not fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from tests.samples import SOLVERS, make_study, make_tables
from tests.tampered import STUDY, Replies, change, lengthen, make_sites, run


def test_a_refusal_is_told_with_site_and_reason() -> None:
    other = STUDY.with_settings(seed=5)
    sites = {**make_sites(STUDY), "south": make_sites(other)["south"]}
    with pytest.raises(FitError) as caught:
        run(sites=sites)
    first, line = str(caught.value).splitlines()
    assert first == "these sites refused:"
    assert line.startswith("  south: site 'south' holds another study")
    assert line.endswith("[study]")


def test_all_refusals_are_told_at_once() -> None:
    def tamper(replies: Replies) -> Replies:
        return {
            name: m.Refusal(r.header, "policy", f"{name} is shut") for name, r in replies.items()
        }

    with pytest.raises(FitError, match=r"north is shut \[policy\]\n.*south is shut.*\n.*west"):
        run(tamper=tamper)


@pytest.mark.parametrize("kind", [m.JoinReply, m.GridReply, m.RulesReply, m.SumReply])
def test_a_missing_reply_is_named(kind: type) -> None:
    def tamper(replies: Replies) -> Replies:
        return {n: r for n, r in replies.items() if n != "south" or not isinstance(r, kind)}

    with pytest.raises(ProtocolError, match="no reply from south"):
        run(tamper=tamper)


def test_no_replies_at_all() -> None:
    coordinator = Coordinator(STUDY, ["a", "b"])
    coordinator.step()
    with pytest.raises(ProtocolError, match="no reply from a, b"):
        coordinator.step()


def test_a_reply_of_another_type_is_refused() -> None:
    def tamper(replies: Replies) -> Replies:
        south = replies["south"]
        if isinstance(south, m.GridReply):
            return {**replies, "south": m.TermsReply(south.header, 3)}
        return replies

    with pytest.raises(ProtocolError, match="site 'south' answered another question"):
        run(tamper=tamper)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 99},
        {"run": "other"},
        {"site": "north"},
        {"study": "0"},
        {"version": m.PROTOCOL_VERSION + 1},
    ],
)
def test_a_reply_to_another_question_is_refused(changes: dict[str, Any]) -> None:
    def tamper(replies: Replies) -> Replies:
        south = replies["south"]
        header = dataclasses.replace(south.header, **changes)
        return {**replies, "south": dataclasses.replace(south, header=header)}

    with pytest.raises(ProtocolError, match="site 'south' answered another question"):
        run(tamper=tamper)


@pytest.mark.parametrize("kind", m.SUM_REQUESTS)
def test_sums_of_another_length_are_refused(kind: type[m.SumRequest]) -> None:
    solver = SOLVERS["fedda" if kind is m.DualRequest else "exact"]
    study = make_study(**{**solver, "rounds": 2}, spreads="exact", holdout=0.3, per_site=True)
    tables = make_tables(study, sizes=(200, 150, 150))
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    with pytest.raises(ProtocolError, match=r"site 'west' sent a sum of .* were due"):
        run(study, sites, tamper_sums=lengthen(kind))


def test_a_sum_under_masks_where_none_are_is_refused() -> None:
    with pytest.raises(ProtocolError, match="site 'west' sent a sum under masks"):
        run(tamper=change("west", m.SumReply, masked=True))
