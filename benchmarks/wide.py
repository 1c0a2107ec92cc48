"""More covariates than patients: ``python -m benchmarks.wide [cost] [choice]``.

``cost``: time and memory of whole fits. ``choice``: how well a model predicts new patients when
more or fewer single cut-offs are candidates, and when the candidates are screened by their
gradient at the model without terms instead of thinned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.measure import measure
from benchmarks.work import Work
from fedrulefit.experiments.units import machine

SIZES = ((300, 2_000), (1_000, 5_000))
SITES = 3
N_NEW = 2_000
N_WIDE, N_CHOICE = 1_000, 300
"""Covariates and patients of ``choice``."""

PER_COVARIATE = (0, 1, 3, 10, 32)
SEEDS = 4


def main() -> None:
    print(f"Machine: {machine()}\n", flush=True)
    for name in sys.argv[1:] or ["cost", "choice"]:
        PARTS[name]()


def draw(n_rows: int, n_features: int, seed: int) -> tuple[Any, Any]:
    """Return patients with a line, a step, a curve and a rule among their first 5 covariates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    step, curve = 1.5 * (X[:, 1] > 0.3), np.abs(X[:, 2])
    rule = 2.0 * ((X[:, 3] > 0) & (X[:, 4] < 0.5))
    chance = 1 / (1 + np.exp(-(1.2 * X[:, 0] - step + 1.5 * curve + rule - 1.4)))
    return X, (rng.random(n_rows) < chance).astype(int)


# --- What it costs ----------------------------------------------------------------------------


def cost() -> None:
    print("| patients × covariates | | candidate rules | CPU s | s | peak MB |")
    print("|---|---|---:|---:|---:|---:|")
    for n_rows, n_features in SIZES:
        for name, make in (("pooled", pooled), (f"{SITES} sites, with noise", federated)):
            found = measure(make, n_rows, n_features)
            if found is not None:
                print(
                    f"| {n_rows:,} × {n_features:,} | {name} | {found.facts['candidates']:,} "
                    f"| {found.cpu:.1f} | {found.wall:.1f} | {found.peak:.0f} |",
                    flush=True,
                )
    print()


def pooled(n_rows: int, n_features: int) -> Work:
    """Fit one table of all patients, with the defaults."""
    import lightgbm  # noqa: F401 - loaded before the clock starts

    from fedrulefit import RuleFitClassifier

    X, y = draw(n_rows, n_features, 0)

    def work() -> dict[str, Any]:
        model = RuleFitClassifier(random_state=0).fit(X, y)
        return {"candidates": model.model_.provenance.candidates}

    return work


def federated(n_rows: int, n_features: int) -> Work:
    """Fit over three sites, with the defaults and two threads."""
    import lightgbm  # noqa: F401 - loaded before the clock starts
    import opendp.prelude  # noqa: F401

    from fedrulefit import FederatedRuleFitClassifier

    X, y = draw(n_rows, n_features, 0)

    def work() -> dict[str, Any]:
        model = FederatedRuleFitClassifier(random_state=0, n_jobs=2)
        model.fit(X, y, sites=np.arange(n_rows) % SITES)
        return {"candidates": model.model_.provenance.candidates}

    return work


# --- How many candidates ----------------------------------------------------------------------


def choice() -> None:
    print(
        f"{N_CHOICE} patients, {N_WIDE:,} covariates, {SITES} sites without noise, "
        f"{SEEDS} data sets: means\n"
    )
    print("| single cut-offs | AUC | log-loss | terms | CPU s |")
    print("|---|---:|---:|---:|---:|")
    ways: list[tuple[str, int, bool]] = [
        (f"{n} of each covariate", n, False) for n in PER_COVARIATE
    ]
    ways += [(f"{n * N_WIDE:,} of the largest gradient", n, True) for n in (1, 10)]
    for name, per_covariate, screened in ways:
        found = measure(judged, per_covariate, screened)
        if found is not None:
            facts = found.facts
            print(
                f"| {name} | {facts['auc']:.4f} | {facts['loss']:.3f} | {facts['terms']:.0f} "
                f"| {found.cpu / SEEDS:.1f} |",
                flush=True,
            )
    print()


def judged(per_covariate: int, screened: bool) -> Work:
    """Fit with so many single cut-offs of each covariate, and judge on new patients."""
    import lightgbm  # noqa: F401 - loaded before the clock starts
    from sklearn.metrics import log_loss, roc_auc_score

    from fedrulefit import FederatedRuleFitClassifier
    from fedrulefit.study import Number, Outcome, Study

    covariates = {f"x{j}": Number(range=(-5, 5), complete=True) for j in range(N_WIDE)}
    model = FederatedRuleFitClassifier(
        study=Study(name="wide", outcome=Outcome(column="y"), covariates=covariates),
        noise=False,
        n_trees=100,
        single_cutoffs=per_covariate > 0,
        max_candidates=32 * N_WIDE if screened else max(1, per_covariate) * N_WIDE,
        random_state=0,
    )

    def work() -> dict[str, Any]:
        rows = []
        for seed in range(SEEDS):
            X, y = draw(N_CHOICE, N_WIDE, seed)
            fresh, truth = draw(N_NEW, N_WIDE, 1_000 + seed)
            with screen(X, y, per_covariate * N_WIDE if screened else None):
                model.fit(X, y, sites=np.arange(N_CHOICE) % SITES)
            chance = model.predict_proba(fresh)[:, 1]
            rows.append(
                (roc_auc_score(truth, chance), log_loss(truth, chance), len(model.model_.terms))
            )
        return dict(zip(("auc", "loss", "terms"), np.mean(rows, axis=0).tolist(), strict=True))

    return work


@contextmanager
def screen(X: Any, y: Any, n_kept: int | None) -> Iterator[None]:
    """Keep the free candidates of the largest gradient, over all patients of all folds."""
    from fedrulefit.core.design import build_design
    from fedrulefit.core.grid import encode
    from fedrulefit.protocol.coordinator import agreeing

    usual = agreeing.free_rules

    def screened(study: Any, grid: Any, counts: Any) -> Any:
        rules = sorted(usual(study, grid, counts))
        design = build_design(encode(X, grid), rules, np.empty((len(X), 0)))
        gradient = np.abs(design.transpose_dot(y - y.mean())[1:])
        return {rules[k] for k in np.argsort(-gradient, kind="stable")[:n_kept]}

    agreeing.free_rules = usual if n_kept is None else screened
    try:
        yield
    finally:
        agreeing.free_rules = usual


PARTS: dict[str, Callable[[], None]] = {"cost": cost, "choice": choice}

if __name__ == "__main__":
    main()
