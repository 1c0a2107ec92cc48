"""Box plots over repetitions, grouped by setting and coloured by method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Style(Protocol):
    """How a method is drawn."""

    @property
    def label(self) -> str:
        """Its name in the legend."""
        ...

    @property
    def colour(self) -> str:
        """Of its boxes."""
        ...


@dataclass(frozen=True, eq=False)
class Panel:
    """One set of axes.

    Parameters
    ----------
    title : str
    rows : DataFrame
        With the columns ``setting``, ``method`` and `column`. Rows of the
        setting ``all`` come first, in a group of their own.
    column : str
        What is drawn.
    settings : sequence of str
        Groups from left to right.
    """

    title: str
    rows: pd.DataFrame
    column: str
    settings: Sequence[str]


def draw(
    panels: Sequence[Panel],
    title: str,
    styles: Mapping[str, Style],
    *,
    columns: int,
    zero: bool = False,
) -> Figure:
    """Draw panels row by row.

    Parameters
    ----------
    panels : sequence of Panel
    title : str
    styles : mapping of str to Style
        Methods in their order.
    columns : int
        Panels in a row.
    zero : bool
        Whether a dashed line marks zero.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    n_rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.8 * columns, 3.2 * n_rows + 1), layout="constrained", dpi=100)
    axes = figure.subplots(n_rows, columns, squeeze=False).ravel()
    for ax, panel in zip(axes, panels, strict=True):
        if zero:
            ax.axhline(0, color="black", linestyle="--", linewidth=0.8, zorder=1)
        _draw_panel(ax, panel, styles)
    handles = [Patch(color=style.colour, label=style.label) for style in styles.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title)
    return figure


def _draw_panel(ax: Axes, panel: Panel, styles: Mapping[str, Style]) -> None:
    groups = [g for g in ("all", *panel.settings) if (panel.rows["setting"] == g).any()]
    for place, group in enumerate(groups):
        rows = panel.rows[panel.rows["setting"] == group]
        methods = [name for name in styles if (rows["method"] == name).any()]
        offsets = 0.8 * ((np.arange(len(methods)) + 0.5) / len(methods) - 0.5)
        for offset, name in zip(offsets, methods, strict=True):
            ax.boxplot(
                rows.loc[rows["method"] == name, panel.column],
                positions=[place + offset],
                widths=0.7 / len(methods),
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": styles[name].colour, "linewidth": 0.5},
                medianprops={"color": "black"},
                whiskerprops={"linewidth": 0.7},
                flierprops={"markersize": 2, "marker": "."},
            )
    ax.set_xticks(range(len(groups)), groups)
    ax.set_title(panel.title, fontsize="medium")
