"""Real processes against the embedded engine: ``python -m benchmarks.federation [3 10 30]``.

For each number of sites, the same study on the same patients: once embedded, once as
a coordinator and one process per site with their carriers, all on this machine, with
mutual TLS, masked sums, journals and ledgers on disk. Then what the masks cost.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tests.federations import Federation, federation

from fedrulefit import demo
from fedrulefit.core.fixed import from_units, to_units
from fedrulefit.engines import inprocess
from fedrulefit.experiments.units import machine
from fedrulefit.federation.coordinator import runs
from fedrulefit.privacy.masks import Masks, add_rings, make_secret, public_key
from fedrulefit.study import Study
from fedrulefit.table.check import load_table

PATIENTS = 300
"""Of each site."""

SETTINGS: dict[str, dict[str, float]] = {"λ given": {"penalty": 0.004}, "λ by CV": {}}


def main() -> None:
    print(f"Machine: {machine()}\n", flush=True)
    masks()
    rows: list[dict[str, Any]] = []
    for n_sites in [int(text) for text in sys.argv[1:]] or [3, 10, 30]:
        folder = Path(tempfile.mkdtemp())
        try:
            rows += compare(n_sites, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(pd.DataFrame(rows).to_string(index=False), "\n", flush=True)


def compare(n_sites: int, folder: Path) -> list[dict[str, Any]]:
    """Fit every study both ways; return a row per study."""
    rng = np.random.default_rng(0)
    hospital = demo.Hospital(PATIENTS, 47, 19, 0.15)
    frames = {f"site{k:02d}": demo.draw_hospital(hospital, rng) for k in range(n_sites)}
    studies = {name: folder / f"study{k}.toml" for k, name in enumerate(SETTINGS)}
    for name, path in studies.items():
        lines = [f"{key} = {value}" for key, value in SETTINGS[name].items()]
        path.write_text("\n".join([demo.STUDY_TOML, *lines]), encoding="utf-8")
    rows = []
    with federation(folder, frames, list(studies.values()), policy="", seed=None) as made:
        for name, path in studies.items():
            status, total, fitting = fit(made, f"run{len(rows)}", path)
            study = Study.load(path)
            tables = {site: load_table(frame, study) for site, frame in frames.items()}
            inprocess.fit(study, tables)  # once unmeasured: libraries load
            start = time.perf_counter()
            fitted = inprocess.fit(study, tables, secure=True, n_threads=2)
            embedded = time.perf_counter() - start
            rounds = status["progress"]["round"]
            rows.append(
                {
                    "sites": n_sites,
                    "study": name,
                    "embedded s": round(embedded, 2),
                    "its rounds": fitted.model.provenance.rounds,
                    "processes s": round(total, 2),
                    "rounds": rounds,
                    "ratio": round(total / embedded, 1),
                    "s per round": round(fitting / rounds, 3),
                    "kB to a site": round(status["sent"] / n_sites / 1e3),
                    "kB from a site": round(status["received"] / n_sites / 1e3),
                }
            )
    return rows


def fit(made: Federation, run: str, study: Path) -> tuple[dict[str, Any], float, float]:
    """Return the run's last status, its seconds, and those of its fitting rounds."""
    start = time.perf_counter()
    folder = runs.submit(made.state, runs.RunRequest(run, made.sites, wait=120.0), study)
    began = ended = 0.0
    while True:
        status, now = runs.read_status(folder), time.perf_counter() - start
        step = status.get("progress", {}).get("step", "")
        began = began or (now if step in ("path", "fit") else 0.0)
        ended = ended or (now if step in ("summary", "done") else 0.0)
        if status["state"] not in ("waiting", "running"):
            break
        time.sleep(0.02)
    if status["state"] != "done":
        raise RuntimeError(status["message"])
    return status, now, ended - began


def masks(length: int = 5000, n_sites: int = 20) -> None:
    """What masking costs a site and the coordinator in one round."""
    secrets = {f"site{k:02d}": make_secret() for k in range(n_sites)}
    publics = {site: public_key(secret) for site, secret in secrets.items()}
    start = time.perf_counter()
    own = {site: Masks(site, secret, publics, b"study") for site, secret in secrets.items()}
    keys = (time.perf_counter() - start) / n_sites
    numbers = {site: np.random.default_rng(0).normal(size=length) for site in secrets}
    sealing, adding = [], []
    for step in range(20):
        start = time.perf_counter()
        sealed = [
            masks.mask(to_units(numbers[site]), step=step, question=b"q", self_mask=False)
            for site, masks in own.items()
        ]
        sealing.append((time.perf_counter() - start) / n_sites)
        start = time.perf_counter()
        total = from_units(add_rings(sealed, length))
        adding.append(time.perf_counter() - start)
        np.testing.assert_allclose(total, n_sites * next(iter(numbers.values())), atol=1e-8)
    print(
        f"{length} numbers, {n_sites} sites: agreeing on keys {1e3 * keys:.2f} ms a site, once a "
        f"run; masking {1e3 * np.median(sealing):.2f} ms a site; "
        f"adding up {1e3 * np.median(adding):.2f} ms\n",
        flush=True,
    )


if __name__ == "__main__":
    main()
