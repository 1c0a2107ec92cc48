"""Tables: all means for a file, results and costs as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.experiments.markdown import make_table
from fedrulefit.experiments.methods import METHODS, METRICS, SAMPLING
from fedrulefit.experiments.scenarios import SCENARIOS, TITLES
from fedrulefit.experiments.simulation.cells import (
    CELL,
    Cells,
    Place,
    list_places,
    reference_values,
)

if TYPE_CHECKING:
    import pandas as pd


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean, SD and Monte-Carlo standard error of every metric, and of its difference.

    One row per scenario, model, setting, method and metric; ``difference`` is
    to centralised RuleFit in the same repetition, ``repetitions`` their number.
    """
    import pandas as pd

    parts = []
    for metric in METRICS:
        frame = rows.assign(
            value=rows[metric], change=rows[metric] - reference_values(rows, metric)
        )
        grouped = frame.groupby(CELL, sort=False)
        part = pd.DataFrame(
            {
                "metric": metric,
                "repetitions": grouped["value"].count(),
                "mean": grouped["value"].mean(),
                "sd": grouped["value"].std(),
                "mcse": grouped["value"].sem(),
                "difference": grouped["change"].mean(),
                "difference_sd": grouped["change"].std(),
                "difference_mcse": grouped["change"].sem(),
                "rules": grouped["rules"].mean(),
                "seconds": grouped["seconds"].mean(),
            }
        )
        parts.append(part.reset_index())
    return pd.concat(parts, ignore_index=True)


def results_tables(rows: pd.DataFrame) -> str:
    """Return one Markdown table per scenario and metric: mean ± standard error (SD)."""
    cells = Cells(rows)

    def cell(place: Place, method: str) -> str:
        found = cells.mean(place, method)
        return f"{found.mean:.4f} ± {found.error:.4f} ({found.sd:.4f})"

    return "\n\n".join(
        f"**Scenario {scenario}, {TITLES[scenario]}: {label}**\n\n"
        + _methods_table(cells, list_places([scenario], metrics=[metric]), cell)
        for scenario in SCENARIOS
        for metric, label in METRICS.items()
    )


def costs_table(rows: pd.DataFrame) -> str:
    """Return rules and seconds of every method in scenario 1, as Markdown.

    Means are over the repetitions of which they are known: seconds may not have been kept where
    other work held the machine.
    """
    cells = Cells(rows)

    def mean(place: Place, method: str, column: str) -> float:
        values = cells.values(place, method, column)
        known = values[~np.isnan(values)]
        return float(known.mean()) if len(known) else float("nan")

    def cell(place: Place, method: str) -> str:
        rules, seconds = (mean(place, method, column) for column in ("rules", "seconds"))
        return f"{seconds:.2f} s" + ("" if np.isnan(rules) else f", {rules:.0f} rules")

    return _methods_table(cells, list_places([1], metrics=["auc"]), cell)


def sampling_table(rows: pd.DataFrame) -> str:
    """Return what sampling changes in scenario 1, on the same patients, as Markdown."""
    cells = Cells(rows)
    head = ["method", "metric", *_heads(list_places([1], metrics=["auc"]))]
    lines = []
    for (method, other), metric in product(SAMPLING.items(), METRICS):
        places = list_places([1], metrics=[metric])
        gaps = [cells.gap(place, method, other).words() for place in places]
        lines.append([_name(cells, places[0], method), METRICS[metric], *gaps])
    return make_table(head, lines)


def _methods_table(cells: Cells, places: Sequence[Place], cell: Callable[[Place, str], str]) -> str:
    """Return a table with a line per method that was run there, and a column per place."""
    lines = [
        [_name(cells, places[0], method), *(cell(place, method) for place in places)]
        for method in METHODS
        if cells.has(places[0], method)
    ]
    return make_table(["method", *_heads(places)], lines)


def _heads(places: Sequence[Place]) -> list[str]:
    return [f"model {place.model}, {place.setting}" for place in places]


def _name(cells: Cells, place: Place, method: str) -> str:
    """Return a method's label; its number of repetitions, too, where others have more."""
    n = {name: len(cells.values(place, name)) for name in METHODS if cells.has(place, name)}
    fewer = f" ({n[method]} repetitions)" if n[method] < max(n.values()) else ""
    return METHODS[method].label + fewer
