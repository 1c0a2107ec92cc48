"""What is explained within hospitals: against each hospital's own patients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import r2_score

from fedrulefit.core.families.explained_within import (
    DOUBT_STEP,
    NOBODY,
    SHARE_STEP,
    ExplainedSums,
    Within,
    measure_within,
    tell_within,
)
from fedrulefit.core.families.number_judge import NumberJudge
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing

JUDGE = NumberJudge(0.0, 100.0)
LEAST = 5.0


def draw(rng: Any, n_rows: int, level: float, share: float = 0.5) -> Any:
    """Patients of a hospital that lies off by `level`; the model explains `share` of them."""
    outcome = rng.normal(50 + level, 8, n_rows)
    explained = share * (outcome - 50 - level)
    prediction = 50 + explained + rng.normal(0, 8 * np.sqrt(share * (1 - share)), n_rows)
    return prediction, outcome, np.ones(n_rows)


def add(parts: list[ExplainedSums]) -> ExplainedSums:
    return ExplainedSums(*np.sum([list(vars(part).values()) for part in parts], axis=0).tolist())


def test_it_is_the_mean_of_the_hospitals_own_shares_with_their_level_aside() -> None:
    rng = np.random.default_rng(1)
    sites = [draw(rng, n, level) for n, level in ((43, -9.0), (120, 12.0), (4, 0.0), (77, 3.0))]
    parts = [JUDGE.place_within(JUDGE.count(*site), LEAST) for site in sites]
    assert parts[2] == NOBODY
    found = measure_within(add(parts))
    assert found is not None
    told = [
        (LEAST * (len(t) // LEAST), r2_score(t, p - p.mean() + t.mean()))
        for p, t, _ in sites
        if len(t) > LEAST
    ]
    counts, shares = np.array(told).T
    assert (found.sites, found.patients) == (3, counts.sum())
    assert found.explained == pytest.approx(np.average(shares, weights=counts), abs=SHARE_STEP)
    assert JUDGE.measure(JUDGE.count(*sites[1])).r2 < shares[1], "its own level counts there"


def test_sites_add_coarse_numbers_only() -> None:
    rng = np.random.default_rng(2)
    for n_rows in range(60, 65):
        part = JUDGE.place_within(JUDGE.count(*draw(rng, n_rows, 0.0)), LEAST)
        assert part.patients == 60
        assert part.placed / 60 % SHARE_STEP == 0
        assert part.doubts / 60 % DOUBT_STEP == 0
    packing = Packing(ExplainedSums)
    assert vars(packing.read(packing.round(part))) == vars(part)
    bad = replace(part, placed=-part.patients)
    assert vars(packing.read(packing.round(bad))) == vars(bad)
    constant = JUDGE.count(np.full(50, 3.0), np.full(50, 3.0), np.ones(50))
    assert JUDGE.place_within(constant, LEAST) == NOBODY
    inverted = JUDGE.count(np.linspace(100, 0, 50), np.linspace(0, 100, 50), np.ones(50))
    assert JUDGE.place_within(inverted, LEAST).placed == -50


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Seeds are fixed; the interval is a little wide, for its doubts are rounded up."""
    rng, held, draws = np.random.default_rng(3), 0, 300
    for _ in range(draws):
        parts = [
            JUDGE.place_within(JUDGE.count(*draw(rng, n, level)), LEAST)
            for n, level in ((80, -9.0), (150, 5.0), (120, 0.0))
        ]
        found = measure_within(add(parts))
        assert found is not None
        held += found.explained_low <= 0.5 <= found.explained_high
    assert 0.92 <= held / draws <= 0.99


def test_words_say_when_hospitals_are_told_apart_and_not_patients() -> None:
    within = Within(3, 300, 0.2, 0.1, 0.3)
    assert "tells hospitals apart" in tell_within(0.6, within, "R²")
    assert "does not know" in tell_within(0.05, within, "R²")
    assert tell_within(0.25, within, "R²").endswith("3 hospitals.")


def test_what_is_published_is_rounded_and_rests_on_enough() -> None:
    found = Within(3, 57, 0.71234, 0.61234, 0.81234)
    assert found.rounded(EXACT, 1.0) == Within(3, 57, 0.712, 0.612, 0.812)
    assert found.rounded(Rounding(5, 60), 1.0) is None
    assert measure_within(NOBODY) is None
    for change in ({"sites": 1}, {"patients": 0.0}, {"explained_low": 0.9}):
        with pytest.raises(ValueError, match="hospitals"):
            replace(found, **change)  # type: ignore[arg-type]
