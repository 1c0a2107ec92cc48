"""What a learnt dispersion gains: simulated counts that vary more, or no more, than Poisson's.

One truth of five covariates in ten, over exposures of 0.1 to 1 year; counts are Poisson's, or
negative binomial with θ of 2 and 0.5. 1,500 patients of five sites are learnt from, with Poisson's
dispersion and with a learnt one, 60 trees, λ by cross-validation in 3 folds, no noise; 20,000 new
ones judge both. *Log-likelihood* is theirs, per patient, each model's own: of Poisson counts, or
of negative binomial ones with the θ that it learnt. *Spread* is the mean of (y − μ)² over the
variance that the model tells: 1 is right. D² is of Poisson's deviance for both. Standard errors of
differences are over the data sets.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fedrulefit.experiments.units import machine

N_ROWS: Final = 1_500
N_NEW: Final = 20_000
N_SITES: Final = 5
N_SETS: Final = 4
SIZES: Final = (0.5, 2.0, np.inf)
"""θ of the truth; infinite: Poisson's."""

MOST: Final = 200


class Judged(NamedTuple):
    """What one model has on new patients."""

    likelihood: float
    spread: float
    explained: float
    theta: float
    terms: int
    seconds: float


def draw(size: float, seed: int, n_rows: int) -> Any:
    """Return patients with the column ``visits`` over ``years``."""
    import pandas as pd

    rng = np.random.default_rng([31, seed, n_rows])
    X = rng.normal(size=(n_rows, 10)).clip(-4, 4)
    effect = 0.8 * X[:, 0] * (X[:, 1] > 0) + 0.5 * (X[:, 2] > 0.5) + 0.3 * X[:, 3]
    years = rng.uniform(0.1, 1, n_rows)
    more = rng.gamma(size, 1 / size, n_rows) if np.isfinite(size) else 1.0
    counts = rng.poisson(4 * years * np.exp(effect) * more).clip(0, MOST)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    return frame.assign(years=years, visits=counts)


def judge(dispersion: str, frame: Any, new: Any) -> Judged:
    """Learn a model and judge it on new patients."""
    import time

    from scipy import stats
    from sklearn.metrics import d2_tweedie_score

    from fedrulefit import Study
    from fedrulefit.engines import inprocess
    from fedrulefit.table.check import load_table

    outcome = {
        "kind": "count", "column": "visits", "most": MOST, "exposure": "years", "max_exposure": 1,
        "dispersion": dispersion,
    }  # fmt: skip
    study = Study.from_mapping(
        {
            "name": "dispersion",
            "outcome": outcome,
            "covariates": {f"x{j}": {"kind": "number", "range": [-4, 4]} for j in range(10)},
            "settings": {"noise": False, "n_trees": 60, "folds": 3, "path_length": 30},
        }
    )
    tables = {
        f"site {site}": load_table(frame[site::N_SITES].reset_index(drop=True), study)
        for site in range(N_SITES)
    }
    begun = time.process_time()
    model = inprocess.fit(study, tables).model
    seconds = time.process_time() - begun
    y, mean = new["visits"].to_numpy(), model.predict(new) * new["years"].to_numpy()
    if model.dispersion:
        likely = stats.nbinom.logpmf(y, model.theta, model.theta / (model.theta + mean))
    else:
        likely = stats.poisson.logpmf(y, mean)
    variance = mean + (model.dispersion or 0.0) * mean**2
    years = new["years"].to_numpy()
    explained = d2_tweedie_score(y / years, mean / years, sample_weight=years, power=1)
    spread = float(((y - mean) ** 2 / variance).mean())
    return Judged(
        float(likely.mean()), spread, float(explained), model.theta, len(model.terms), seconds
    )


def print_gains() -> None:
    """Print the table."""
    print(f"Machine: {machine()}\n\n{N_SETS} data sets of each truth\n")
    print(
        "| true θ | learnt θ | log-likelihood, Poisson | learnt θ | gain | spread, Poisson "
        "| learnt θ | D², Poisson | learnt θ | gain | × CPU |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for size in SIZES:
        pairs = []
        for seed in range(N_SETS):
            data = draw(size, seed, N_ROWS), draw(size, seed, N_NEW)
            pairs.append([judge(kind, *data) for kind in ("poisson", "negative-binomial")])
        plain, own = (np.array(part, dtype=float) for part in zip(*pairs, strict=True))
        names = {name: k for k, name in enumerate(Judged._fields)}
        p, o = ({name: each[:, k] for name, k in names.items()} for each in (plain, own))
        print(
            f"| {size:g} | {np.median(o['theta']):.3g} "
            f"| {p['likelihood'].mean():.3f} | {o['likelihood'].mean():.3f} "
            f"| {_tell(o['likelihood'] - p['likelihood'])} "
            f"| {p['spread'].mean():.2f} | {o['spread'].mean():.2f} "
            f"| {p['explained'].mean():.3f} | {o['explained'].mean():.3f} "
            f"| {_tell(o['explained'] - p['explained'])} "
            f"| {o['seconds'].sum() / p['seconds'].sum():.1f} |",
            flush=True,
        )


def _tell(gains: Any) -> str:
    """Return a mean difference with its standard error."""
    return f"{gains.mean():+.3f} ± {gains.std(ddof=1) / np.sqrt(len(gains)):.3f}"
