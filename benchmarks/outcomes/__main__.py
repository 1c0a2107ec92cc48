"""``python -m benchmarks.outcomes cost``, ``accuracy`` or ``dispersion``.

See :mod:`benchmarks.outcomes`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.outcomes.cost import print_costs
from benchmarks.outcomes.dispersion import print_gains
from benchmarks.outcomes.splits import SEED, SPLITS, make_units
from benchmarks.outcomes.texts import make_texts
from benchmarks.studies import make_parser, run_study


def main() -> None:
    part, *rest = sys.argv[1:] or ["cost"]
    if part == "cost":
        print_costs()
        return
    if part == "dispersion":
        print_gains()
        return
    parser = make_parser("outcomes")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of every data set")
    parser.add_argument("--kinds", nargs="*", default=[], help="of outcomes; all without it")
    parser.add_argument("--earlier", type=Path, help="rows of an earlier run, for other kinds")
    options = parser.parse_args(rest)
    only = f" --kinds {' '.join(options.kinds)}" if options.kinds else ""
    only += " --earlier docs/results/outcomes.parquet" if options.earlier else ""
    run_study(
        "outcomes",
        make_units(options.splits, kinds=options.kinds),
        options,
        seed=SEED,
        command=f"python -m benchmarks.outcomes accuracy --splits {options.splits}{only}",
        make_texts=make_texts,
        earlier=options.earlier,
    )


if __name__ == "__main__":
    main()
