"""Figures of how well a model predicts patients that it was not learnt from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedrulefit.model import Model
from fedrulefit.plot.drawing import (
    INSIDE,
    NEUTRAL,
    OUTSIDE,
    RAISES,
    find_axes,
    of_model,
    say,
    shorten,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@of_model
def calibration(model: Model, ax: Axes | None = None, *, n_groups: int = 10) -> Axes:
    """Draw what was predicted for held-out patients against what was observed.

    The data: :meth:`Evaluation.calibration_frame` of ``Model.evaluation``. Upright bars are
    95 % intervals, level ones the groups' range of predictions.
    """
    ax = find_axes(ax)
    if model.evaluation is None:
        return say(ax, model.unjudged)
    frame = model.evaluation.calibration_frame(n_groups)
    words, family = model.study.family.words, model.study.family
    low, high = (0.0, 1.0) if family.predicts_shares else _find_ends(frame)
    ax.plot([low, high], [low, high], color=OUTSIDE, linestyle="--", label="perfect")
    if family.told_levels:  # a line for each level
        for level, own in frame.groupby("level", sort=False):
            _draw_groups(ax, own, label=level)
    else:
        _draw_groups(ax, frame, color=NEUTRAL, label="model")
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    unit = f" ({words.unit})" if words.unit else ""
    ax.set_xlabel(f"Predicted {words.prediction if family.told_levels else words.level}{unit}")
    ax.set_ylabel(f"{words.observed.capitalize()}{unit}")
    ax.set_title("Calibration")
    ax.legend(frameon=False, loc="upper left")
    return ax


def _draw_groups(ax: Axes, frame: pd.DataFrame, **style: Any) -> None:
    errors = [frame["observed"] - frame["low"], frame["high"] - frame["observed"]]
    ranges = [frame["predicted"] - frame["above"], frame["below"] - frame["predicted"]]
    ax.errorbar(
        frame["predicted"], frame["observed"], errors, ranges, fmt="o-", ecolor=OUTSIDE,
        markersize=4, linewidth=1, **style,
    )  # fmt: skip


def _find_ends(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the ends of both axes: a little beyond the groups and their intervals."""
    shown = frame[["predicted", "observed", "low", "high"]]
    low, high = float(shown.min().min()), float(shown.max().max())
    edge = 0.05 * ((high - low) or 1.0)
    return low - edge, high + edge


@of_model
def decision(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the decision curve: net benefit over the threshold.

    The data: :meth:`Evaluation.decision_frame` of ``Model.evaluation``.
    """
    ax = find_axes(ax)
    if model.evaluation is None:
        return say(ax, model.unjudged)
    frame = model.evaluation.decision_frame()
    if not model.study.family.judge.decision_columns:
        return say(ax, f"A {model.study.family.words.prediction} has no decision curve")
    if frame.empty:
        return say(ax, "Too few patients were held out for a decision curve")
    # Between the edges of bins nothing is known: dots.
    for column, colour, label in (
        ("net_benefit", RAISES, "model"),
        ("treat_all", NEUTRAL, "treat all"),
    ):
        ax.plot(frame["threshold"], frame[column], "o-", color=colour, markersize=3, label=label)
    ax.axhline(0, color=OUTSIDE, linestyle="--", label="treat nobody")
    top = max(float(frame["net_benefit"].max()), float(frame["treat_all"].max()), 1e-3)
    ax.set_ylim(-0.25 * top, 1.1 * top)
    ax.set_xlim(0, 1)
    ax.set_xlabel(f"Threshold of the {model.study.family.words.level}")
    ax.set_ylabel("Net benefit")
    ax.set_title("Decision curve")
    ax.legend(frameon=False)
    return ax


@of_model
def hospitals(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the main measure of each site that was left out, the mean, and a further hospital.

    The data: :meth:`SiteValidation.metrics_frame` and :meth:`SiteValidation.summary_frame` of
    ``Model.validation``. Bars are 95 % intervals; the last is the prediction interval.
    """
    ax = find_axes(ax)
    if model.validation is None:
        return say(ax, "No site was left out")
    if not model.validation.sites:
        return say(ax, "Too few patients at every site to tell")
    summary = model.validation.summary()[0]
    name, across = summary.name, summary.across
    frame = model.validation.metrics_frame().dropna(subset=[f"{name}_low"])
    place = np.arange(len(frame))[::-1] + 2
    ax.hlines(place, frame[f"{name}_low"], frame[f"{name}_high"], color=OUTSIDE)
    ax.plot(frame[name], place, "o", color=NEUTRAL)
    labels = [shorten(site) for site in frame["site"]]
    if not np.isnan(across.mean):
        ax.hlines(1, across.low, across.high, color=INSIDE, linewidth=2)
        ax.plot([across.mean], [1], "D", color=INSIDE)
        ax.hlines(0, across.new_low, across.new_high, color=INSIDE, linewidth=2, linestyle="--")
        place, labels = np.append(place, [1, 0]), [*labels, "mean over hospitals"]
        labels.append("a further hospital")
    ax.set_yticks(place, labels)
    ax.set_xlabel(f"{summary.heading}, 95 % intervals")
    ax.set_title("Sites left out")
    return ax
