"""Units of work: intervals of a hundred draws of one cell, and how many hold the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fedrulefit.core.families.yesno_calibration import calibrate
from fedrulefit.core.families.yesno_measures import calibration_groups, discriminate
from fedrulefit.core.families.yesno_sums import ScoreSums, count_scores
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.experiments.coverage.patients import AREAS, Cell, Judged, list_cells
from fedrulefit.experiments.methods import Effort
from fedrulefit.experiments.units import Row
from fedrulefit.model.evaluation import Evaluation

BLOCK: Final = 100
"""Draws of a unit."""

Interval = tuple[float, float, float]
"""What is true, and both ends; NaN where the program says that it is not known."""


def judge_area(cell: Cell, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield the interval of the AUC, of exactly so many events."""
    found = discriminate(_count(cell.draw_fixed(rng)))
    yield cell.area, found.low, found.high


def judge_slope(cell: Cell, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield the interval of the calibration slope, of exactly so many events."""
    found = calibrate(_count(cell.draw_fixed(rng)))
    yield cell.slope, found.slope_low, found.slope_high


def judge_large(cell: Cell, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield the interval of calibration in the large, of so many events on average."""
    found = calibrate(_count(cell.draw(rng)))
    yield cell.intercept, found.intercept_low, found.intercept_high


def judge_groups(cell: Cell, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield the intervals of the observed share of each group of the calibration curve."""
    judged = cell.draw(rng)
    yield from _judge_groups(judged, _count(judged))


def judge_published(cell: Cell, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield the same from a model as it is published: merged bins, rounded counts."""
    judged = cell.draw(rng)
    told = Evaluation(_count(judged)).rounded(PUBLISHED)
    if told is None:
        yield math.nan, math.nan, math.nan
    else:
        yield from _judge_groups(judged, told.overall)


INTERVALS: Final[Mapping[str, Callable[[Cell, np.random.Generator], Iterator[Interval]]]] = {
    "AUC": judge_area,
    "calibration slope": judge_slope,
    "calibration in the large": judge_large,
    "observed share of a group": judge_groups,
    "the same, published": judge_published,
}
"""Every interval that is shown, by its name in the table."""


@dataclass(frozen=True)
class CoverageUnit:
    """Draws of one cell."""

    cell: Cell
    block: int
    draws: int
    seed: int

    @property
    def key(self) -> str:
        """Name of its file."""
        cell = self.cell
        model = cell.model.replace(" ", "-")
        return f"{cell.patients}-{cell.events}-{100 * cell.area:.0f}-{model}-{self.block:04d}"

    def run(self) -> list[Row]:
        """Count for each interval how often it was told, and how often it held the truth."""
        return [self._count(name, place) for place, name in enumerate(INTERVALS)]

    def _count(self, name: str, place: int) -> Row:
        cell, judge = self.cell, INTERVALS[name]
        rng = np.random.default_rng(
            [self.seed, self.block, place, *map(ord, self.key)],
        )
        found = np.array([row for _ in range(self.draws) for row in judge(cell, rng)])
        truth, low, high = found[~np.isnan(found[:, 1])].T
        return {
            "patients": cell.patients,
            "events": cell.events,
            "area": cell.area,
            "model": cell.model,
            "interval": name,
            "repetition": self.block,
            "asked": float(len(found)),
            "told": float(len(truth)),
            "held": float(((low <= truth) & (truth <= high)).sum()),
            "width": float((high - low).sum()),
        }


def make_units(repetitions: int, *, seed: int, effort: Effort) -> list[CoverageUnit]:
    """Return the units, all cells of a block together."""
    cells = list_cells(AREAS[1:2]) if effort.quick else list_cells()
    starts = range(0, repetitions, BLOCK)
    return [
        CoverageUnit(cell, start // BLOCK, min(BLOCK, repetitions - start), seed)
        for start in starts
        for cell in cells
    ]


def _count(judged: Judged) -> ScoreSums:
    return count_scores(judged.chance, judged.outcome, np.ones(len(judged.chance)))


def _judge_groups(judged: Judged, sums: ScoreSums) -> Iterator[Interval]:
    for group in calibration_groups(sums):
        inside = (judged.chance >= group.above) & (judged.chance < group.below)
        if inside.any():
            yield float(judged.truth[inside].mean()), group.low, group.high
