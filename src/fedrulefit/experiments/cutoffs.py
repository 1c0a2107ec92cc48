"""The paper's appendix 2: how many bins and cut-offs the histograms need.

Scenario 1 with 5 clients, the same patients as in the simulations, preset
``paper``: bins B × quantile levels Q, against no histogram at all. For each:
AUC, accuracy, F1, seconds, rules of the model, and candidate rules.

Departures: the paper does not list the B and Q that it tried. Without a histogram its
clients split at any of their own values; ours take the pooled values as
cut-offs, which a code of one byte limits to 254 quantiles. So clients share cut-offs in
both cases, fine or coarse. What sharing saves is seen in the number of candidate rules,
which is also counted where every client has cut-offs of its own; no model is fitted to these.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.arrays import MAX_CODES, Floats
from fedrulefit.core.grid import Grid
from fedrulefit.estimators import FederatedRuleFitClassifier
from fedrulefit.estimators.rulefit import pooled_grid
from fedrulefit.experiments.claims import MARGIN, Claim, Mean, Verdict, judge
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import METRICS, Effort, method_seed, score, timed
from fedrulefit.experiments.scenarios import (
    MODELS,
    SCENARIOS,
    assign_clients,
    draw_repetition,
    simulation_study,
)
from fedrulefit.experiments.units import Row
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BINS: Final = (20, 50, 100)
QUANTILES: Final = (5, 10, 20, 50)
NONE: Final = (0, 0)
"""Bins and quantiles of the run without histograms."""
OWN: Final = (-1, -1)
"""Bins and quantiles where every client splits at values of its own."""
CHOSEN: Final = (100, 20)
"""Bins and quantiles of the paper's main runs (erratum 15)."""
SUBSTANTIAL: Final = 0.25
"""What must be saved at least for "substantially"."""
_SCENARIO: Final = 1
_SETTING: Final = next(s for s in SCENARIOS[_SCENARIO] if s.name == "M = 5")
_SHOWN: Final = {**METRICS, "seconds": "Seconds", "rules": "Rules", "candidates": "Candidates"}


class ExactCutoffsClassifier(FederatedRuleFitClassifier):
    """Federated RuleFit with cut-offs from the pooled values: no histogram, no noise."""

    def _grid(self, table: Table, study: Study) -> Grid:
        return pooled_grid(table, study)


@dataclass(frozen=True)
class CutoffsUnit:
    """One repetition of one model: all numbers of bins and quantiles."""

    model: int
    repetition: int
    seed: int
    effort: Effort

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"model{self.model}-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score with every histogram, and with none."""
        # Each repetition begins with another: a cold start costs all of them alike.
        points = [NONE, *((bins, quantiles) for bins in BINS for quantiles in QUANTILES)]
        first = self.repetition % len(points)
        rows = [self._row(*point) for point in (*points[first:], *points[:first])]
        return [*rows, self.count_own()]

    def _row(self, bins: int, quantiles: int) -> Row:
        train, test = draw_repetition(_SCENARIO, self.model, self.repetition, seed=self.seed)
        if (bins, quantiles) == NONE:
            model = self._exact()
        else:
            model = FederatedRuleFitClassifier(
                n_bins=bins,
                n_cutoffs=quantiles,
                unsafe_noise_seed=self._settings["random_state"],
                **self._settings,
            )
        clients = assign_clients(_SETTING, train.outcome)
        _, seconds = timed(lambda: model.fit(train.values, train.outcome, sites=clients))
        return {
            "model": self.model,
            "bins": bins,
            "quantiles": quantiles,
            "repetition": self.repetition,
            **score([model], test.values, test.outcome),
            "candidates": float(model.model_.provenance.candidates),
            "seconds": seconds,
        }

    def count_own(self) -> Row:
        """Count the rules of clients that split at values of their own, and so share none."""
        train, _ = draw_repetition(_SCENARIO, self.model, self.repetition, seed=self.seed)
        clients = assign_clients(_SETTING, train.outcome)
        candidates = 0
        for client in np.unique(clients):
            own = clients == client
            model = self._exact().set_params(rounds=1)
            # Under its own name: the trees have as many leaves as in the other runs.
            model.fit(train.values[own], train.outcome[own], sites=clients[own])
            candidates += model.model_.provenance.candidates
        return {
            **dict.fromkeys(_SHOWN, float("nan")),
            "model": self.model,
            "bins": OWN[0],
            "quantiles": OWN[1],
            "repetition": self.repetition,
            "candidates": float(candidates),
        }

    def _exact(self) -> ExactCutoffsClassifier:
        return ExactCutoffsClassifier(noise=False, n_cutoffs=MAX_CODES - 1, **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "study": simulation_study(),
            "preset": "paper",
            "random_state": method_seed(self.seed, _SCENARIO, self.model, self.repetition),
            **self.effort.fedda,
        }


def make_units(repetitions: int, *, seed: int, effort: Effort) -> list[CutoffsUnit]:
    """Return the units, both models of a repetition together."""
    return [
        CutoffsUnit(model, repetition, seed, effort)
        for repetition in range(repetitions)
        for model in MODELS
    ]


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean, SD and standard error of every number, by model, bins and quantiles."""
    grouped = rows.groupby(["model", "bins", "quantiles"])[list(_SHOWN)]
    summary = grouped.agg(["mean", "std", "sem"])
    summary.columns = summary.columns.map("_".join)
    return summary.reset_index()


def results_table(summary: pd.DataFrame) -> str:
    """Return the table as Markdown; scores and seconds with their standard errors."""
    head = ["model", "bins", "quantiles", *_SHOWN.values()]
    words = {NONE: ("none", "–"), OWN: ("none, own values", "–")}
    digits = {"seconds": 2, "rules": 0, "candidates": 0}
    rows = []
    for row in summary.to_dict("records"):
        point = (row["bins"], row["quantiles"])
        cells = []
        for name in _SHOWN:
            mean, error = row[f"{name}_mean"], row[f"{name}_sem"]
            n = digits.get(name, 4)
            with_error = "" if n == 0 else f" ± {error:.{n}f}"
            cells.append("–" if np.isnan(mean) else f"{mean:.{n}f}{with_error}")
        rows.append([str(row["model"]), *words.get(point, map(str, point)), *cells])
    return make_table(head, rows)


def draw_summary(summary: pd.DataFrame) -> Figure:
    """Draw each number over Q, a line per B; dashed: no histogram."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 12), layout="constrained", dpi=100)
    axes = figure.subplots(2 * len(MODELS), len(_SHOWN) // 2).reshape(len(MODELS), len(_SHOWN))
    for row, model in zip(axes, MODELS, strict=True):
        here = summary[summary["model"] == model]
        for ax, (name, label) in zip(row, _SHOWN.items(), strict=True):
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


def check_claims(rows: pd.DataFrame) -> list[Claim]:
    """Check what section 5 says of appendix 2, at the paper's own B and Q."""
    ordered = rows.sort_values("repetition", kind="stable")
    parts = dict(iter(ordered.groupby(["model", "bins", "quantiles"])))

    def pair(model: int, column: str, other: tuple[int, int] = NONE) -> tuple[Floats, Floats]:
        """Return one number per repetition, with the histogram and without."""
        chosen, none = (parts[(model, *point)][column] for point in (CHOSEN, other))
        return chosen.to_numpy(np.float64), none.to_numpy(np.float64)

    def like_none() -> Verdict:
        gaps = {
            f"model {model}, {label}": Mean.of(np.subtract(*pair(model, metric)))
            for model in MODELS
            for metric, label in METRICS.items()
        }
        return Verdict(
            judge(gap.room(MARGIN) for gap in gaps.values()),
            "; ".join(f"{place}: {gap.words()}" for place, gap in gaps.items()),
        )

    def fewer(column: str, other: tuple[int, int] = NONE) -> Verdict:
        margins, words = [], []
        for model in MODELS:
            chosen, none = pair(model, column, other)
            margins.append(Mean.of((1 - SUBSTANTIAL) * none - chosen))
            less = Mean.of(none - chosen)
            share = 100 / none.mean()
            words.append(
                f"model {model}: {chosen.mean():.3g} against {none.mean():.3g}, "
                f"{less.mean * share:.0f} ± {less.error * share:.0f} % less"
            )
        return Verdict(judge(margins), "; ".join(words))

    bins, quantiles = CHOSEN
    least = f"at least {SUBSTANTIAL:.0%}".replace("%", " %")
    return [
        Claim(
            f"About 20 cut-offs perform like no histogram [B = {bins}, Q = {quantiles} against "
            f"pooled values that clients share: mean differences within ± {MARGIN}]",
            like_none(),
        ),
        Claim(f"… with substantially fewer rule terms [{least}: rules kept]", fewer("rules")),
        Claim(f"… [{least}: candidate rules]", fewer("candidates")),
        Claim(
            f"… [{least}: candidate rules, against clients that split at values of their own]",
            fewer("candidates", OWN),
        ),
        Claim(
            f"… at a substantially lower computational cost [{least}: seconds]", fewer("seconds")
        ),
    ]


def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
    """Write table and figure into `folder`; return the claims."""
    summary = summarise(rows)
    claims = check_claims(rows)
    summary.to_csv(folder / "summary.csv", index=False)
    write_texts(folder, {"tables.md": results_table(summary)})
    draw_summary(summary).savefig(folder / "appendix2.png")
    return claims
