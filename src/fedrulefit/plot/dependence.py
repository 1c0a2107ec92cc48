"""Figures of how a model depends on one covariate, or on two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.model import Model
from fedrulefit.plot.drawing import (
    INSIDE,
    NEUTRAL,
    OUTSIDE,
    find_axes,
    of_model,
    say,
    shorten,
    title_axis,
)
from fedrulefit.study import Number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@of_model
def partial_dependence(
    model: Model, feature: str | tuple[str, str], ax: Axes | None = None
) -> Axes:
    """Draw how the linear predictor depends on a covariate (:meth:`Model.partial_dependence`).

    The line, or the dots of a category, is the average over patients (``Model.shares``);
    the band is where the rules that
    name other covariates, too, can take it, whatever these are.
    Two covariates give a heat map; a number's missing values are not in it.
    """
    ax = find_axes(ax)
    if model.study.family.own_terms:
        return _dependence_of_levels(model, feature, ax)
    if isinstance(feature, str):
        return _dependence_on_one(model, feature, ax)
    return _dependence_on_two(model, feature, ax)


def _read(model: Model, names: str | tuple[str, str]) -> tuple[pd.DataFrame, str]:
    """Return the frame and the title of its axis; what adds to a prediction in its unit."""
    frame, family = model.partial_dependence(names), model.study.family
    words = family.words
    if not family.additive:
        return frame, words.predictor.capitalize()
    for column in {words.predictor_column, "alone", "lowest", "highest"} & {*frame.columns}:
        frame[column] = frame[column].map(family.effect)
    unit = f" ({words.unit})" if words.unit else ""
    return frame, f"Adds to the {words.effect_of}{unit}"


def _dependence_on_one(model: Model, name: str, ax: Axes) -> Axes:
    frame, label = _read(model, name)
    covariate, words = model.study.covariates[name], model.study.family.words
    average = "on average" if model.distribution else "on average, values equally frequent"
    ax.axhline(0, color=OUTSIDE, linewidth=0.8, zorder=0)
    if isinstance(covariate, Number):
        known, missing = frame[frame["value"].notna()], frame[frame["value"].isna()]
        ax.fill_between(
            known["value"], known["lowest"], known["highest"], color=OUTSIDE, alpha=0.5,
            linewidth=0, label="whatever the others are",
        )  # fmt: skip
        ax.plot(known["value"], known[words.predictor_column], color=NEUTRAL, label=average)
        for y in missing[words.predictor_column]:
            ax.axhline(y, color=INSIDE, linestyle="--", label="missing")
    else:
        place = np.arange(len(frame))
        ax.vlines(
            place, frame["lowest"], frame["highest"], color=OUTSIDE, linewidth=8,
            label="whatever the others are",
        )  # fmt: skip
        ax.plot(place, frame[words.predictor_column], "o", color=NEUTRAL, label=average)
        ax.set_xticks(place, [shorten(text) for text in frame["label"]])
    ax.set_xlabel(title_axis(model, name))
    ax.set_ylabel(label)
    ax.set_title("Dependence")
    ax.legend(frameon=False)
    return ax


def _dependence_of_levels(model: Model, name: str | tuple[str, str], ax: Axes) -> Axes:
    """Draw a line, or dots, for each level that has terms of its own."""
    if not isinstance(name, str):
        return say(ax, "Each class depends on two covariates in a way of its own: draw one.")
    (frame, label), words = _read(model, name), model.study.family.words
    ax.axhline(0, color=OUTSIDE, linewidth=0.8, zorder=0)
    is_number = isinstance(model.study.covariates[name], Number)
    for level, own in frame.groupby("level", sort=False):
        height = own[words.predictor_column].to_numpy()
        if not is_number:
            ax.plot(np.arange(len(own)), height, "o", label=level)
            ax.set_xticks(np.arange(len(own)), [shorten(text) for text in own["label"]])
            continue
        known = own["value"].notna().to_numpy()
        (line,) = ax.plot(own["value"][known], height[known], label=level)
        for y in height[~known]:
            ax.axhline(y, color=line.get_color(), linestyle="--", label=f"{level}, missing")
    ax.set_xlabel(title_axis(model, name))
    ax.set_ylabel(label)
    ax.set_title("Dependence")
    ax.legend(frameon=False)
    return ax


def _dependence_on_two(model: Model, names: tuple[str, str], ax: Axes) -> Axes:
    """Between corners the colour is linear, as F is."""
    (frame, label), words = _read(model, names), model.study.family.words
    for k, name in enumerate(names, start=1):
        if isinstance(model.study.covariates[name], Number):
            frame = frame[frame[f"value_{k}"].notna()]
    n_second = int((frame["value_1"].iloc[0] == frame["value_1"]).sum())
    height = frame[words.predictor_column].to_numpy().reshape(-1, n_second)
    corners = []
    for k, part, axis in (
        (1, frame.iloc[::n_second], ax.xaxis),
        (2, frame.iloc[:n_second], ax.yaxis),
    ):
        if isinstance(model.study.covariates[names[k - 1]], Number):
            corners.append(part[f"value_{k}"].to_numpy())
            continue
        # A level is as wide as the step to the next: its colour stands at both edges.
        place = np.arange(len(part))
        corners.append(np.ravel([place - 0.5, place + 0.5], order="F"))
        height = height.repeat(2, axis=k - 1)
        axis.set_ticks(place, labels=[shorten(text) for text in part[f"label_{k}"]])
    most = float(np.abs(height).max(initial=0.0)) or 1.0
    mesh = ax.pcolormesh(
        *corners, height.T, shading="gouraud", cmap="RdBu_r", vmin=-most, vmax=most,
        rasterized=True,
    )  # fmt: skip
    ax.set_xlabel(title_axis(model, names[0]))
    ax.set_ylabel(title_axis(model, names[1]))
    ax.set_title("Dependence")
    ax.figure.colorbar(mesh, ax=ax, label=label)
    return ax
