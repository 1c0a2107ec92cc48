"""Figures of the fit: rounds, path, and coefficients along it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrulefit.model import Model
from fedrulefit.model.display import is_pruned
from fedrulefit.plot.drawing import (
    NEUTRAL,
    OUTSIDE,
    RAISES,
    find_axes,
    of_model,
    say,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_model
def history(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the objective over the rounds (:meth:`Model.history_frame`)."""
    ax = find_axes(ax)
    frame = model.history_frame()
    if frame.empty:
        return say(ax, "A rounded model does not tell its losses round by round")
    ax.plot(frame["round"], frame["objective"], color=NEUTRAL)
    ax.set_xlabel("Round")
    ax.set_ylabel("Penalised mean loss")
    ax.set_title("Fit")
    return ax


@of_model
def path(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the cross-validation: deviance over λ (:meth:`Model.path_frame`).

    The upper axis counts the terms that each λ keeps.
    """
    ax = find_axes(ax)
    frame = model.path_frame()
    if frame.empty:
        return say(ax, "λ was given: there is no path")
    ax.errorbar(
        frame["penalty"], frame["deviance"], frame["error"], fmt="o-", color=NEUTRAL,
        ecolor=OUTSIDE, markersize=3, linewidth=1,
    )  # fmt: skip
    label = "λ of the few terms" if is_pruned(model) else "chosen λ"
    ax.axvline(model.provenance.penalty, color=RAISES, linestyle="--", label=label)
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("λ (weaker penalty to the right)")
    ax.set_ylabel("Cross-validated deviance")
    ax.set_title("Choice of λ")
    ax.legend(frameon=False)
    top = ax.secondary_xaxis("top")
    ticks = frame.iloc[:: max(1, len(frame) // 6)]
    top.set_xticks(ticks["penalty"], [f"{n}" for n in ticks["terms"]], minor=False)
    top.set_xticks([], minor=True)
    top.set_xlabel("Terms")
    return ax


@of_model
def coefficients(model: Model, ax: Axes | None = None, *, top: int = 8) -> Axes:
    """Draw how the coefficients grow along the path (:meth:`Model.coefficients_frame`).

    All terms of the model are drawn; the `top` most important are named.
    """
    ax = find_axes(ax)
    frame = model.coefficients_frame()
    if frame.empty or not model.terms:
        return say(ax, "There is no path: λ was given, no term stayed, or the model is rounded")
    for k, term in enumerate(frame.columns[1:]):
        named = k < top
        ax.plot(
            frame["penalty"],
            frame[term],
            color=f"C{k}" if named else OUTSIDE,
            linewidth=1.5 if named else 0.7,
            zorder=2 if named else 1,
            label=shorten(term) if named else None,
        )
    ax.axvline(model.provenance.penalty, color=NEUTRAL, linestyle="--")
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("λ (weaker penalty to the right)")
    ax.set_ylabel("Coefficient")
    ax.set_title("Coefficients along the path")
    ax.legend(fontsize="small", frameon=False, loc="upper left")
    return ax
