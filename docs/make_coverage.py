"""Writes the result of the coverage study into ``docs/coverage.md``.

``python docs/make_coverage.py coverage`` takes the folder of a full run of
``fedrulefit experiment coverage``, puts its table between the page's markers, and copies the rows
behind it to ``docs/results``. A quick run is refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Final

from marked_parts import fill_parts

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = "coverage.md"
ROWS: Final = "results/coverage.parquet"


def fill_page(text: str, folder: Path) -> str:
    """Return the page with the table of a run."""
    run, table = (
        (folder / f"{name}.md").read_text(encoding="utf-8").strip() for name in ("run", "tables")
    )
    run += f" The counts behind it: [coverage.parquet]({ROWS})."
    return fill_parts(PAGE, text, {"coverage-run": run, "coverage-tables": table})


def check_results(folder: Path) -> None:
    """Refuse a folder without a finished run, or with a quick one."""
    if not (folder / "run.md").exists():
        raise SystemExit(f"{folder} holds no finished run")
    if json.loads((folder / "run.json").read_text(encoding="utf-8"))["facts"]["quick"]:
        raise SystemExit(f"{folder} is a quick run: its numbers mean nothing")


def main(folder: Path) -> None:
    """Rewrite the page, and copy the rows."""
    check_results(folder)
    page = HERE / PAGE
    page.write_text(fill_page(page.read_text(encoding="utf-8"), folder), encoding="utf-8")
    shutil.copy(folder / "results.parquet", HERE / ROWS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of fedrulefit experiment coverage")
    main(parser.parse_args().folder)
