"""Appendix 2: verdicts from rows whose truth is known, and the order of the runs."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from fedrulefit.experiments.cutoffs import repetitions as cutoffs
from fedrulefit.experiments.cutoffs.claims import check_claims
from fedrulefit.experiments.cutoffs.tables import results_table, summarise
from fedrulefit.experiments.methods import METRICS, Effort
from fedrulefit.experiments.scenarios import MODELS


def make_rows(**chosen: float) -> pd.DataFrame:
    """Rows in which the paper's bins and quantiles differ from none by `chosen` times."""
    points = [cutoffs.NONE, cutoffs.OWN, *itertools.product(cutoffs.BINS, cutoffs.QUANTILES)]
    rows = []
    for model, repetition, (bins, quantiles) in itertools.product(MODELS, range(4), points):
        row = dict.fromkeys(METRICS, 0.9 + 0.001 * repetition)
        row |= {"rules": 100.0, "candidates": 1000.0, "seconds": 4.0 + 0.1 * repetition}
        if (bins, quantiles) == cutoffs.CHOSEN:
            row = {name: value * chosen.get(name, 1.0) for name, value in row.items()}
        if (bins, quantiles) == cutoffs.OWN:
            row = dict.fromkeys(row, float("nan")) | {"candidates": 1200.0}
        place = {"model": model, "bins": bins, "quantiles": quantiles, "repetition": repetition}
        rows.append(place | row)
    return pd.DataFrame(rows)


def verdicts(rows: pd.DataFrame) -> list[str]:
    return [claim.paper.word for claim in check_claims(rows)]


TRUE = {"rules": 0.5, "candidates": 0.6, "seconds": 0.7}


def test_what_is_true_holds() -> None:
    assert verdicts(make_rows(**TRUE)) == ["holds"] * 5


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"auc": 0.97}, 0),
        ({"f1": 1.03}, 0),
        ({"rules": 0.8}, 1),
        ({"candidates": 0.8}, 2),
        ({"seconds": 1.1}, 4),
    ],
)
def test_what_is_false_does_not_hold(change: dict[str, float], place: int) -> None:
    found = verdicts(make_rows(**TRUE | change))
    assert found.pop(place) == "does not hold"
    assert set(found) == {"holds"}


def test_sharing_is_judged_against_clients_that_share_nothing() -> None:
    found = verdicts(make_rows(**TRUE | {"candidates": 0.95}))
    assert found == ["holds", "holds", "does not hold", "does not hold", "holds"]
    assert "none, own values | – | – | – | – | – | – | 1200" in results_table(
        summarise(make_rows())
    )


def test_the_rules_of_clients_alone_are_counted() -> None:
    """They are at least as many as those of clients that share cut-offs."""
    unit = cutoffs.CutoffsUnit(1, 0, 7, Effort(quick=True))
    own = unit.count_own()
    (none,) = [row for row in unit.run() if (row["bins"], row["quantiles"]) == cutoffs.NONE]
    assert own["candidates"] > 0
    assert own["candidates"] >= 0.9 * none["candidates"]
    assert np.isnan(own["auc"])


def test_savings_are_told_with_their_error() -> None:
    claim = check_claims(make_rows(**TRUE))[1]
    assert "model 1: 50 against 100, 50 ± 0 % less" in claim.paper.numbers


def test_every_repetition_begins_with_another_histogram(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        cutoffs.CutoffsUnit, "_row", lambda self, bins, quantiles: {"point": (bins, quantiles)}
    )
    monkeypatch.setattr(cutoffs.CutoffsUnit, "count_own", lambda self: {"point": cutoffs.OWN})
    orders = [
        [row["point"] for row in cutoffs.CutoffsUnit(1, repetition, 0, Effort()).run()]
        for repetition in range(13)
    ]
    assert len({order[0] for order in orders}) == 13
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
