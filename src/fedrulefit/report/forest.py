"""A validation by site → one drawing per measure, hospital under hospital, ready to draw.

In: the measures of sites that were left out, and their summary. Out: frozen geometry, as in
:mod:`fedrulefit.report.curves`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fedrulefit.core.families.judge import Summary
from fedrulefit.model.validation import SiteValidation
from fedrulefit.numerals import format_number, write_minus
from fedrulefit.report.charts import Tick, round_steps

WIDTH: Final = 350
LEFT, RIGHT, TOP, BOTTOM = 8, 12, 8, 26
ROW: Final = 34
_WIDEST: Final = 24
_FARTHEST: Final = 1.5
"""A prediction interval is drawn beyond the hospitals by at most so many times their span."""


@dataclass(frozen=True)
class Bar:
    """One hospital, the mean, or a further hospital: a line on the paper, and its words.

    `x` is the estimate's place; a further hospital has none, for it is a range.
    """

    kind: Literal["site", "mean", "new"]
    name: str
    told: str
    y: float
    left: float
    right: float
    x: float | None


@dataclass(frozen=True)
class Forest:
    """A measure of all hospitals.

    Parameters
    ----------
    title : str
    bars : tuple of Bar
    x_ticks : tuple of Tick
    ideal : float or None
        Where a perfect model would stand.
    height : float
    words : str
        The drawing in a sentence, for those who cannot see it.
    """

    title: str
    bars: tuple[Bar, ...]
    x_ticks: tuple[Tick, ...]
    ideal: float | None
    height: float
    words: str


Line = tuple[Literal["site", "mean", "new"], str, float, float, float]
"""Kind, name, low, estimate, high."""


def draw_forests(validation: SiteValidation) -> list[Forest]:
    """Draw each measure that a summary is told of; none without a hospital that has it."""
    drawn = (_draw(validation, summary) for summary in validation.summary())
    return [forest for forest in drawn if forest is not None]


def _draw(validation: SiteValidation, summary: Summary) -> Forest | None:
    name, across = summary.name, summary.across
    sites: list[Line] = [
        ("site", site, *(getattr(found, part) for part in (f"{name}_low", name, f"{name}_high")))
        for site, found in validation.sites.items()
    ]
    sites = [line for line in sites if not any(math.isnan(x) for x in line[2:])]
    if not sites:
        return None
    lines = list(sites)
    if not math.isnan(across.mean):
        lines.append(("mean", "mean over hospitals", across.low, across.mean, across.high))
        lines.append(("new", "a further hospital", across.new_low, math.nan, across.new_high))
    paper = _Paper(*_find_ends(sites, lines, summary.ideal))
    bars = tuple(_draw_bar(line, row, paper) for row, line in enumerate(lines))
    return Forest(
        summary.heading,
        bars,
        paper.x_ticks(),
        None if math.isnan(summary.ideal) else paper.x(summary.ideal),
        TOP + ROW * len(bars) + BOTTOM,
        f"{summary.heading}: " + "; ".join(f"{bar.name} {bar.told}" for bar in bars),
    )


@dataclass(frozen=True)
class _Paper:
    """Numbers → places on the paper; what lies beyond it ends at its edge."""

    low: float
    high: float

    def x(self, value: float) -> float:
        share = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)

    def x_ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(self.x(value), write_minus(format_number(value)))
            for value in round_steps(self.low, self.high)
        )


def _find_ends(sites: Sequence[Line], lines: Sequence[Line], ideal: float) -> tuple[float, float]:
    """Return where the paper ends: at the widest interval, but not far beyond the hospitals."""
    own = [x for line in sites for x in (line[2], line[4])]
    own += [] if math.isnan(ideal) else [ideal]
    span = max(max(own) - min(own), 0.02)
    low = max(min(line[2] for line in lines), min(own) - _FARTHEST * span)
    high = min(max(line[4] for line in lines), max(own) + _FARTHEST * span)
    low, high = min(low, *own), max(high, *own)
    return low - 0.05 * span, high + 0.05 * span


def _draw_bar(line: Line, row: int, paper: _Paper) -> Bar:
    kind, name, low, value, high = line
    ends = f"{low:.2f} to {high:.2f}"
    told = write_minus(ends if kind == "new" else f"{value:.2f} ({ends})")
    short = name if len(name) <= _WIDEST else name[: _WIDEST - 1] + "…"
    return Bar(
        kind,
        short,
        told,
        TOP + ROW * row + 24,
        paper.x(low),
        paper.x(high),
        None if kind == "new" else paper.x(value),
    )
