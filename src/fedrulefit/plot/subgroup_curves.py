"""A figure of observed risks over time inside and outside a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.model import Model
from fedrulefit.plot.drawing import INSIDE, NEUTRAL, find_axes, of_model, say, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@of_model
def subgroup_curves(model: Model, ax: Axes | None = None, *, rule: int = 0) -> Axes:
    """Draw the observed risk over time inside and outside a rule.

    Of held-out patients, with 95 % intervals (:meth:`Model.subgroup_curves_frame`): Kaplan and
    Meier's curves on the study's intervals, or where events compete cumulative incidences. It is
    told at few times, and lines between them tell nothing.

    Parameters
    ----------
    model : Model
        Of a time to an event.
    ax : matplotlib.axes.Axes, optional
    rule : int
        Which of the rules that have curves; 0 is the most important.
    """
    ax, frame = find_axes(ax), model.subgroup_curves_frame()
    names = list(dict.fromkeys(frame["rule"]))
    if not names:
        return say(ax, "Of no rule is the risk over time told")
    if not 0 <= rule < len(names):
        raise ValueError(f"'rule' must be 0 to {len(names) - 1}: so many rules have curves")
    shown = frame[frame["rule"] == names[rule]]
    for name, colour in (("inside", INSIDE), ("outside", NEUTRAL)):
        own = shown[shown["side"] == name]
        times, risks, low, high = (
            np.append(0.0, 100 * own[column] if column != "time" else own[column])
            for column in ("time", "risk", "low", "high")
        )
        ax.plot(times, risks, "o-", color=colour, label=f"{name} the rule")
        ax.fill_between(times, low, high, color=colour, alpha=0.15, linewidth=0)
    family = model.study.family
    unit = getattr(family, "time_unit", "")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"Time ({unit})" if unit else "Time")
    ax.set_ylabel(f"{family.words.observed}: {shorten(model.study.outcome.title)} (%)")
    ax.set_title(f"{shorten(names[rule])}\nheld-out patients")
    ax.legend(frameon=False)
    return ax
