"""Observed risks over time inside and outside rules → lines on paper, for the page.

In: a model of a time to an event. Out: frozen geometry in the units of an SVG's viewBox, and each
drawing in a sentence, for those who cannot see it. The numbers are those of
:meth:`fedrulefit.Model.subgroup_curves_frame`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fedrulefit.core.families.side_risks import RiskLevels
from fedrulefit.model import Model
from fedrulefit.numerals import format_number
from fedrulefit.report.charts import HEIGHT, WIDTH, Tick

if TYPE_CHECKING:
    import pandas as pd

MOST: Final = 6
"""Curves of so many rules are drawn."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 30
_MARKS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""The risk at the top of the paper is one of these."""


@dataclass(frozen=True)
class SideLine:
    """The risk on one side: a path, the strip of its 95 % interval, and its dots as (x, y)."""

    path: str
    strip: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class SideChart:
    """The risk over time inside and outside a rule, ready to draw."""

    name: str
    inside: SideLine
    outside: SideLine
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    words: str


def draw_sides(model: Model) -> list[SideChart]:
    """Return the curves of the most important rules that have any; empty for other outcomes."""
    if not isinstance(model.study.family.levels, RiskLevels):
        return []
    frame = model.subgroup_curves_frame()
    names = list(dict.fromkeys(frame["rule"]))[:MOST]
    shown = frame[frame["rule"].isin(names)]
    if shown.empty:
        return []
    top = next(mark for mark in _MARKS if mark >= float(shown["high"].max()) or mark == 1.0)
    last = float(shown["time"].max())
    return [_draw(name, shown[shown["rule"] == name], last, top) for name in names]


def _draw(name: str, frame: pd.DataFrame, last: float, top: float) -> SideChart:
    """Draw both sides of a rule."""
    inside, outside = (_line(frame[frame["side"] == s], last, top) for s in ("inside", "outside"))
    times = [0.0, *sorted(set(frame["time"]))]
    said = [f"{side}: {_tell(frame[frame['side'] == side])}" for side in ("inside", "outside")]
    return SideChart(
        name,
        inside,
        outside,
        tuple(Tick(_x(time, last), format_number(time)) for time in _thin(times)),
        tuple(Tick(_y(top * k / 4, top), f"{100 * top * k / 4:g} %") for k in range(5)),
        f"Observed risk {'; '.join(said)}.",
    )


def _thin(times: Sequence[float]) -> list[float]:
    """Return times that have room beside each other: the last, and others at some distance."""
    kept: list[float] = []
    for time in reversed(times):
        if not kept or kept[-1] - time >= times[-1] / 5:
            kept.append(time)
    return kept[::-1]


def _line(side: pd.DataFrame, last: float, top: float) -> SideLine:
    """Draw one side, from no risk at the start."""
    times = [0.0, *side["time"]]
    dots, low, high = (
        [(_x(t, last), _y(p, top)) for t, p in zip(times, [0.0, *side[column]], strict=True)]
        for column in ("risk", "low", "high")
    )
    return SideLine(_path(dots), f"{_path([*high, *low[::-1]])}Z", tuple(dots[1:]))


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _tell(side: pd.DataFrame) -> str:
    return ", ".join(
        f"{100 * risk:.0f} % by {format_number(time)}"
        for time, risk in zip(side["time"], side["risk"], strict=True)
    )


def _x(time: float, last: float) -> float:
    return _LEFT + time / last * (WIDTH - _LEFT - _RIGHT)


def _y(risk: float, top: float) -> float:
    return HEIGHT - _BOTTOM - min(risk / top, 1.0) * (HEIGHT - _TOP - _BOTTOM)
