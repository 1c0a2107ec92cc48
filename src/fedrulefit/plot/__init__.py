"""Figures of a model (matplotlib). Each takes an ``ax`` and returns it.

Each shows data that can also be had as a frame or array from the model, named
in its docstring. In place of a :class:`Model` each takes a fitted estimator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrulefit.model import Model
from fedrulefit.plot.dependence import partial_dependence
from fedrulefit.plot.drawing import of_model, shorten
from fedrulefit.plot.fit import coefficients, history, path
from fedrulefit.plot.levels import subgroups
from fedrulefit.plot.performance import calibration, decision, hospitals
from fedrulefit.plot.subgroup_curves import subgroup_curves
from fedrulefit.plot.survival import incidence, survival
from fedrulefit.plot.terms import importance, rules

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "calibration",
    "coefficients",
    "decision",
    "history",
    "hospitals",
    "importance",
    "incidence",
    "overview",
    "partial_dependence",
    "path",
    "rules",
    "subgroup_curves",
    "subgroups",
    "survival",
]


@of_model
def overview(model: Model) -> Figure:
    """Draw all of them on one page."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8.5), layout="constrained")
    axes = figure.subplots(2, 2, width_ratios=[1.25, 1])
    rules(model, axes[0, 0])
    importance(model, axes[0, 1])
    subgroups(model, axes[1, 0])
    (path if model.provenance.path else history)(model, axes[1, 1])
    kind = " (synthetic data)" if model.study.synthetic else ""
    origin = model.provenance
    figure.suptitle(
        f"{shorten(model.study.name)}{kind}: {len(origin.sites)} sites, "
        f"{origin.patients:,.0f} patients"
    )
    return figure
