"""The paper's simulations: scenarios 1–3, models 1–2, all methods.

A unit is one repetition of one scenario and model: all settings and methods on
the same patients. Its rows hold AUC, accuracy, F1, the number of rules (a mean over
clients for local RuleFit) and the seconds of the fit. Methods on pooled data
are fitted once per unit; their setting is ``all``.

Figure 2 shows differences to centralised RuleFit in the same repetition, as
the paper's text has them (its caption says: to the proposed method).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.experiments import boxes
from fedrulefit.experiments.claims import Claim, Verdict, claims_table
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import (
    METHODS,
    METRICS,
    OURS,
    PROPOSED,
    REFERENCE,
    Effort,
    Task,
    fit_method,
    score,
    timed,
)
from fedrulefit.experiments.runs import Row
from fedrulefit.experiments.scenarios import (
    MODELS,
    SCENARIOS,
    TITLES,
    Patients,
    Setting,
    assign_clients,
    draw_repetition,
    simulation_study,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALL: Final = "all"
"""The setting of methods that know no clients."""
MARGIN: Final = 0.02
"""Mean differences up to this count as comparable."""
_CELL: Final = ["scenario", "model", "setting", "method"]


@dataclass(frozen=True)
class SimulationUnit:
    """One repetition of one scenario and model."""

    scenario: int
    model: int
    repetition: int
    seed: int
    effort: Effort

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"scenario{self.scenario}-model{self.model}-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score every method in every setting."""
        train, test = draw_repetition(self.scenario, self.model, self.repetition, seed=self.seed)
        settings = SCENARIOS[self.scenario]
        pooled = [name for name, method in METHODS.items() if method.pooled]
        others = [name for name, method in METHODS.items() if not method.pooled]
        rows = [self._row(name, ALL, settings[0], train, test) for name in pooled]
        for setting in settings:
            rows += [self._row(name, setting.name, setting, train, test) for name in others]
        return rows

    def _row(
        self, method: str, label: str, setting: Setting, train: Patients, test: Patients
    ) -> Row:
        task = Task(
            train.values,
            train.outcome,
            assign_clients(setting, train.outcome),
            simulation_study(),
            method_seed(self.seed, self.scenario, self.model, self.repetition),
            self.effort,
        )
        models, seconds = timed(lambda: fit_method(method, task))
        return {
            "scenario": self.scenario,
            "model": self.model,
            "setting": label,
            "repetition": self.repetition,
            "method": method,
            **score(models, test.values, test.outcome),
            "seconds": seconds,
        }


def method_seed(*key: int) -> int:
    """Return the seed of all methods in a repetition."""
    return int(np.random.SeedSequence(key).generate_state(2)[1] % 2**31)


def make_units(repetitions: int, *, seed: int, effort: Effort) -> list[SimulationUnit]:
    """Return the units, all of a repetition together."""
    return [
        SimulationUnit(scenario, model, repetition, seed, effort)
        for repetition in range(repetitions)
        for scenario in SCENARIOS
        for model in MODELS
    ]


# --- cells --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a number stands."""

    scenario: int
    model: int
    setting: str
    metric: str

    def words(self) -> str:
        place = f"scenario {self.scenario}, {self.setting}, model {self.model}"
        return f"{METRICS[self.metric]}, {place}"


class _Cells:
    """The summary by place and method; methods on pooled data are in every setting."""

    def __init__(self, summary: pd.DataFrame) -> None:
        self._rows = {
            (
                _Place(row["scenario"], row["model"], row["setting"], row["metric"]),
                row["method"],
            ): row
            for row in summary.to_dict("records")
        }

    def get(self, place: _Place, method: str, column: str = "mean") -> float:
        if METHODS[method].pooled:
            place = replace(place, setting=ALL)
        return float(self._rows[place, method][column])

    def gap(self, place: _Place, method: str, other: str) -> float:
        return self.get(place, method) - self.get(place, other)


def _places(
    scenarios: Sequence[int] = tuple(SCENARIOS),
    models: Sequence[int] = tuple(MODELS),
    metrics: Sequence[str] = tuple(METRICS),
) -> list[_Place]:
    return [
        _Place(scenario, model, setting.name, metric)
        for scenario in scenarios
        for model in models
        for setting in SCENARIOS[scenario]
        for metric in metrics
    ]


# --- tables -------------------------------------------------------------------------------


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean, SD and Monte-Carlo standard error of every metric, and of its difference.

    One row per scenario, model, setting, method and metric; ``difference`` is
    to centralised RuleFit in the same repetition.
    """
    import pandas as pd

    parts = []
    for metric in METRICS:
        frame = rows.assign(value=rows[metric], change=rows[metric] - _reference(rows, metric))
        grouped = frame.groupby(_CELL, sort=False)
        n = grouped["value"].count()
        part = pd.DataFrame(
            {
                "metric": metric,
                "repetitions": n,
                "mean": grouped["value"].mean(),
                "sd": grouped["value"].std(),
                "mcse": grouped["value"].std() / np.sqrt(n),
                "difference": grouped["change"].mean(),
                "difference_sd": grouped["change"].std(),
                "difference_mcse": grouped["change"].std() / np.sqrt(n),
                "rules": grouped["rules"].mean(),
                "seconds": grouped["seconds"].mean(),
            }
        )
        parts.append(part.reset_index())
    return pd.concat(parts, ignore_index=True)


def _reference(rows: pd.DataFrame, metric: str) -> pd.Series[float]:
    """Return the metric of centralised RuleFit in every row's repetition."""
    key = ["scenario", "model", "repetition"]
    reference = rows[rows["method"] == REFERENCE].set_index(key)[metric]
    found: pd.Series[float] = reference.loc[list(rows[key].itertuples(index=False))]
    return found.set_axis(rows.index)


def results_tables(summary: pd.DataFrame) -> str:
    """Return one Markdown table per scenario and metric: mean ± standard error (SD)."""
    cells = _Cells(summary)
    return "\n\n".join(
        f"**Scenario {scenario}, {TITLES[scenario]}: {label}**\n\n"
        + _results_table(cells, _places([scenario], metrics=[metric]))
        for scenario in SCENARIOS
        for metric, label in METRICS.items()
    )


def _results_table(cells: _Cells, places: Sequence[_Place]) -> str:
    def cell(place: _Place, method: str) -> str:
        mean, mcse, sd = (cells.get(place, method, column) for column in ("mean", "mcse", "sd"))
        return f"{mean:.4f} ± {mcse:.4f} ({sd:.4f})"

    head = ["method", *(f"model {place.model}, {place.setting}" for place in places)]
    rows = [
        [method.label, *(cell(place, name) for place in places)] for name, method in METHODS.items()
    ]
    return make_table(head, rows)


def costs_table(summary: pd.DataFrame) -> str:
    """Return rules and seconds of every method in scenario 1, as Markdown."""
    cells = _Cells(summary)
    places = _places([1], metrics=["auc"])
    head = ["method", *(f"model {place.model}, {place.setting}" for place in places)]
    rows = []
    for name, method in METHODS.items():
        line = [method.label]
        for place in places:
            rules, seconds = (cells.get(place, name, column) for column in ("rules", "seconds"))
            line.append(f"{seconds:.2f} s" + ("" if np.isnan(rules) else f", {rules:.0f} rules"))
        rows.append(line)
    return make_table(head, rows)


# --- figures ------------------------------------------------------------------------------


def draw_differences(rows: pd.DataFrame, scenario: int) -> Figure:
    """Draw a panel of figure 2: differences to centralised RuleFit."""
    here = rows[(rows["scenario"] == scenario) & (rows["method"] != REFERENCE)]
    changed = here.assign(**{m: here[m] - _reference(rows, m)[here.index] for m in METRICS})
    panels = [
        boxes.Panel(
            f"Model {model} ({kind}): {label}",
            changed[changed["model"] == model],
            metric,
            [s.name for s in SCENARIOS[scenario]],
        )
        for model, kind in MODELS.items()
        for metric, label in METRICS.items()
    ]
    title = f"Scenario {scenario}, {TITLES[scenario]}: difference to centralised RuleFit"
    styles = {name: method for name, method in METHODS.items() if name != REFERENCE}
    return boxes.draw(panels, title, styles, columns=len(METRICS), zero=True)


def draw_metric(rows: pd.DataFrame, metric: str) -> Figure:
    """Draw a page of appendix 3: one metric in all scenarios."""
    panels = [
        boxes.Panel(
            f"Scenario {scenario}, model {model} ({kind})",
            rows[(rows["scenario"] == scenario) & (rows["model"] == model)],
            metric,
            [s.name for s in SCENARIOS[scenario]],
        )
        for model, kind in MODELS.items()
        for scenario in SCENARIOS
    ]
    return boxes.draw(panels, METRICS[metric], METHODS, columns=len(SCENARIOS))


# --- claims -------------------------------------------------------------------------------


def check_claims(summary: pd.DataFrame) -> list[Claim]:
    """Check the claims of section 3.2 one by one."""
    cells = _Cells(summary)

    def both(text: str, check: Callable[[str], Verdict]) -> Claim:
        return Claim(text, check(PROPOSED), check(OURS))

    def comparable(scenario: int) -> Claim:
        return both(
            f"Scenario {scenario}: comparable to centralised RuleFit [mean difference within "
            f"± {MARGIN} for every setting, model and metric]",
            lambda method: _check_comparable(cells, method, _places([scenario])),
        )

    return [
        *map(comparable, SCENARIOS),
        both(
            f"Scenario 1, M = 5: difference in AUC to centralised RuleFit within ± {MARGIN} for "
            "both models",
            lambda method: _check_comparable(
                cells,
                method,
                [p for p in _places([1], metrics=["auc"]) if p.setting == "M = 5"],
            ),
        ),
        both(
            "Outperforms the federated random forest in all settings [mean difference above 0 "
            "for every setting, model and metric]",
            lambda method: _check_above(cells, method, "forest", _places()),
        ),
        both(
            "Higher accuracy than BFI in nonlinear scenarios [the same, model 2]",
            lambda method: _check_above(cells, method, "bfi", _places(models=[2])),
        ),
        Claim(
            "BFI performs best in linear scenarios [highest mean of the paper's methods in every "
            "setting and metric, model 1]",
            _check_best(cells, "bfi", _places(models=[1]), (PROPOSED, "local", "forest")),
            _check_best(cells, "bfi", _places(models=[1]), (OURS, "local", "forest")),
        ),
        Claim(
            "Local RuleFit declines monotonically as M grows [mean AUC, both models]",
            _check_falling(cells, "local", scenario=1, models=tuple(MODELS)),
        ),
        Claim(
            "Local RuleFit declines as sample sizes become imbalanced [mean AUC, both models]",
            _check_falling(cells, "local", scenario=2, models=tuple(MODELS)),
        ),
        Claim(
            "Local RuleFit declines as outcomes become imbalanced [mean AUC, both models]",
            _check_falling(cells, "local", scenario=3, models=tuple(MODELS)),
        ),
        Claim(
            "… particularly in nonlinear settings [fall from balanced to high, model 2 above 1]",
            _check_steeper(cells, "local"),
        ),
        both(
            f"Stable over the settings of each scenario [means differ by at most {MARGIN} within "
            "a scenario, for every model and metric]",
            lambda method: _check_stable(cells, method),
        ),
    ]


def _check_comparable(cells: _Cells, method: str, places: Sequence[_Place]) -> Verdict:
    gaps = {place: cells.gap(place, method, REFERENCE) for place in places}
    worst = max(gaps, key=lambda place: abs(gaps[place]))
    error = cells.get(worst, method, "difference_mcse")
    above = sum(gap > MARGIN for gap in gaps.values())
    below = sum(gap < -MARGIN for gap in gaps.values())
    return Verdict(
        above + below == 0,
        f"{len(gaps) - above - below} of {len(gaps)} within, {above} above, {below} below; from "
        f"{min(gaps.values()):+.4f} to {max(gaps.values()):+.4f}; largest {gaps[worst]:+.4f} "
        f"± {error:.4f} ({worst.words()})",
    )


def _check_above(cells: _Cells, method: str, other: str, places: Sequence[_Place]) -> Verdict:
    gaps = {place: cells.gap(place, method, other) for place in places}
    lowest = min(gaps, key=lambda place: gaps[place])
    above = sum(gap > 0 for gap in gaps.values())
    return Verdict(
        above == len(gaps),
        f"{above} of {len(gaps)} above 0, from {gaps[lowest]:+.4f} ({lowest.words()}) to "
        f"{max(gaps.values()):+.4f}",
    )


def _check_best(
    cells: _Cells, method: str, places: Sequence[_Place], others: Sequence[str]
) -> Verdict:
    gaps = {
        place: cells.get(place, method) - max(cells.get(place, other) for other in others)
        for place in places
    }
    best = sum(gap > 0 for gap in gaps.values())
    return Verdict(
        best == len(gaps),
        f"best in {best} of {len(gaps)}; lead from {min(gaps.values()):+.4f} to "
        f"{max(gaps.values()):+.4f}",
    )


def _check_falling(cells: _Cells, method: str, *, scenario: int, models: Sequence[int]) -> Verdict:
    falls, words = True, []
    for model in models:
        series = [cells.get(p, method) for p in _places([scenario], [model], ["auc"])]
        falls &= bool(np.all(np.diff(series) < 0))
        words.append(f"model {model}: " + " → ".join(f"{value:.4f}" for value in series))
    return Verdict(falls, "; ".join(words))


def _check_steeper(cells: _Cells, method: str) -> Verdict:
    falls = {}
    for model in MODELS:
        series = [cells.get(p, method) for p in _places([3], [model], ["auc"])]
        falls[model] = series[0] - series[-1]
    return Verdict(falls[2] > falls[1], f"model 1: {falls[1]:.4f}, model 2: {falls[2]:.4f}")


def _check_stable(cells: _Cells, method: str) -> Verdict:
    ranges: dict[str, float] = {}
    for scenario in SCENARIOS:
        for model in MODELS:
            for metric, label in METRICS.items():
                series = [cells.get(p, method) for p in _places([scenario], [model], [metric])]
                ranges[f"{label}, scenario {scenario}, model {model}"] = max(series) - min(series)
    widest = max(ranges, key=lambda place: ranges[place])
    stable = sum(width <= MARGIN for width in ranges.values())
    return Verdict(
        stable == len(ranges),
        f"{stable} of {len(ranges)} stable; widest {ranges[widest]:.4f} ({widest})",
    )


# --- all of it ----------------------------------------------------------------------------


def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
    """Write tables, figures and claims into `folder`; return the claims."""
    summary = summarise(rows)
    claims = check_claims(summary)
    summary.to_csv(folder / "summary.csv", index=False)
    texts = {
        "tables.md": results_tables(summary),
        "costs.md": costs_table(summary),
        "claims.md": claims_table(claims),
    }
    write_texts(folder, texts)
    for scenario in SCENARIOS:
        draw_differences(rows, scenario).savefig(folder / f"figure2-scenario{scenario}.png")
    for metric in METRICS:
        draw_metric(rows, metric).savefig(folder / f"appendix3-{metric}.png")
    return claims
