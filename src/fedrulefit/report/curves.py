"""The evaluation → a calibration curve and a decision curve, ready to draw.

In: an evaluation's frames. Out: frozen geometry, as in :mod:`fedrulefit.report.charts`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from fedrulefit.core.families import Family
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.numerals import format_number, write_minus
from fedrulefit.report.charts import Tick, draw_path, round_steps

if TYPE_CHECKING:
    import pandas as pd

WIDTH: Final = 350
HEIGHT: Final = 250
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 12, 44
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A line and its name; `kind` is its class in the page's style."""

    kind: str
    path: str
    label: str


@dataclass(frozen=True)
class Dot:
    """A group of patients, or a threshold: its place, the ends of its bars, and its words."""

    x: float
    y: float
    left: float
    right: float
    low: float
    high: float
    words: str


@dataclass(frozen=True)
class Curve:
    """A drawing of the evaluation.

    Parameters
    ----------
    title, x_title, y_title : str
    lines : tuple of Line
    dots : tuple of Dot
    x_ticks, y_ticks : tuple of Tick
    words : str
        The drawing in a sentence, for those who cannot see it.
    """

    title: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    dots: tuple[Dot, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    words: str


@dataclass(frozen=True)
class _Paper:
    """Numbers → places on the paper."""

    left: float
    right: float
    low: float
    high: float

    def x(self, value: float) -> float:
        share = (value - self.left) / (self.right - self.left)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)

    def cut(self, value: float) -> float:
        """Return a place along the paper, at its edge for what lies beyond."""
        return self.x(min(max(value, self.left), self.right))

    def path(self, points: Sequence[Point]) -> str:
        return draw_path((self.x(x), self.y(y)) for x, y in points)

    def x_ticks(self) -> tuple[Tick, ...]:
        return tuple(_tick(self.x(v), v) for v in round_steps(self.left, self.right))

    def y_ticks(self) -> tuple[Tick, ...]:
        return tuple(_tick(self.y(v), v) for v in round_steps(self.low, self.high))


def _tick(at: float, value: float) -> Tick:
    return Tick(at, write_minus(format_number(value)))


def draw_calibrations(evaluation: Evaluation, digits: int = 1) -> list[Curve]:
    """Draw the calibration; of an outcome of several levels, that of each."""
    if not evaluation.family.told_levels:
        return [draw_calibration(evaluation, digits)]
    levels = evaluation.calibration_frame()["level"].unique().tolist()
    return [draw_calibration(evaluation, digits, level) for level in levels]


def draw_calibration(evaluation: Evaluation, digits: int = 1, level: str | None = None) -> Curve:
    """Draw what was predicted against what was observed, by groups of the prediction.

    `digits` are the decimals of a rate in percent. Of an outcome of several levels, `level` is
    the one; of ordered ones, with those above it.
    """
    frame, family = evaluation.calibration_frame(), evaluation.family
    title = "Calibration"
    if level is not None:
        frame = frame[frame["level"] == level]
        title += f": {level}" + ("" if family.own_terms else " and above")
    paper = _find_paper(frame, family)
    rows = frame.to_dict("records")
    dots = [
        Dot(
            paper.x(row["predicted"]),
            paper.y(row["observed"]),
            paper.cut(row["above"]),
            paper.cut(row["below"]),  # the bar may end at the paper's edge
            paper.y(_known(row["low"], row["observed"])),
            paper.y(_known(row["high"], row["observed"])),
            _tell_group(row, family, digits),
        )
        for row in rows
    ]
    points = list(zip(frame["predicted"].tolist(), frame["observed"].tolist(), strict=True))
    words = family.words
    what = words.prediction if family.told_levels else words.level
    predicted, unit = f"predicted {what}", f" ({words.unit})" if words.unit else ""
    ends = [(end, end) for end in (paper.left, paper.right)]
    lines = (
        Line("even", paper.path(ends), "perfect"),
        Line("line", paper.path(points), f"model; bars: range of the {predicted}, 95 % interval"),
    )
    return Curve(
        title,
        f"{predicted.capitalize()}{unit}",
        f"{words.observed.capitalize()}{unit}",
        lines,
        tuple(dots),
        paper.x_ticks(),
        paper.y_ticks(),
        f"{title}: " + "; ".join(dot.words for dot in dots),
    )


def _known(end: float, value: float) -> float:
    """Return the end of an interval; the value itself where it has none."""
    return value if math.isnan(end) else end


def _find_paper(frame: pd.DataFrame, family: Family) -> _Paper:
    """Return a square paper: probabilities and rates begin at 0, others where groups do."""
    shown = frame[["predicted", "observed", "low", "high"]]
    least, most = float(shown.min().min()), float(shown.max().max())
    if family.predicts_shares:
        return _Paper(0.0, _round_up(most), 0.0, _round_up(most))
    least = min(least, 0.0) if family.levels.from_zero else least
    edge = 0.05 * ((most - least) or 1.0)
    low = least if family.levels.from_zero else least - edge
    return _Paper(low, most + edge, low, most + edge)


def _tell_group(row: Mapping[Hashable, Any], family: Family, digits: int) -> str:
    """Return a group of the calibration in a clause."""
    if family.predicts_shares:
        return (
            f"predicted {100 * row['above']:g} to {100 * row['below']:g} %, about "
            f"{100 * row['predicted']:.1f} % on average, observed "
            f"{100 * row['observed']:.{digits}f} % "
            f"({100 * row['low']:.{digits}f} to {100 * row['high']:.{digits}f} %)"
        )
    about, observed, low, high = (
        family.tell(row[name]) for name in ("predicted", "observed", "low", "high")
    )
    interval = "" if math.isnan(row["low"]) else f" ({low} to {high})"
    told = f"predicted {row['above']:.4g} to {row['below']:.4g}, {about} on average"
    return write_minus(f"{told}, observed {observed}{interval}")


def draw_decision(evaluation: Evaluation) -> Curve:
    """Draw the net benefit of the model, of treating all and of treating nobody."""
    frame = evaluation.decision_frame()
    observed = evaluation.total.observed
    top = max([observed, 1e-3, *frame["net_benefit"], *frame["treat_all"]])
    frame = frame.iloc[: _count_useful(frame["net_benefit"].tolist(), 0.02 * top)]
    right = _round_up(1.05 * float(frame["threshold"].iloc[-1]))
    paper = _Paper(0.0, right, min(-0.15 * top, max(frame["net_benefit"].min(), -top)), 1.08 * top)
    thresholds = frame["threshold"].tolist()
    # At a threshold of 0 the model treats all.
    model, treat_all = (
        [(0.0, observed), *zip(thresholds, frame[name].tolist(), strict=True)]
        for name in ("net_benefit", "treat_all")
    )
    lines = (
        Line("even", paper.path([(0.0, 0.0), (right, 0.0)]), "treat nobody"),
        Line("line other", paper.path(_cut_below(treat_all, paper.low)), "treat all"),
        Line("line", paper.path(_cut_below(model, paper.low)), "model"),
    )
    dots = [
        Dot(x, y, x, x, y, y, f"{write_minus(f'{benefit:.3f}')} at {threshold:g}")
        for threshold, benefit in model[1:]
        for x, y in [(paper.x(threshold), paper.y(benefit))]
        if benefit >= paper.low
    ]
    return Curve(
        "Decision curve",
        f"Threshold of the {evaluation.family.words.level}",
        "Net benefit",
        lines,
        tuple(dots),
        paper.x_ticks(),
        paper.y_ticks(),
        "Decision curve: net benefit of the model " + ", ".join(dot.words for dot in dots),
    )


def _count_useful(benefits: Sequence[float], least: float) -> int:
    """Return how many points lead to the first at or below 0 after all that are of use."""
    useful = max((k for k, benefit in enumerate(benefits) if benefit > least), default=0)
    ends = (k for k, benefit in enumerate(benefits) if k >= useful and benefit <= 0)
    return next(ends, len(benefits) - 1) + 1


def _cut_below(points: Sequence[Point], floor: float) -> list[Point]:
    """Return the points up to where the line first falls below `floor`, and that place."""
    kept = [(points[0][0], max(points[0][1], floor))]
    for (x0, y0), (x1, y1) in pairwise(points):
        if y1 < floor:
            share = (y0 - floor) / (y0 - y1) if y0 > y1 else 0.0
            kept.append((x0 + max(share, 0.0) * (x1 - x0), floor))
            break
        kept.append((x1, y1))
    return kept


def _round_up(value: float) -> float:
    """Return the next tenth, or twentieth where the value is small."""
    steps = 20 if value < 0.2 else 10
    return min(1.0, math.ceil(value * steps - 1e-9) / steps)
