"""The study on the defaults as Markdown: tables, and verdicts that follow from the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from benchmarks import peers
from benchmarks.compare import (
    NAMES,
    by_method,
    compare_all,
    count_verdicts,
    sum_up,
    tell,
)
from benchmarks.defaults.draws import DEFAULT, PAPER, SETTINGS, STAGES
from benchmarks.simulation import MODELS
from fedrulefit.experiments.claims import Mean
from fedrulefit.experiments.markdown import make_table

LABELS: Final = {DEFAULT: "fedrulefit, default", PAPER: "fedrulefit, preset `paper`"}


def make_texts(rows: pd.DataFrame) -> dict[str, str]:
    """Return the parts of the page, by name."""
    return {
        "choosing": choosing_table(rows),
        "confirming": confirming_tables(rows),
        "verdicts": verdicts(rows),
    }


def choosing_table(rows: pd.DataFrame) -> str:
    """Return means over the seeds on which the settings were chosen."""
    own = rows[rows["stage"] == "choosing"]
    head = ("setting", *(f"{model}: AUC, log-loss, terms" for model in MODELS), "rounds")
    lines = []
    for method in (*peers.LOGISTIC, *SETTINGS):
        here = own[own["method"] == method]
        means = here.groupby("model")[["auc", "loss", "terms"]].mean()
        cells = [
            f"{auc:.4f}, {loss:.3f}, {terms:.0f}"
            for auc, loss, terms in means.loc[list(MODELS)].itertuples(index=False)
        ]
        lines.append((method, *cells, f"{here['rounds'].mean():.0f}"))
    return make_table(head, lines)


def confirming_tables(rows: pd.DataFrame) -> str:
    """Return a table per truth: means over fresh seeds, and what the defaults lose or gain."""
    return "\n\n".join(
        f"**Truth: {model}**\n\n{_describe(own, found)}"
        for (model, own), found in zip(_each(rows).items(), _compare(rows).values(), strict=True)
    )


def verdicts(rows: pd.DataFrame) -> str:
    """Return how the defaults compare with every other method, in sentences."""
    found = _compare(rows)
    lines = [sum_up(f"Truth {model}", one) for model, one in found.items()]
    return "\n\n".join([count_verdicts([*found.values()]), "\n".join(lines)])


def _each(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    own = rows[rows["stage"] == "confirming"].replace({"method": LABELS})
    return {model: own[own["model"] == model] for model in MODELS}


def _compare(rows: pd.DataFrame) -> dict[str, dict[tuple[str, str], Mean]]:
    return {
        model: compare_all(own, LABELS[DEFAULT], _others(own), over="seed")
        for model, own in _each(rows).items()
    }


def _others(own: pd.DataFrame) -> list[str]:
    """Return the methods that the defaults are compared with."""
    names = [LABELS.get(name, name) for name in STAGES["confirming"][1] if name != DEFAULT]
    return [name for name in names if name in set(own["method"])]


def _describe(own: pd.DataFrame, found: Mapping[tuple[str, str], Mean]) -> str:
    head = ["method"]
    for name in NAMES.values():
        head += [name, f"{name}, default minus this"]
    tables = {measure: by_method(own, measure, over="seed") for measure in NAMES}
    terms = by_method(own, "terms", over="seed").mean()
    lines = []
    for name in (LABELS[DEFAULT], *_others(own)):
        line = [name]
        for measure, table in tables.items():
            line.append(f"{table[name].mean():.4f}")
            line.append(tell(found[name, measure]) if (name, measure) in found else "–")
        lines.append([*line, f"{terms[name]:.0f}"])
    return make_table([*head, "terms"], lines)
