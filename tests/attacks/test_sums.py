"""Attacks that take masked sums apart: each works on a weakened twin, and not on the sites.

The coordinator here keeps to the masks and asks what it likes: it sees totals over three
hospitals, and wants the numbers of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from fedrulefit.core.arrays import Ints
from fedrulefit.core.bins import SpreadSums, count_histograms
from fedrulefit.core.curvature import STEPS, Query
from fedrulefit.core.cutoffs import estimate_grid
from fedrulefit.core.fixed import FINE_BITS, LARGEST_PREDICTOR, LOSS_BITS, UNIT_BITS, from_units
from fedrulefit.core.grid import Grid, encode
from fedrulefit.core.rules import Rule, conjoin, cutoff_rules
from fedrulefit.engines import inprocess
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.masks import add_rings
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol import patients as patients_module
from fedrulefit.protocol.messages import fit as fit_messages
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import SITE_WEIGHT
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.work import Work
from fedrulefit.study import Study
from fedrulefit.study import study as study_module
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.oracles import YES_NO, fires
from tests.samples import SOLVERS, Talk, make_frame, make_study, take_apart

SIZES = {"north": 611, "south": 287, "west": 149}
MASKED = Policy.model_validate({**OPEN.model_dump(), "secure_sums": True, "dropouts": "wait"})
"""Everything is allowed, under masks: what is left are the masks themselves."""

STUDY = make_study(**{**SOLVERS["exact"], "n_trees": 5})


def make_tables(study: Study = STUDY, sizes: Mapping[str, int] = SIZES) -> dict[str, Table]:
    return {
        name: load_table(make_frame(n, seed), study)
        for seed, (name, n) in enumerate(sizes.items(), start=30)
    }


class Attacker:
    """A coordinator of masked sums over some sites, which asks as it likes."""

    def __init__(
        self, tables: Mapping[str, Table], *, study: Study = STUDY, kind: type[Site] = Site
    ) -> None:
        identities, trust = make_consortium(list(tables))
        self.sites = {
            name: kind(name, table, study, policy=MASKED, identity=identities[name], trust=trust)
            for name, table in tables.items()
        }
        self.talks = {name: Talk(site) for name, site in self.sites.items()}

    def ask(self, kind: Any, **fields: Any) -> list[Any]:
        """Ask all sites the same."""
        return [talk.ask(kind, **fields) for talk in self.talks.values()]

    def begin(self, grid: Grid, rules: Sequence[Rule]) -> list[Any]:
        """Exchange keys, hand out grid and rules; return refusals, or the last replies."""
        joined = self.agree()
        if any(isinstance(reply, m.Refusal) for reply in joined):
            return joined
        replies = self.ask(m.RulesRequest, grid=grid)
        if any(isinstance(reply, m.Refusal) for reply in replies):
            return replies
        return self.ask(m.TermsRequest, rules=tuple(rules))

    def agree(self) -> list[Any]:
        """Join and exchange keys."""
        names = tuple(self.talks)
        joined = [talk.join(names) for talk in self.talks.values()]
        if any(isinstance(reply, m.Refusal) for reply in joined):
            return joined
        keys = dict(zip(names, self.ask(m.KeyRequest), strict=True))
        peers = tuple(
            m.Peer(name, k.public, k.certificate, k.dropouts, k.signature)
            for name, k in keys.items()
        )
        return self.ask(m.PeersRequest, peers=peers)

    def total(self, kind: Any, **fields: Any) -> Ints | None:
        """Return the total of a sum in units, or None if it is refused."""
        replies = self.ask(kind, **fields)
        if any(isinstance(reply, m.Refusal) for reply in replies):
            assert {reply.code for reply in replies} == {"overflow"}
            return None
        assert all(isinstance(reply, m.SumReply) for reply in replies)
        return add_rings([reply.numbers for reply in replies], len(replies[0].numbers))

    def loss_at(self, terms: Sequence[int], coef: Sequence[float]) -> float | None:
        """Return the total of the summed loss at a point."""
        end = np.array(coef)
        query = Query(-1, np.array(terms), 0 * end, end, np.array([0]))
        total = self.total(m.CurvatureRequest, queries=(query,))
        # weights, held weights, losses along the way
        return None if total is None else float(from_units(total[2 + len(STEPS) - 1], LOSS_BITS))


def make_grid(tables: Mapping[str, Table]) -> Grid:
    """Return a grid that a coordinator could hand out."""
    counts = [
        count_histograms(t.values, np.ones(t.n_rows, dtype=np.int64), STUDY.bins)
        for t in tables.values()
    ]
    return estimate_grid(
        np.sum(counts, axis=0),
        STUDY.bins,
        n_cutoffs=8,
        winsor=0.025,
        repair="project",
        centre=True,
        spreads=None,
    )


def make_rules(grid: Grid, tables: Mapping[str, Table], low: int, high: int) -> list[Rule]:
    """Return ten rules that hold for few patients, as a forest of trees would have them."""
    single = sorted(cutoff_rules(grid), key=lambda rule: rule.conditions)
    pairs = [conjoin((*a.conditions, *b.conditions), grid) for a in single for b in single]
    codes = encode(np.vstack([t.values for t in tables.values()]), grid)
    few = [
        rule
        for rule in dict.fromkeys(pairs)
        if rule is not None and low <= fires(rule, codes).sum() <= high
    ]
    chosen = np.random.default_rng(0).permutation(len(few))[:10]
    return sorted((few[k] for k in chosen), key=lambda rule: (len(rule), rule.conditions))


def count_inside(rule: Rule, grid: Grid, table: Table, *, outcome: float | None = None) -> int:
    inside = fires(rule, encode(table.values, grid))
    return int(inside.sum() if outcome is None else (inside & (table.outcome == outcome)).sum())


TABLES = make_tables()
GRID = make_grid(TABLES)
RULES = make_rules(GRID, TABLES, 8, 60)
LIMIT = 2.0 ** (63 - LOSS_BITS) / len(SIZES)


# --- 3. squares about a site's own mean -----------------------------------------------------


class Twin(Site):
    """A site whose sums are added up by a weakened twin of ``Work``."""

    work: type[Work]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._work.__class__ = self.work


class OwnMeanWork(Work):
    """The old site: a rule's squares are about the site's own mean, n_m − n_m²/N_m."""

    def _add_up(self, request: m.SumRequest, patients: Patients) -> m.SumReply:
        reply = super()._add_up(request, patients)
        if not isinstance(request, m.SummaryRequest):
            return reply
        terms, _ = take_apart(request, reply.numbers, patients.public)
        inside, total = from_units(terms.inside), from_units(terms.total)
        own = np.rint((inside - inside**2 / total) * 2.0**UNIT_BITS).astype(np.int64)
        return replace(reply, numbers=np.insert(reply.numbers, -2, own))


class OwnMean(Twin):
    work = OwnMeanWork


def ask_summary(attacker: Attacker, *, own_mean: bool) -> tuple[int, Any, Any]:
    """Ask honestly for the summary of a model of all rules: N, counts and squares of rules.

    The squares stand behind the importances of a model file: importance²·(N − 1)/β².
    """
    n_rules = len(RULES)
    assert not any(isinstance(reply, m.Refusal) for reply in attacker.begin(GRID, RULES))
    total = attacker.total(
        m.SummaryRequest,
        terms=np.arange(1 + n_rules),
        coef=np.full(1 + n_rules, 0.1),
        scales=np.zeros(2),
    )
    assert total is not None
    patients, inside = from_units(total[0]), from_units(total[2 : 2 + n_rules])
    rules = total[2 + 2 * n_rules : -2]
    squares = from_units(rules) if own_mean else inside - inside**2 / patients
    assert len(squares) == n_rules
    return int(patients), np.rint(inside).astype(np.int64), squares


def splits_of(n: int, square: float, sizes: Any) -> Any:
    """Return (place in `sizes`, n₁, n₂, n₃) of every split of n that explains the square.

    For each n₁ the rest is a quadratic equation for n₂; only whole numbers count.
    """
    found = []
    one, two, three = sizes.T.astype(float)
    steep = 1 / two + 1 / three
    for first in range(n + 1):
        rest = n - first
        level = rest**2 / three + first**2 / one - n + square
        root = np.sqrt(np.maximum((rest / three) ** 2 - steep * level, 0.0))
        for sign in (-1, 1):
            second = np.rint((rest / three + sign * root) / steep)
            third = rest - second
            told = n - first**2 / one - second**2 / two - third**2 / three
            fits = (second >= 0) & (third >= 0) & (np.abs(told - square) < 1e-9)
            fits &= (first <= one) & (second <= two) & (third <= three)
            found += [(k, first, int(second[k]), int(third[k])) for k in np.flatnonzero(fits)]
    return sorted(set(found))


def search(patients: int, inside: Any, squares: Any) -> tuple[Any, list[Any]]:
    """Look for the sizes of three hospitals, and each rule's patients at each of them."""
    pairs = [(a, b) for a in range(1, patients) for b in range(1, min(a, patients - a) + 1)]
    sizes = np.array([(a, b, patients - a - b) for a, b in pairs if 0 < patients - a - b <= b])
    for k in np.argsort(inside, kind="stable"):
        places = sorted({place for place, *_ in splits_of(inside[k], squares[k], sizes)})
        sizes = sizes[places]
        if len(sizes) <= 1:
            break
    explained = [
        [counts for _, *counts in splits_of(n, s, sizes[:1])]
        for n, s in zip(inside, squares, strict=True)
    ]
    # Three equal hospitals explain any rule whose patients three divides; not every rule.
    if len(sizes) == 0 or not all(explained):
        return None, []
    return sizes[0], explained


def test_squares_about_own_means_give_every_hospital_s_counts_away() -> None:
    """Attack 3: a reader of importances finds integers that explain Σ(n_m − n_m²/N_m).

    With the old squares there is one answer, the truth; n − n²/N holds totals alone.
    """
    truth = [[count_inside(rule, GRID, table) for table in TABLES.values()] for rule in RULES]
    weak = ask_summary(Attacker(TABLES, kind=OwnMean), own_mean=True)
    sizes, counts = search(*weak)
    assert sizes.tolist() == list(SIZES.values())
    assert counts == [[found] for found in truth]
    patients, inside, squares = ask_summary(Attacker(TABLES), own_mean=False)
    assert inside.tolist() == [sum(found) for found in truth]
    sizes, counts = search(patients, inside, squares)
    assert sizes is None
    assert counts == []


def test_the_model_s_importances_are_made_of_totals() -> None:
    """The same in an honest run: what stands in the model follows from N and n alone."""
    model = inprocess.fit(STUDY, TABLES, policy=MASKED, secure=True).model
    N = model.provenance.patients
    assert len(model.rule_terms) > 5
    for term in model.rule_terms:
        spread = np.sqrt((term.inside - term.inside**2 / N) / (N - 1))
        assert term.importance == pytest.approx(abs(term.coefficient) * spread, rel=1e-9)


class OwnSpreadWork(Work):
    """The old site: squares about its own mean, and N_m − 1 known values."""

    def _add_up(self, request: m.SumRequest, patients: Patients) -> m.SumReply:
        if not isinstance(request, m.SpreadsRequest):
            return super()._add_up(request, patients)
        x = patients.learnt.values
        squares = np.nansum((x - np.nanmean(x, axis=0)) ** 2, axis=0)
        units = np.rint(squares * 2.0**UNIT_BITS).astype(np.int64)
        freedom = (~np.isnan(x)).sum(axis=0).astype(np.int64) - 1
        numbers = np.concatenate([freedom << UNIT_BITS, 0 * units, units])
        return m.SumReply(request.header, False, numbers)


class OwnSpread(Twin):
    work = OwnSpreadWork


EXACT = make_study(**{**SOLVERS["exact"], "n_trees": 5, "spreads": "exact"})
SEX = 4


def ask_spreads(kind: type[Site]) -> dict[str, Ints]:
    """Return the total of the spreads, which left under masks."""
    attacker = Attacker(TABLES, study=EXACT, kind=kind)
    attacker.agree()
    total = attacker.total(m.SpreadsRequest)
    assert total is not None
    return SpreadSums.packing(EXACT.n_features).split(total)


def test_spreads_of_a_yes_or_no_give_every_hospital_s_counts_away() -> None:
    """Attack 3: the spread of a 0/1 covariate is Σ(n_m − n_m²/N_m), too.

    Its total number of ones follows from the levels that are told; now the spread follows
    from totals as well.
    """
    truth = [int(table.values[:, SEX].sum()) for table in TABLES.values()]
    sizes, ones = np.array([list(SIZES.values())]), sum(truth)
    squares = float(from_units(ask_spreads(OwnSpread)["squares"][SEX]))
    assert [counts for _, *counts in splits_of(ones, squares, sizes)] == [truth]
    # Half a range is 1, and its middle ½: z = ±½.
    sums = ask_spreads(Site)
    known, first, second = (from_units(sums[n][SEX], FINE_BITS) for n in SPREAD_SUMS)
    assert (known, second) == (sum(SIZES.values()), sum(SIZES.values()) / 4)
    assert first == ones - known / 2
    assert splits_of(ones, float(second - first**2 / known), sizes) == []


SPREAD_SUMS = ("known", "sums", "squares")


# --- 4. the limit of the ring ---------------------------------------------------------------


class CuttingWork(Work):
    """The old site: any coefficients; its own sum is cut at the ring's limit, NaN becomes 0."""

    def _add_up(self, request: m.SumRequest, patients: Patients) -> m.SumReply:
        if not isinstance(request, m.CurvatureRequest):
            return super()._add_up(request, patients)
        (query,) = request.queries
        design = patients.design
        with np.errstate(all="ignore"):
            predictor = design.take(query.terms).dot(query.end)
            loss = float(YES_NO.value(predictor, patients.outcome, patients.weights).sum())
        below = np.nextafter(LIMIT, 0)
        cut = np.clip(np.nan_to_num(loss, nan=0.0), -below, below)
        (packing,) = request.packings(patients.public)
        parts = {name: np.zeros(n, dtype=np.int64) for name, n in packing.lengths.items()}
        parts["losses"][-1] = np.rint(cut * 2.0**LOSS_BITS)
        return m.SumReply(request.header, False, packing.pack(**parts))


class Cutting(Twin):
    work = CuttingWork


def move_the_limit(attacker: Attacker, rule: int, most: int) -> list[int] | None:
    """Count, hospital by hospital, the rule's patients without the outcome.

    With coefficient limit/(c − ½) a hospital's loss is cut if it has c or more of them; the
    number of hospitals that are cut falls as c grows.
    """
    above, below, counts = len(attacker.sites), 0, []
    for c in range(1, most + 2):
        loss = attacker.loss_at([0, rule], [0.0, LIMIT / (c - 0.5)])
        if loss is None:
            return None
        # `left` hospitals have c − 1 exactly: what do they leave of the total?
        guesses = [above - left + (below + left * (c - 1)) / (c - 0.5) for left in range(above + 1)]
        left = int(np.argmin(np.abs(np.array(guesses) - loss / LIMIT)))
        counts += [c - 1] * left
        above, below = above - left, below + left * (c - 1)
    return counts


def forbid_patients(patch: pytest.MonkeyPatch) -> None:
    """Fail wherever a sum over patients is begun."""

    def touched(*_: Any) -> None:
        raise AssertionError("patients were touched")

    for name in ("sum_curvature", "sum_slopes", "sum_terms", "client_update"):
        patch.setattr(fit_messages, name, touched)
    patch.setattr(patients_module, "predict", touched)


def test_the_ring_s_limit_moved_through_every_value_counts_patients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attack 4: large coefficients cut one hospital's sum after another.

    Where sums are cut that tells each hospital's count; now the question is refused.
    """
    truth = [count_inside(RULES[0], GRID, table, outcome=0.0) for table in TABLES.values()]
    assert 0 < max(truth) <= 60
    weak = Attacker(TABLES, kind=Cutting)
    weak.begin(GRID, RULES)
    assert move_the_limit(weak, 1, max(truth)) == sorted(truth)
    real = Attacker(TABLES)
    real.begin(GRID, RULES)
    forbid_patients(monkeypatch)
    assert move_the_limit(real, 1, max(truth)) is None


@pytest.mark.parametrize("kind", [m.CurvatureRequest, m.SlopesRequest, m.SummaryRequest])
@pytest.mark.parametrize("size", [LARGEST_PREDICTOR + 1, 1e12, 1.7e308])
def test_no_sum_takes_coefficients_beyond_the_bound(
    kind: Any, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is public, and checked before a patient is touched."""
    real = Attacker(TABLES)
    real.begin(GRID, RULES)
    forbid_patients(monkeypatch)
    terms, coef = np.arange(3), np.array([0.0, size / 2, -size / 2])
    queries = (Query(-1, terms, coef, 0 * coef, np.array([0])),)
    fields: dict[Any, dict[str, Any]] = {
        m.CurvatureRequest: {"queries": queries},
        m.SlopesRequest: {"terms": terms, "coef": coef},
        m.SummaryRequest: {"terms": terms, "coef": coef, "scales": np.zeros(2)},
    }
    before = [len(site.ledger.releases) for site in real.sites.values()]
    assert real.total(kind, **fields[kind]) is None
    assert [len(site.ledger.releases) for site in real.sites.values()] == before


@pytest.mark.parametrize(
    ("settings", "dual"), [({}, 1e6), ({}, 1.7e308), ({"client_step": 1000.0}, 0.0)]
)
def test_no_round_of_fedda_leads_beyond_the_bound(
    settings: dict[str, Any], dual: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by its dual variables, nor by the study's own steps."""
    real = Attacker(TABLES, study=make_study(**{"n_trees": 5, **settings}))
    n_terms = real.begin(GRID, RULES)[0].n_terms
    forbid_patients(monkeypatch)
    assert real.total(m.DualRequest, round=0, dual=np.full(n_terms, dual)) is None


def test_a_number_that_is_none_makes_a_hospital_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack 4: ∞ − ∞ at one hospital makes its sum NaN, which once became 0.

    The total is then that of the others, and their patients are counted; now it is refused.
    """
    young = {"north": 20.0, "south": 95.0, "west": 95.0}
    tables = {
        name: Table(np.where(np.arange(5) == 0, young[name], t.values), t.outcome, t.weights)
        for name, t in TABLES.items()
    }
    aged = [rule for rule in cutoff_rules(GRID) if rule.conditions[0].feature == 0][:2]
    coef = [0.0, 1.7e308, 1.7e308]
    weak = Attacker(tables, kind=Cutting)
    weak.begin(GRID, aged)
    loss = weak.loss_at([0, 1, 2], coef)
    assert loss is not None
    assert sum(SIZES.values()) - round(loss / np.log(2)) == SIZES["north"]
    real = Attacker(tables)
    real.begin(GRID, aged)
    forbid_patients(monkeypatch)
    assert real.loss_at([0, 1, 2], coef) is None


LACTATE = 1


def bend(**changes: Any) -> Grid:
    """Return the grid with another linear term of lactate."""
    axes = list(GRID.axes)
    axes[LACTATE] = replace(axes[LACTATE], **changes)
    return Grid(tuple(axes))


def test_a_grid_s_spread_tells_which_hospitals_have_a_patient_beyond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Attack 4: with hardly any spread, a value above the centre cuts the hospital's sum.

    The total counts the hospitals with a patient above any edge; now the grid is refused.
    """
    edges = STUDY.bins[LACTATE].edges
    low = float(edges[edges > 10][0])
    tables = {}
    for name, table in TABLES.items():
        values, outcome = table.values.copy(), table.outcome
        values[:, LACTATE] = np.minimum(values[:, LACTATE], 9.0)
        if name != "north":
            values[np.flatnonzero(outcome == 0)[0], LACTATE] = 20.0
        tables[name] = Table(values, outcome, table.weights)
    grid = bend(limits=(low, float(edges[-1])), centre=low, fill=low, spread=1e-30)
    lactate = 1 + len(RULES) + GRID.linear.index(LACTATE)
    with monkeypatch.context() as patch:
        patch.setattr(study_module, "check_linear", lambda *_: None)
        weak = Attacker(tables, kind=Cutting)
        weak.begin(grid, RULES)
        loss = weak.loss_at([0, lactate], [0.0, 1.0])
    assert loss is not None
    assert round(loss / LIMIT) == 2
    replies = Attacker(tables).begin(grid, RULES)
    assert {(type(reply), reply.code) for reply in replies} == {(m.Refusal, "grid")}


@pytest.mark.parametrize(
    "changes",
    [
        {"fill": 1e9},
        {"fill": -1.0},
        {"centre": 1e300},
        {"centre": -3.0},
        {"spread": 1e-300},
        {"spread": 1e300},
        {"limits": (0.1, 1e9)},
        {"limits": (-1e9, 25.0)},
    ],
)
def test_no_grid_makes_a_patient_s_value_large(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spread, centre, fill and limits stay within the study's public range."""
    real = Attacker(TABLES)

    def touched(*_: Any) -> None:
        raise AssertionError("patients were touched")

    monkeypatch.setattr(patients_module, "encode", touched)
    replies = real.begin(bend(**changes), RULES)
    assert {(type(reply), reply.code) for reply in replies} == {(m.Refusal, "grid")}


# --- 6. sites that count equally ------------------------------------------------------------

EQUAL = make_study(**{**SOLVERS["exact"], "n_trees": 5, "weighting": "sites"})


class Trusting(Site):
    """The old site: it joins masked runs in which all sites count equally."""

    def _check_join(self, request: m.JoinRequest) -> None:
        self._masking.check_join(request)


def gradients_at(attacker: Attacker, intercept: float) -> Any:
    """Return the rules' gradients where the intercept alone is not 0, per weight of a site."""
    end = np.array([intercept])
    query = Query(-1, np.array([0]), end, end, np.array([0]))
    total = attacker.total(m.CurvatureRequest, queries=(query,))
    assert total is not None
    start = 2 + len(STEPS) + 1
    rules = total[start + 1 : start + 1 + len(RULES)]
    return from_units(rules, FINE_BITS) / SITE_WEIGHT


def partial_fractions(share: float) -> list[int]:
    """Find n_m in Σ n_m/N_m = share, for sizes without a common divisor."""
    sizes = list(SIZES.values())
    whole = round(share * np.prod(sizes))
    return [whole * pow(int(np.prod(sizes)) // size, -1, size) % size for size in sizes]


def test_equal_weights_of_sites_are_partial_fractions() -> None:
    """Attack 6: Σ n_m/N_m has one answer in whole numbers, if sizes are known.

    Two gradients give that sum for every rule; now such a run is refused under masks.
    """
    truth = [[count_inside(rule, GRID, table) for table in TABLES.values()] for rule in RULES]
    weak = Attacker(TABLES, study=EQUAL, kind=Trusting)
    weak.begin(GRID, RULES)
    low, high = -1.0, 1.0
    shares = (gradients_at(weak, high) - gradients_at(weak, low)) / (expit(high) - expit(low))
    assert [partial_fractions(share) for share in shares] == truth
    replies = Attacker(TABLES, study=EQUAL).begin(GRID, RULES)
    assert {(type(reply), reply.code) for reply in replies} == {(m.Refusal, "policy")}
    assert all("taken apart" in reply.reason for reply in replies)


# --- and an honest run never meets the bounds -----------------------------------------------


@pytest.mark.parametrize("penalty", ["cv", 1e-6])
@pytest.mark.parametrize("outcome", ["separated", "rare"])
def test_an_honest_run_is_not_refused(penalty: Any, outcome: str) -> None:
    """Where coefficients grow, the coordinator's own solver stays within the bounds."""
    study = make_study(**{**SOLVERS["cv"], "penalty": penalty, "path_ratio": 1e-4})
    tables = {}
    for name, table in make_tables(study, {"north": 60, "south": 40, "west": 50}).items():
        y = table.values[:, 0] > (60 if outcome == "separated" else 93)
        tables[name] = Table(table.values, y.astype(float), table.weights)
    model = inprocess.fit(study, tables, policy=MASKED, secure=True).model
    assert model.terms
    assert model.provenance.objective < 0.1
