"""Figures of survival and of risks over time as a model of times predicts them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.model import Model
from fedrulefit.model.over_time import find_timeline
from fedrulefit.plot.drawing import OUTSIDE, find_axes, of_model, say, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fedrulefit.table.sources import Source

MOST_LINES: Final = 8
"""Up to so many patients get a line each."""

RISK_GROUPS: Final = 3
"""More are put into so many groups by their risk."""

POINTS: Final = 200
"""Of a line, beside the ends of intervals, where it bends."""

Groups = int | Sequence[Any] | np.ndarray[Any, Any] | None


@of_model
def survival(
    model: Model, source: Source | Floats, ax: Axes | None = None, *, groups: Groups = None
) -> Axes:
    """Draw the chance of no event over time that a model predicts (:meth:`Model.predict_survival`).

    Patients without a prediction are left out. Dashed upright lines are the study's horizons.

    Parameters
    ----------
    model : Model
        Of a time to an event.
    source : table, or (n_rows, n_features) array
        Patients: a model holds none.
    ax : matplotlib.axes.Axes, optional
    groups : int or (n_rows,) of labels, optional
        How many groups of the predicted risk, equally large; or whose each patient is. A line is
        the mean over a group's patients. By default each of up to eight patients has a line of
        its own, and more are three groups.
    """
    ax, timeline = find_axes(ax), find_timeline(model)
    last = float(timeline.ends[-1])
    times = np.union1d(timeline.ends, np.linspace(0.0, last, POINTS))
    curves = model.predict_survival(source, times)
    known = ~np.isnan(curves[:, -1])
    if not known.any():
        return say(ax, "No patient has a prediction")
    for label, members in _list_groups(curves, known, groups):
        ax.plot(times, 100 * curves[members].mean(axis=0), label=label)
    for horizon in timeline.horizons[:-1]:
        ax.axvline(horizon.time, color=OUTSIDE, linestyle="--", linewidth=0.8, zorder=0)
    ax.set_xlim(0, last)
    ax.set_ylim(top=100)
    ax.set_xlabel(f"Time ({timeline.unit})" if timeline.unit else "Time")
    outcome = model.study.outcome
    ax.set_ylabel(f"without the event: {shorten(outcome.label or outcome.column)} (%)")
    ax.set_title("Predicted survival")
    ax.legend(frameon=False)
    return ax


@of_model
def incidence(
    model: Model,
    source: Source | Floats,
    ax: Axes | None = None,
    *,
    groups: Groups = None,
    cause: str | None = None,
) -> Axes:
    """Draw the predicted risk of an event over time (:meth:`Model.predict_cumulative_incidence`).

    Where events compete, it is the cumulative incidence of one of them: by default of that of
    interest. Patients without a prediction are left out. Dashed upright lines are the study's
    horizons.

    Parameters
    ----------
    model : Model
        Of a time to an event.
    source, ax, groups
        As of :func:`survival`.
    cause : str, optional
        Which event, where several compete.
    """
    ax, curves = find_axes(ax), model.incidence or find_timeline(model)
    if model.incidence is None and cause is not None:
        raise ValueError("'cause' is for models of events that compete")
    place = 0 if model.incidence is None else model.incidence.find_cause(cause)
    times = np.union1d(curves.ends, np.linspace(0.0, float(curves.ends[-1]), POINTS))
    risks = model.predict_cumulative_incidence(source, times)[:, place]
    known = ~np.isnan(risks[:, -1])
    if not known.any():
        return say(ax, "No patient has a prediction")
    for label, members in _list_groups(1 - risks, known, groups):
        ax.plot(times, 100 * risks[members].mean(axis=0), label=label)
    horizons = getattr(model.study.family, "horizons", ())
    for horizon in horizons[:-1]:
        ax.axvline(horizon, color=OUTSIDE, linestyle="--", linewidth=0.8, zorder=0)
    ax.set_xlim(0, float(curves.ends[-1]))
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"Time ({curves.unit})" if curves.unit else "Time")
    title = model.study.outcome.title if place == 0 else str(cause)
    ax.set_ylabel(f"predicted risk: {shorten(title)} (%)")
    ax.set_title("Predicted risk over time" + (", others competing" * bool(model.incidence)))
    ax.legend(frameon=False)
    return ax


def _list_groups(
    curves: Floats, known: np.ndarray[Any, Any], groups: Groups
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return each group's label and its rows; of risks the lowest first, as the lines stand."""
    rows = np.flatnonzero(known)
    if groups is None and len(curves) <= MOST_LINES:
        return [(f"patient {row + 1}", rows[rows == row]) for row in rows.tolist()]
    if groups is None or isinstance(groups, int):
        return _by_risk(curves, rows, RISK_GROUPS if groups is None else groups)
    labels = np.asarray(groups)
    if labels.shape != (len(curves),):
        raise ValueError(f"'groups' wants a label for each of {len(curves)} patients, or a number")
    named = [(label, rows[labels[rows] == label]) for label in dict.fromkeys(labels[rows].tolist())]
    return [(f"{shorten(str(label))} (n = {len(members)})", members) for label, members in named]


def _by_risk(
    curves: Floats, rows: np.ndarray[Any, Any], n_groups: int
) -> list[tuple[str, np.ndarray[Any, Any]]]:
    """Return groups of equally many patients by their risk at the end, the lowest first."""
    if n_groups < 1:
        raise ValueError("'groups' must be at least 1")
    risks = 1 - curves[:, -1]
    parts = np.array_split(rows[np.argsort(risks[rows], kind="stable")], n_groups)
    return [
        (
            f"risk {100 * risks[part[0]]:.0f} to {100 * risks[part[-1]]:.0f} % (n = {len(part)})",
            part,
        )
        for part in parts
        if len(part)
    ]
