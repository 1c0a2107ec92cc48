"""Differences of two deals, tables or attempts; and what refusals and folds tell of sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pytest

from fedrulefit.core.curvature import Query
from fedrulefit.core.fixed import capacity
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.gate import gate_rules, have_enough
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.protocol import dealing, masking
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.dealing import NEVER, Dealer, deal_folds
from fedrulefit.protocol.site import Site, joining
from fedrulefit.protocol.site import site as site_module
from fedrulefit.protocol.store import Transient
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.attacks.lead import KEY, Lead
from tests.attacks.test_coordinator import refused, total_events
from tests.oracles import YES_NO
from tests.samples import (
    SOLVERS,
    Talk,
    make_frame,
    make_sites,
    make_study,
    make_tables,
    study_facts,
    take,
)

POLICY = Policy(allow=tuple(KINDS))
NAMES = ("north", "south", "west")
IDENTITIES, TRUST = make_consortium([*NAMES, "east"])


def change(**changes: Any) -> Policy:
    return Policy.model_validate({**POLICY.model_dump(), **changes})


def secret_of(name: str) -> bytes:
    return name.encode().ljust(32, b"x")


def learnt(made: Site) -> set[bytes]:
    return {
        row.tobytes()
        for row in np.column_stack([made.patients.learnt.values, made.patients.outcome])
    }


def n_learnt(made: Site) -> int:
    return made.patients.learnt.n_rows


class Rowwise(Dealer):
    """Deals rows of the file from one stream, whatever the share: as sites once did."""

    def _shuffle(self, table: Table, purpose: Any, number: float) -> Any:
        secret = int.from_bytes(self.secret or b"", "little")
        rng = np.random.default_rng([secret, dealing._STREAMS[purpose]])
        return np.arange(table.n_rows), rng


# --- Two shares that are nearly the same --------------------------------------------------------

SIZES = (311, 250, 203)
NEAR = (0.2, 0.2008)
"""Shares that hold one patient more out at one of the three sites, and none at the others."""


def run_near(shared: Mapping[str, Transient], share: float, policy: Policy) -> dict[str, Site]:
    """Run a study up to its summary; return the sites."""
    study = make_study(**{**SOLVERS["exact"], "n_trees": 2}, holdout=share)
    sites = make_sites(
        study,
        make_tables(study, SIZES),
        policy=policy,
        each=lambda name: {"shared": shared[name], "dealing": secret_of(name)},
    )
    total_events(sites, f"share-{share}")
    return sites


@pytest.mark.parametrize("kind", [Rowwise, Dealer])
def test_two_shares_held_out_do_not_differ_by_one_patient(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stream dealt both shares, so held-out patients were nested: 0.2008 − 0.2 was one."""
    monkeypatch.setattr(site_module, "Dealer", kind)
    forgetful = {name: Transient() for name in NAMES}
    one, two = (run_near(forgetful, share, change(min_changed=0)) for share in NEAR)
    apart = [len(learnt(one[name]) ^ learnt(two[name])) for name in NAMES]
    assert abs(sum(n_learnt(one[n]) - n_learnt(two[n]) for n in NAMES)) == 1
    shared = {name: Transient() for name in NAMES}
    run_near(shared, NEAR[0], POLICY)
    if kind is Rowwise:
        assert sum(apart) == 1
        # Were deals still nested: what was learnt is compared, not only the whole table.
        assert refused(run_near, shared, NEAR[1], POLICY) == "few-changes"
    else:
        assert min(apart) > 20
        run_near(shared, NEAR[1], POLICY)


# --- A file in another order --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Rowwise, Dealer])
def test_a_file_in_another_order_is_learnt_from_the_same_patients(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows swapped, and one held-out patient was learnt from instead of another."""
    monkeypatch.setattr(site_module, "Dealer", kind)
    study = make_study(**SOLVERS["cv"], holdout=0.2)
    table = make_tables(study, (300,))["north"]
    assert table.outcome is not None
    made = Site("north", table, study, policy=POLICY, dealing=secret_of("north"))
    mine = learnt(made)
    rows = np.column_stack([table.values, table.outcome])
    held = np.array([row.tobytes() not in mine for row in rows])
    out = np.flatnonzero(held)[0]
    other = np.flatnonzero(~held & (table.outcome == table.outcome[out]))[0]
    order = np.arange(300)
    order[[out, other]] = order[[other, out]]
    again = Site("north", take(table, order), study, policy=POLICY, dealing=secret_of("north"))
    assert len(mine ^ learnt(again)) == (2 if kind is Rowwise else 0)
    if kind is Dealer:
        folds = [
            {r.tobytes(): f for r, f in zip(some.learnt.values, some.folds, strict=True)}
            for some in (made.patients, again.patients)
        ]
        assert folds[0] == folds[1]


# --- What folds tell ----------------------------------------------------------------------------


def deal_some(outcome: Any, n_folds: int, rng: np.random.Generator, least: int) -> Any:
    """Deal into as many folds as there are patients for: as sites once did."""
    fewest = int(min(outcome.sum(), (1 - outcome).sum()))
    used = rng.permutation(n_folds)[: min(n_folds, fewest // least)]
    folds = np.empty(len(outcome), dtype=np.int64)
    order = np.lexsort((rng.random(len(outcome)), outcome))
    folds[order] = used[np.arange(len(outcome)) % len(used)]
    return folds


@pytest.mark.parametrize("some", [True, False])
def test_the_sizes_of_folds_do_not_tell_that_of_a_small_hospital(some: bool) -> None:
    """It had patients in three folds of five: how much larger these were told how many."""
    held = np.zeros(5)
    for k, (n_rows, n_cases) in enumerate([(611, 92), (287, 43), (149, 18)]):
        outcome, rng = np.repeat([1.0, 0.0], [n_cases, n_rows - n_cases]), np.random.default_rng(k)
        folds = (
            deal_some(outcome, 5, rng, 5)
            if some
            else deal_folds(outcome, np.ones(n_rows), 5, rng, least=5)
        )
        held += [(folds == fold).sum() for fold in range(5)]
        if not some:
            assert (folds == NEVER).all() == (n_cases < 25)
    if some:
        low, high = np.sort(held)[:2].mean(), np.sort(held)[2:]
        assert abs((high - low).sum() - 149) < 5
    else:
        assert np.ptp(held) <= 2


CHECK_FOLDS = joining._check_folds


def check_used_folds(study: Study, policy: Policy) -> None:
    """Count folds only where λ is chosen by cross-validation: as sites once did."""
    if study.settings.penalty == "cv":
        CHECK_FOLDS(study, policy)


@pytest.mark.parametrize("lenient", [True, False])
def test_folds_are_bounded_whatever_the_penalty(
    lenient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number as `penalty`, 100 folds: once nobody looked at them, and all were answered."""
    if lenient:
        monkeypatch.setattr(joining, "_check_folds", check_used_folds)
    study = make_study(**{**SOLVERS["exact"], "folds": 100})
    table = make_tables(study, (70,))["north"]
    made = Site("north", table, study, policy=POLICY, identity=IDENTITIES["north"], trust=TRUST)
    reply = Talk(made).join(NAMES)
    if lenient:
        assert isinstance(reply, m.JoinReply)
    else:
        assert (type(reply), reply.code) == (m.Refusal, "policy")


@pytest.mark.parametrize("penalty", ["cv", 0.01])
def test_points_without_a_fold_are_of_cross_validation_only(penalty: Any) -> None:
    """They cost nothing in the study's eyes, and the difference to all is the fold's own."""
    study = make_study(**{**SOLVERS["exact"], "penalty": penalty, "folds": 3, "n_trees": 2})
    policy = change(min_votes=0)
    lead = Lead(make_sites(study, make_tables(study, (150, 120, 100)), policy=policy))
    lead.join()
    grid, signed = lead.agree()
    lead.collect(grid, signed)
    lead.ask(m.TermsRequest, rules=())
    zero, coef = np.zeros(1, np.int64), np.zeros(1)
    queries = tuple(Query(fold, zero, coef, coef, zero) for fold in (-1, 0))
    ask = {"queries": queries}
    if penalty == "cv":
        _, left_out = lead.sum(m.CurvatureRequest, **ask)
        assert left_out.held_weight > 0
    else:
        assert refused(lead.ask, m.CurvatureRequest, **ask) == "bad-request"
        assert refused(lead.ask, m.CurvatureRequest, queries=queries[1:]) == "bad-request"
        lead.ask(m.CurvatureRequest, queries=queries[:1])


# --- One patient more, in other words -----------------------------------------------------------


def check_as_written(
    learnt: Table, held: Table, study: Study, shared: Transient, fewest: int
) -> None:
    """Compare rows as the study writes them, of the same columns in the same order: the old way."""
    del held
    place = repr([study.outcome.column, *study.names])
    assert learnt.outcome is not None
    rows = np.nan_to_num(np.column_stack([learnt.values, learnt.outcome]), nan=-1.0)
    now = {hashlib.sha256(row.tobytes()).digest() for row in rows}
    earlier = shared.get(place)
    if earlier is None:
        shared.put({place: msgpack.packb(sorted(now))})
    elif 0 < len(now - set(msgpack.unpackb(earlier))) < fewest:
        raise ProtocolError("few", "few-changes")


def same(facts: Any) -> Any:
    return facts


def reordered(facts: Any) -> Any:
    return {**facts, "covariates": dict(reversed(facts["covariates"].items()))}


def recoded(facts: Any) -> Any:
    return {**facts, "outcome": {"column": "died", "positive": "no", "negative": "yes"}}


def fewer(facts: Any) -> Any:
    kept = {name: c for name, c in facts["covariates"].items() if name != "sex"}
    return {**facts, "covariates": kept}


def as_it_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def nudged(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(age=frame["age"] + np.where(np.arange(len(frame)) < 10, 0.001, 0.0))


def join(shared: Transient, facts: Any, frame: pd.DataFrame, run: str) -> str:
    """Join a run over a table; return the code of a refusal, or "joined"."""
    study = Study.from_mapping(facts)
    made = Site(
        "north",
        load_table(frame, study),
        study,
        policy=POLICY,
        identity=IDENTITIES["north"],
        trust=TRUST,
        shared=shared,
    )
    reply = Talk(made, run=run).join(NAMES)
    return reply.code if isinstance(reply, m.Refusal) else "joined"


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    ("write", "touch"),
    [(reordered, as_it_is), (recoded, as_it_is), (fewer, as_it_is), (same, nudged)],
)
def test_one_patient_more_is_noticed_however_the_study_is_written(
    write: Any, touch: Any, real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns turned round, the outcome coded the other way, a column less, ages + 0.001."""
    if not real:
        monkeypatch.setattr(joining, "check_changes", check_as_written)
    shared, facts, frame = Transient(), study_facts(**SOLVERS["exact"]), make_frame(300)
    assert join(shared, facts, frame[:299], "first") == "joined"
    assert join(shared, facts, frame, "again") == "few-changes"
    second = join(shared, write(facts), touch(frame), "second")
    assert second == ("few-changes" if real else "joined")
    # Nobody more: another study over the same patients is welcome.
    assert join(shared, write(facts), frame[:299], "third") == "joined"


# --- What refusals tell -------------------------------------------------------------------------


def largest_run(n_rows: int) -> int:
    """Return with how many sites a site of `n_rows` patients joins at most."""
    study = make_study(**SOLVERS["exact"])
    table = make_tables(study, (n_rows,))["north"]
    made = Site("north", table, study, policy=POLICY, identity=IDENTITIES["north"], trust=TRUST)
    low, high = 3, 20_000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            request = m.JoinRequest(
                m.Header(m.PROTOCOL_VERSION, "run", 0, "north", study.digest),
                ("north", *(f"s{k}" for k in range(middle - 1))),
                True,
                "wait",
            )
            joining._check_capacity(request, study, made._masking, (table,))
            low = middle
        except ProtocolError:
            high = middle - 1
    return low


@pytest.mark.parametrize("real", [False, True])
def test_invented_sites_do_not_tell_the_size_of_a_table(
    real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The most patients for a sum went by the sites named: the coordinator searched for n."""
    if not real:
        named = lambda self, request: len(request.sites)  # noqa: E731
        monkeypatch.setattr(masking.Masking, "most_sites", named)
    found = [largest_run(n_rows) for n_rows in (1033, 1400)]
    if real:
        assert found == [masking.UNLISTED_SITES] * 2
        assert capacity(YES_NO, masking.UNLISTED_SITES) > 100_000
    else:
        assert [round(capacity(YES_NO, n)) for n in found] == pytest.approx([1033, 1400], abs=1)


def test_spreads_are_told_only_where_the_study_asks_for_them() -> None:
    """Exact sums of every covariate, of a study that takes them from noisy histograms."""
    for spreads in ("exact", "histogram"):
        study = make_study(**SOLVERS["exact"], spreads=spreads)
        lead = Lead(make_sites(study, policy=POLICY))
        lead.join()
        lead.agree()
        if spreads == "exact":
            lead.ask(m.SpreadsRequest)
        else:
            assert refused(lead.ask, m.SpreadsRequest) == "order"


# --- Patients without weight --------------------------------------------------------------------


def test_patients_without_weight_do_not_make_a_rule_large_enough() -> None:
    """Eleven patients of weight 0 around one: the sum over the rule was that one's."""
    grid = Grid((Axis("number", np.array([1.0]), 2, complete=True),))
    codes = np.zeros((40, 1), dtype=np.uint8)
    codes[:12] = 1
    outcome = (np.arange(40) % 2).astype(np.float64)
    weights = np.where((np.arange(40) < 12) & (np.arange(40) > 0), 0.0, 1.0)
    rule = Rule((Condition(0, 2),))
    assert have_enough([rule], codes, outcome, np.ones(len(codes)), min_count=5).all()
    assert not have_enough([rule], codes, outcome, weights, min_count=5).any()
    options: dict[str, Any] = {"min_count": 5, "max_rules_sent": 10}
    assert gate_rules([rule], codes, outcome, grid, **options).rules == (rule,)
    assert gate_rules([rule], codes, outcome, grid, **options, weights=weights).too_few == 1


# --- A full disk, a restart ---------------------------------------------------------------------


class Full(Transient):
    """Is full once."""

    full = False

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        if self.full:
            self.full = False
            raise OSError("no space left")
        super().put(entries)


class Early(Site):
    """Takes part before the answer is kept: as sites once did."""

    def _keep(self, request: m.Request, *answer: Any) -> None:
        self._enter(request)
        super()._keep(request, *answer)


def begin(kind: type[Site], memory: Full, full_at: type) -> list[str]:
    """Join and exchange keys with a disk that is full once; return the codes of refusals."""
    study = make_study(**SOLVERS["exact"])
    tables = make_tables(study)
    sites = {
        name: kind(
            name,
            table,
            study,
            policy=POLICY,
            identity=IDENTITIES[name],
            trust=TRUST,
            memory=memory if name == "north" else Transient(),
        )
        for name, table in tables.items()
    }
    codes = []

    def ask(request: Any, **fields: Any) -> dict[str, Any]:
        replies = {}
        for name, talk in talks.items():
            memory.full = name == "north" and request is full_at
            reply = talk.ask(request, **fields)
            if isinstance(reply, m.Refusal):
                codes.append(reply.code)
                reply = talk.ask(request, **fields)
            if isinstance(reply, m.Refusal):
                codes.append(reply.code)
            replies[name] = reply
        return replies

    talks = {name: Talk(made) for name, made in sites.items()}
    ask(m.JoinRequest, sites=NAMES, secure=True, dropouts="wait")
    keys = ask(m.KeyRequest)
    ask(
        m.PeersRequest,
        peers=tuple(m.Peer(n, *(getattr(k, f) for f in KEY)) for n, k in keys.items()),
    )
    return codes


@pytest.mark.parametrize("full_at", [m.JoinRequest, m.KeyRequest, m.PeersRequest])
def test_what_could_not_be_kept_took_no_effect(full_at: type) -> None:
    """A disk full once at the keys: the masks stood, and the same request was refused for ever."""
    assert begin(Site, Full(), full_at) == ["internal"]
    if full_at is m.PeersRequest:
        assert begin(Early, Full(), full_at) == ["internal", "set-changed"]


class Sieve(Transient):
    """Does not keep certificates: as sites once did not."""

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        super().put({key: value for key, value in entries.items() if key != "certificates"})


@pytest.mark.parametrize("kind", [Sieve, Transient])
def test_a_restarted_site_still_knows_what_a_lost_one_signed(kind: Any) -> None:
    """The lost site's histogram is among those of the grid, and its certificate was forgotten."""
    study, policy = make_study(**SOLVERS["exact"]), change(dropouts="continue")
    tables = make_tables(study, (150, 120, 100, 90))
    memory, shared = kind(), Transient()

    def start(name: str) -> Site:
        kept = {"memory": memory, "shared": shared} if name == "north" else {}
        identity = IDENTITIES[name]
        return Site(
            name, tables[name], study, policy=policy, identity=identity, trust=TRUST, **kept
        )

    lead = Lead({name: start(name) for name in tables})
    lead.ask(m.JoinRequest, sites=tuple(lead.sites), secure=True, dropouts="continue")
    keys = lead.ask(m.KeyRequest)
    peers = {n: m.Peer(n, *(getattr(key, f) for f in KEY)) for n, key in keys.items()}
    lead.ask(m.PeersRequest, peers=tuple(peers.values()))
    grid, signed = lead.agree()
    del lead.talks["east"], peers["east"]
    lead.ask(m.PeersRequest, peers=tuple(peers.values()))
    lead.talks["north"].site = start("north")
    if kind is Sieve:
        assert refused(lead.collect, grid, signed) == "identity"
    else:
        assert lead.collect(grid, signed)
