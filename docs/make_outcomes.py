"""Takes runs of the demo into the pages on outcomes: ``python docs/make_outcomes.py FOLDER``.

Kinds of outcome behind the folder take only these.

``fedrulefit demo --outcome KIND -o FOLDER/demo-KIND`` has written its folders, for number,
count, time, ordered and classes. Their models become ``docs/results/demo-KIND.json``, which the
pages' commands read. ``docs/images/outcome-KIND.png`` shows what each predicts for patients of a
fourth hospital, whom no model has seen, beside what happens to them.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.figure import Figure

from fedrulefit import Model, demo

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

ROOT: Final = Path(__file__).resolve().parent.parent
NEUTRAL, INSIDE, OUTSIDE = "#33475b", "#b5442e", "#9aa5b1"
COLOURS: Final = ("#33475b", "#2f7d8c", "#c7882b", "#b5442e")
SCALE: Final = ("#d5dde5", "#8fa3b5", "#54708a", "#1f3347")


def split(model: Model, frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the patients for whom none, one or several of the planted rules hold, with a name.

    Those without a GCS are left out: their outcome follows the one that is not in the table.
    """
    frame = frame[frame["GCS"].notna()]
    planted = demo.OUTCOMES[model.study.outcome.kind].planted
    hold = np.array([own.holds(frame) for own in planted])
    yield "neither" if len(planted) == 2 else "none", frame[~hold.any(axis=0)]
    for own, inside in zip(planted, hold, strict=True):
        yield own.words, frame[inside & (hold.sum(axis=0) == 1)]
    yield "both" if len(planted) == 2 else "several", frame[hold.sum(axis=0) > 1]


def draw_number(model: Model, frame: pd.DataFrame, ax: Axes) -> None:
    """Stays against predicted stays, and the ranges that hold 80 and 95 % of new patients."""
    found = model.evaluation
    if found is None:
        raise SystemExit("the demo holds patients out: take a run of it")
    shown = frame.iloc[:1500]
    predicted = model.predict(shown)
    jitter = np.random.default_rng(0).uniform(-0.3, 0.3, (2, len(shown)))
    ends = np.array([0.0, predicted.max() + 2])
    for level, alpha in ((95, 0.13), (80, 0.2)):
        reach = getattr(found.total, f"reach_{level}")
        ax.fill_between(
            ends, np.maximum(ends - reach, 0), ends + reach, color=INSIDE, alpha=alpha,
            linewidth=0, label=f"{level} % of new patients: within {reach:.1f} days",
        )  # fmt: skip
    ax.plot(ends, ends, color=INSIDE, linewidth=1)
    ax.plot(predicted + jitter[0], shown["stay"] + jitter[1], ".", color=NEUTRAL, markersize=2)
    ax.set_xlim(*ends)
    ax.set_ylim(0, 50)
    ax.set_xlabel("Predicted stay (days)")
    ax.set_ylabel("Stay (days)")
    ax.legend(frameon=False, loc="upper left", fontsize=8)


def draw_count(model: Model, frame: pd.DataFrame, ax: Axes) -> None:
    """Observed, predicted and planted rates of patients inside the planted rules."""
    outcome = demo.OUTCOMES["count"]
    names, rows = [], []
    for name, group in split(model, frame):
        months = group["months"]
        planted = 12 * np.exp(outcome.follow(group))
        names.append(f"{name}\n({len(group):,} patients)")
        rows.append(
            (
                12 * group["readmissions"].sum() / months.sum(),
                np.average(model.predict(group), weights=months),
                np.average(planted, weights=months),
            )
        )
    observed, predicted, planted = np.array(rows).T
    place = np.arange(len(rows))
    ax.bar(place, observed, 0.6, color=OUTSIDE, alpha=0.6, label="observed")
    ax.plot(place, planted, "_", color=NEUTRAL, markersize=40, markeredgewidth=2, label="planted")
    ax.plot(place, predicted, "o", color=INSIDE, label="predicted")
    ax.set_xticks(place, names, fontsize=8)
    ax.set_ylabel("Readmissions per 12 months")
    ax.legend(frameon=False, markerscale=0.6)


def draw_time(model: Model, frame: pd.DataFrame, ax: Axes) -> None:
    """Predicted risks over time, and Kaplan and Meier's of the same patients."""
    last = model.study.outcome.horizons[-1]
    times = np.linspace(0, last, 200)
    for (name, group), colour in zip(split(model, frame), COLOURS, strict=True):
        curve = 100 * (1 - model.predict_survival(group, times).mean(axis=0))
        ax.plot(times, curve, color=colour, label=f"{name} ({len(group):,} patients)")
        ax.step(*count_deaths(group), where="post", color=colour, linewidth=0.8, linestyle=":")
    ax.plot([], [], color=NEUTRAL, linewidth=0.8, linestyle=":", label="observed")
    ax.set_xlim(0, last)
    ax.set_ylim(0, 100)
    ax.set_xlabel("Days since admission")
    ax.set_ylabel("Dead (%)")
    ax.legend(frameon=False, fontsize=8)


def draw_levels(model: Model, frame: pd.DataFrame, ax: Axes) -> None:
    """Observed and predicted shares of all levels, of patients inside the planted rules."""
    names, levels = [], model.study.family.names
    column, ordered = model.study.outcome.column, not model.study.family.own_terms
    colours = [*SCALE] if ordered else [*COLOURS]
    for place, (name, group) in enumerate(split(model, frame)):
        names.append(f"{name}\n{len(group):,}")
        observed = [(group[column] == level).mean() for level in levels]
        predicted = model.predict_proba(group).mean(axis=0)
        for side, (shares, alpha) in enumerate(((observed, 1.0), (predicted, 0.6))):
            ends = np.cumsum([0, *shares])
            for k, level in enumerate(levels):
                ax.bar(
                    place + 0.4 * side - 0.2, 100 * shares[k], 0.36, 100 * ends[k],
                    color=colours[k], alpha=alpha, label=level if place + side == 0 else None,
                )  # fmt: skip
    ax.set_xticks(np.arange(len(names)), names, fontsize=8)
    ax.set_ylim(0, 100)
    ax.set_xlabel("Planted rules that hold, and of how many patients")
    ax.set_ylabel("Patients (%)")
    ax.set_title("Left bars: observed; right, paler: predicted", fontsize=9)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1], labels[::-1], frameon=False, fontsize=8, loc="center left",
        bbox_to_anchor=(1, 0.5),
    )  # fmt: skip


def count_deaths(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return days, and Kaplan and Meier's share of dead in percent, from late entries, too."""
    days, entry = frame["days"].to_numpy(), frame["entry"].to_numpy()
    dead = (frame["status"] == "dead").to_numpy()
    times = np.unique(days[dead])
    at_risk = np.array([((entry < t) & (days >= t)).sum() for t in times])
    deaths = np.array([(dead & (days == t)).sum() for t in times])
    alive = np.cumprod(1 - deaths / at_risk)
    return np.append(0, times), 100 * np.append(0, 1 - alive)


DRAWINGS: Final[Mapping[str, Callable[[Model, pd.DataFrame, Axes], None]]] = {
    "number": draw_number,
    "count": draw_count,
    "time": draw_time,
    "ordered": draw_levels,
    "classes": draw_levels,
}


def main(folder: Path, *kinds: str) -> None:
    """Copy the models, and draw them; of some kinds, or of all."""
    for kind, draw in DRAWINGS.items():
        if kinds and kind not in kinds:
            continue
        home = ROOT / "docs" / "results" / f"demo-{kind}.json"
        shutil.copy(folder / f"demo-{kind}" / "model.json", home)
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        ax = figure.subplots()
        draw(Model.load(home), demo.draw_fresh(kind=kind), ax)
        ax.spines[["top", "right"]].set_visible(False)
        figure.savefig(ROOT / "docs" / "images" / f"outcome-{kind}.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
