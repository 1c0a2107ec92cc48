"""Units of work: intervals of a hundred draws of one cell, and how many hold the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from scipy.special import expit, logit

from fedrulefit.core.families.sides import Contrast
from fedrulefit.core.families.yesno_calibration import calibrate
from fedrulefit.core.families.yesno_measures import calibration_groups, discriminate
from fedrulefit.core.families.yesno_sums import ScoreSums, count_scores
from fedrulefit.core.families.yesno_within import (
    Within,
    WithinSums,
    measure_within,
    place_within,
)
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.core.subgroups import contrast
from fedrulefit.core.sums import Packing
from fedrulefit.experiments.coverage.patients import AREAS, Cell, Judged, list_cells
from fedrulefit.experiments.methods import Effort
from fedrulefit.experiments.units import Row
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.privacy.policy import MIN_COUNT

BLOCK: Final = 100
"""Draws of a unit."""
SHIFTS: Final = np.array([-1.0, 0.0, 1.0])
"""By how much the log-odds of three hospitals differ: one has iller patients than another."""

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
        yield from _judge_groups(judged, told.overall, PUBLISHED.step())


def judge_within(cell: Cell, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield the interval of the AUC within three hospitals, of exactly so many events."""
    judged = cell.draw_fixed(rng)
    place = rng.integers(len(SHIFTS), size=cell.patients)
    chance = expit(logit(judged.chance) + SHIFTS[place])
    own = [place == k for k in range(len(SHIFTS))]
    found = judge_sites(
        [count_scores(chance[at], judged.outcome[at], np.ones(at.sum())) for at in own]
    )
    ends = (math.nan, math.nan) if found is None else (found.auc_low, found.auc_high)
    yield cell.area, *ends


def judge_sites(sums: Sequence[ScoreSums]) -> Within | None:
    """Return the AUC within hospitals, as it follows from the sums that leave them."""
    packing = Packing(WithinSums)
    placed = [packing.round(place_within(part, MIN_COUNT)) for part in sums]
    return measure_within(packing.read(np.sum(placed, axis=0)))


def judge_rate(cell: Cell, rng: np.random.Generator, *, step: int) -> Iterator[Interval]:
    """Yield the interval of the outcome rate inside a rule, of counts in multiples of `step`."""
    told = _contrast(cell, rng, step)
    ends = (math.nan, math.nan) if told is None else (told.low_inside, told.high_inside)
    yield cell.rates.inside, *ends


def judge_difference(cell: Cell, rng: np.random.Generator, *, step: int) -> Iterator[Interval]:
    """Yield the interval of that rate minus the one outside."""
    told = _contrast(cell, rng, step)
    ends = (math.nan, math.nan) if told is None else (told.low_gap, told.high_gap)
    yield cell.rates.inside - cell.rates.outside, *ends


INTERVALS: Final[Mapping[str, Callable[[Cell, np.random.Generator], Iterator[Interval]]]] = {
    "AUC": judge_area,
    "calibration slope": judge_slope,
    "calibration in the large": judge_large,
    "observed share of a group": judge_groups,
    "the same, published": judge_published,
    "AUC within hospitals": judge_within,
    "outcome rate inside a rule": partial(judge_rate, step=1),
    "that rate, published": partial(judge_rate, step=PUBLISHED.multiple),
    "difference inside − outside": partial(judge_difference, step=1),
    "that difference, published": partial(judge_difference, step=PUBLISHED.multiple),
}
"""Every interval that is shown of patients, by its name in the table.

New ones come last: what is drawn depends on the place. Those of a mean over hospitals are in
:mod:`fedrulefit.experiments.coverage.hospitals`.
"""


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


def _judge_groups(judged: Judged, sums: ScoreSums, step: float = 0.0) -> Iterator[Interval]:
    for group in calibration_groups(sums, step=step):
        inside = (judged.chance >= group.above) & (judged.chance < group.below)
        if inside.any():
            yield float(judged.truth[inside].mean()), group.low, group.high


def _contrast(cell: Cell, rng: np.random.Generator, step: int) -> Contrast | None:
    """Compare rates inside and outside the cell's rule; None where too few are in one of them."""
    judged = cell.draw(rng)
    inside = judged.truth >= cell.rates.cut
    held = np.array([inside.sum(), judged.outcome[inside].sum()])
    whole = np.array([cell.patients, judged.outcome.sum()])
    least = PUBLISHED.smallest if step > 1 else MIN_COUNT
    if any(min(events, patients - events) < least for patients, events in (held, whole - held)):
        return None
    patients, events, total, cases = (step * np.rint(np.concatenate([held, whole]) / step)).tolist()
    return contrast(patients, events, total, cases, step=step if step > 1 else 0)
