"""The coverage study: its units, and what its table says of counts that are known."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from fedrulefit.experiments.coverage import coverage_table, make_units, summarise
from fedrulefit.experiments.coverage.patients import CALIBRATED, TOO_SURE
from fedrulefit.experiments.coverage.repetitions import INTERVALS
from fedrulefit.experiments.methods import Effort


def make_row(model: str, told: float, held: float, block: int = 0) -> dict[str, Any]:
    return {
        "patients": 2000, "events": 5, "area": 0.8, "model": model, "interval": "AUC",
        "repetition": block, "asked": 100.0, "told": told, "held": held, "width": 0.5 * told,
    }  # fmt: skip


def test_coverage_is_counted_over_models_and_told_of_single_ones() -> None:
    rows = pd.DataFrame(
        [
            make_row(CALIBRATED, 100, 96),
            make_row(CALIBRATED, 100, 94, 1),
            make_row(TOO_SURE, 80, 78),
        ]
    )
    (row,) = summarise(rows).to_dict("records")
    assert row["coverage"] == pytest.approx(268 / 280)
    assert (row["lowest"], row["highest"]) == (0.95, 0.975)
    assert row["width"] == 0.5
    assert row["too_few"] == pytest.approx(20 / 300)
    assert "| AUC | 2,000 | 5 | 0.957 ± 0.0" in coverage_table(summarise(rows))


def test_what_is_seldom_told_is_too_few() -> None:
    """The few that are told of are not as the others are: they had more events than most."""
    table = coverage_table(summarise(pd.DataFrame([make_row(CALIBRATED, 6, 0)])))
    assert "| AUC | 2,000 | 5 | too few | – | – | 94 % |" in table


def test_a_unit_asks_for_every_interval_and_repeats_itself() -> None:
    units = make_units(150, seed=3, effort=Effort())
    assert len({unit.key for unit in units}) == len(units)
    assert sum(unit.draws for unit in units[:: len(units) // 2]) == 150
    (unit,) = [
        u for u in make_units(2, seed=3, effort=Effort()) if u.key == "500-20-80-calibrated-0000"
    ]
    rows = unit.run()
    assert [row["interval"] for row in rows] == list(INTERVALS)
    assert all(0 <= row["held"] <= row["told"] <= row["asked"] for row in rows)
    assert rows == unit.run()
