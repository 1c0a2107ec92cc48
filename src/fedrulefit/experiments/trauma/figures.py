"""Figures 3 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedrulefit import plot
from fedrulefit.experiments import boxes
from fedrulefit.experiments.methods import METHODS
from fedrulefit.experiments.trauma.repetitions import COMPARED, COVARIATES
from fedrulefit.experiments.trauma.separation import MIN_SUPPORT, TOP
from fedrulefit.model import Model

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def draw_splits(rows: pd.DataFrame) -> Figure:
    """Draw figure 4: AUC over the splits, and the importance of the covariates."""
    long = rows.melt(["method"], list(COVARIATES), var_name="setting", value_name="importance")
    panels = [
        boxes.Panel("AUC of test patients", rows.assign(setting="splits"), "auc", ["splits"]),
        boxes.Panel("Importance (largest of a split = 100)", long, "importance", COVARIATES),
    ]
    styles = {name: METHODS[name] for name in COMPARED}
    return boxes.draw(panels, "Trauma", styles, columns=len(panels))


def draw_subgroups(model: Model) -> Figure:
    """Draw figure 3: mortality inside and outside each rule, of the patients who chose it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained", dpi=100)
    axes = figure.subplots()
    plot.subgroups(model, axes, top=TOP, min_support=MIN_SUPPORT)
    axes.set_title("Training patients")
    return figure
