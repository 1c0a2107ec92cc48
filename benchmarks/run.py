"""All benchmarks: ``python -m benchmarks.run [small] [growth] [large] [sites]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from math import log
from shutil import which
from typing import Any

from benchmarks import work
from benchmarks.measure import Measured, measure
from benchmarks.peers import EBM, PEERS
from fedrulefit.experiments.units import machine

LIMIT = 400
"""Seconds after which a peer is given up at 100,000 patients."""

FIXED = {"penalty": 0.004}
"""The defaults without cross-validation."""


def main() -> None:
    print(f"Machine: {machine()}\n", flush=True)
    for name in sys.argv[1:] or ["small", "growth", "large", "sites"]:
        PARTS[name]()


def small() -> None:
    """1,000 patients: whole fits against pooled peers."""
    for data in ("demo", "curved"):
        rows = {
            "fedrulefit, 5 sites, λ given": measure(work.federated, data, 1000, 5, FIXED),
            "fedrulefit, 5 sites, λ by CV": measure(work.federated, data, 1000, 5, {}),
            "fedrulefit, 5 sites, preset paper": measure(
                work.federated, data, 1000, 5, {"preset": "paper"}
            ),
            **peers(data, 1000),
        }
        show(f"{data}, N = 1,000", rows)


def peers(data: str, n_rows: int) -> dict[str, Measured | None]:
    found: dict[str, Measured | None] = {}
    if find_spec("imodels"):
        found["imodels, 333 trees, λ chosen"] = measure(work.imodels_rulefit, data, n_rows, None)
        found["imodels, 333 trees, λ given"] = measure(
            work.imodels_rulefit, data, n_rows, 0.004 * n_rows
        )
    if find_spec("h2o") and which("java"):
        for n_trees in (333, 50):
            name = f"H2O RuleFit, {n_trees} trees"
            found[name] = measure(work.h2o_rulefit, data, n_rows, n_trees)
    else:
        print("(H2O is left out: it needs the package h2o and Java)")
    for name in PEERS:
        if name != EBM or find_spec("interpret"):
            found[name] = measure(work.pooled_peer, data, n_rows, name)
    return found


def show(title: str, rows: dict[str, Measured | None]) -> None:
    ours = next(found for found in rows.values() if found)
    print(f"{title}\n")
    print("| | CPU s | × first row | s | peak MB | AUC | log-loss | terms | rounds |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, found in rows.items():
        if found is None:
            print(f"| {name} | not finished within {LIMIT} s | | | | | | | |")
            continue
        facts = found.facts
        cpu, peak = facts.get("cpu", found.cpu), facts.get("peak", found.peak)
        print(
            f"| {name} | {cpu:.2f} | {cpu / ours.cpu:.1f} | {found.wall:.2f} | {peak:.0f} "
            f"| {facts['auc']:.4f} | {facts['loss']:.3f} | {facts['terms'] or ''} "
            f"| {facts.get('rounds', '')} |"
        )
    print(flush=True)


def growth() -> None:
    """How time and memory grow with the number of patients; defaults without CV."""
    print("Curved truth, 5 sites, λ given\n")
    print("| N | candidate rules | rounds | CPU s | s | peak MB | predict 20,000, s | AUC |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    times = {}
    for n_rows in (1_000, 10_000, 100_000, 1_000_000):
        found = measure(work.federated, "curved", n_rows, 5, {**FIXED, "n_jobs": 2})
        if found is None:
            break
        times[n_rows] = found.wall
        facts = found.facts
        print(
            f"| {n_rows:,} | {facts['candidates']} | {facts['rounds']} | {found.cpu:.1f} "
            f"| {found.wall:.1f} | {found.peak:.0f} | {facts['predict']:.3f} "
            f"| {facts['auc']:.4f} |",
            flush=True,
        )
    exponent = log(times[1_000_000] / times[10_000]) / log(100)
    print(f"\nTime grows as N^{exponent:.2f} between 10,000 and 1,000,000 patients.\n", flush=True)


def large() -> None:
    """100,000 patients against the RuleFit peers."""
    ours = {**FIXED, "n_jobs": 2}
    rows = {
        f"fedrulefit, 5 sites, λ = {penalty}": measure(
            work.federated, "curved", 100_000, 5, {**ours, "penalty": penalty}
        )
        for penalty in (0.001, 0.004)
    }
    if find_spec("h2o") and which("java"):
        for n_trees in (333, 50):
            name = f"H2O RuleFit, {n_trees} trees"
            rows[name] = measure(work.h2o_rulefit, "curved", 100_000, n_trees, limit=LIMIT)
    if find_spec("imodels"):
        rows["imodels, 333 trees, λ given"] = measure(
            work.imodels_rulefit, "curved", 100_000, 0.004 * 100_000, limit=LIMIT
        )
    show("curved, N = 100,000", rows)


def sites() -> None:
    """How time grows with the number of sites and of trees, at 10,000 patients."""
    print("Curved truth, N = 10,000, λ given\n")
    print("| sites | trees per site | candidate rules | rounds | gap | CPU s | peak MB |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for n_sites, n_trees in ((1, 333), (5, 333), (20, 333), (50, 333), (5, 100), (5, 1000)):
        settings: dict[str, Any] = {**FIXED, "n_trees": n_trees}
        found = measure(work.federated, "curved", 10_000, n_sites, settings)
        if found is None:
            continue
        facts = found.facts
        print(
            f"| {n_sites} | {n_trees} | {facts['candidates']} | {facts['rounds']} "
            f"| {facts['gap']:.1e} | {found.cpu:.1f} | {found.peak:.0f} |",
            flush=True,
        )
    print()


PARTS: dict[str, Callable[[], None]] = {
    "small": small,
    "growth": growth,
    "large": large,
    "sites": sites,
}

if __name__ == "__main__":
    main()
