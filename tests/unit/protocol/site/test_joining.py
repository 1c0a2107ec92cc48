"""Joining a run: what would be refused later, or tell too much, is refused at once."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from fedrulefit.core.fixed import capacity
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.joining import check_join, note_run
from fedrulefit.protocol.store import Transient
from fedrulefit.protocol.tables import note_table
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.hospitals import ALL, TABLES, THREE, change, granted, make_site, named, refused
from tests.oracles import YES_NO
from tests.samples import SOLVERS, Talk, make_study, repeat

EXACT_STUDY = make_study(**SOLVERS["exact"])


def test_sites_that_count_equally_are_refused_under_masks() -> None:
    """Sums divided by a site's own size are partial fractions, which tell of each site."""
    study = make_study(**SOLVERS["exact"], weighting="sites")
    reply = refused(Talk(make_site(study=study)).join(THREE), "policy")
    assert "taken apart" in reply.reason
    open_ = make_site(study=study, policy=OPEN)
    granted(Talk(open_).join(THREE, secure=False), m.JoinReply)


def test_a_table_that_sums_cannot_bear_does_not_join() -> None:
    """The threshold is public: a coordinator cannot move it to learn the table's size."""
    study = Study.model_validate(
        {**make_study(**SOLVERS["exact"]).model_dump(), "weight": {"column": "w", "max": 1000}}
    )
    rows = np.resize(np.arange(60), 2000)
    values, outcome = TABLES["north"].values[rows], TABLES["north"].outcome[rows]
    for n_sites in (3, 30):
        sites = (*(f"site {k}" for k in range(n_sites - 1)), "north")
        for share in (0.999, 1.001):
            table = Table(values, outcome, np.full(2000, share * capacity(YES_NO, n_sites) / 2000))
            # The kit's list counts, not the sites that a coordinator names.
            site = Site("north", table, study, policy=OPEN, roster=sites)
            reply = Talk(site).join(("north",), secure=False)
            if share < 1:
                granted(reply, m.JoinReply)
            else:
                why = refused(reply, "policy").reason
                assert f"too many patients for a sum over {n_sites} sites" in why


def test_a_weight_that_sums_cannot_bear_does_not_join() -> None:
    facts = make_study(**SOLVERS["exact"]).model_dump()
    study = Study.model_validate({**facts, "weight": {"column": "w", "max": 2000}})
    assert "weight" in refused(Talk(make_site(study=study)).join(THREE), "policy").reason


@pytest.mark.parametrize(
    ("options", "join", "code"),
    [
        ({}, {"secure": False}, "secure-sum"),
        ({"identity": None}, {}, "identity"),
        ({"trust": None}, {}, "identity"),
        ({}, {"sites": ("north", "south")}, "too-few-sites"),
        ({}, {"sites": ("north", "south", "south")}, "bad-request"),
        ({}, {"sites": ("south", "west", "east")}, "bad-request"),
        ({"roster": ("north", "south", "east")}, {}, "identity"),
        ({"policy": change(ALL, peers={"south": "ab" * 32})}, {}, "policy"),
        ({"policy": change(ALL, min_sites=4)}, {}, "too-few-sites"),
        ({}, {"dropouts": "continue"}, "policy"),
    ],
)
def test_a_run_that_the_policy_would_end_later_is_refused_at_join(
    options: dict[str, Any], join: dict[str, Any], code: str
) -> None:
    site = make_site(**options)
    facts = {"sites": THREE, "secure": True, "dropouts": "wait", **join}
    talk = Talk(site)
    refused(talk.ask(m.JoinRequest, **facts), code)
    # Nothing was entered: the site can still join another run.
    assert site.ledger.releases == []
    refused(talk.ask(m.GridRequest), "order")
    if not options:
        other = Talk(site, run="another")
        granted(other.join(THREE), m.JoinReply)


def test_runs_over_a_data_set_are_counted() -> None:
    shared, policy = Transient(), change(ALL, max_runs=2)

    def join(run: str) -> Any:
        return Talk(make_site(policy=policy, shared=shared), run=run).join(THREE)

    for run in ("one", "two", "one", "two"):  # a run that is resumed is the same run
        granted(join(run), m.JoinReply)
    assert "2 runs" in refused(join("three"), "policy").reason
    # One name for runs of two studies: two runs.
    shared, other = Transient(), named("other")
    for study in (named("one"), other):
        site = make_site(study=study, policy=policy, shared=shared)
        granted(Talk(site, run="same").join(THREE), m.JoinReply)
    site = make_site(study=named("third"), policy=policy, shared=shared)
    refused(Talk(site, run="same").join(THREE), "policy")
    # A run that is refused is not counted.
    free = Transient()
    site = make_site(policy=change(policy, min_sites=4), shared=free)
    refused(Talk(site, run="none").join(THREE), "too-few-sites")
    assert free.get("runs") is None


# --- by hand ------------------------------------------------------------------------------------


def test_a_run_is_counted_once_whatever_happens_to_it() -> None:
    shared = Transient()
    for run in ("one", "two", "one"):
        note_run(header(run), shared)
    note_run(header("one", study="other"), shared)
    assert msgpack.unpackb(shared.get("runs") or b"") == [
        ["study", "one"],
        ["study", "two"],
        ["other", "one"],
    ]


def header(run: str, study: str = "study") -> m.Header:
    return m.Header(m.PROTOCOL_VERSION, run, 0, "north", study)


class Masking:
    """Stands for the masks: lets everybody join, among so many sites."""

    def __init__(self, n_sites: int = 3) -> None:
        self.n_sites, self.asked = n_sites, 0

    def check_join(self, request: m.JoinRequest) -> None:
        self.asked += 1

    def most_sites(self, request: m.JoinRequest) -> int:
        return self.n_sites


def join_by_hand(
    *,
    study: Study = EXACT_STUDY,
    policy: Policy = OPEN,
    n_sites: int = 3,
    secure: bool = True,
    shared: Transient | None = None,
    weight: float = 1.0,
    n_held: int = 0,
) -> str | None:
    """Return the code of the refusal; None where the site joins."""
    masking = Masking(n_sites)
    table = TABLES["north"]
    weights = np.full(table.n_rows, weight)
    rows = np.arange(table.n_rows)
    both = Table(table.values, table.outcome, weights)
    try:
        check_join(
            m.JoinRequest(header("run"), THREE, secure, "wait"),
            study,
            policy,
            masking,  # type: ignore[arg-type]
            shared if shared is not None else Transient(),
            learnt=both.take(rows >= n_held),
            held_out=both.take(rows < n_held),
        )
    except ProtocolError as error:
        return error.code
    finally:
        assert masking.asked == 1, "the masks are asked first"
    return None


@pytest.mark.parametrize("max_rows", [1, 1000])
def test_each_row_counts_no_more_than_sums_can_bear(max_rows: int) -> None:
    """However many a patient has: they are added one by one."""
    for most, code in ((1024.0, None), (1025.0, "policy")):
        facts = {**EXACT_STUDY.model_dump(), "weight": {"column": "w", "max": most}}
        study = repeat(Study.model_validate(facts), max_rows)
        assert join_by_hand(study=study) == code


@pytest.mark.parametrize("n_held", [0, 20])
@pytest.mark.parametrize("n_sites", [1, 3, 1000])
def test_all_patients_count_for_what_sums_can_bear(n_sites: int, n_held: int) -> None:
    """Those held out, too: 60 patients whose weights just fit, or just do not."""
    most = 2.0**63 / n_sites / (2.0**30 * 2049)  # losses are the largest numbers of a sum
    assert most == pytest.approx(capacity(YES_NO, n_sites), rel=1e-3)
    for share, code in ((0.99, None), (1.01, "policy")):
        weight = share * capacity(YES_NO, n_sites) / 60
        assert join_by_hand(n_sites=n_sites, n_held=n_held, weight=weight) == code


@pytest.mark.parametrize(("max_folds", "code"), [(10, None), (5, None), (4, "policy")])
def test_no_more_folds_than_the_policy_allows(max_folds: int, code: str | None) -> None:
    """The study's number counts even where λ is given: another run may use it."""
    study = EXACT_STUDY.with_settings(folds=5)
    assert join_by_hand(study=study, policy=change(OPEN, max_folds=max_folds)) == code


def test_runs_that_were_noted_may_go_on_when_they_are_used_up() -> None:
    shared, policy = Transient(), change(OPEN, max_runs=2)
    for run in ("one", "two"):
        note_run(header(run), shared)
    assert join_by_hand(shared=shared, policy=policy) == "policy"
    assert join_by_hand(shared=shared, policy=change(policy, max_runs=3)) is None
    note_run(header("run"), shared)
    assert join_by_hand(shared=shared, policy=policy) is None


def test_a_table_in_which_few_patients_changed_does_not_join() -> None:
    shared, table = Transient(), TABLES["north"]
    nobody = table.take(np.zeros(table.n_rows, dtype=np.bool_))
    note_table(table.take(np.arange(60) >= 3), nobody, EXACT_STUDY, shared)
    for min_changed, code in ((3, None), (4, "few-changes")):
        policy = change(OPEN, min_changed=min_changed)
        assert join_by_hand(shared=shared, policy=policy) == code
