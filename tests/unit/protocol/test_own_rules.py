"""The study's own rules: who decides on them, and what becomes of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, conjoin, interval
from fedrulefit.model import Model
from fedrulefit.privacy.policy import KINDS, OPEN, Policy
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.own_rules import elect_own, list_own_asked
from fedrulefit.study import Study
from fedrulefit.testing.samples import study_facts
from tests.oracles import fires
from tests.samples import SOLVERS, fit_model, make_sites, make_tables, record, take

RULES = ["age >= 64.3 & gcs < 9", "ward = icu & sex = female"]


def make(settings: dict[str, Any] | None = None, **wishes: Any) -> Study:
    facts = study_facts(**{**SOLVERS["exact"], "n_trees": 5, **(settings or {})})
    return Study.from_mapping({**facts, "wishes": wishes})


def told(model: Model) -> list[str]:
    return [model.describe(term) for term in model.rule_terms]


@pytest.mark.parametrize("solver", ["exact", "cv", "pruned"])
def test_kept_rules_are_in_the_model_and_unpenalised(solver: str) -> None:
    settings = SOLVERS[solver] | ({"penalty": 0.5} if solver == "exact" else {"max_terms": 3})
    study = make(settings, kept_rules=RULES)
    model = fit_model(study, make_tables(study, sizes=(150, 120)))
    words = told(model)
    assert "age ≥ 64.3 years & gcs < 9" in words
    assert "sex = female & ward = icu" in words or "ward = icu & sex = female" in words
    assert len(model.terms) <= (3 if solver == "pruned" else 20)
    assert model.provenance.certificate.gap is not None
    assert model.provenance.certificate.residual < 1e-6


def test_own_rules_are_candidates_that_trees_do_not_find() -> None:
    study = make({"n_trees": 0, "penalty": 0.001}, rules=RULES)
    tables = make_tables(study, sizes=(300, 200))
    words = told(fit_model(study, tables))
    assert "age ≥ 64.3 years & gcs < 9" in words
    plain = make({"n_trees": 0, "penalty": 0.001})
    assert all("&" not in each for each in told(fit_model(plain, tables)))


@pytest.mark.parametrize("solver", ["exact", "cv"])
def test_with_own_rules_federated_equals_pooled(solver: str) -> None:
    wishes = {"rules": RULES[:1], "kept_rules": RULES[1:], "never": [["age", "lactate"]],
              "forbidden_rules": ["sex = male & gcs >= 9"]}  # fmt: skip
    facts = study_facts(
        **{**SOLVERS[solver], "n_trees": 0, "max_conditions": 2, "path_length": 6, "folds": 2}
    )
    facts["covariates"]["lactate"]["direction"] = "up"
    facts["covariates"]["gcs"] |= {"direction": "down", "keep": True}
    study = Study.from_mapping({**facts, "wishes": wishes})
    (pool,) = make_tables(study, sizes=(300,)).values()
    options = {} if solver == "exact" else {"seed": 3}
    study = study.with_settings(**options)
    whole = fit_model(study, {"pool": pool})
    parts = np.array_split(np.random.default_rng(0).permutation(300), 3)
    apart = fit_model(study, {f"site {k}": take(pool, rows) for k, rows in enumerate(parts)})
    if solver == "exact":  # folds are drawn at each site, so cross-validation differs
        assert set(told(whole)) == set(told(apart))
        np.testing.assert_allclose(
            whole.linear_predictor(pool.values), apart.linear_predictor(pool.values), atol=1e-6
        )
    for model in (whole, apart):
        assert any(term.feature == 2 for term in model.linear_terms)


def test_masks_change_nothing_where_all_sites_have_enough() -> None:
    study = make({"penalty": 0.003}, kept_rules=RULES)
    tables = make_tables(study, sizes=(300, 300, 300))
    open_votes = Policy.model_validate({**OPEN.model_dump(), "min_votes": 1})
    models = []
    for policy, secure in ((OPEN, False), (OPEN, True), (open_votes, True)):
        sites = make_sites(study, tables, policy=policy)
        models.append(record(Coordinator(study, list(sites), secure=secure), sites)[0])
    for model in models:
        assert "age ≥ 64.3 years & gcs < 9" in told(model)
    first, second, _ = models
    assert told(first) == told(second)


def test_a_rule_with_too_few_patients_is_left_out() -> None:
    study = make({"penalty": 0.0005}, kept_rules=["age >= 99.9 & gcs < 4", RULES[0]])
    tables = make_tables(study, sizes=(200, 200, 200))
    policy = Policy(allow=tuple(KINDS))
    for secure, votes in ((False, 2), (True, 2), (True, 0)):
        own = Policy.model_validate(
            {**policy.model_dump(), "min_votes": votes, "secure_sums": secure}
        )
        sites = make_sites(study, tables, policy=own)
        words = told(record(Coordinator(study, list(sites), secure=secure), sites)[0])
        assert "age ≥ 64.3 years & gcs < 9" in words
        assert not any("99.9" in each and "gcs" in each for each in words)


# --- Slices between own rules -------------------------------------------------------------------

AXES = tuple(Axis("number", np.arange(1.0, n), n, complete) for n, complete in
             ((4, True), (3, False), (2, True)))  # fmt: skip
GRID = Grid(AXES)


def random_rule(rng: Any) -> Any:
    conditions = []
    for j, axis in enumerate(AXES):
        a, b = sorted(rng.choice(axis.n_codes + 1, 2, replace=False).tolist())
        missing = not axis.complete and bool(rng.random() < 0.3)
        conditions.append(Condition(j, interval(a, b, missing=missing)))
    made = conjoin(conditions, GRID)
    return made if made is not None and len(made) else random_rule(rng)


@pytest.mark.parametrize("seed", range(60))
def test_elected_own_rules_are_apart_by_enough_patients(seed: int) -> None:
    """Brute force: for nested rules, or complements, between them are k patients."""
    rng = np.random.default_rng(seed)
    own = tuple(dict.fromkeys(random_rule(rng) for _ in range(6)))
    rows = np.array([*product(range(4), [0, 1, 2, 255], range(2))], dtype=np.uint8)
    rows = rows[rng.integers(0, len(rows), 60)]
    k = 6

    def passes(one: Any) -> bool:
        hits = int(fires(one, rows).sum())
        return k <= hits <= len(rows) - k

    asked = list_own_asked(own, GRID)
    assert set(own) <= set(asked)
    elected = elect_own(own, GRID, lambda one: one in asked and passes(one))
    assert set(elected) <= {one for one in own if passes(one)}
    every = np.array([*product(range(4), [0, 1, 2, 255], range(2))], dtype=np.uint8)
    for one, other in product(elected, repeat=2):
        for a, b in ((fires(one, every), fires(other, every)),):
            if one != other and not (a & ~b).any():
                between = fires(other, rows) & ~fires(one, rows)
                assert between.sum() >= k
            if len(one) == 1 and one != other and not (~a & ~b).any():
                assert (fires(one, rows) & fires(other, rows)).sum() >= k


def test_a_masked_run_with_votes_and_pruning_keeps_to_all_wishes() -> None:
    facts = study_facts(**{**SOLVERS["pruned"], "n_trees": 10, "max_terms": 6, "seed": 5})
    facts["covariates"]["lactate"]["direction"] = "up"
    facts["covariates"]["gcs"] |= {"direction": "down", "keep": True}
    wishes = {
        "kept_rules": RULES[1:], "never": [["age", "lactate"]], "forbidden_rules": ["ward = icu"],
    }  # fmt: skip
    study = Study.from_mapping({**facts, "wishes": wishes})
    tables = make_tables(study, sizes=(300, 300, 300))
    sites = make_sites(study, tables, policy=Policy(allow=tuple(KINDS), min_sites=3, max_folds=3))
    model, _ = record(Coordinator(study, list(sites), secure=True), sites)
    assert "ward = icu & sex = female" in told(model)
    assert any(term.feature == 2 for term in model.linear_terms)
    assert "ward = icu" not in told(model)
    assert not any({0, 1} <= set(term.features) for term in model.terms)
    values = np.repeat(tables["north"].values[:20], 60, axis=0)
    for feature, sign, way in (
        (1, 1, np.geomspace(0.1, 25, 60)),
        (2, -1, np.repeat(np.arange(3, 15), 5)),
    ):
        swept = values.copy()
        swept[:, feature] = np.tile(way, 20)
        steps = np.diff(model.linear_predictor(swept).reshape(20, 60), axis=1)
        assert (sign * steps).min() >= -1e-9
