"""All benchmarks, one table: ``python -m benchmarks.run``."""

from __future__ import annotations

from benchmarks import work
from benchmarks.measure import Measured, machine, measure


def main() -> None:
    print(f"Machine: {machine()}\n")
    against_imodels()
    large()


def against_imodels(n_rows: int = 1000, n_sites: int = 5) -> None:
    """The demo's study: a whole federated fit against a pooled peer."""
    ours = measure(work.federated, n_rows, n_sites, "paper")
    rows = [(f"fedrulefit, {n_sites} sites, preset paper", ours)]
    for choose, words in ((True, "λ chosen by it"), (False, "λ = 0.01 given")):
        peer = measure(work.imodels_rulefit, n_rows, choose)
        rows.append((f"imodels, pooled, 333 trees, {words}", peer))
    print(f"Demo's study, N = {n_rows}\n")
    print("| | CPU s | × ours | peak MB | AUC on new patients | terms |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, found in rows:
        facts = found.facts
        print(
            f"| {name} | {found.cpu:.2f} | {found.cpu / ours.cpu:.1f} | {found.peak:.0f} "
            f"| {facts['auc']:.4f} | {facts['terms']} |"
        )
    print()


def large(n_sites: int = 5) -> None:
    """Rules grown and one gradient per site, all sites in one process."""
    print(f"Paper's model 2, {n_sites} sites: rules grown, one gradient per site\n")
    print("| N | candidate rules | CPU s | peak MB |")
    print("|---:|---:|---:|---:|")
    for n_rows in (1_000, 10_000, 100_000):
        found: Measured = measure(work.rules_and_gradient, n_rows, n_sites)
        candidates = found.facts["candidates"]
        print(f"| {n_rows:,} | {candidates} | {found.cpu:.1f} | {found.peak:.0f} |")


if __name__ == "__main__":
    main()
