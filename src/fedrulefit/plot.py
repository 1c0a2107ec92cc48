"""Figures of a model (matplotlib). Each takes an ``ax`` and returns it.

Each shows data that can also be had as a frame or array from the model, named
in its docstring. In place of a :class:`Model` each takes a fitted estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np

from fedrulefit.errors import printable
from fedrulefit.model import Model
from fedrulefit.model.subgroups import Among, choose_patients
from fedrulefit.model.wording import STANDS_FOR_SITE
from fedrulefit.numerals import format_effect
from fedrulefit.study import Number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

RAISES = "#b2182b"
LOWERS = "#2166ac"
NEUTRAL = "#4d4d4d"
INSIDE = "#762a83"
OUTSIDE = "#bdbdbd"
SUBGROUP_TITLES: dict[Among, str] = {
    "held-out": "held-out patients",
    "training": "training patients\n(differences look larger than they are)",
}
_WIDEST = 48


class Fitted(Protocol):
    """A fitted estimator: it has a model."""

    model_: Model


class Figured(Protocol[P, R_co]):
    """A figure of a model, or of a fitted estimator's."""

    def __call__(self, model: Model | Fitted, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Draw."""


def of_model(draw: Callable[Concatenate[Model, P], R_co]) -> Figured[P, R_co]:
    """Let a figure take a fitted estimator for its model."""

    @wraps(draw)
    def drawn(model: Model | Fitted, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return draw(_find_model(model, draw.__name__), *args, **kwargs)

    return drawn


def _find_model(of: Any, name: str) -> Model:
    """Return the model of an estimator, or refuse what has none."""
    found = getattr(of, "model_", of)
    if isinstance(found, Model):
        return found
    given = of.__name__ if isinstance(of, type) else type(of).__name__
    raise TypeError(
        f"plot.{name} takes a Model or a fitted estimator, not {given}: "
        + (
            "call its 'fit' first; of a Pipeline give the step"
            if hasattr(of, "fit")
            else "give 'estimator.model_'"
        )
    )


@of_model
def rules(model: Model, ax: Axes | None = None, *, top: int = 10, min_support: float = 0.0) -> Axes:
    """Draw the most important terms (:meth:`Model.rules_frame`).

    Importance is scaled so that the largest is 100; colour tells whether a
    term raises or lowers the prediction, stripes that it stands for the hospital.
    """
    ax, words = _axes(ax), model.study.family.words
    frame = model.rules_frame(top=top, min_support=min_support)
    if frame.empty:
        return _say(ax, "The model has no terms")
    scaled = 100 * frame["importance"] / max(frame["importance"].max(), 1e-300)
    colours = np.where(frame["coefficient"] > 0, RAISES, LOWERS)
    place = np.arange(len(frame))[::-1]
    _stripe(ax.barh(place, scaled, color=colours), frame)
    ax.set_yticks(place, [_shorten(text) for text in frame["rule"]])
    for y, x, effect in zip(place, scaled, frame[words.effect_column], strict=True):
        label = f"{words.effect_short} {format_effect(effect)}"
        ax.annotate(label, (x, y), (3, 0), textcoords="offset points", va="center")
    ax.set_xlim(0, 118)
    ax.set_xlabel("Importance (largest = 100)")
    ax.set_title("Rules and linear terms")
    ax.legend(
        handles=[
            _patch(RAISES, f"raises the predicted {words.level}"),
            _patch(LOWERS, f"lowers the predicted {words.level}"),
            *_stripes(frame),
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
    ax = _axes(ax)
    frame = model.importance_frame()[:20][::-1]
    place = np.arange(len(frame))
    largest = max(frame["importance"].max(), 1e-300)
    _stripe(ax.barh(place, 100 * frame["importance"] / largest, color=NEUTRAL), frame)
    if frame["stands_for_site"].any():
        ax.legend(handles=_stripes(frame), loc="lower right", frameon=False)
    ax.set_yticks(place, [_shorten(name) for name in frame["covariate"]])
    ax.set_xlabel("Importance (largest = 100)")
    ax.set_title("Covariates")
    return ax


@of_model
def subgroups(
    model: Model,
    ax: Axes | None = None,
    *,
    top: int = 5,
    min_support: float = 0.1,
    patients: Among | None = None,
) -> Axes:
    """Draw outcome rates inside and outside rules (:meth:`Model.subgroups_frame`).

    Of held-out patients, where the model tells of them, with 95 % intervals; else of those that
    the rules were learnt from, and the title says so. Dots are the sites' own rates of the same
    patients, where the model tells them.
    """
    ax = _axes(ax)
    among = choose_patients(model, patients)
    frame = model.subgroups_frame(top=top, min_support=min_support, patients=among)
    if frame.empty:
        return _say(ax, f"No rule with support above {min_support:g}")
    of_sites = _site_rates(model, top, min_support, among)
    place = np.arange(len(frame))[::-1]
    for shift, column, colour, label in (
        (0.2, "inside", INSIDE, "patients inside the rule"),
        (-0.2, "outside", OUTSIDE, "patients outside"),
    ):
        ax.barh(place + shift, 100 * frame[f"rate_{column}"], 0.38, color=colour, label=label)
        for y, row in zip(place + shift, frame.to_dict("records"), strict=True):
            rate, low, high = (row[f"{end}_{column}"] for end in ("rate", "low", "high"))
            own = of_sites.loc[of_sites["rule"] == row["rule"], f"rate_{column}"]
            ax.plot([100 * low, 100 * high], [y, y], color=NEUTRAL, linewidth=1)
            ax.plot(100 * own, np.full(len(own), y), "o", color=NEUTRAL, markersize=4)
            words, spot = f"{100 * rate:.0f} %", (100 * np.nanmax([rate, high, *own, 0.0]), y)
            if np.isnan(rate):
                words, spot = "too few to tell", (0.0, y)
            ax.annotate(words, spot, (4, 0), textcoords="offset points", va="center")
    if among == "held-out":
        ax.plot([], [], color=NEUTRAL, linewidth=1, label="95 % interval")
    if not of_sites.empty:
        ax.plot([], [], "o", color=NEUTRAL, markersize=4, label="each site")
    ax.set_yticks(place, [_shorten(text) for text in frame["rule"]])
    ax.set_xlim(0, 110)
    ax.set_ylim(-0.6, len(frame) - 0.4)
    ax.set_xlabel(f"{_shorten(model.study.outcome.label or model.study.outcome.column)} (%)")
    ax.set_title(f"Subgroups: {SUBGROUP_TITLES[among]}")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4, frameon=False)
    return ax


def _site_rates(model: Model, top: int, min_support: float, among: Among) -> pd.DataFrame:
    """Return the sites' own rates of the same patients; none where they are not told."""
    known = choose_patients(model, None, by_site=True)
    asked = among if among == "training" else known
    frame = model.subgroups_frame(top=top, min_support=min_support, by_site=True, patients=asked)
    return frame if asked == among else frame[:0]


@of_model
def history(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the objective over the rounds (:meth:`Model.history_frame`)."""
    ax = _axes(ax)
    frame = model.history_frame()
    if frame.empty:
        return _say(ax, "A rounded model does not tell its losses round by round")
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
    ax = _axes(ax)
    frame = model.path_frame()
    if frame.empty:
        return _say(ax, "λ was given: there is no path")
    ax.errorbar(
        frame["penalty"], frame["deviance"], frame["error"], fmt="o-", color=NEUTRAL,
        ecolor=OUTSIDE, markersize=3, linewidth=1,
    )  # fmt: skip
    ax.axvline(model.provenance.penalty, color=RAISES, linestyle="--", label="chosen λ")
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
    ax = _axes(ax)
    frame = model.coefficients_frame()
    if frame.empty or not model.terms:
        return _say(ax, "There is no path: λ was given, no term stayed, or the model is rounded")
    for k, term in enumerate(frame.columns[1:]):
        named = k < top
        ax.plot(
            frame["penalty"],
            frame[term],
            color=f"C{k}" if named else OUTSIDE,
            linewidth=1.5 if named else 0.7,
            zorder=2 if named else 1,
            label=_shorten(term) if named else None,
        )
    ax.axvline(model.provenance.penalty, color=NEUTRAL, linestyle="--")
    ax.set_xscale("log")
    ax.invert_xaxis()
    ax.set_xlabel("λ (weaker penalty to the right)")
    ax.set_ylabel("Coefficient")
    ax.set_title("Coefficients along the path")
    ax.legend(fontsize="small", frameon=False, loc="upper left")
    return ax


@of_model
def calibration(model: Model, ax: Axes | None = None, *, n_groups: int = 10) -> Axes:
    """Draw what was predicted for held-out patients against what was observed.

    The data: :meth:`Evaluation.calibration_frame` of ``Model.evaluation``. Upright bars are
    95 % (Wilson) intervals, level ones the groups' range of predictions.
    """
    ax = _axes(ax)
    if model.evaluation is None:
        return _say(ax, model.unjudged)
    frame = model.evaluation.calibration_frame(n_groups)
    errors = [frame["observed"] - frame["low"], frame["high"] - frame["observed"]]
    ranges = [frame["predicted"] - frame["above"], frame["below"] - frame["predicted"]]
    ax.plot([0, 1], [0, 1], color=OUTSIDE, linestyle="--", label="perfect")
    ax.errorbar(
        frame["predicted"], frame["observed"], errors, ranges, fmt="o-", color=NEUTRAL,
        ecolor=OUTSIDE, markersize=4, linewidth=1, label="model",
    )  # fmt: skip
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    words = model.study.family.words
    ax.set_xlabel(f"Predicted {words.level}")
    ax.set_ylabel(words.observed.capitalize())
    ax.set_title("Calibration")
    ax.legend(frameon=False, loc="upper left")
    return ax


@of_model
def decision(model: Model, ax: Axes | None = None) -> Axes:
    """Draw the decision curve: net benefit over the threshold.

    The data: :meth:`Evaluation.decision_frame` of ``Model.evaluation``.
    """
    ax = _axes(ax)
    if model.evaluation is None:
        return _say(ax, model.unjudged)
    frame = model.evaluation.decision_frame()
    if frame.empty:
        return _say(ax, "Too few patients were held out for a decision curve")
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
    ax = _axes(ax)
    if model.validation is None:
        return _say(ax, "No site was left out")
    if not model.validation.sites:
        return _say(ax, "Too few patients at every site to tell")
    summary = model.validation.summary()[0]
    name, across = summary.name, summary.across
    frame = model.validation.metrics_frame().dropna(subset=[f"{name}_low"])
    place = np.arange(len(frame))[::-1] + 2
    ax.hlines(place, frame[f"{name}_low"], frame[f"{name}_high"], color=OUTSIDE)
    ax.plot(frame[name], place, "o", color=NEUTRAL)
    labels = [_shorten(site) for site in frame["site"]]
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
    ax = _axes(ax)
    if isinstance(feature, str):
        return _dependence_on_one(model, feature, ax)
    return _dependence_on_two(model, feature, ax)


def _dependence_on_one(model: Model, name: str, ax: Axes) -> Axes:
    frame = model.partial_dependence(name)
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
        ax.set_xticks(place, [_shorten(text) for text in frame["label"]])
    ax.set_xlabel(_axis_title(model, name))
    ax.set_ylabel(words.predictor.capitalize())
    ax.set_title("Dependence")
    ax.legend(frameon=False)
    return ax


def _dependence_on_two(model: Model, names: tuple[str, str], ax: Axes) -> Axes:
    """Between corners the colour is linear, as F is."""
    frame, words = model.partial_dependence(names), model.study.family.words
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
        axis.set_ticks(place, labels=[_shorten(text) for text in part[f"label_{k}"]])
    most = float(np.abs(height).max(initial=0.0)) or 1.0
    mesh = ax.pcolormesh(
        *corners, height.T, shading="gouraud", cmap="RdBu_r", vmin=-most, vmax=most,
        rasterized=True,
    )  # fmt: skip
    ax.set_xlabel(_axis_title(model, names[0]))
    ax.set_ylabel(_axis_title(model, names[1]))
    ax.set_title("Dependence")
    ax.figure.colorbar(mesh, ax=ax, label=words.predictor.capitalize())
    return ax


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
        f"{_shorten(model.study.name)}{kind}: {len(origin.sites)} sites, "
        f"{origin.patients:,.0f} patients"
    )
    return figure


def _axis_title(model: Model, name: str) -> str:
    covariate = model.study.covariates[name]
    unit = f" ({covariate.unit})" if isinstance(covariate, Number) and covariate.unit else ""
    return _shorten(name + unit)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def _patch(colour: str, label: str) -> object:
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)


def _stripe(bars: BarContainer, frame: pd.DataFrame) -> None:
    """Draw white stripes over the bars of what stands for the hospital."""
    for bar, stands in zip(bars, frame["stands_for_site"], strict=True):
        if stands:
            bar.set(hatch="//", edgecolor="white")


def _stripes(frame: pd.DataFrame) -> list[object]:
    """Return the legend of the stripes; nothing where there are none."""
    from matplotlib.patches import Patch

    striped = Patch(facecolor=NEUTRAL, hatch="//", edgecolor="white", label=STANDS_FOR_SITE)
    return [striped] if frame["stands_for_site"].any() else []


def _say(ax: Axes, text: str) -> Axes:
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
    ax.set_axis_off()
    return ax


def _shorten(text: str) -> str:
    """Cut long names, and keep matplotlib from reading ``$`` as mathematics."""
    text = printable(text)
    text = text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
    return text.replace("$", r"\$")
