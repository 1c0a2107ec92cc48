"""A site: what it refuses, what it repeats, and what it writes down."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.curvature import Query
from fedrulefit.core.fixed import FINE_BITS, LOSS_BITS, from_units
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule, conjoin
from fedrulefit.errors import DataError
from fedrulefit.privacy.ledger import EXACT, Ledger
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.public import SITE_WEIGHT
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.diary import RECENT
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.samples import SOLVERS, make_study, make_tables, record, study_facts, sums_of

STUDY = make_study(rounds=3)
STEPS = itertools.count()


def make_site(study: Study = STUDY, **options: Any) -> Site:
    return Site("north", make_tables(study)["north"], study, **options)


def head(study: Study = STUDY, **changes: Any) -> m.Header:
    """Return a header; every question has a step of its own, as a coordinator counts them."""
    header = m.Header(m.PROTOCOL_VERSION, "run-1", next(STEPS), "north", study.digest)
    return dataclasses.replace(header, **changes)


def join(study: Study = STUDY, **changes: Any) -> m.JoinRequest:
    header = head(study, **changes)
    return m.JoinRequest(header, sites=(header.site,), secure=False, dropouts="wait")


def summary(terms: Any, coef: Any, scales: Any = (0.0, 0.0)) -> m.SummaryRequest:
    return m.SummaryRequest(head(), terms, coef, np.array(scales))


def refusal(site: Site, request: m.Request, code: str = "bad-request") -> str:
    """Return why `site` refuses; nothing may have been written down as released."""
    before = len(site.ledger.releases)
    reply = site.handle(request)
    assert isinstance(reply, m.Refusal), reply
    assert reply.code == code
    assert reply.header == request.header
    assert len(site.ledger.releases) == before
    return reply.reason


def shared_grid(study: Study = STUDY) -> Grid:
    """Return the grid that the coordinator would hand out."""
    sites = {"north": make_site(study)}
    _, seen = record(Coordinator(study, ["north"]), sites)
    (grid,) = (request.grid for _, request, _ in seen if isinstance(request, m.RulesRequest))
    return grid


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


def test_another_study_is_refused() -> None:
    other = STUDY.with_settings(rounds=4)
    assert "holds another study" in refusal(make_site(), join(other), "study")


def test_a_message_for_another_site_is_refused() -> None:
    reason = refusal(make_site(), join(site="south"), "site")
    assert "for another site reached 'north'" in reason


def test_another_run_is_refused(joined: Site) -> None:
    assert "another run" in refusal(joined, m.GridRequest(head(run="run-2")), "run")
    assert "another run" in refusal(joined, join(run="run-2"), "run")
    assert isinstance(joined.handle(m.GridRequest(head())), m.GridReply)


def test_nothing_is_answered_before_joining(grid: Grid) -> None:
    """A site once answered a request for histograms of a run that it had not joined."""
    empty: Any = np.empty(0)
    requests: tuple[m.Request, ...] = (
        m.KeyRequest(head()),
        m.PeersRequest(head(), ()),
        m.OpenRequest(head(), 0),
        m.GridRequest(head()),
        m.SpreadsRequest(head()),
        m.RulesRequest(head(), grid),
        m.VoteRequest(head(), (), ()),
        m.TermsRequest(head(), ()),
        m.DualRequest(head(), 0, empty),
        m.CurvatureRequest(head(), ()),
        m.SlopesRequest(head(), empty.astype(np.int64), empty),
        m.SummaryRequest(head(), empty.astype(np.int64), empty, empty),
        m.EvaluateRequest(head(), empty.astype(np.int64), empty),
        m.OfferRequest(head(), empty.astype(np.int64)),
        m.ResultsRequest(
            head(), empty.astype(np.int64), empty, empty.astype(np.int64), False, False
        ),
    )
    assert {type(request) for request in requests} == {*m.REQUESTS} - {m.JoinRequest}
    for request in requests:
        assert "has not joined" in refusal(make_site(), request, "order")


def test_requests_out_of_order_are_refused(joined: Site, grid: Grid) -> None:
    assert "rules came before the grid" in refusal(joined, m.TermsRequest(head(), ()), "order")
    joined.handle(m.RulesRequest(head(), grid))
    terms = np.zeros(1, dtype=np.int64)
    for request in (
        m.DualRequest(head(), 0, np.zeros(6)),
        summary(terms, np.zeros(1)),
        m.SlopesRequest(head(), terms, np.zeros(1)),
    ):
        assert "before the rules" in refusal(joined, request, "order")


def test_no_request_goes_back(ready: Site, grid: Grid) -> None:
    """Else the coordinator could hand out another grid or other rules, and ask again."""
    for request in (
        join(),
        m.GridRequest(head()),
        m.SpreadsRequest(head()),
        m.RulesRequest(head(), grid),
        m.TermsRequest(head(), ()),
    ):
        assert "came out of turn" in refusal(ready, request, "order")
    assert isinstance(ready.handle(m.DualRequest(head(), 0, np.zeros(6))), m.SumReply)
    ready.handle(m.SlopesRequest(head(), np.array([0]), np.zeros(1)))
    again = m.DualRequest(head(), 1, np.zeros(6))
    assert "came out of turn" in refusal(ready, again, "order")


@pytest.mark.parametrize("length", [0, 5, 7])
def test_dual_variables_of_another_length_are_refused(ready: Site, length: int) -> None:
    reason = refusal(ready, m.DualRequest(head(), 0, np.zeros(length)))
    assert "expected 6 dual variables" in reason


@pytest.mark.parametrize("round_", [-1, 3])
def test_rounds_beyond_the_study_are_refused(ready: Site, round_: int) -> None:
    assert f"round {round_} of 3" in refusal(ready, m.DualRequest(head(), round_, np.zeros(6)))


@pytest.mark.parametrize("terms", [[], [1], [0, 6], [0, -1], [0, 2, 1], [0, 1, 1], [0, 0]])
def test_terms_out_of_range_or_order_are_refused(ready: Site, terms: list[int]) -> None:
    request = summary(np.array(terms, dtype=np.int64), np.zeros(len(terms)))
    assert "increasing positions that start with 0" in refusal(ready, request)


def test_coefficients_must_match_the_terms(ready: Site) -> None:
    request = summary(np.array([0, 1]), np.zeros(3))
    assert "expected 2 coefficients" in refusal(ready, request)


def test_a_grid_of_other_covariates_is_refused(joined: Site, grid: Grid) -> None:
    age, lactate, gcs, ward, sex = grid.axes

    def reason(*axes: Any) -> str:
        return refusal(joined, m.RulesRequest(head(), Grid(axes)), "grid")

    assert "does not fit the study's covariates" in reason(age)
    assert "does not fit the study's covariates" in reason(age, lactate, gcs, sex, ward)
    complete = dataclasses.replace(age, complete=True)
    assert "does not fit the study's covariates" in reason(complete, lactate, gcs, ward, sex)
    more = dataclasses.replace(ward, n_codes=5)
    assert "category's levels" in reason(age, lactate, gcs, more, sex)
    finer = dataclasses.replace(sex, cutoffs=np.array([0.5, 0.7]), n_codes=3)
    assert "cut-offs that the study fixes" in reason(age, lactate, gcs, ward, finer)


def test_rules_that_do_not_fit_the_grid_are_refused(joined: Site, grid: Grid) -> None:
    joined.handle(m.RulesRequest(head(), grid))

    def reason(*conditions: tuple[int, int]) -> str:
        rule = Rule(tuple(Condition(*c) for c in conditions))
        return refusal(joined, m.TermsRequest(head(), (rule,)))

    assert "names covariate 5" in reason((5, 1))
    assert "a code that its covariate does not have" in reason((3, 1 << 7))
    assert "must be an interval" in reason((0, 0b101))
    assert "not in canonical form" in reason((3, 1), (0, 1))
    assert "not in canonical form" in reason()


def test_noise_is_drawn_once() -> None:
    """Otherwise the coordinator asks again and averages the noise away."""
    study = make_study(epsilon=0.1)
    site = make_site(study)
    site.handle(join(study))
    request = m.GridRequest(head(study))
    data = site.answer(to_bytes(request))
    assert site.answer(to_bytes(request)) == data
    assert "came out of turn" in refusal(site, m.GridRequest(head(study)), "order")
    first = from_bytes(data)
    assert isinstance(first, m.GridReply)
    exact = make_site()
    exact.handle(join())
    truth = exact.handle(m.GridRequest(head()))
    assert isinstance(truth, m.GridReply)
    assert (first.counts != truth.counts).mean() > 0.3, "ε = 0.1 must move most cells"


def test_two_sites_draw_different_noise() -> None:
    study = make_study(epsilon=0.1)
    counts = []
    for _ in range(2):
        site = make_site(study)
        site.handle(join(study))
        reply = site.handle(m.GridRequest(head(study)))
        assert isinstance(reply, m.GridReply)
        counts.append(reply.counts)
    assert (counts[0] != counts[1]).any()


def test_weights_are_counted_in_whole_units_with_their_bound() -> None:
    """The noise must be scaled to the largest weight that the study allows."""

    class Spy(UnsafeSeededLaplace):
        asked: list[int] = []  # noqa: RUF012

        def add(self, counts: Any, *, sensitivity: int, epsilon: float) -> Any:
            self.asked.append(sensitivity)
            return super().add(counts, sensitivity=sensitivity, epsilon=epsilon)

    study = Study.from_mapping({**study_facts(epsilon=1.0), "weight": {"column": "w", "max": 2.5}})
    table = make_tables(make_study())["north"]
    weights = np.linspace(0.5, 2.5, table.n_rows)
    site = Site("north", Table(table.values, table.outcome, weights), study, noise=Spy(0, "north"))
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert Spy.asked == [2560] * 5


@pytest.mark.parametrize("field", ["formula", "mechanism", "shape"])
def test_every_field_of_a_reply_is_declared(field: str) -> None:
    for cls in m.Reply.__subclasses__():
        for entry in dataclasses.fields(cls):
            if entry.name != "header":
                assert field in entry.metadata, f"{cls.__name__}.{entry.name}"
                assert field == "shape" or entry.metadata[field], f"{cls.__name__}.{entry.name}"


def conversation(**settings: Any) -> tuple[Site, list[tuple[str, m.Request, m.Reply]]]:
    study = make_study(rounds=3, **settings)
    site = make_site(study)
    _, seen = record(Coordinator(study, ["north"]), {"north": site})
    return site, seen


@pytest.mark.parametrize(
    "settings",
    [{}, {"epsilon": 0.5}, {"spreads": "exact"}, SOLVERS["exact"], SOLVERS["cv"]],
    ids=["fedda", "noisy", "exact spreads", "exact", "cv"],
)
def test_every_patient_derived_field_has_an_entry(settings: dict[str, Any]) -> None:
    """Written from the message classes, not from the site's own code."""
    site, seen = conversation(**settings)
    bins = site.study.bins
    expected = []
    for _, request, reply in seen:
        digest = hashlib.sha256(to_bytes(reply)).hexdigest()
        round_ = request.round if isinstance(request, m.DualRequest) else None
        if isinstance(request, m.CurvatureRequest):
            round_ = request.header.step
        if isinstance(request, m.SumRequest):
            expected += sum_rows(request, site, digest, round_)
            continue
        for field in dataclasses.fields(reply):
            if field.name == "header" or field.metadata["mechanism"] == "no patient data":
                continue
            value = getattr(reply, field.name)
            name = type(reply).__name__
            if field.name == "counts":
                expected += [
                    (name, f"histogram of {covariate}", (b.n_cells,), digest, round_)
                    for covariate, b in zip(site.study.names, bins, strict=True)
                ]
            elif field.name == "fold_rules":
                n_rules = sum(len(rules) for rules in value)
                expected += [(name, field.name, (n_rules,), digest, round_)] * bool(n_rules)
            elif not isinstance(value, (np.ndarray, tuple)):
                expected.append((name, field.name, (), digest, round_))
            elif len(value):
                expected.append((name, field.name, (len(value),), digest, round_))
    found = [(r.message, r.quantity, r.shape, r.digest, r.round) for r in site.ledger.releases]
    assert found == expected
    kinds = {message for message, *_ in found}
    fitted = "RoundSums" if site.study.settings.solver == "fedda" else "CurvatureSums"
    always = {"GridReply", "RulesReply", fitted, "SlopeSums", "TermSums", "GapSums"}
    assert kinds == always | ({"SpreadSums"} if settings.get("spreads") == "exact" else set())


def sum_rows(request: m.SumRequest, site: Site, digest: str, round_: int | None) -> list[Any]:
    """Return what the ledger must tell of a sum: what is declared, over all its points."""
    packings = request.packings(site.patients.public)
    rows: dict[tuple[str, str], list[int]] = {}
    for packing in packings:
        for name, told in packing.of.quantities().items():
            n = packing.lengths[name]
            rows.setdefault((packing.of.__name__, name), []).append(n if told.shape else -1)
    expected = []
    for (message, name), lengths in rows.items():
        if lengths == [-1]:
            shape: tuple[int, ...] = ()
        else:
            shape = (sum(abs(n) for n in lengths),)
        if shape != (0,):
            expected.append((message, name, shape, digest, round_))
    return expected


def test_the_ledger_says_which_releases_are_exact() -> None:
    site, _ = conversation(epsilon=0.5)
    noisy = [r for r in site.ledger.releases if r.quantity.startswith("histogram of ")]
    rest = [r for r in site.ledger.releases if not r.quantity.startswith("histogram of ")]
    assert len(noisy) == 5
    for release in noisy:
        assert "discrete Laplace, OpenDP" in release.mechanism
        assert release.epsilon == pytest.approx(0.5)
    assert {(r.mechanism, r.epsilon) for r in rest} == {(EXACT, None)}
    assert site.ledger.epsilon == pytest.approx(5 * 0.5)
    assert sum(r.epsilon is None for r in site.ledger.releases) == len(rest)


def test_without_noise_histograms_are_exact_releases() -> None:
    site, _ = conversation()
    assert {(r.mechanism, r.epsilon) for r in site.ledger.releases} == {(EXACT, None)}
    assert site.ledger.epsilon == 0


def test_seeded_noise_earns_no_epsilon() -> None:
    study = make_study(epsilon=1.0)
    site = make_site(study, noise=UnsafeSeededLaplace(0, "north"))
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert {r.epsilon for r in site.ledger.releases} == {None}
    assert all("UNSAFE" in r.mechanism for r in site.ledger.releases)


def test_asked_again_the_site_repeats_itself_and_nothing_new_is_written(joined: Site) -> None:
    request = m.GridRequest(head())
    data = joined.answer(to_bytes(request))
    before = list(joined.ledger.releases)
    assert len(before) == 5
    assert {r.digest for r in before} == {hashlib.sha256(data).hexdigest()}
    assert joined.answer(to_bytes(request)) == data
    assert joined.ledger.releases == before


def test_a_step_is_answered_once(ready: Site) -> None:
    """Another question under a number that was answered gets no answer."""
    header = head()
    first = ready.answer(to_bytes(m.DualRequest(header, 0, np.zeros(6))))
    other = m.DualRequest(header, 0, np.ones(6))
    assert "answered to another question" in refusal(ready, other, "conflict")
    assert ready.answer(to_bytes(m.DualRequest(header, 0, np.zeros(6)))) == first
    for _ in range(RECENT):
        ready.handle(m.DualRequest(head(), 1, np.zeros(6)))
    # Sums are kept only for a while: the same question is then over, too.
    old = m.DualRequest(header, 0, np.zeros(6))
    assert f"step {header.step} is over" in refusal(ready, old, "stale")
    never = m.DualRequest(head(step=-1), 0, np.zeros(6))
    assert "step -1 is over" in refusal(ready, never, "stale")


def test_the_ledger_file_has_one_line_per_release(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    times = iter(f"2024-01-01T00:00:{second:02d}" for second in range(60))
    site = make_site(ledger=Ledger(path, clock=lambda: next(times)))
    site.handle(join())
    site.handle(m.GridRequest(head()))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    chain = ("epsilon_so_far", "previous", "hash")
    assert lines == [
        {**dataclasses.asdict(r), "shape": list(r.shape), **{key: line[key] for key in chain}}
        for r, line in zip(site.ledger.releases, lines, strict=True)
    ]
    assert [line["time"][-2:] for line in lines] == ["00"] * 5  # one message, one time
    assert lines[0]["epsilon"] is None
    assert {(line["study"], line["run"]) for line in lines} == {(STUDY.name, "run-1")}
    # A second run goes on where the first ended.
    Site("north", make_tables(STUDY)["north"], STUDY, ledger=Ledger(path))
    again = make_site(ledger=Ledger(path))
    again.handle(join())
    again.handle(m.GridRequest(head()))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 10


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


def test_a_summary_is_the_site_s_own_sums(ready: Site) -> None:
    table = make_tables(STUDY)["north"]
    request = summary(np.array([0, 1]), np.array([0.3, -0.2]), scales=(0.5, 0.25))
    reply, gap = sums_of(ready, request)
    icu = table.values[:, 3] == 0
    y = np.asarray(table.outcome)
    assert (reply.total, reply.events) == (len(y) << 32, int(y.sum()) << 32)
    assert reply.inside.tolist() == [int(icu.sum()) << 32]
    assert reply.events_inside.tolist() == [int((icu * y).sum()) << 32]
    assert len(reply.sums) == len(reply.squares) == 0, "a rule's spread follows from its count"
    log_odds = 0.3 - 0.2 * icu
    loss = -np.where(y == 1, -np.log1p(np.exp(-log_odds)), -np.log1p(np.exp(log_odds))).sum()
    assert from_units(gap.loss, LOSS_BITS) == pytest.approx(loss, abs=len(y) * 2.0**-31)


# --- the site's own results ---------------------------------------------------------------


def own_site(study: Study, *, offered: bool = True, **options: Any) -> Site:
    """Return a site that holds two rules: one on many patients, one on hardly any."""
    site = Site("north", make_tables(study, sizes=(200,))["north"], study, **options)
    grid = shared_grid(study)
    rare = conjoin([Condition(0, 0b1), Condition(2, 0b1), Condition(3, 0b1000)], grid)
    assert rare is not None
    rules = (Rule((Condition(3, 0b1),)), rare)
    for request in (
        join(study),
        m.GridRequest(head(study)),
        m.RulesRequest(head(study), grid),
        m.TermsRequest(head(study), rules),
        *([m.OfferRequest(head(study), TERMS)] if offered else []),
    ):
        assert not isinstance(site.handle(request), m.Refusal)
    return site


OWN = make_study(rounds=3, per_site=True, holdout=0.3)
TERMS, COEF = np.array([0, 1, 2]), np.array([0.1, 0.5, -0.2])


def ask(**changes: Any) -> m.ResultsRequest:
    facts: dict[str, Any] = {"rules": np.array([0]), "totals": True, "evaluation": True, **changes}
    return m.ResultsRequest(head(OWN), TERMS, COEF, **facts)


def test_a_site_offers_only_results_on_enough_patients() -> None:
    site = own_site(OWN, offered=False)
    (offer,) = sums_of(site, m.OfferRequest(head(OWN), TERMS))
    assert offer.rules.tolist() == [0, 1 << 32], "the other rule holds for too few"
    assert (offer.totals, offer.evaluation) == (0, 0)
    policy = Policy.model_validate({**OPEN.model_dump(), "min_count": 60})
    careful = own_site(OWN, offered=False, policy=policy)
    (offer,) = sums_of(careful, m.OfferRequest(head(OWN), TERMS))
    assert offer.rules.tolist() == [1 << 32] * 2, "the policy's own count"
    assert offer.evaluation == 1 << 32


def test_a_site_tells_its_own_results_and_only_those_asked_for() -> None:
    site = own_site(OWN)
    reply = site.handle(ask())
    assert isinstance(reply, m.ResultsReply)
    assert reply.totals[0] == 140
    assert 0 < reply.events_inside[0] < reply.inside[0] < 140
    counts = np.concatenate([reply.totals, reply.inside, reply.events_inside, reply.measures[:2]])
    assert (counts % 5 == 0).all(), "rounded"
    assert reply.known.tolist() == list(range(16))
    assert reply.measures[0] == 60
    np.testing.assert_array_equal(reply.measures, reply.measures.round(3))
    nothing = own_site(OWN).handle(ask(rules=np.empty(0, np.int64), totals=False, evaluation=False))
    assert isinstance(nothing, m.ResultsReply)
    for name in ("totals", "inside", "events_inside", "known", "measures"):
        assert len(getattr(nothing, name)) == 0


@pytest.mark.parametrize(
    "changes",
    [{"rules": np.array([1])}, {"rules": np.array([0, 1])}, {"rules": np.array([0, 0])},
     {"rules": np.array([-1])}, {"rules": np.array([7])}],
)  # fmt: skip
def test_what_a_site_keeps_back_it_does_not_tell(changes: Any) -> None:
    code = "policy" if 1 in changes["rules"] else "bad-request"
    reason = refusal(own_site(OWN), ask(**changes), code)
    assert "keeps these results" in reason or "increasing positions" in reason


def test_a_site_tells_once_at_most_that_it_keeps_something_back() -> None:
    """Refusals would else tell, rule by rule, which hold for few."""
    site = own_site(OWN)
    assert "keeps these results" in refusal(site, ask(rules=np.array([1])), "policy")
    assert "keeps these results" in refusal(site, ask(rules=np.array([0])), "policy")
    empty = ask(rules=np.empty(0, np.int64), totals=False, evaluation=False)
    assert "keeps these results" in refusal(site, empty, "policy")


def test_results_are_of_the_model_that_the_offer_was_for() -> None:
    early = own_site(OWN, offered=False)
    assert "another model" in refusal(early, ask(), "order")
    request = dataclasses.replace(ask(), terms=TERMS[:2], coef=COEF[:2])
    late = own_site(OWN)
    request = dataclasses.replace(request, header=head(OWN))
    assert "another model" in refusal(late, request, "order")


def test_a_person_sees_what_stands_under_the_hospital_s_name() -> None:
    asked: list[list[str]] = []

    def approve(kind: str, words: Any) -> bool:
        if kind == "site-results":
            asked.append(list(words))
        return True

    policy = Policy.model_validate({**OPEN.model_dump(), "approval": "review"})
    site = own_site(OWN, policy=policy, approver=approve)
    site.handle(ask())
    assert len(asked) == 2, "once for the offer, once for the results"
    assert "whether this site has too few patients" in " ".join(asked[0])
    told = " ".join(asked[1])
    assert "under the name 'north' in the model file" in told
    assert "patients, and with the outcome: 140, " in told
    assert "predictions: patients = 60, events = " in told


def test_results_are_asked_for_once_and_only_where_the_study_says_so() -> None:
    site = own_site(OWN)
    assert not site.finished
    site.handle(ask())
    assert site.finished
    assert "out of turn" in refusal(site, ask(rules=np.empty(0, np.int64)), "order")
    silent = OWN.with_settings(per_site=False)
    other = own_site(silent, offered=False)
    request = m.OfferRequest(head(silent), TERMS)
    assert "not the study's" in refusal(other, request, "order")


# --- the exact solver ---------------------------------------------------------------------


SOLVED = make_study(**{**SOLVERS["exact"], "penalty": "cv"})


@pytest.fixture
def solving(grid: Grid) -> Site:
    """The site with its design built, in a study of the exact solver."""
    site = make_site(SOLVED)
    for request in (
        join(SOLVED),
        m.RulesRequest(head(SOLVED), grid),
        m.TermsRequest(head(SOLVED), (Rule((Condition(3, 0b1),)),)),
    ):
        assert not isinstance(site.handle(request), m.Refusal)
    return site


def make_query(**changes: Any) -> Query:
    facts: dict[str, Any] = {
        "fold": -1,
        "terms": np.array([0, 1]),
        "start": np.zeros(2),
        "end": np.array([0.3, -0.2]),
        "active": np.array([0, 1, 3]),
        **changes,
    }
    return Query(**facts)


def curve(site: Site, *queries: Query) -> list[SimpleNamespace]:
    return sums_of(site, m.CurvatureRequest(head(SOLVED, site=site.name), queries))


@pytest.mark.parametrize("terms", [[], [1], [0, 6], [0, -1], [0, 2, 1], [0, 1, 1], [0, 0]])
@pytest.mark.parametrize("name", ["terms", "active"])
def test_curvature_of_bad_terms_is_refused(solving: Site, name: str, terms: list[int]) -> None:
    bad = np.array(terms, dtype=np.int64)
    query = make_query(**{name: bad})
    if name == "terms":
        query = make_query(terms=bad, start=np.zeros(len(bad)), end=np.zeros(len(bad)))
    request = m.CurvatureRequest(head(SOLVED), (make_query(fold=0), query))
    assert "increasing positions that start with 0" in refusal(solving, request)


@pytest.mark.parametrize("name", ["start", "end"])
@pytest.mark.parametrize("length", [0, 1, 3])
def test_curvature_needs_a_coefficient_per_term(solving: Site, name: str, length: int) -> None:
    request = m.CurvatureRequest(head(SOLVED), (make_query(**{name: np.zeros(length)}),))
    assert "expected 2 coefficients" in refusal(solving, request)


@pytest.mark.parametrize("fold", [-2, STUDY.settings.folds])
def test_a_fold_that_is_none_is_refused(solving: Site, fold: int) -> None:
    request = m.CurvatureRequest(head(SOLVED), (make_query(fold=fold),))
    assert f"there is no fold {fold}" in refusal(solving, request)


@pytest.mark.parametrize("n", [0, STUDY.settings.folds + 2])
def test_too_many_points_at_once_are_refused(solving: Site, n: int) -> None:
    request = m.CurvatureRequest(head(SOLVED), (make_query(),) * n)
    assert f"expected 1 to {STUDY.settings.folds + 1} points" in refusal(solving, request)


def test_rounds_of_another_solver_are_refused(ready: Site, solving: Site) -> None:
    assert "not the study's" in refusal(ready, m.CurvatureRequest(head(), ()), "order")
    dual = m.DualRequest(head(SOLVED), 0, np.zeros(6))
    assert "not the study's" in refusal(solving, dual, "order")


def test_points_of_one_fold_and_too_many_active_terms_are_refused(grid: Grid) -> None:
    study = make_study(**{**SOLVERS["exact"], "penalty": "cv", "max_active": 2})
    site = make_site(study)
    for request in (
        join(study),
        m.RulesRequest(head(study), grid),
        m.TermsRequest(head(study), (Rule((Condition(3, 0b1),)),)),
    ):
        site.handle(request)
    twice = m.CurvatureRequest(head(study), (make_query(), make_query()))
    assert "two points of one fold" in refusal(site, twice)
    many = make_query(terms=np.array([0]), start=np.zeros(1), end=np.zeros(1))
    many = dataclasses.replace(many, active=np.arange(6))
    assert "more active terms" in refusal(site, m.CurvatureRequest(head(study), (many,)))


@pytest.mark.parametrize("terms", [[], [1], [0, 6], [0, 2, 1], [0, 0]])
def test_slopes_of_bad_terms_are_refused(ready: Site, terms: list[int]) -> None:
    request = m.SlopesRequest(head(), np.array(terms, dtype=np.int64), np.zeros(len(terms)))
    assert "increasing positions that start with 0" in refusal(ready, request)
    short = m.SlopesRequest(head(), np.array([0, 1]), np.zeros(1))
    assert "expected 2 coefficients" in refusal(ready, short)


@pytest.mark.parametrize("scales", [(-0.1, 0.5), (0.5, 1.01)])
def test_scales_outside_0_and_1_are_refused(ready: Site, scales: tuple[float, float]) -> None:
    request = summary(np.array([0]), np.zeros(1), scales)
    assert r"must lie in [0, 1]" in refusal(ready, request)


@pytest.mark.parametrize("scales", [(np.nan, 0.5), (0.0, np.inf)])
def test_scales_that_are_no_numbers_are_not_even_read(
    ready: Site, scales: tuple[float, float]
) -> None:
    before = len(ready.ledger.releases)
    reply = ready.handle(summary(np.array([0]), np.zeros(1), scales))
    assert isinstance(reply, m.Refusal)
    assert "not finite" in reply.reason
    assert reply.header == m.blank_header("north")
    assert len(ready.ledger.releases) == before


@pytest.mark.parametrize("n", [0, 1, 3])
def test_there_are_two_scales(ready: Site, n: int) -> None:
    assert "expected 2 scales" in refusal(ready, summary(np.array([0]), np.zeros(1), [0.5] * n))


def test_every_patient_is_held_out_once(solving: Site) -> None:
    n_folds = STUDY.settings.folds
    whole, *parts = curve(solving, make_query(), *(make_query(fold=k) for k in range(n_folds)))
    table = make_tables(STUDY)["north"]
    assert whole.weight == table.n_rows << 32
    assert whole.held_weight == 0
    assert sum(part.held_weight for part in parts) == table.n_rows << 32
    assert {part.weight + part.held_weight for part in parts} == {table.n_rows << 32}
    assert {part.losses[-1] + part.held_loss for part in parts} == {whole.losses[-1]}
    assert np.ptp([part.held_weight for part in parts]) <= 1 << 32


def test_folds_are_the_same_in_every_request_and_differ_between_sites(
    solving: Site, grid: Grid
) -> None:
    folds = [make_query(fold=k) for k in range(STUDY.settings.folds)]
    together = np.array([part.held_loss for part in curve(solving, *folds)])
    alone = [curve(solving, query)[0].held_loss for query in folds]
    np.testing.assert_array_equal(together, alone)
    other = Site("south", make_tables(SOLVED)["north"], SOLVED)  # the same patients
    for request in (
        join(SOLVED, site="south"),
        m.RulesRequest(head(SOLVED, site="south"), grid),
        m.TermsRequest(head(SOLVED, site="south"), (Rule((Condition(3, 0b1),)),)),
    ):
        other.handle(request)
    theirs = np.array([part.held_loss for part in curve(other, *folds)])
    assert (np.abs(from_units(theirs - together)) > 1e-6).all()


@pytest.mark.parametrize("weighting", ["patients", "sites"])
def test_the_certificate_s_sums(weighting: str) -> None:
    study = make_study(rounds=3, weighting=weighting)
    site = make_site(study)
    grid = shared_grid(study)
    rule = Rule((Condition(3, 0b1),))
    for request in (
        join(study),
        m.RulesRequest(head(study), grid),
        m.TermsRequest(head(study), (rule,)),
    ):
        site.handle(request)
    terms, coef = np.array([0, 1]), np.array([0.3, -0.2])
    (slopes,) = sums_of(site, m.SlopesRequest(head(study), terms, coef))
    table = make_tables(study)["north"]
    y, icu = np.asarray(table.outcome), table.values[:, 3] == 0
    chance = 1 / (1 + np.exp(-(0.3 - 0.2 * icu)))
    w = np.ones(len(y)) if weighting == "patients" else np.full(len(y), SITE_WEIGHT / len(y))
    np.testing.assert_allclose(
        from_units(slopes.falling[:2], FINE_BITS),
        [(w * y * (chance - 1)).sum(), (w * icu * y * (chance - 1)).sum()],
    )
    others = w * (1 - y) * chance
    np.testing.assert_allclose(
        from_units(slopes.rising[:2], FINE_BITS), [others.sum(), (icu * others).sum()]
    )
    request = m.SummaryRequest(head(study), terms, coef, np.array([0.5, 0.25]))
    reply, gap = sums_of(site, request)
    p = np.where(y == 1, 1 - 0.5 * (1 - chance), 0.25 * chance)
    conjugate = float(w @ (p * np.log(p) + (1 - p) * np.log(1 - p)))
    assert from_units(gap.conjugate) == pytest.approx(conjugate)
    assert reply.total == len(y) << 32
