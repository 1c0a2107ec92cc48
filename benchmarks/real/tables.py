"""The study on real data as Markdown: tables, and verdicts that follow from the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pandas as pd

from benchmarks import peers
from benchmarks.compare import (
    BETTER,
    NAMES,
    by_method,
    compare,
    compare_all,
    count_verdicts,
    sum_up,
    tell,
    verdict,
)
from benchmarks.real.splits import METHODS, OURS
from fedrulefit.experiments.markdown import make_table

TITLES: Final[Mapping[str, str]] = {
    "trauma": "Trauma: mortality",
    "heart_uci": "Heart disease",
    "ist": "Stroke: dead or dependent after six months",
}
REFERENCE: Final = peers.RIDGE
HEAD: Final = (
    "method", "AUC", "AUC within hospitals", "log-loss", "Brier score", "calibration slope",
    "calibration in the large", "terms",
)  # fmt: skip


def make_texts(rows: pd.DataFrame) -> dict[str, str]:
    """Return the parts of the page, by name."""
    return {"tables": results_tables(rows), "verdicts": verdicts(rows)}


def results_tables(rows: pd.DataFrame) -> str:
    """Return a table per data set."""
    return "\n\n".join(_describe(TITLES[name], own) for name, own in _each(rows))


def verdicts(rows: pd.DataFrame) -> str:
    """Return how the defaults compare with every other method, in sentences and as a table."""
    others = [name for name in METHODS if name != OURS]
    found = {
        TITLES[name].partition(":")[0]: compare_all(
            own, OURS, others, over="split", shared=_tested(own)
        )
        for name, own in _each(rows)
    }
    lines = [
        (
            title if other == others[0] else "",
            other,
            *(
                f"{verdict(measure, one[other, measure])}: {one[other, measure].words()}"
                for measure in NAMES
            ),
        )
        for title, one in found.items()
        for other in others
    ]
    head = ("data", "defaults against", *(f"{name}, difference" for name in NAMES.values()))
    sentences = "\n".join(sum_up(title, one) for title, one in found.items())
    return "\n\n".join([count_verdicts([*found.values()]), sentences, make_table(head, lines)])


def _each(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    for name in TITLES:
        own = rows[rows["data"] == name]
        if len(own):
            yield name, own


def _tested(own: pd.DataFrame) -> float:
    """Return the share of the patients that a split tests on."""
    first = own.iloc[0]
    return float(first["n_test"] / (first["n_train"] + first["n_test"]))


def _describe(title: str, own: pd.DataFrame) -> str:
    first = own.iloc[0]
    fewest, most = own["within_sites"].min(), own["within_sites"].max()
    n_splits = own["split"].nunique()
    judged = " to ".join(sorted({str(end) for end in (fewest, most)}, key=int))
    text = (
        f"**{title}.** {first['n_train'] + first['n_test']:,} patients of {first['n_sites']} "
        f"sites, {first['n_test']:,} of them to test on; {n_splits} splits; AUC within hospitals "
        f"of {judged} sites."
    )
    lines = [_line(own, name) for name in METHODS]
    return f"{text}\n\n{make_table(HEAD, lines)}"


def _line(own: pd.DataFrame, name: str) -> list[str]:
    cells = [name if name != REFERENCE else f"{name} (reference)"]
    for measure in BETTER:
        values = by_method(own, measure, over="split")
        mean = f"{values[name].mean():.4f}"
        if name != REFERENCE:
            mean += f" ({tell(compare(values, name, REFERENCE, shared=_tested(own)))})"
        cells.append(mean)
    here = own[own["method"] == name]
    for measure in ("slope", "intercept"):
        cells.append(f"{here[measure].mean():.2f} (SD {here[measure].std(ddof=1):.2f})")
    return [*cells, f"{here['terms'].mean():.0f}"]
