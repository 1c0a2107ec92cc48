"""The figure of appendix 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.experiments.cutoffs.repetitions import BINS, NONE, OWN, QUANTILES, SHOWN
from fedrulefit.experiments.scenarios import MODELS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def draw_summary(summary: pd.DataFrame) -> Figure:
    """Draw each number over Q, a line per B; dashed: no histogram."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 12), layout="constrained", dpi=100)
    axes = figure.subplots(2 * len(MODELS), len(SHOWN) // 2).reshape(len(MODELS), len(SHOWN))
    for row, model in zip(axes, MODELS, strict=True):
        here = summary[summary["model"] == model]
        for ax, (name, label) in zip(row, SHOWN.items(), strict=True):
            for bins in BINS:
                line = here[here["bins"] == bins]
                ax.errorbar(
                    np.arange(len(line)), line[f"{name}_mean"], line[f"{name}_sem"],
                    marker="o", markersize=3, linewidth=1, label=f"{bins} bins",
                )  # fmt: skip
            for (bins, _), style, label_ in (
                (NONE, "--", "no histogram"),
                (OWN, ":", "no histogram, own values (candidates only)"),
            ):
                mean = here[here["bins"] == bins][f"{name}_mean"].iloc[0]
                ax.axhline(mean, color="black", linestyle=style, label=label_)
            ax.set_xticks(range(len(QUANTILES)), [str(q) for q in QUANTILES])
            ax.set_xlabel("quantiles")
            ax.set_title(f"Model {model}: {label}", fontsize="medium")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure
