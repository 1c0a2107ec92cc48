"""Figures of the terms: rules and linear terms, and covariates by importance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.model import Model
from fedrulefit.plot.drawing import (
    LOWERS,
    NEUTRAL,
    RAISES,
    draw_patch,
    draw_stripes,
    find_axes,
    list_stripes,
    of_model,
    say,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_model
def rules(model: Model, ax: Axes | None = None, *, top: int = 10, min_support: float = 0.0) -> Axes:
    """Draw the most important terms (:meth:`Model.rules_frame`).

    Importance is scaled so that the largest is 100; colour tells whether a
    term raises or lowers the prediction, stripes that it stands for the hospital.
    """
    ax, family, words = find_axes(ax), model.study.family, model.study.family.words
    frame = model.rules_frame(top=top, min_support=min_support)
    if frame.empty:
        return say(ax, "The model has no terms")
    scaled = 100 * frame["importance"] / max(frame["importance"].max(), 1e-300)
    colours = np.where(frame["coefficient"] > 0, RAISES, LOWERS)
    place = np.arange(len(frame))[::-1]
    draw_stripes(ax.barh(place, scaled, color=colours), frame)
    ax.set_yticks(place, [shorten(text) for text in frame["rule"]])
    for y, x, effect in zip(place, scaled, frame[words.effect_column], strict=True):
        label = f"{words.effect_short} {family.tell_effect(effect)}".strip()
        ax.annotate(label, (x, y), (3, 0), textcoords="offset points", va="center")
    ax.set_xlim(0, 130 if family.additive else 122)  # units need more room
    ax.set_xlabel("Importance (largest = 100)")
    ax.set_title("Rules and linear terms")
    ax.legend(
        handles=[
            draw_patch(RAISES, f"raises the predicted {words.level}"),
            draw_patch(LOWERS, f"lowers the predicted {words.level}"),
            *list_stripes(frame),
        ],
        loc="lower right",
        frameon=False,
    )
    return ax


@of_model
def importance(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the importance of the covariates (:meth:`Model.importance_frame`).

    Stripes tell that one stands for the hospital.
    """
    ax = find_axes(ax)
    frame = model.importance_frame()[:20][::-1]
    place = np.arange(len(frame))
    largest = max(frame["importance"].max(), 1e-300)
    draw_stripes(ax.barh(place, 100 * frame["importance"] / largest, color=NEUTRAL), frame)
    if frame["stands_for_site"].any():
        ax.legend(handles=list_stripes(frame), loc="lower right", frameon=False)
    ax.set_yticks(place, [shorten(name) for name in frame["covariate"]])
    ax.set_xlabel("Importance (largest = 100)")
    ax.set_title("Covariates")
    return ax
