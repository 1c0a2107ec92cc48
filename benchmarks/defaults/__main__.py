"""``python -m benchmarks.defaults``: run what is left of the study on the defaults.

``python docs/make_results.py FOLDER`` then fills docs/defaults.md.
"""

from __future__ import annotations

from benchmarks.defaults.draws import make_units
from benchmarks.defaults.tables import make_texts
from benchmarks.studies import make_parser, run_study


def main() -> None:
    options = make_parser("defaults").parse_args()
    run_study(
        "defaults",
        make_units(),
        options,
        seed=0,
        command="python -m benchmarks.defaults",
        make_texts=make_texts,
    )


if __name__ == "__main__":
    main()
