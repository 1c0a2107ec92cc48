"""A figure of the outcome inside and outside rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.families.sides import PERCENT, Levels
from fedrulefit.model import Model
from fedrulefit.model.subgroups import Among, choose_patients, tells_levels
from fedrulefit.plot.drawing import (
    INSIDE,
    NEUTRAL,
    OUTSIDE,
    find_axes,
    of_model,
    say,
    shorten,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SUBGROUP_TITLES: Final[dict[Among, str]] = {
    "held-out": "held-out patients",
    "training": "training patients\n(differences look larger than they are)",
}


@of_model
def subgroups(
    model: Model,
    ax: Axes | None = None,
    *,
    top: int = 5,
    min_support: float = 0.1,
    patients: Among | None = None,
) -> Axes:
    """Draw the level of the outcome inside and outside rules (:meth:`Model.subgroups_frame`).

    Of held-out patients, where the model tells of them, with 95 % intervals; else of those that
    the rules were learnt from, and the title says so. Dots are the sites' own rates of the same
    patients, where the model tells them.
    """
    ax, levels = find_axes(ax), model.study.family.levels
    among = choose_patients(model, patients)
    frame = model.subgroups_frame(top=top, min_support=min_support, patients=among)
    if frame.empty:
        return say(ax, f"No rule with support above {min_support:g}")
    if not tells_levels(model):
        return say(ax, f"Of no rule are {levels.words.many} told")
    of_sites = _site_rates(model, top, min_support, among)
    place = np.arange(len(frame))[::-1]
    for shift, side, colour in ((0.2, "inside", INSIDE), (-0.2, "outside", OUTSIDE)):
        _draw_side(ax, levels, frame, of_sites, (side, colour, place + shift))
    if among == "held-out":
        ax.plot([], [], color=NEUTRAL, linewidth=1, label="95 % interval")
    if not of_sites.empty:
        ax.plot([], [], "o", color=NEUTRAL, markersize=4, label="each site")
    ax.set_yticks(place, [shorten(text) for text in frame["rule"]])
    _limit_levels(ax, levels)
    ax.set_ylim(-0.6, len(frame) - 0.4)
    unit = f" ({levels.words.unit.strip()})" if levels.words.unit else ""
    label = shorten(model.study.outcome.label or model.study.outcome.column)
    ax.set_xlabel(f"{levels.words.axis}{label}{unit}")
    ax.set_title(f"Subgroups: {SUBGROUP_TITLES[among]}")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4, frameon=False)
    return ax


def _draw_side(
    ax: Axes,
    levels: Levels,
    frame: pd.DataFrame,
    of_sites: pd.DataFrame,
    drawn: tuple[str, str, np.ndarray[Any, Any]],
) -> None:
    """Draw the level on one side of each rule: its column's end, its colour, where it stands."""
    (side, colour, place), scale = drawn, levels.drawn
    name = f"{levels.words.level}_{side}"
    label = "patients inside the rule" if side == "inside" else "patients outside"
    if levels.from_zero:
        ax.barh(place, scale * frame[name], 0.38, color=colour, label=label)
    else:
        ax.plot(scale * frame[name], place, "s", color=colour, markersize=8, label=label)
    start = 0.0 if levels.from_zero else scale * float(frame[name].min())
    for y, row in zip(place, frame.to_dict("records"), strict=True):
        low, high = scale * row[f"low_{side}"], scale * row[f"high_{side}"]
        own = scale * of_sites.loc[of_sites["rule"] == row["rule"], name]
        ax.plot([low, high], [y, y], color=NEUTRAL, linewidth=1)
        ax.plot(own, np.full(len(own), y), "o", color=NEUTRAL, markersize=4)
        words, spot = levels.write(row[name], coarse=True), row[name]
        words += levels.words.unit * (scale == PERCENT)  # another unit stands at the axis
        if np.isnan(spot):
            words, spot = "too few to tell", start / scale
        where = (np.nanmax([scale * spot, high, *own]), y)
        ax.annotate(words, where, (4, 0), textcoords="offset points", va="center")


def _limit_levels(ax: Axes, levels: Levels) -> None:
    """End the axis of levels such that the numbers beside them have room."""
    if levels.drawn == PERCENT:
        ax.set_xlim(0, 110)
        return
    low, high = ax.get_xlim()
    ax.set_xlim(0 if levels.from_zero else low, high + 0.15 * (high - low))


def _site_rates(model: Model, top: int, min_support: float, among: Among) -> pd.DataFrame:
    """Return the sites' own rates of the same patients; none where they are not told."""
    known = choose_patients(model, None, by_site=True)
    asked = among if among == "training" else known
    frame = model.subgroups_frame(top=top, min_support=min_support, by_site=True, patients=asked)
    return frame if asked == among else frame[:0]
