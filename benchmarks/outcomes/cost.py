"""What a fit of each kind of outcome costs, as a multiple of a yes/no outcome's in the same run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from benchmarks.measure import measure
from fedrulefit.experiments.units import machine

N_ROWS: Final = 10_000
N_SITES: Final = 5
TIMES: Final = 3
"""Runs of each kind; the fastest counts, as other work on the machine only makes them slower."""

OUTCOMES: Final[dict[str, dict[str, Any]]] = {
    "yes/no": {"column": "died", "positive": 1, "negative": 0},
    "number": {"kind": "number", "column": "stay", "range": [0, 100]},
    "number, robust": {"kind": "number", "column": "stay", "range": [0, 100], "robust": True},
    "count": {
        "kind": "count", "column": "visits", "most": 60, "exposure": "years", "max_exposure": 1,
    },
    "count, negative binomial": {
        "kind": "count", "column": "contacts", "most": 120, "exposure": "years", "max_exposure": 1,
        "dispersion": "negative-binomial",
    },
    "time": {"kind": "time", "time": "days", "event": "event", "horizons": [90, 365]},
    "ordered": {"kind": "ordered", "column": "grade", "levels": [0, 1, 2, 3]},
    "classes": {"kind": "classes", "column": "way", "levels": [0, 1, 2, 3]},
}  # fmt: skip

PENALTIES: Final = {
    "yes/no": 0.004, "number": 8e-4, "number, robust": 4e-4, "count": 3e-4, "time": 0.004,
    "ordered": 0.008, "classes": 0.006, "count, negative binomial": 1e-4,
}  # fmt: skip
"""λ: so that all models have 20 to 80 terms (what it is a multiple of: docs/method.md)."""


def _draw(n_rows: int) -> Any:
    """Return patients with an outcome of each kind, from one truth of five covariates in ten."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(11)
    X = rng.normal(size=(n_rows, 10)).clip(-4, 4)
    effect = 0.8 * X[:, 0] * (X[:, 1] > 0) + 0.6 * np.sin(2 * X[:, 2])
    effect += 0.5 * (X[:, 3] > 0.5) + 0.3 * X[:, 4]
    years = rng.uniform(0.1, 1, n_rows)
    due, news = rng.exponential(300 * np.exp(-effect)), rng.uniform(30, 400, n_rows)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    died = (rng.random(n_rows) < 1 / (1 + np.exp(0.5 - effect))).astype(int)
    further = np.random.default_rng(12)
    pulls = np.column_stack([0 * effect, effect - 0.3, 0.8 * X[:, 5] - 0.5, -effect - 0.8])
    prone = np.random.default_rng(13)
    often = 2 * years * np.exp(effect) * prone.gamma(1.5, 1 / 1.5, n_rows)
    return frame.assign(
        contacts=prone.poisson(often).clip(0, 120),
        died=died,
        grade=np.digitize(effect + further.logistic(size=n_rows), [-0.5, 0.8, 2]),
        way=(pulls + further.gumbel(size=pulls.shape)).argmax(axis=1),
        stay=(50 + 10 * effect + 8 * rng.normal(size=n_rows)).clip(0, 100),
        years=years,
        visits=rng.poisson(2 * years * np.exp(effect)).clip(0, 60),
        days=np.minimum(due, news),
        event=(due <= news).astype(int),
    )


def prepare(kind: str) -> Callable[[], dict[str, Any]]:
    """Return the fit of a kind of outcome."""
    import lightgbm  # noqa: F401 - loaded before the clock starts
    import opendp.prelude  # noqa: F401

    from fedrulefit import Study
    from fedrulefit.engines import inprocess
    from fedrulefit.table.check import load_table

    study = Study.from_mapping(
        {
            "name": "cost",
            "outcome": OUTCOMES[kind],
            "covariates": {f"x{j}": {"kind": "number", "range": [-4, 4]} for j in range(10)},
            "settings": {"penalty": PENALTIES[kind]},
        }
    )
    frame = _draw(N_ROWS)
    tables = {
        f"site {site}": load_table(frame[site::N_SITES].reset_index(drop=True), study)
        for site in range(N_SITES)
    }

    def work() -> dict[str, Any]:
        model = inprocess.fit(study, tables).model
        found = model.provenance
        return {"rounds": found.rounds, "candidates": found.candidates, "terms": len(model.terms)}

    return work


def print_costs() -> None:
    """Print the table."""
    print(f"Machine: {machine()}\n\n{N_ROWS:,} patients, 10 covariates, {N_SITES} sites, λ given\n")
    print("| outcome | CPU s | × yes/no | rounds | candidate rules | terms |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    base = None
    for kind in OUTCOMES:
        runs = [measure(prepare, kind) for _ in range(TIMES)]
        found = min((run for run in runs if run), key=lambda run: run.cpu)
        base, facts = base or found.cpu, found.facts
        print(
            f"| {kind} | {found.cpu:.2f} | {found.cpu / base:.1f} | {facts['rounds']} "
            f"| {facts['candidates']} | {facts['terms']} |",
            flush=True,
        )
