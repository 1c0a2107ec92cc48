"""Attacks on the share of variance between sites: the one sum that says how patients lie in sites.

It is told in coarse steps, and of no term that few patients make. A weakened twin tells it with
all digits, or of anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.arrays import Floats
from fedrulefit.core.between import BetweenSums, share_between
from fedrulefit.core.fixed import from_units
from fedrulefit.core.grid import encode
from fedrulefit.core.rules import Rule
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.messages import between
from fedrulefit.protocol.site import Site
from fedrulefit.table.patients import Table
from tests.attacks.test_sums import (
    GRID,
    SIZES,
    TABLES,
    Attacker,
    count_inside,
    make_rules,
    search,
)
from tests.oracles import fires
from tests.samples import take

RULES = make_rules(GRID, TABLES, 12, 60)
N = sum(SIZES.values())
INSIDE = np.array([sum(count_inside(rule, GRID, t) for t in TABLES.values()) for rule in RULES])
TRUTH = [[count_inside(rule, GRID, table) for table in TABLES.values()] for rule in RULES]


def ask(
    tables: Mapping[str, Table], rules: Sequence[Rule], inside: Any, total: float = N
) -> Floats:
    """Return η² of these rules as the sites' masked answers add up to it."""
    attacker = Attacker(tables)
    assert not any(isinstance(reply, m.Refusal) for reply in attacker.begin(GRID, rules))
    replies = attacker.ask(
        m.BetweenRequest,
        n_sites=len(tables),
        terms=np.arange(1 + len(rules)),
        total=float(total),
        means=np.asarray(inside) / N,
        squares=np.empty(0),
    )
    refused = {reply.code for reply in replies if isinstance(reply, m.Refusal)}
    if refused:
        raise PermissionError(refused)
    with np.errstate(over="ignore"):
        levels = from_units(np.sum([reply.numbers for reply in replies], axis=0))
    return share_between(BetweenSums(levels), len(tables))


def fine_levels(layout: Any, own: Any, pooled: Any, n_sites: int) -> Floats:
    """Return what a site would tell with all digits: the weakened twin."""
    del n_sites
    part = own.total / pooled.total * (own.inside / own.total - pooled.means) ** 2
    levels: Floats = part / pooled.variances(layout) * 10 * len(SIZES)
    return levels


def explained(share: float, n: int, sizes: Floats) -> Any:
    """Return which splits of n patients over hospitals of these sizes have this η², ±0.05."""
    first, second = np.indices((n + 1, n + 1)).reshape(2, -1)
    split = np.stack([first, second, n - first - second])
    p = n / N
    apart = (sizes[:, None] * (split / sizes[:, None] - p) ** 2).sum(axis=0) / (N * p * (1 - p))
    fits = ((split >= 0) & (split <= sizes[:, None])).all(axis=0)
    return split.T[fits & (np.abs(apart - share) <= 0.05)]


def test_with_all_digits_it_gives_every_hospital_s_counts_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few whole numbers explain Σ n_m²/N_m: one answer, the truth. In coarse steps, anything does.

    Then sizes of hospitals stay unknown, and so does, to whoever knows the sizes, which
    hospital has how many of a rule's patients.
    """
    coarse = ask(TABLES, RULES, INSIDE)
    monkeypatch.setattr(between, "count_levels", fine_levels)
    fine = ask(TABLES, RULES, INSIDE)
    assert np.abs(coarse - fine).max() <= 0.05
    sizes, counts = search(N, INSIDE, (INSIDE - INSIDE**2 / N) * (1 - fine))
    assert sizes.tolist() == list(SIZES.values())
    assert counts == [[found] for found in TRUTH]
    triples = [
        np.array([a, b, N - a - b], dtype=float)
        for a in range(100, N, 50)
        for b in range(50, a + 1, 50)
        if 50 <= N - a - b <= b
    ]
    fitting = [
        sizes
        for sizes in triples
        if all(len(explained(*rule, sizes)) for rule in zip(coarse, INSIDE, strict=True))
    ]
    assert len(fitting) == len(triples) > 25
    true_sizes = np.array(list(SIZES.values()), dtype=float)
    for share, n in zip(coarse, INSIDE, strict=True):
        assert len(explained(share, n, true_sizes)) > 2 * n


def gather(rule: Rule, tables: Mapping[str, Table], site: str) -> dict[str, Table]:
    """Return the same patients, in hospitals of the same sizes; the rule's are all at one."""
    values = np.vstack([table.values for table in tables.values()])
    whole = Table(
        values,
        np.concatenate([table.outcome for table in tables.values()]),  # type: ignore[misc]
        np.ones(len(values)),
    )
    owner = np.repeat(list(tables), [table.n_rows for table in tables.values()])
    inside = fires(rule, encode(values, GRID))
    away = np.flatnonzero(inside & (owner != site))
    free = np.flatnonzero(~inside & (owner == site))[: len(away)]
    owner[free], owner[away] = owner[away], site
    return {name: take(whole, owner == name) for name in tables}


def test_a_coordinator_that_claims_few_patients_does_not_learn_who_has_a_rare_rule_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All the patients of a rare rule at one hospital, or not: a smaller N makes steps finer."""
    (rule, *_) = make_rules(GRID, TABLES, 4, 8)
    n = sum(count_inside(rule, GRID, table) for table in TABLES.values())
    gathered = gather(rule, TABLES, "west")
    assert count_inside(rule, GRID, gathered["west"]) == n
    for tables in (TABLES, gathered):
        for total in (N, 40):
            with pytest.raises(PermissionError, match="bad-request"):
                ask(tables, [rule], [n], total)
    monkeypatch.setattr(m.BetweenRequest, "check", lambda self, public: None)
    apart, together = (ask(tables, [rule], [n], 40)[0] for tables in (TABLES, gathered))
    assert together - apart > 0.3
    # A true question about a rule of so few would tell next to nothing, but is not asked.
    assert ask(gathered, [rule], [n])[0] <= 0.05


@pytest.mark.parametrize("mean", [0.01, 0.05, 0.95])
@pytest.mark.parametrize("total", [1000.0, 2000.0])
def test_with_a_false_mean_one_patient_more_seldom_shows(mean: float, total: float) -> None:
    """Within what is answered at all, a step of a hospital's part is several patients."""
    rule = RULES[0]
    levels = []
    for n_inside in range(13):
        values = np.repeat(TABLES["west"].values[~holds(rule, TABLES["west"])][:1], 149, axis=0)
        values[:n_inside] = TABLES["north"].values[holds(rule, TABLES["north"])][:1]
        west = replace(TABLES["west"], values=values)
        share = ask({**TABLES, "west": west}, [rule], [mean * N], total)
        levels.append(round(30 * share[0]))
    assert len({*levels}) <= 6


def holds(rule: Rule, table: Table) -> Any:
    return fires(rule, encode(table.values, GRID)).astype(bool)


def test_it_is_asked_once_in_a_run() -> None:
    attacker = Attacker(TABLES)
    attacker.begin(GRID, RULES)
    facts: dict[str, Any] = {"n_sites": 3, "terms": np.arange(1 + len(RULES))}
    facts |= {"total": float(N), "squares": np.empty(0)}
    first = attacker.ask(m.BetweenRequest, **facts, means=INSIDE / N)
    assert all(isinstance(reply, m.SumReply) for reply in first)
    again = attacker.ask(m.BetweenRequest, **facts, means=np.full(len(RULES), 0.5))
    assert {(type(reply), reply.code) for reply in again} == {(m.Refusal, "order")}
    assert all(isinstance(site, Site) for site in attacker.sites.values())
