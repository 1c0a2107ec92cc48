"""Writes the results of the experiments into ``docs/paper-study.md``.

``python docs/make_study.py paper-study`` takes the folder of a full run of
``fedrulefit experiment simulation``, ``cutoffs`` and ``trauma``, puts their tables
and claims between the page's markers, and copies the figures to ``docs/images`` and the
rows and models behind all of it to ``docs/results``.
An experiment that was not run leaves its part of the page as it is; a quick run is refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from marked_parts import fill_parts

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = "paper-study.md"
IMAGES: Final = "images"
RESULTS: Final = "results"
TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "simulation": ("run", "claims", "sampling", "tables", "costs"),
    "cutoffs": ("run", "claims", "tables"),
    "trauma": ("run", "claims", "tables"),
}
FIGURES: Final[Mapping[str, Mapping[str, str]]] = {
    "simulation": {
        "figure2-scenario1": "Figure 2 A: scenario 1, differences to centralised RuleFit",
        "figure2-scenario2": "Figure 2 B: scenario 2, differences to centralised RuleFit",
        "figure2-scenario3": "Figure 2 C: scenario 3, differences to centralised RuleFit",
        "appendix3-auc": "Appendix 3: AUC",
        "appendix3-accuracy": "Appendix 3: accuracy",
        "appendix3-f1": "Appendix 3: F1",
    },
    "cutoffs": {"appendix2": "Appendix 2: bins and quantiles of the histograms"},
    "trauma": {
        "figure3-federated": "Figure 3: mortality of training patients by rule, preset paper",
        "figure3-federated-default": "The same with our defaults",
        "figure4": "Figure 4: AUC over splits, and importance of the covariates",
    },
}


def finished(results: Path) -> list[str]:
    """Return the experiments that were run to their end."""
    return [experiment for experiment in TEXTS if (results / experiment / "run.md").exists()]


def make_parts(experiment: str, folder: Path) -> dict[str, str]:
    """Return the page's parts of one experiment, by the names of their markers."""
    parts = {
        f"{experiment}-{name}": (folder / f"{name}.md").read_text(encoding="utf-8").strip()
        for name in TEXTS[experiment]
    }
    parts[f"{experiment}-run"] += (
        f" The rows behind it: [{experiment}.parquet]({RESULTS}/{experiment}.parquet)."
    )
    parts[f"{experiment}-figures"] = "\n\n".join(
        f"![{words}]({IMAGES}/{image_name(figure)})"
        for figure, words in FIGURES[experiment].items()
    )
    return parts


def image_name(figure: str) -> str:
    """Return what a figure is called among the images of the docs."""
    return f"paper-{figure}.png"


def fill_page(text: str, results: Path) -> str:
    """Return the page with the results of every experiment that was run."""
    for experiment in finished(results):
        text = fill_parts(PAGE, text, make_parts(experiment, results / experiment))
    return text


def copy_figures(results: Path, images: Path) -> None:
    """Copy the figures of every experiment that was run."""
    for experiment in finished(results):
        for figure in FIGURES[experiment]:
            shutil.copy(results / experiment / f"{figure}.png", images / image_name(figure))


def copy_rows(results: Path, target: Path) -> None:
    """Copy the rows, and the models, of every experiment that was run."""
    target.mkdir(exist_ok=True)
    for experiment in finished(results):
        folder = results / experiment
        shutil.copy(folder / "results.parquet", target / f"{experiment}.parquet")
        for model in folder.glob("model-*.json"):
            shutil.copy(model, target)


def check_results(results: Path) -> None:
    """Refuse a folder without results, or with those of a quick run."""
    if not finished(results):
        raise SystemExit(f"{results} holds no finished experiment ({', '.join(TEXTS)})")
    for folder in (results / experiment for experiment in finished(results)):
        if json.loads((folder / "run.json").read_text(encoding="utf-8"))["facts"]["quick"]:
            raise SystemExit(f"{folder} is a quick run: its numbers mean nothing")


def main(results: Path) -> None:
    """Rewrite the page, and copy figures and rows."""
    check_results(results)
    page = HERE / PAGE
    page.write_text(fill_page(page.read_text(encoding="utf-8"), results), encoding="utf-8")
    copy_figures(results, HERE / IMAGES)
    copy_rows(results, HERE / RESULTS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, help="folder of a full run, such as paper-study")
    main(parser.parse_args().results)
