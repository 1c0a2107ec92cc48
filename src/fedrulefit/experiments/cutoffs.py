"""The paper's appendix 2: how many bins and cut-offs the histograms need.

Scenario 1 with 5 clients, the same patients as in the simulations, preset
``paper``: bins B × quantile levels Q, against no histogram at all. For each:
AUC, accuracy, F1, seconds, rules of the model, and candidate rules.

Departures: the paper does not list the B and Q that it tried. Without a histogram its
clients split at any of their own values; ours take the pooled values as
cut-offs, which a code of one byte limits to 254 quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.grid import Grid
from fedrulefit.estimators import FederatedRuleFitClassifier, pooled_grid
from fedrulefit.experiments.claims import Claim, Verdict, claims_table
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import METRICS, Effort, score, timed
from fedrulefit.experiments.runs import Row
from fedrulefit.experiments.scenarios import (
    MODELS,
    SCENARIOS,
    assign_clients,
    draw_repetition,
    simulation_study,
)
from fedrulefit.experiments.simulation import MARGIN, method_seed
from fedrulefit.study import Study
from fedrulefit.table import Table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BINS: Final = (20, 50, 100)
QUANTILES: Final = (5, 10, 20, 50)
NONE: Final = (0, 0)
"""Bins and quantiles of the run without histograms."""
CHOSEN: Final = (100, 20)
"""Bins and quantiles of the paper's main runs (erratum 15)."""
_SCENARIO: Final = 1
_SETTING: Final = SCENARIOS[_SCENARIO][1]
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
        points = [NONE, *((bins, quantiles) for bins in BINS for quantiles in QUANTILES)]
        return [self._row(bins, quantiles) for bins, quantiles in points]

    def _row(self, bins: int, quantiles: int) -> Row:
        train, test = draw_repetition(_SCENARIO, self.model, self.repetition, seed=self.seed)
        seed = method_seed(self.seed, _SCENARIO, self.model, self.repetition)
        settings: dict[str, Any] = {
            "study": simulation_study(),
            "preset": "paper",
            "random_state": seed,
            **self.effort.fedda,
        }
        if (bins, quantiles) == NONE:
            model = ExactCutoffsClassifier(noise=False, n_cutoffs=MAX_CODES - 1, **settings)
        else:
            model = FederatedRuleFitClassifier(
                n_bins=bins, n_cutoffs=quantiles, unsafe_noise_seed=seed, **settings
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
    """Return the table as Markdown; AUC, accuracy and F1 with their standard errors."""
    head = ["model", "bins", "quantiles", *_SHOWN.values()]
    rows = []
    for row in summary.to_dict("records"):
        drawn = (row["bins"], row["quantiles"]) != NONE
        rows.append(
            [
                str(row["model"]),
                *((str(row["bins"]), str(row["quantiles"])) if drawn else ("none", "–")),
                *(f"{row[f'{m}_mean']:.4f} ± {row[f'{m}_sem']:.4f}" for m in METRICS),
                f"{row['seconds_mean']:.2f}",
                f"{row['rules_mean']:.0f}",
                f"{row['candidates_mean']:.0f}",
            ]
        )
    return make_table(head, rows)


def draw_summary(summary: pd.DataFrame) -> Figure:
    """Draw each number over Q, a line per B; dashed: no histogram."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.1 * len(_SHOWN), 6.2), layout="constrained", dpi=100)
    axes = figure.subplots(len(MODELS), len(_SHOWN))
    for row, model in zip(axes, MODELS, strict=True):
        here = summary[summary["model"] == model]
        for ax, (name, label) in zip(row, _SHOWN.items(), strict=True):
            for bins in BINS:
                line = here[here["bins"] == bins]
                ax.errorbar(
                    np.arange(len(line)), line[f"{name}_mean"], line[f"{name}_sem"],
                    marker="o", markersize=3, linewidth=1, label=f"{bins} bins",
                )  # fmt: skip
            none = here[here["bins"] == 0][f"{name}_mean"]
            ax.axhline(none.iloc[0], color="black", linestyle="--", label="no histogram")
            ax.set_xticks(range(len(QUANTILES)), [str(q) for q in QUANTILES])
            ax.set_xlabel("quantiles")
            ax.set_title(f"Model {model}: {label}", fontsize="medium")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def check_claims(summary: pd.DataFrame) -> list[Claim]:
    """Check what section 5 says of appendix 2, at the paper's own B and Q."""
    cells = {
        (row["model"], row["bins"], row["quantiles"]): row for row in summary.to_dict("records")
    }
    pairs = {model: (cells[(model, *CHOSEN)], cells[(model, *NONE)]) for model in MODELS}
    gaps = {
        (model, label): chosen[f"{metric}_mean"] - none[f"{metric}_mean"]
        for model, (chosen, none) in pairs.items()
        for metric, label in METRICS.items()
    }
    bins, quantiles = CHOSEN
    return [
        Claim(
            f"About 20 cut-offs perform like no histogram [B = {bins}, Q = {quantiles}: mean "
            f"differences within ± {MARGIN}]",
            Verdict(
                all(abs(gap) <= MARGIN for gap in gaps.values()),
                "; ".join(f"model {m}, {label}: {gap:+.4f}" for (m, label), gap in gaps.items()),
            ),
        ),
        Claim("… with fewer rules in the model", _check_fewer(pairs, "rules")),
        Claim("… and fewer candidate rules", _check_fewer(pairs, "candidates")),
        Claim("… in less time", _check_fewer(pairs, "seconds")),
    ]


def _check_fewer(pairs: dict[int, tuple[dict[Any, Any], dict[Any, Any]]], name: str) -> Verdict:
    values = {
        m: (chosen[f"{name}_mean"], none[f"{name}_mean"]) for m, (chosen, none) in pairs.items()
    }
    return Verdict(
        all(chosen < none for chosen, none in values.values()),
        "; ".join(f"model {m}: {a:.3g} against {b:.3g}" for m, (a, b) in values.items()),
    )


def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
    """Write table, figure and claims into `folder`; return the claims."""
    summary = summarise(rows)
    claims = check_claims(summary)
    summary.to_csv(folder / "summary.csv", index=False)
    write_texts(folder, {"tables.md": results_table(summary), "claims.md": claims_table(claims)})
    draw_summary(summary).savefig(folder / "appendix2.png")
    return claims
