"""What F means is known to the outcome's family alone: no other room spells it out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fedrulefit

SOURCE = Path(fedrulefit.__file__).parent
FILES = sorted(
    path.relative_to(SOURCE).as_posix()
    for path in SOURCE.rglob("*")
    if path.suffix in (".py", ".js", ".html", ".css")
)
HOMES = ("core/families/", "baselines/", "experiments/")
"""The families; and what is about yes/no outcomes by definition: the paper's studies, and the
methods that it compares with."""

EXCEPTIONS = {
    "demo.py": "draws synthetic patients from a logistic truth",
}
"""Files that may spell a family's mathematics out, and why."""

SPELT_OUT = re.compile(r"\b(?:expit|logit|sigmoid)\b|log-odds|odds ratio|σ\(", re.IGNORECASE)
SUM = "Σ("  # the capital letter is a sum


def find_hits(text: str) -> list[str]:
    """Return the lines that spell a family's mathematics or words out."""
    return [
        line.strip() for line in text.splitlines() if SPELT_OUT.search(line.replace(SUM, "sum("))
    ]


def test_hits_are_found_and_sums_are_none() -> None:
    text = "p = expit(f)\nOdds ratio\nΣ(n − m)\nσ(F)\nLog-odds\nlog_odds, odds_ratio\nlogistics"
    assert find_hits(text) == ["p = expit(f)", "Odds ratio", "σ(F)", "Log-odds"]


@pytest.mark.parametrize("name", FILES)
def test_no_other_room_knows_what_the_predictor_means(name: str) -> None:
    if name.startswith(HOMES):
        return
    hits = find_hits((SOURCE / name).read_text(encoding="utf-8"))
    if name in EXCEPTIONS:
        assert hits, "no longer an exception: take it off the list"
        return
    assert hits == [], "ask study.family (its link, words or judge) instead"
