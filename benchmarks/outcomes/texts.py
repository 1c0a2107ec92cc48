"""The study of kinds of outcome as Markdown: tables, and verdicts from the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pandas as pd

from benchmarks.compare import by_method, compare, is_clear, tell
from benchmarks.outcomes.methods import METHODS, OURS
from fedrulefit.experiments.claims import LEVEL
from fedrulefit.experiments.markdown import make_table

TITLES: Final[Mapping[str, str]] = {
    "diabetes": "diabetes: progression (number)",
    "friedman": "friedman: simulated (number)",
    "randhie": "randhie: visits to a doctor (count)",
    "visits": "visits: simulated, with exposure (count)",
    "veterans": "veterans: death (time, horizon 180 days)",
    "whas500": "whas500: death (time, horizon 1,461 days)",
    "gbsg2": "gbsg2: recurrence or death (time, horizon 1,826 days)",
    "flchain": "flchain: death (time, horizon 3,652 days)",
    "fair": "fair: rating of a marriage, 2 to 5 (ordered)",
    "grades": "grades: simulated, four of them (ordered)",
    "wine": "wine: cultivar, one of three (classes)",
    "ways": "ways: simulated, four of them (classes)",
}
MEASURES: Final[Mapping[str, Mapping[str, tuple[str, int]]]] = {
    "number": {"r2": ("R²", 1), "rmse": ("RMSE", -1)},
    "count": {"d2": ("D²", 1), "deviance": ("deviance", -1)},
    "time": {"c": ("Harrell's C", 1), "brier": ("Brier score", -1), "ibs": ("IBS", -1)},
    "ordered": {"log_loss": ("log-loss", -1), "auc": ("AUC", 1), "rps": ("RPS", -1)},
    "classes": {"log_loss": ("log-loss", -1), "auc": ("AUC", 1)},
}
"""Measures of each kind, their names, and whether a larger one is better."""


def make_texts(rows: pd.DataFrame) -> dict[str, str]:
    """Return the parts of the page, by name."""
    parts = [(name, rows[rows["data"] == name]) for name in TITLES]
    found = [(name, own) for name, own in parts if len(own)]
    return {
        "tables": "\n\n".join(_describe(TITLES[name], own) for name, own in found),
        "verdicts": _sum_up(found),
    }


def _tested(own: pd.DataFrame) -> float:
    first = own.iloc[0]
    return float(first["n_test"] / (first["n_train"] + first["n_test"]))


def _describe(title: str, own: pd.DataFrame) -> str:
    first = own.iloc[0]
    measures = MEASURES[first["kind"]]
    text = (
        f"**{title}.** {first['n_train']:,} patients to learn from, {first['n_test']:,} to test "
        f"on; {own['split'].nunique()} splits."
    )
    head = ("method", *(name for name, _ in measures.values()), "terms", "CPU s")
    return f"{text}\n\n{make_table(head, [_line(own, m) for m in METHODS[first['kind']]])}"


def _line(own: pd.DataFrame, method: str) -> list[str]:
    cells, here = [method], own[own["method"] == method]
    for measure in MEASURES[own.iloc[0]["kind"]]:
        values = by_method(own, measure, over="split")
        mean = f"{values[method].mean():.4g}"
        if method != OURS:
            mean += f" ({tell(compare(values, method, OURS, shared=_tested(own)))})"
        cells.append(mean)
    terms = here["terms"].mean()
    return [*cells, f"{terms:.0f}" if terms >= 0 else "", f"{here['cpu'].mean():.1f}"]


def _sum_up(found: list[tuple[str, pd.DataFrame]]) -> str:
    """Return where another method is clearly better or worse than ours."""
    told: dict[str, list[str]] = {"better": [], "worse": []}
    n = 0
    for name, own in found:
        kind = own.iloc[0]["kind"]
        for measure, (words, sign) in MEASURES[kind].items():
            values = by_method(own, measure, over="split")
            for method in METHODS[kind]:
                if method == OURS:
                    continue
                n += 1
                difference = compare(values, method, OURS, shared=_tested(own))
                if is_clear(difference):
                    word = "better" if sign * difference.mean > 0 else "worse"
                    told[word].append(f"{method} on {name} ({words})")
    lines = [
        f"{n} comparisons of another method with ours over 3 sites, each with an error of "
        f"{100 * LEVEL:.0f} % (two-sided, not adjusted for their number):"
    ]
    for word, cases in told.items():
        lines.append(f"- clearly {word} than ours: {'; '.join(cases) if cases else 'none'}.")
    rest = n - sum(map(len, told.values()))
    lines.append(f"- not told apart: {rest}.")
    return "\n".join(lines)
