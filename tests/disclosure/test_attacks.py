"""Attacks of an honest but curious coordinator: they read the plain protocol, not the default.

Both start from what a site answers in the first round, where every coefficient is 0:

* *Counts.* A gradient Σ x·(σ − y) of a rule with n patients and c cases is n·σ − c, its
  entry in the Hessian n·σ(1 − σ): two equations for two integers.
* *Labels.* Who knows the covariates knows X, and solves Xᵀ(1/2 − y) = gradient for y.

Under the default policy the same bytes are one site's part of a secure sum, uniformly
random in 64 bits: each test says how probable it is that it fails by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmarks.real import patients
from scipy import optimize, stats
from scipy.special import expit

from fedrulefit.core.design import build_design
from fedrulefit.core.grid import Grid, encode, linear_values
from fedrulefit.core.rules import Rule
from fedrulefit.model import Model
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.solver_settings import make_schedule
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.oracles import dense, fires
from tests.samples import SOLVERS, make_sites, make_study, make_tables

FALSE_ALARM = 1e-6
"""Most probable that a test here fails although the protocol is right."""


@dataclass
class FirstRound:
    """What the coordinator holds after the first round of fitting."""

    study: Study
    grid: Grid
    rules: tuple[Rule, ...]
    request: Any
    replies: Mapping[str, bytes]

    @property
    def n_terms(self) -> int:
        n_linear = len(self.grid.linear) if self.study.settings.linear_terms else 0
        return 1 + len(self.rules) + n_linear

    def read(self, site: str) -> Any:
        """One site's reply; a masked one is read as if its numbers were the sums."""
        reply = from_bytes(self.replies[site])
        assert isinstance(reply, m.SumReply)
        return self.as_sum(reply.numbers)

    def as_sum(self, units: Any) -> Any:
        """Integers of the ring, read as the sum that was asked for: gradients of all points."""
        public = Public(self.study).with_grid(self.grid).with_rules(self.rules)
        sums = self.request.read(units, public)
        if isinstance(self.request, m.DualRequest):
            return sums[0]
        return SimpleNamespace(
            gradients=np.concatenate([part.gradient for part in sums]),
            hessians=np.concatenate([part.hessian for part in sums]),
        )


def play(study: Study, tables: Mapping[str, Table], *, policy: Policy, secure: bool) -> FirstRound:
    """Run up to the first round's replies; the coordinator follows the protocol."""
    # The attacks on the plain protocol repeat themselves; the default has OpenDP's noise.
    seeded = policy is OPEN
    sites = make_sites(
        study,
        tables,
        policy=policy,
        each=lambda name: {"noise": UnsafeSeededLaplace(7, name) if seeded else None},
    )
    coordinator = Coordinator(study, list(sites), secure=secure)
    requests = coordinator.step()
    grid, rules = None, ()
    while not isinstance(requests, Model):
        asked = next(iter(requests.values()))
        data = {name: sites[name].answer(to_bytes(r)) for name, r in requests.items()}
        if isinstance(asked, m.RulesRequest):
            grid = asked.grid
        if isinstance(asked, m.TermsRequest):
            rules = asked.rules
        if isinstance(asked, (m.DualRequest, m.CurvatureRequest)):
            assert grid is not None
            return FirstRound(study, grid, rules, asked, data)
        requests = coordinator.step({name: from_bytes(d) for name, d in data.items()})  # type: ignore[misc]
    raise AssertionError


def plain(study: Study, tables: Mapping[str, Table]) -> FirstRound:
    return play(study, tables, policy=OPEN, secure=False)


def default(study: Study, tables: Mapping[str, Table]) -> FirstRound:
    """The default policy to the letter: noise by OpenDP, the gate, secure sums.

    Only the paper's solver is allowed besides.
    """
    policy = Policy()
    if study.settings.solver == "fedda":
        policy = Policy(allow=(*policy.allow, "dual"))
    seen = play(study, tables, policy=policy, secure=True)
    replies = [from_bytes(data) for data in seen.replies.values()]
    assert all(isinstance(reply, m.SumReply) and reply.masked for reply in replies)
    return seen


def counts_of(rules: tuple[Rule, ...], grid: Grid, table: Table) -> Any:
    """(support, cases) of every rule, shape (n_rules, 2)."""
    codes = encode(table.values, grid)
    hits = np.array([fires(rule, codes) for rule in rules])
    return np.column_stack([hits.sum(axis=1), hits @ table.outcome]).astype(np.int64)


# --- counts ----------------------------------------------------------------------------------


def counts_from_curvature(seen: FirstRound, reply: Any) -> Any:
    """Read n = 4·H[0, k] and c = n/2 − gradient off the first reply of the exact solver."""
    (query, *_) = seen.request.queries
    assert not query.start.any()
    assert not query.end.any()
    places = {term: k for k, term in enumerate(query.active.tolist())}
    found = np.full((len(seen.rules), 2), -1, dtype=np.int64)
    for k in range(len(seen.rules)):
        if k + 1 in places:
            # The first row of the triangle: the intercept with every active term.
            support = 4 * reply.hessians[places[k + 1]]
            cases = support / 2 - reply.gradients[k + 1]
            found[k] = np.rint(np.clip([support, cases], -1e15, 1e15))
    return found


def counts_from_dual(seen: FirstRound, reply: Any) -> Any:
    """Follow the intercept through the local steps; then n·Σσ − G·c is known for each rule.

    No coefficient but the intercept moves in a first round whose penalty is high.
    """
    schedule = make_schedule(seen.study.settings)
    steps, size = schedule.local_steps, schedule.client_step
    total = reply.weight
    found = np.full((len(seen.rules), 2), -1, dtype=np.int64)
    if not 0 < total < 1e5:
        return found  # not a number of patients
    # The number of cases: the one whose intercept makes the way that was told.
    ways = [way(case / total, steps, size) for case in range(int(total) + 1)]
    cases = int(np.argmin([abs(total * w[0] - reply.increment[0]) for w in ways]))
    summed = ways[cases][1]
    supports = np.arange(int(total) + 1)
    for k in range(len(seen.rules)):
        told = -reply.increment[k + 1] / size
        inside = (supports * summed - told) / steps
        off = np.abs(inside - np.rint(inside))
        off[(inside < -0.5) | (inside > supports + 0.5)] = np.inf
        best = int(np.argmin(off))
        found[k] = best, np.rint(inside[best]) if np.isfinite(off[best]) else -1
    return found


def way(rate: float, steps: int, size: float) -> tuple[float, float]:
    """Return where the intercept of one patient's mean gets to, and Σσ on the way."""
    intercept = summed = 0.0
    for _ in range(steps):
        chance = float(expit(intercept))
        summed += chance
        intercept -= size * (chance - rate)
    return intercept, summed


COUNTS = {
    "curvature": (
        {**SOLVERS["exact"], "interaction_factor": 1.0, "max_active": 10_000},
        counts_from_curvature,
    ),
    "cross-validation": (
        {**SOLVERS["cv"], "interaction_factor": 1.0, "max_active": 10_000},
        counts_from_curvature,
    ),
    "dual": ({"penalty": 0.8, "local_steps": 7}, counts_from_dual),
}


@pytest.mark.parametrize("attack", COUNTS)
def test_plain_sums_tell_the_patients_and_cases_of_every_rule(attack: str) -> None:
    settings, recover = COUNTS[attack]
    study = make_study(epsilon=1.0, **settings)
    tables = make_tables(study, sizes=(90, 80, 70))
    seen = plain(study, tables)
    assert len(seen.rules) > 30
    for name, table in tables.items():
        found, truth = recover(seen, seen.read(name)), counts_of(seen.rules, seen.grid, table)
        # Rules grown without a fold are not in the first Hessian of the fit to all.
        told = found[:, 0] >= 0
        assert told.all() or (attack == "cross-validation" and told.sum() > 100)
        np.testing.assert_array_equal(found[told], truth[told])


@pytest.mark.parametrize("attack", COUNTS)
def test_the_default_policy_tells_no_count(attack: str) -> None:
    """False alarm, curvature: R·2^-50.

    A support is read as n/4 ± 1/8, 2^38 of 2^64 numbers, and its cases as c ± 1/2, 2^40 of them.

    FedDA's attack needs the number of patients first; that a random number is one of
    0 … 100,000 has probability 2^-15, and that it is the right one 2^-32 at each site.
    """
    settings, recover = COUNTS[attack]
    study = make_study(epsilon=1.0, **settings)
    tables = make_tables(study, sizes=(90, 80, 70))
    seen = default(study, tables)
    assert len(seen.rules) > 10
    assert 3 * len(seen.rules) * 2.0**-50 < FALSE_ALARM
    for name, table in tables.items():
        found = recover(seen, seen.read(name))
        truth = counts_of(seen.rules, seen.grid, table)
        if attack == "dual":
            assert round(seen.read(name).weight) != table.n_rows
            assert not (found == truth).all(axis=1).all()
        else:
            assert not (found == truth).all(axis=1).any()


def test_the_sum_of_all_sites_is_all_there_is_to_read() -> None:
    """The coordinator does get what it came for: counts over three hospitals."""
    settings, recover = COUNTS["curvature"]
    study = make_study(epsilon=1.0, **settings)
    tables = make_tables(study, sizes=(90, 80, 70))
    seen = default(study, tables)
    total = sum(from_bytes(d).numbers for d in seen.replies.values())  # type: ignore[union-attr]
    reply = seen.as_sum(total)
    truth = sum(counts_of(seen.rules, seen.grid, table) for table in tables.values())
    np.testing.assert_array_equal(recover(seen, reply), truth)


# --- labels ----------------------------------------------------------------------------------


def labels_from_gradient(seen: FirstRound, reply: Any, table: Table) -> Any:
    """Solve Xᵀy = Xᵀ1/2 − gradient; X is known to who knows the covariates."""
    X = design_of(seen, table)
    gradient = reply.gradients[: seen.n_terms]
    y, *_ = np.linalg.lstsq(X.T, X.sum(axis=0) / 2 - gradient, rcond=None)
    return y


def labels_by_integers(seen: FirstRound, reply: Any, table: Table) -> Any | None:
    """The same where patients outnumber the equations: labels are 0 or 1."""
    X, whole = design_of(seen, table), 1 + len(seen.rules)
    sums = X.sum(axis=0) / 2 - reply.gradients[: seen.n_terms]
    sums[:whole] = np.rint(sums[:whole])
    width = np.where(np.arange(seen.n_terms) < whole, 0.01, 1e-5)
    made = optimize.milp(
        np.zeros(len(X)),
        integrality=np.ones(len(X)),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(X.T, sums - width, sums + width),
        options={"time_limit": 30},
    )
    return None if made.x is None else np.rint(made.x)


def design_of(seen: FirstRound, table: Table) -> Any:
    linear = linear_values(table.values, seen.grid)
    if not seen.study.settings.linear_terms:
        linear = linear[:, :0]
    return dense(build_design(encode(table.values, seen.grid), seen.rules, linear))


FINE: dict[str, Any] = {
    **SOLVERS["exact"],
    "n_trees": 0,
    "n_cutoffs": 150,
    "n_bins": 300,
    "interaction_factor": 1.0,
}
"""Only cut-offs that need no data: then nothing but the sums can tell of the labels."""


def coin_tables(study: Study, sizes: tuple[int, ...]) -> dict[str, Table]:
    """Sites whose labels are tossed, fresh in every run of the test."""
    rng = np.random.default_rng()
    tables = make_tables(study, sizes=sizes)
    return {
        name: Table(t.values, rng.integers(0, 2, t.n_rows).astype(float), t.weights)
        for name, t in tables.items()
    }


def trauma_like(sizes: tuple[int, ...] = (50, 45, 40)) -> tuple[Study, dict[str, Table]]:
    study = make_study(epsilon=1.0, **FINE)
    return study, coin_tables(study, sizes)


def test_plain_sums_tell_every_label() -> None:
    study, tables = trauma_like()
    seen = plain(study, tables)
    for name, table in tables.items():
        assert np.linalg.matrix_rank(design_of(seen, table)) == table.n_rows
        found = labels_from_gradient(seen, seen.read(name), table)
        np.testing.assert_allclose(found, table.outcome, atol=1e-4)
        np.testing.assert_array_equal(found > 0.5, table.outcome == 1)


def test_the_default_policy_tells_no_label() -> None:
    """False alarm < 1e-6: labels are fair coins, and what is guessed does not depend on them.

    So the number of right guesses is binomial(n, 1/2), whatever the guesses are. (That no labels
    fit at all fails with probability (100·2^-24)² at each site: the first two equations.)
    """
    study, tables = trauma_like((100, 100, 100))
    seen = default(study, tables)
    right = n_patients = 0
    for name, table in tables.items():
        guess = labels_from_gradient(seen, seen.read(name), table) > 0.5
        right += int((guess == (table.outcome == 1)).sum())
        n_patients += table.n_rows
        # Nor does it look like labels: the attacker sees at once that it has failed.
        assert labels_by_integers(seen, seen.read(name), table) is None
    limit = stats.binom.isf(FALSE_ALARM / 2, n_patients, 0.5)
    assert n_patients - limit <= right <= limit
    assert limit / n_patients < 0.65


# --- real patients ---------------------------------------------------------------------------


def real_tables(folder: Path, name: str, **settings: Any) -> tuple[Study, dict[str, Table]]:
    study, frame = patients.load(folder, name)
    study = study.with_settings(**settings)
    sites = frame["site"].astype(str)
    return study, {
        str(site): load_table(pd.DataFrame(part), study) for site, part in frame.groupby(sites)
    }


REAL: dict[str, Any] = {"penalty": 0.01, "interaction_factor": 1.0, "max_active": 10_000}


def test_trauma_hospitals(data_dir: Path) -> None:
    """The attack that moved us to secure sums, on the three hospitals themselves."""
    study, tables = real_tables(data_dir, "trauma", **REAL)
    assert len(tables) == 3
    seen = plain(study, tables)
    for name, table in tables.items():
        truth = counts_of(seen.rules, seen.grid, table)
        np.testing.assert_array_equal(counts_from_curvature(seen, seen.read(name)), truth)
        found = labels_by_integers(seen, seen.read(name), table)
        assert found is not None
        np.testing.assert_array_equal(found, table.outcome)
    masked = default(study, tables)
    for name, table in tables.items():
        truth = counts_of(masked.rules, masked.grid, table)
        # Each is right with probability ≤ 2^-50; there are fewer than 3·5,000.
        assert 3 * len(masked.rules) * 2.0**-50 < FALSE_ALARM
        found = counts_from_curvature(masked, masked.read(name))
        assert not (found == truth).all(axis=1).any()
        # No labels fit: the first two equations alone do with probability (216·2^-24)².
        assert labels_by_integers(masked, masked.read(name), table) is None
