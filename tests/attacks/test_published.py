"""What readers of a model file, and a coordinator that judges a model, can learn of patients."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from fedrulefit.core.families.yesno_judge import YesNoJudge
from fedrulefit.core.families.yesno_sums import ScoreSums, coarsen, count_scores
from fedrulefit.core.grid import encode
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.engines import inprocess
from fedrulefit.model import Model, RuleTerm, evaluation
from fedrulefit.model.file import model_facts
from fedrulefit.model.publish import find_step, round_model
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol.coordinator import Coordinator, coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.report import render_report
from fedrulefit.table.patients import Table
from tests.oracles import fires
from tests.samples import (
    SOLVERS,
    fit_model,
    make_sites,
    make_study,
    make_tables,
    record,
    take,
)

DEFAULT = Rounding(Policy().round_counts, Policy().min_published)
SIZES = (70, 50, 30)


# --- 3. The reader of a model file, and each hospital's own numbers -------------------------


def importance_by_site(model: Model, tables: dict[str, Table]) -> Model:
    """The weakened twin: spreads about each site's own mean, and all digits."""
    terms = []
    for term in model.rule_terms:
        inside = [fires(term.rule, encode(t.values, model.grid)).sum() for t in tables.values()]
        sizes = [len(table.values) for table in tables.values()]
        squares = sum(n - n**2 / size for n, size in zip(inside, sizes, strict=True))
        freedom = sum(sizes) - len(sizes)
        size = abs(term.coefficient) * float(np.sqrt(squares / freedom))
        terms.append(replace(term, importance=size))
    return replace(model, terms=tuple(terms))


def fits_of_sizes(model: Model, *, n_rules: int = 8) -> list[tuple[int, ...]]:
    """The attack: sizes of three hospitals that explain all importances of a file.

    Each importance is |β|·√(Σ(n_m − n_m²/N_m)/(N − 3)): sizes fit if for every rule some split
    of its patients does. What is rounded in the file may lie anywhere in its step.
    """
    rounding = model.rounding
    assert rounding is not None
    total = int(model.provenance.patients)
    slack = 1e-9 if rounding == EXACT else 6e-3
    rules = [t for t in model.rule_terms if t.inside is not None and t.inside <= 75][:n_rules]
    found = []
    for sizes in itertools.product(range(20, 80, 5), repeat=2):
        three = (*sizes, total - sum(sizes))
        ordered = list(three) == sorted(three, reverse=True) and three[-1] >= 10
        if ordered and all(splits(rule, three, total, slack).any() for rule in rules):
            found.append(three)
    return found


def splits(rule: RuleTerm, sizes: tuple[int, ...], total: int, slack: float) -> Any:
    """Which splits of a rule's patients over sites of these sizes explain its importance."""
    inside = int(rule.inside or 0)
    first, second = np.indices((inside + 1, inside + 1)).reshape(2, -1)
    third = inside - first - second
    n = np.stack([first, second, third])
    whole = np.array(sizes)[:, None]
    possible = ((n >= 0) & (n <= whole)).all(axis=0)
    squares = (n - n**2 / whole).sum(axis=0)
    size = abs(rule.coefficient) * np.sqrt(np.maximum(squares, 0) / (total - 3))
    return possible & (abs(size - rule.importance) <= slack * rule.importance)


def test_a_reader_finds_no_hospitals_size_in_the_importances() -> None:
    """Sums about each site's own mean, printed in full, gave every hospital's size away.

    Of all sizes in steps of five one explains them; the rounded file is explained by all.
    """
    study = make_study(**SOLVERS["exact"])
    tables = make_tables(study, SIZES)
    exact = fit_model(study, tables)
    weak = importance_by_site(exact, tables)
    assert fits_of_sizes(weak) == [SIZES]
    published = round_model(weak, DEFAULT)
    assert len(fits_of_sizes(published)) > 20


def test_importances_of_rules_follow_from_the_published_counts() -> None:
    """Other sizes of the hospitals, and one patient more inside, give the very same file."""
    study = make_study(**SOLVERS["exact"])
    exact = fit_model(study, make_tables(study, SIZES))
    terms = tuple(
        replace(t, inside=t.inside + 1, importance=1.01 * t.importance)
        if isinstance(t, RuleTerm) and t.inside is not None and t.inside % 5 in (3, 4, 0, 1)
        else t
        for t in exact.terms
    )
    changed = sum(a != b for a, b in zip(exact.terms, terms, strict=True))
    assert changed > 5
    one, other = (round_model(m, DEFAULT) for m in (exact, replace(exact, terms=terms)))
    key = [{k: t.get(k) for k in ("rule", "inside", "importance")} for t in facts_of(one)]
    assert key == [{k: t.get(k) for k in ("rule", "inside", "importance")} for t in facts_of(other)]


def facts_of(model: Model) -> list[dict[str, Any]]:
    return sorted(
        (term for term in model_facts(model)["terms"] if term["kind"] == "rule"),
        key=lambda term: str(term["rule"]),
    )


# --- 3. The reader of a model file, and the optimality equations ----------------------------

PENALTY = 0.01


def one_rule_model(patients: int, events: int, inside: int, sick: int) -> Model:
    """Return the exact optimum for one rule that raises the risk."""
    model = fit_model(make_study(**SOLVERS["exact"]))
    in_rule = (sick - PENALTY * patients) / inside
    outside = (events - sick + PENALTY * patients) / (patients - inside)
    beta = float(logit(in_rule) - logit(outside))
    rule = replace(
        model.rule_terms[0], coefficient=beta, inside=float(inside), events_inside=float(sick)
    )
    origin = replace(
        model.provenance,
        patients=float(patients),
        events=float(events),
        penalty=PENALTY,
        objective=objective(patients, events, inside, sick, float(logit(outside)), beta),
    )
    return replace(model, intercept=float(logit(outside)), terms=(rule,), provenance=origin)


def objective(n: Any, e: Any, inside: Any, sick: Any, intercept: float, beta: float) -> Any:
    high, low = expit(intercept + beta), expit(intercept)
    losses = sick * np.log(high) + (inside - sick) * np.log1p(-high)
    losses += (e - sick) * np.log(low) + (n - inside - e + sick) * np.log1p(-low)
    return -losses / n + PENALTY * abs(beta)


def solve_counts(model: Model) -> int:
    """The attack: how many exact counts explain a published one-rule model.

    Tries all that round to the published ones, and asks of each whether the optimality
    equations, and the objective, can hold with the published digits.
    """
    (rule,), origin, half = model.rule_terms, model.provenance, 2
    assert rule.inside is not None
    assert rule.events_inside is not None
    assert origin.events is not None
    base = [origin.patients, origin.events, rule.inside, rule.events_inside]
    steps = np.indices((2 * half + 1,) * 4).reshape(4, -1) - half
    n, e, inside, sick = np.array(base)[:, None] + steps
    in_rule, outside = (sick - PENALTY * n) / inside, (e - sick + PENALTY * n) / (n - inside)
    fits = (in_rule > 0) & (in_rule < 1) & (outside > 0) & (outside < 1)
    intercept = logit(np.where(fits, outside, 0.5))
    beta = logit(np.where(fits, in_rule, 0.5)) - intercept
    exact = len(repr(model.intercept)) > 8
    half_0, half_1 = (
        1e-9 if exact else find_step(value, share * few * (many - few) / many) / 2 + 1e-9
        for value, many, few, share in (
            (model.intercept, base[0], base[1], 0.5),
            (rule.coefficient, base[2], base[3], 1.0),
        )
    )
    fits &= abs(intercept - model.intercept) <= half_0
    fits &= abs(beta - rule.coefficient) <= half_1
    loss = np.array(
        [objective(*row) for row in zip(n, e, inside, sick, intercept, beta, strict=True)]
    )
    fits &= abs(loss - origin.objective) <= 0.5 * 10.0 ** np.ceil(-np.log10(base[0])) + 1e-9
    return int(fits.sum())


ONE_RULES = [
    (154, 46, 48, 27),
    (212, 63, 62, 37),
    (398, 118, 93, 52),
    (607, 142, 131, 66),
    (1047, 209, 171, 82),
    (2513, 402, 388, 161),
]


@pytest.mark.parametrize("counts", ONE_RULES)
def test_optimality_equations_cannot_be_solved_for_counts(counts: tuple[int, ...]) -> None:
    """With every digit, the equations of a small model leave one solution in integers.

    The twin rounds the counts alone, and the solver finds the exact ones behind them.
    """
    exact = one_rule_model(*counts)
    published = round_model(exact, DEFAULT)
    (rule,), (term,) = published.rule_terms, exact.rule_terms
    weak = replace(
        published,
        intercept=exact.intercept,
        terms=(replace(rule, coefficient=term.coefficient),),
    )
    assert solve_counts(weak) == 1
    assert solve_counts(published) >= 3


def along_the_path(n: Any, e: Any, inside: Any, sick: Any, penalties: Any) -> Any:
    """Return the coefficient of a one-rule model at every λ, shape (n_counts, n_penalties)."""
    n, e, inside, sick = (np.atleast_1d(x)[:, None] for x in (n, e, inside, sick))
    with np.errstate(invalid="ignore", divide="ignore"):
        high = logit((sick - penalties * n) / inside)
        return high - logit((e - sick + penalties * n) / (n - inside))


@pytest.mark.parametrize("counts", ONE_RULES[:3])
def test_no_path_measures_the_same_counts_again(counts: tuple[int, ...]) -> None:
    """Fifty coefficients along λ, each rounded as the model's own, leave one solution.

    The twin publishes the rounded path; the real file has neither it nor the history.
    """
    patients, events, inside, sick = counts
    largest = (sick - inside * events / patients) / patients
    penalties = largest * np.geomspace(0.98, 0.05, 50)
    exact = along_the_path(*counts, penalties)
    step = find_step(1.0, sick * (inside - sick) / inside)
    twin = step * np.rint(exact / step)
    tried = np.array([5 * round(x / 5) for x in counts])[:, None]
    tried = tried + np.indices((5,) * 4).reshape(4, -1) - 2
    near = abs(along_the_path(*tried, penalties) - twin) <= step / 2 + 1e-9
    assert near.all(axis=1).sum() == 1
    study = make_study(**SOLVERS["cv"])
    fitted = fit_model(study, make_tables(study))
    assert all(term.path for term in fitted.terms)
    published = round_model(fitted, DEFAULT)
    assert published.terms
    assert not any(term.path for term in published.terms)
    assert not published.provenance.history


# --- 14. A model that is chosen as a hash of the patients ----------------------------------


def fine_sums(chance: Any, outcome: Any) -> Any:
    """The weakened twin: patients, and their summed probabilities, in 514 bins."""
    edges = expit(np.linspace(-8, 8, 513))
    bins = np.searchsorted(edges, chance, side="right")
    return [np.bincount(bins, part, 514) for part in (1 + 0 * outcome, outcome, chance)], edges


def held_out_site() -> Site:
    """Return a site at the end of an honest run, with few codes, 120 patients held out."""
    study = make_study(**{**SOLVERS["exact"], "holdout": 0.3, "n_cutoffs": 5})
    sites = make_sites(study, make_tables(study, (400,)), secure=False)
    record(Coordinator(study, list(sites)), sites)
    return sites["north"]


def every_record(site: Site) -> Any:
    """Every combination of codes that a patient may have, (n_combinations, n_features)."""
    axes = [
        [*range(a.n_codes), *([] if a.complete else [255])] for a in site.patients.public.grid.axes
    ]
    return np.array(list(itertools.product(*axes)), dtype=np.uint8)


def test_a_chosen_model_reads_no_held_out_records() -> None:
    """Chosen coefficients made each score a hash; a bin of one patient told the record.

    The coordinator gives every cut-off a weight of its own and looks the scores up among those
    of all records that there can be. Old bins tell most records, with outcomes; new bins none.
    """
    site = held_out_site()
    rules, held = site.patients.public.fitted_rules, site.patients.held_out
    codes = every_record(site)
    rng = np.random.default_rng(5)
    weights = rng.normal(0, 1.4, len(rules))
    terms = np.arange(len(rules) + 1)
    holds = np.array([fires(rule, codes) for rule in rules]).T
    book = holds @ weights
    truth = (
        np.array([fires(rule, encode(held.values, site.patients.public.grid)) for rule in rules]).T
        @ weights
    )
    coef = np.concatenate([[-np.median(truth)], weights])
    book, truth = expit(book + coef[0]), expit(truth + coef[0])
    (count, _, chances), _ = fine_sums(truth, held.outcome)
    singles = chances[count == 1]
    matches = [np.flatnonzero(abs(book - p) < 1e-9) for p in singles]
    hashes = [len(np.unique(holds[found], axis=0)) for found in matches]
    assert sum(number == 1 for number in hashes) > 60, "of 120"
    sums = site.patients.count_scores(terms, coef)
    told = read_records(sums, book, holds)
    assert told == 0


def read_records(sums: ScoreSums, book: Any, holds: Any) -> int:
    """Count the bins of one patient that only one record can lie in."""
    bins = np.searchsorted(sums.edges, book, side="right")
    lone = np.flatnonzero(sums.cases + sums.others == 1)
    return sum(len(np.unique(holds[bins == b], axis=0)) == 1 for b in lone)


def test_what_a_chosen_model_still_counts_is_one_group() -> None:
    """A model may still send one group of records to a bin of its own, and count that one.

    Not closed by bins; sites that check which model they judge (the audit) notice it. All that
    25 bins hold is 25 groups, and a score that isolates one record leaves the rest together.
    """
    site = held_out_site()
    rules, held, codes = (
        site.patients.public.fitted_rules,
        site.patients.held_out,
        every_record(site),
    )
    singles = [k for k, rule in enumerate(rules) if len(rule) == 1]
    target = encode(held.values, site.patients.public.grid)[:1]
    signs = np.array([1.0 if fires(rules[k], target)[0] else -1.0 for k in singles])
    coef = np.zeros(len(rules) + 1)
    coef[1 + np.array(singles)] = 4 * signs
    coef[0] = -4 * ((signs > 0).sum() - 0.5)
    holds = np.array([fires(rule, codes) for rule in rules]).T
    sums = site.patients.count_scores(np.arange(len(rules) + 1), coef)
    book = expit(holds @ coef[1:] + coef[0])
    assert read_records(sums, book, holds[:, singles]) <= 1


def test_scores_carry_few_bits() -> None:
    """The whole reply for one patient is one of few: it cannot be a hash of a record."""
    rng = np.random.default_rng(1)
    chance, outcome = rng.random(20_000), (rng.random(20_000) < 0.5).astype(float)
    seen, places, losses = set(), set(), set()
    for p, y in zip(chance, outcome, strict=True):
        sums = count_scores(np.array([p]), np.array([y]), np.ones(1))
        seen.add((sums.cases.tobytes(), sums.others.tobytes(), sums.chances, sums.squares))
        places.add((sums.cases.any(), sums.log_odds.tobytes(), sums.odds_squares.tobytes()))
        losses.add((sums.cases.any(), sums.loss))
    assert len(seen) < 6_000
    assert len(places) < len(losses), "log-odds tell less than the log-losses do"
    assert len(set(chance.tolist())) == 20_000


# --- 16. Groups of at least five that hold three --------------------------------------------


def few_held_out() -> tuple[Any, dict[str, Table]]:
    study = make_study(**SOLVERS["exact"], holdout=0.1)
    tables = make_tables(study, (60, 60, 60), seed=4)
    rows = {}
    for site, table in tables.items():
        assert table.outcome is not None
        sick, well = (np.flatnonzero(table.outcome == value) for value in (1, 0))
        rows[site] = np.concatenate([sick[:4], well[:8]])  # one of eight is held out, none of four
    return study, {site: take(table, rows[site]) for site, table in tables.items()}


def test_three_held_out_patients_are_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where fewer than five were held out in all, they stood in one group of the file.

    The twin puts what is too few for a group into one; the real file says that they are few.
    """
    study, tables = few_held_out()
    model = inprocess.fit(study, tables).model
    assert model.evaluation is None
    assert model_facts(model)["evaluation"] is None
    assert "Too few patients were held out" in render_report(model)

    def careless(_: Any, sums: ScoreSums, least: float, **options: Any) -> ScoreSums | None:
        return coarsen(sums, min(least, sums.n_cases, sums.n_others), **options)

    monkeypatch.setattr(YesNoJudge, "coarsen", careless)
    weak = model_facts(inprocess.fit(study, tables).model)["evaluation"]["groups"]
    assert sum(group["events"] + group["others"] for group in weak) == 3


def test_every_group_that_is_published_holds_enough_of_either_outcome() -> None:
    study = make_study(**SOLVERS["exact"], holdout=0.3)
    model = inprocess.fit(study, make_tables(study, (400, 350, 300))).model
    assert model.evaluation is not None
    for rounding in (EXACT, DEFAULT, Rounding(5, 11)):
        found = round_model(model, rounding).evaluation
        assert found is not None
        smallest = min(found.overall.cases.min(), found.overall.others.min())
        told = min(found.total.events, found.total.patients - found.total.events)
        assert min(smallest, told) >= max(5, rounding.smallest)


def moved_means(rounding: Rounding) -> float:
    """Return how often the last group's mean tells that one patient of it has another risk."""
    risks = np.repeat([0.03, 0.12, 0.32, 0.45, 0.55, 0.65, 0.75], [200, 100, 40, 9, 8, 5, 3])
    outcome = (np.arange(len(risks)) % 2).astype(float)

    def last_mean(chance: Any) -> float:
        judged = evaluation.Evaluation.of_predictions(chance, outcome).rounded(rounding)
        assert judged is not None
        return float(judged.overall.means[-1])

    before, told = last_mean(risks), []
    for patient in np.flatnonzero(risks > 0.4):
        for risk in (0.45, 0.55, 0.65, 0.75, 0.99):
            if risk != risks[patient]:
                told.append(last_mean(np.where(np.arange(len(risks)) == patient, risk, risks)))
    return float(np.mean(np.array(told) != before))


def test_the_mean_risk_of_a_group_does_not_tell_of_one_patient_in_it() -> None:
    """Who knows all patients of a group but one reads that one's risk off the group's mean.

    The twin tells it with all digits; the file no finer than what one patient can move.
    """
    assert moved_means(EXACT) == 1
    assert moved_means(DEFAULT) < 0.4


def published_counts() -> list[float]:
    """Return all counts that the file of an honest run under the default policy tells."""
    study = make_study(**SOLVERS["exact"], epsilon=1.0, holdout=0.3)
    fitted = inprocess.fit(study, make_tables(study, (150, 120, 100)), policy=Policy(), secure=True)
    facts = model_facts(fitted.model)
    counts = [facts["provenance"]["patients"], facts["provenance"]["events"]]
    for term in facts["terms"]:
        counts += [term.get("inside"), term.get("events_inside")]
    return [count for count in counts if count is not None]


def test_an_honest_run_publishes_only_rounded_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count in a model file was exact; under the default policy each is a multiple of five.

    The twin's coordinator does not round.
    """
    told = published_counts()
    assert len(told) > 4
    assert all(count % 5 == 0 and count >= 10 for count in told)
    monkeypatch.setattr(coordinator, "round_model", lambda model, rounding: model)
    assert not all(count % 5 == 0 for count in published_counts())
