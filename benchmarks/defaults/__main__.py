"""``python -m benchmarks.defaults``: run what is left of the study on the defaults.

``python docs/make_results.py FOLDER`` then fills docs/defaults.md.
"""

from __future__ import annotations

from benchmarks.defaults.draws import make_units
from benchmarks.defaults.tables import make_texts
from benchmarks.peers import PEERS
from benchmarks.studies import make_parser, run_study


def main() -> None:
    parser = make_parser("defaults")
    parser.add_argument("--without", choices=PEERS, default=[], action="append", help="leave out")
    options = parser.parse_args()
    left_out = "".join(f" --without {name!r}" for name in options.without)
    run_study(
        "defaults",
        make_units(options.without),
        options,
        seed=0,
        command=f"python -m benchmarks.defaults{left_out}",
        make_texts=make_texts,
    )


if __name__ == "__main__":
    main()
