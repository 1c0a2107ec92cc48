"""Writes the results of a study into its page: coverage, defaults, real data, outcomes.

``python docs/make_results.py FOLDER`` takes the folder of a full run of ``fedrulefit experiment
coverage`` or ``hospitals``, ``python -m benchmarks.defaults``, ``python -m benchmarks.real`` or
``python -m benchmarks.outcomes accuracy``, puts what it wrote between the page's markers, and
copies the rows behind it to ``docs/results``. A quick run is refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from marked_parts import fill_parts

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = "results"


class Page(NamedTuple):
    """Where the results of a study go.

    Parameters
    ----------
    name : str
        The page's file.
    texts : tuple of str
        What the study writes, beside ``run``.
    """

    name: str
    texts: tuple[str, ...]


PAGES: Final[Mapping[str, Page]] = {
    "coverage": Page("coverage.md", ("tables",)),
    "hospitals": Page("coverage.md", ("tables",)),
    "defaults": Page("defaults.md", ("choosing", "confirming", "verdicts")),
    "real": Page("real-data.md", ("tables", "verdicts")),
    "outcomes": Page("outcomes-results.md", ("tables", "verdicts")),
}
"""The page of each study, by the study's name."""


def rows_of(study: str) -> str:
    """Return where a study's rows are kept, as seen from its page."""
    return f"{RESULTS}/{study}.parquet"


def check_results(folder: Path) -> str:
    """Return of which study a folder is; refuse one without a finished run, or a quick one."""
    if not (folder / "run.md").exists():
        raise SystemExit(f"{folder} holds no finished run")
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    if record["facts"].get("quick"):
        raise SystemExit(f"{folder} is a quick run: its numbers mean nothing")
    study = str(record["experiment"])
    if study not in PAGES:
        raise SystemExit(f"{folder} is of {study}, which is none of {', '.join(PAGES)}")
    return study


def fill_page(text: str, study: str, folder: Path) -> str:
    """Return the page with the results of a run."""
    page = PAGES[study]
    parts = {
        f"{study}-{name}": (folder / f"{name}.md").read_text(encoding="utf-8").strip()
        for name in ("run", *page.texts)
    }
    parts[f"{study}-run"] += f" The rows behind it: [{study}.parquet]({rows_of(study)})."
    return fill_parts(page.name, text, parts)


def main(folder: Path) -> None:
    """Rewrite the page, and copy the rows."""
    study = check_results(folder)
    page = HERE / PAGES[study].name
    page.write_text(fill_page(page.read_text(encoding="utf-8"), study, folder), encoding="utf-8")
    shutil.copy(folder / "results.parquet", HERE / rows_of(study))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder that the study wrote")
    main(parser.parse_args().folder)
