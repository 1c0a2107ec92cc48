"""``python -m benchmarks.real``: run what is left of the study on real data.

FEDRULEFIT_DATA names the folder of the data, see docs/real-data.md, the page that ``python
docs/make_results.py FOLDER`` then fills.
"""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.real.splits import SEED, SPLITS, make_units
from benchmarks.real.tables import make_texts
from benchmarks.studies import make_parser, run_study


def main() -> None:
    parser = make_parser("real")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of every data set")
    options = parser.parse_args()
    data = os.environ.get("FEDRULEFIT_DATA")
    if not data:
        parser.error("set FEDRULEFIT_DATA to the folder of the data (docs/real-data.md)")
    run_study(
        "real",
        make_units(Path(data), options.splits),
        options,
        seed=SEED,
        command=f"python -m benchmarks.real --splits {options.splits}",
        make_texts=make_texts,
    )


if __name__ == "__main__":
    main()
