"""What every engine must do, whatever carries its messages.

In a test file of yours, with pytest::

    from fedrulefit.testing.engines import EngineSuite

    class TestPigeons(EngineSuite):
        @pytest.fixture
        def engine(self):
            return Pigeons()

The suite asks for runs of every solver, with noise and without, and compares each with the
embedded engine: the model must be the same, bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from fedrulefit.engines.base import Engine
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.errors import FitError
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import Noise, UnsafeSeededLaplace
from fedrulefit.protocol.coordinator import Progress
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import OUTCOMES, SOLVERS, make_study, make_tables

EVERY_SOLVER = pytest.mark.parametrize("solver", SOLVERS)


def fit(
    engine: Engine,
    study: Study,
    tables: Mapping[str, Table],
    *,
    n_threads: int = 1,
    noise_seed: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> tuple[Model, Mapping[str, Ledger]]:
    """Fit a study; with a seed, every site has :class:`UnsafeSeededLaplace` of it."""

    def make_noise(site: str) -> Noise | None:
        return None if noise_seed is None else UnsafeSeededLaplace(noise_seed, site)

    fitted = engine.fit(
        study, tables, make_noise=make_noise, n_threads=n_threads, on_progress=on_progress
    )
    return fitted.model, fitted.ledgers


def model_bytes(model: Model) -> str:
    """Return what a model file would hold."""
    return json.dumps(model_facts(model))


class EngineSuite:
    """What every engine must do: subclass it, with a fixture ``engine``."""

    @pytest.fixture
    def engine(self) -> Engine:
        """Return the engine; a subclass must."""
        raise NotImplementedError

    @EVERY_SOLVER
    def test_the_model_is_that_of_the_embedded_engine(self, engine: Engine, solver: str) -> None:
        study = make_study(epsilon=1.0, **SOLVERS[solver])
        tables = make_tables(study)
        model, _ = fit(engine, study, tables, noise_seed=3)
        expected, _ = fit(EMBEDDED, study, tables, noise_seed=3)
        assert model_bytes(model) == model_bytes(expected)

    @pytest.mark.parametrize("solver", ["exact", "cv"])
    @pytest.mark.parametrize("outcome", [kind for kind in OUTCOMES if kind != "yes/no"])
    def test_so_it_is_of_every_outcome(self, engine: Engine, outcome: str, solver: str) -> None:
        study = make_study(outcome, epsilon=1.0, holdout=0.3, **SOLVERS[solver])
        tables = make_tables(study, sizes=(120, 90, 80))
        model, _ = fit(engine, study, tables, noise_seed=3)
        expected, _ = fit(EMBEDDED, study, tables, noise_seed=3)
        assert model_bytes(model) == model_bytes(expected)
        assert model.evaluation is not None
        assert model.provenance.certificate.residual <= 1e-8
        assert model.provenance.certificate.gap is not None
        assert model.provenance.certificate.gap <= 1e-6

    @EVERY_SOLVER
    @pytest.mark.parametrize("n_threads", [2, 4])
    @pytest.mark.parametrize("epsilon", [None, 1.0])
    def test_threads_do_not_change_the_model(
        self, engine: Engine, n_threads: int, epsilon: float | None, solver: str
    ) -> None:
        study = make_study(epsilon=epsilon, **SOLVERS[solver])
        tables = make_tables(study, sizes=(60, 40, 30, 25))
        alone, _ = fit(engine, study, tables, n_threads=1, noise_seed=3)
        many, _ = fit(engine, study, tables, n_threads=n_threads, noise_seed=3)
        assert model_bytes(many) == model_bytes(alone)

    @EVERY_SOLVER
    @pytest.mark.parametrize("epsilon", [None, 1.0])
    def test_the_order_of_sites_does_not_change_the_model(
        self, engine: Engine, epsilon: float | None, solver: str
    ) -> None:
        study = make_study(epsilon=epsilon, **SOLVERS[solver])
        tables = make_tables(study)
        forwards, _ = fit(engine, study, tables, noise_seed=3)
        backwards, _ = fit(engine, study, dict(reversed(tables.items())), noise_seed=3)
        assert model_bytes(backwards) == model_bytes(forwards)
        assert forwards.provenance.sites == ("north", "south", "west")

    @EVERY_SOLVER
    def test_seeded_noise_repeats_itself_and_another_seed_does_not(
        self, engine: Engine, solver: str
    ) -> None:
        study = make_study(epsilon=0.5, **SOLVERS[solver])
        tables = make_tables(study)
        one, again, other = (
            model_bytes(fit(engine, study, tables, noise_seed=seed)[0]) for seed in (3, 3, 4)
        )
        assert one == again
        assert one != other

    def test_the_study_s_seed_moves_trees_and_not_noise(self, engine: Engine) -> None:
        tables = make_tables(make_study())
        grids, texts = [], []
        for seed in (0, 1):
            model, _ = fit(engine, make_study(epsilon=1.0, seed=seed), tables, noise_seed=3)
            grids.append(np.concatenate([axis.cutoffs for axis in model.grid.axes]))
            texts.append(str(model.terms))
        np.testing.assert_array_equal(grids[0], grids[1])
        assert texts[0] != texts[1]

    def test_progress_sees_every_step(self, engine: Engine) -> None:
        study = make_study(rounds=4)
        seen: list[Progress] = []
        model, _ = fit(engine, study, make_tables(study), on_progress=seen.append)
        assert [p.step for p in seen] == [
            "join", "histograms", "rules", "terms", "fit", "fit", "fit", "fit", "summary",
            "summary", "between", "done",
        ]  # fmt: skip
        fits = [p for p in seen if p.step == "fit"]
        assert [(p.round, p.rounds) for p in fits] == [(0, 4), (1, 4), (2, 4), (3, 4)]
        assert fits[0].objective is None
        assert [p.objective for p in fits[1:]] == list(model.provenance.history[:3])
        assert seen[-1].objective == model.provenance.objective

    def test_every_site_keeps_a_ledger(self, engine: Engine) -> None:
        study = make_study(rounds=4, epsilon=0.5)
        _, ledgers = fit(engine, study, make_tables(study))
        assert set(ledgers) == {"north", "south", "west"}
        for ledger in ledgers.values():
            assert ledger.epsilon == pytest.approx(5 * 0.5)
            rounds = [r.round for r in ledger.releases if r.quantity == "increment"]
            assert rounds == [0, 1, 2, 3]
        first = [r.digest for r in ledgers["north"].releases]
        assert not set(first) & {r.digest for r in ledgers["south"].releases}

    @EVERY_SOLVER
    def test_one_site_is_enough_and_none_is_not(self, engine: Engine, solver: str) -> None:
        study = make_study(**SOLVERS[solver])
        model, _ = fit(engine, study, make_tables(study, sizes=(60,)))
        assert model.provenance.sites == ("north",)
        with pytest.raises(FitError, match="at least one site"):
            fit(engine, study, {})

    def test_an_error_at_a_site_reaches_the_caller(self, engine: Engine) -> None:
        study = make_study(client_step=1e6, rounds=30, centre=False)
        with pytest.raises(FitError, match="client_step"):
            fit(engine, study, make_tables(study), n_threads=2)

    def test_progress_of_the_exact_solver(self, engine: Engine) -> None:
        study = make_study(**SOLVERS["cv"])
        seen: list[Progress] = []
        model, _ = fit(engine, study, make_tables(study), on_progress=seen.append)
        steps = [p.step for p in seen]
        n_path, n_fit = steps.count("path"), steps.count("fit")
        assert steps[4 : -4 - n_fit] == ["path"] * n_path
        assert n_path > 5
        assert n_path + n_fit == model.provenance.rounds == len(model.provenance.history)
        assert len(model.provenance.path) <= 10

    @pytest.mark.parametrize("solver", ["exact", "cv"])
    def test_the_exact_solver_reaches_the_optimum(self, engine: Engine, solver: str) -> None:
        study = make_study(**SOLVERS[solver])
        model, ledgers = fit(engine, study, make_tables(study))
        certificate = model.provenance.certificate
        assert certificate.residual <= 1e-8
        assert certificate.gap is not None
        assert certificate.gap <= 1e-7
        assert model.provenance.solver == "exact"
        assert bool(model.provenance.path) == (solver == "cv")
        for ledger in ledgers.values():
            sent = [r for r in ledger.releases if r.quantity == "gradient"]
            assert len(sent) == model.provenance.rounds

    def test_results_of_single_sites(self, engine: Engine) -> None:
        study = make_study(**SOLVERS["exact"], epsilon=1.0, holdout=0.3, per_site=True)
        tables = make_tables(study, sizes=(200, 150, 150))
        model, ledgers = fit(engine, study, tables, noise_seed=3)
        alone, _ = fit(engine, study, tables, n_threads=2, noise_seed=3)
        assert model_bytes(model) == model_bytes(alone)
        assert model.evaluation is not None
        assert list(model.evaluation.sites) == list(model.provenance.sites)
        assert sum(counts.patients for counts in model.provenance.by_site) == 350
        for ledger in ledgers.values():
            sent = [r for r in ledger.releases if r.message == "ResultsReply"]
            assert {r.sum_of for r in sent} == {None}

    @pytest.mark.parametrize("outcome", [kind for kind in OUTCOMES if kind != "yes/no"])
    def test_so_are_those_of_every_outcome(self, engine: Engine, outcome: str) -> None:
        """Of outcomes without events a site tells how well it is predicted, and no counts."""
        study = make_study(outcome, **SOLVERS["exact"], epsilon=1.0, holdout=0.3, per_site=True)
        tables = make_tables(study, sizes=(200, 150, 150))
        model, ledgers = fit(engine, study, tables, noise_seed=3)
        alone, _ = fit(EMBEDDED, study, tables, n_threads=2, noise_seed=3)
        assert model_bytes(model) == model_bytes(alone)
        assert model.evaluation is not None
        assert list(model.evaluation.sites) == list(model.provenance.sites)
        for measures in model.evaluation.sites.values():
            assert 45 <= measures.patients <= 60
        counts_events = study.family.counts_events
        assert bool(model.provenance.by_site) == counts_events
        for ledger in ledgers.values():
            sent = [r for r in ledger.releases if r.message == "ResultsReply"]
            told = {r.quantity for r in sent if r.shape not in ((), (0,))}
            assert ("totals" in told) == counts_events
            assert "measures" in told

    def test_the_model_learns(self, engine: Engine) -> None:
        study: Any = make_study(rounds=30)
        tables = make_tables(study)
        model, _ = fit(engine, study, tables)
        assert model.provenance.objective < 0.85 * model.provenance.history[0]
        assert model.rule_terms
        assert model.linear_terms
