"""The paper's simulations: scenarios 1–3, models 1–2, all methods.

A unit is one repetition of one scenario and model: all settings and methods on
the same patients. Its rows hold AUC, accuracy, F1, the number of rules (a mean over
clients for local RuleFit) and the seconds of the fit. Methods on pooled data
are fitted once per unit; their setting is ``all``.

Figure 2 shows differences to centralised RuleFit in the same repetition, as
the paper's text has them (its caption says: to the proposed method).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.experiments import boxes
from fedrulefit.experiments.claims import (
    MARGIN,
    OUR_CHECK,
    Claim,
    Mean,
    Verdict,
    judge,
)
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import (
    FIXED,
    METHODS,
    METRICS,
    OURS,
    PROPOSED,
    REFERENCE,
    Effort,
    Task,
    fit_method,
    method_seed,
    score,
    timed,
)
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
from fedrulefit.experiments.units import Row

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALL: Final = "all"
"""The setting of methods that know no clients."""
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
    """The rows by place and method; methods on pooled data are in every setting."""

    def __init__(self, rows: pd.DataFrame) -> None:
        ordered = rows.sort_values("repetition", kind="stable")
        self._parts = dict(iter(ordered.groupby(_CELL)))

    def values(self, place: _Place, method: str, column: str | None = None) -> Floats:
        """Return one number per repetition: the place's metric, or another column."""
        setting = ALL if METHODS[method].pooled else place.setting
        part = self._parts[place.scenario, place.model, setting, method]
        return part[column or place.metric].to_numpy(np.float64)

    def mean(self, place: _Place, method: str, column: str | None = None) -> Mean:
        return Mean.of(self.values(place, method, column))

    def gap(self, place: _Place, method: str, other: str) -> Mean:
        """Return the mean difference between two methods on the same patients."""
        return Mean.of(self.values(place, method) - self.values(place, other))

    def fall(self, high: _Place, low: _Place, method: str) -> Mean:
        """Return by how much a method falls between two settings of the same patients."""
        return Mean.of(self.values(high, method) - self.values(low, method))


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
        part = pd.DataFrame(
            {
                "metric": metric,
                "repetitions": grouped["value"].count(),
                "mean": grouped["value"].mean(),
                "sd": grouped["value"].std(),
                "mcse": grouped["value"].sem(),
                "difference": grouped["change"].mean(),
                "difference_sd": grouped["change"].std(),
                "difference_mcse": grouped["change"].sem(),
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


def results_tables(rows: pd.DataFrame) -> str:
    """Return one Markdown table per scenario and metric: mean ± standard error (SD)."""
    cells = _Cells(rows)
    return "\n\n".join(
        f"**Scenario {scenario}, {TITLES[scenario]}: {label}**\n\n"
        + _results_table(cells, _places([scenario], metrics=[metric]))
        for scenario in SCENARIOS
        for metric, label in METRICS.items()
    )


def _results_table(cells: _Cells, places: Sequence[_Place]) -> str:
    def cell(place: _Place, method: str) -> str:
        found = cells.mean(place, method)
        return f"{found.mean:.4f} ± {found.error:.4f} ({found.sd:.4f})"

    head = ["method", *(f"model {place.model}, {place.setting}" for place in places)]
    rows = [
        [method.label, *(cell(place, name) for place in places)] for name, method in METHODS.items()
    ]
    return make_table(head, rows)


def costs_table(rows: pd.DataFrame) -> str:
    """Return rules and seconds of every method in scenario 1, as Markdown."""
    cells = _Cells(rows)
    places = _places([1], metrics=["auc"])
    head = ["method", *(f"model {place.model}, {place.setting}" for place in places)]

    def cell(place: _Place, method: str) -> str:
        rules, seconds = (cells.mean(place, method, column).mean for column in ("rules", "seconds"))
        return f"{seconds:.2f} s" + ("" if np.isnan(rules) else f", {rules:.0f} rules")

    lines = [
        [method.label, *(cell(place, name) for place in places)] for name, method in METHODS.items()
    ]
    return make_table(head, lines)


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


def check_claims(rows: pd.DataFrame) -> list[Claim]:
    """Check the claims of section 3.2 one by one."""
    cells = _Cells(rows)

    def both(text: str, check: Callable[[str], Verdict]) -> Claim:
        return Claim(text, check(PROPOSED), check(OURS))

    def comparable(scenario: int) -> Claim:
        return both(
            f"Scenario {scenario}: comparable to centralised RuleFit [mean difference within "
            f"± {MARGIN} for every setting, model and metric]",
            lambda method: _check_comparable(cells, method, REFERENCE, _places([scenario])),
        )

    return [
        *map(comparable, SCENARIOS),
        Claim(
            f"{OUR_CHECK}all scenarios: comparable to centralised RuleFit with the same λ = 0.01 "
            "[as above]",
            _check_comparable(cells, PROPOSED, FIXED, _places()),
        ),
        both(
            f"{OUR_CHECK}scenario 1, M = 5: difference in AUC to centralised RuleFit within "
            f"± {MARGIN} for both models",
            lambda method: _check_comparable(
                cells,
                method,
                REFERENCE,
                [p for p in _places([1], metrics=["auc"]) if p.setting == "M = 5"],
            ),
        ),
        both(
            "Differences to centralised RuleFit vary little [SD over repetitions at most "
            f"{MARGIN} for every setting, model and metric]",
            lambda method: _check_spread(cells, method),
        ),
        both(
            "Stable over the settings of each scenario [means differ by at most "
            f"{MARGIN} within a scenario, for every model and metric]",
            lambda method: _check_stable(cells, method),
        ),
        Claim(
            "Centralised RuleFit is stable over the scenarios [means differ by at most "
            f"{MARGIN} for every model and metric]",
            _check_reference(cells),
        ),
        both(
            "Outperforms the federated random forest in all settings [mean difference above 0 "
            "for every setting, model and metric]",
            lambda method: _check_above(cells, method, "forest", _places()),
        ),
        both(
            "Outperforms BFI in nonlinear scenarios [mean difference above 0 for every setting "
            "and metric, model 2]",
            lambda method: _check_above(cells, method, "bfi", _places(models=[2])),
        ),
        both(
            "Remains competitive with BFI in linear settings [mean difference above "
            f"-{MARGIN} for every setting and metric, model 1]",
            lambda method: _check_above(cells, method, "bfi", _places(models=[1]), -MARGIN),
        ),
        Claim(
            "BFI performs best in linear scenarios [highest mean of the paper's methods in every "
            "setting and metric, model 1]",
            _check_best(cells, "bfi", _places(models=[1]), (PROPOSED, "local", "forest")),
            _check_best(cells, "bfi", _places(models=[1]), (OURS, "local", "forest")),
        ),
        Claim(
            "BFI deteriorates in nonlinear scenarios [mean of model 2 below model 1 for every "
            "setting and metric]",
            _check_drop(cells, "bfi"),
        ),
        Claim(
            "Local RuleFit declines monotonically as M grows [mean of every metric, both models]",
            _check_falling(cells, "local", scenario=1),
        ),
        Claim(
            "Local RuleFit declines as sample sizes become imbalanced [the same in scenario 2]",
            _check_falling(cells, "local", scenario=2),
        ),
        Claim(
            "Local RuleFit declines as outcomes become imbalanced [the same in scenario 3]",
            _check_falling(cells, "local", scenario=3),
        ),
        Claim(
            "… particularly in nonlinear settings [fall of the mean AUC from balanced to high, "
            "model 2 above 1]",
            _check_steeper(cells, "local"),
        ),
    ]


def _check_comparable(cells: _Cells, method: str, other: str, places: Sequence[_Place]) -> Verdict:
    gaps = {place: cells.gap(place, method, other) for place in places}
    worst = max(gaps, key=lambda place: abs(gaps[place].mean))
    means = [gap.mean for gap in gaps.values()]
    better, worse = sum(mean > MARGIN for mean in means), sum(mean < -MARGIN for mean in means)
    return Verdict(
        judge(gap.room(MARGIN) for gap in gaps.values()),
        f"{len(gaps) - better - worse} of {len(gaps)} within, {better} better, {worse} worse; "
        f"from {min(means):+.4f} to {max(means):+.4f}; largest {gaps[worst].words()} "
        f"({worst.words()})",
    )


def _check_spread(cells: _Cells, method: str) -> Verdict:
    gaps = {place: cells.gap(place, method, REFERENCE) for place in _places()}
    widest = max(gaps, key=lambda place: gaps[place].sd)
    small = sum(gap.sd <= MARGIN for gap in gaps.values())
    n = len(cells.values(widest, method))
    return Verdict(
        # The standard error of a standard deviation, as of normal differences.
        judge(Mean(MARGIN - g.sd, g.sd, g.sd / float(np.sqrt(2 * n - 2))) for g in gaps.values()),
        f"{small} of {len(gaps)}; largest {gaps[widest].sd:.4f} ({widest.words()})",
    )


def _check_above(
    cells: _Cells, method: str, other: str, places: Sequence[_Place], limit: float = 0.0
) -> Verdict:
    gaps = {place: cells.gap(place, method, other) for place in places}
    lowest = min(gaps, key=lambda place: gaps[place].mean)
    means = [gap.mean for gap in gaps.values()]
    return Verdict(
        judge(replace(gap, mean=gap.mean - limit) for gap in gaps.values()),
        f"{sum(mean > limit for mean in means)} of {len(means)} above {limit:g}, from "
        f"{gaps[lowest].words()} ({lowest.words()}) to {max(means):+.4f}",
    )


def _check_best(
    cells: _Cells, method: str, places: Sequence[_Place], others: Sequence[str]
) -> Verdict:
    leads = [
        min((cells.gap(place, method, other) for other in others), key=lambda gap: gap.mean)
        for place in places
    ]
    means = [lead.mean for lead in leads]
    return Verdict(
        judge(leads),
        f"best in {sum(mean > 0 for mean in means)} of {len(means)}; lead from {min(means):+.4f} "
        f"to {max(means):+.4f}",
    )


def _check_drop(cells: _Cells, method: str) -> Verdict:
    drops = [
        _difference(cells.mean(place, method), cells.mean(replace(place, model=2), method))
        for place in _places(models=[1])
    ]
    means = [drop.mean for drop in drops]
    return Verdict(
        judge(drops),
        f"{sum(mean > 0 for mean in means)} of {len(means)} lower, by {min(means):.4f} to "
        f"{max(means):.4f}",
    )


def _check_falling(cells: _Cells, method: str, *, scenario: int) -> Verdict:
    falls: list[Mean] = []
    words = []
    for model, metric in product(MODELS, METRICS):
        places = _places([scenario], [model], [metric])
        falls += [cells.fall(before, after, method) for before, after in pairwise(places)]
        if metric == "auc":
            series = " → ".join(f"{cells.mean(place, method).mean:.4f}" for place in places)
            words.append(f"AUC of model {model}: {series}")
    steps = sum(fall.mean > 0 for fall in falls)
    least = min(falls, key=lambda fall: fall.mean)
    told = [f"{steps} of {len(falls)} steps go down, the least by {least.words()}", *words]
    return Verdict(judge(falls), "; ".join(told))


def _check_steeper(cells: _Cells, method: str) -> Verdict:
    falls = {}
    for model in MODELS:
        first, *_, last = _places([3], [model], ["auc"])
        falls[model] = cells.fall(first, last, method)
    return Verdict(
        judge([_difference(falls[2], falls[1])]),
        f"model 1: {falls[1].words()}, model 2: {falls[2].words()}",
    )


def _check_stable(cells: _Cells, method: str) -> Verdict:
    ranges: dict[str, Mean] = {}
    for scenario, model, (metric, label) in product(SCENARIOS, MODELS, METRICS.items()):
        places = sorted(
            _places([scenario], [model], [metric]), key=lambda p: cells.mean(p, method).mean
        )
        width = cells.fall(places[-1], places[0], method)
        ranges[f"{label}, scenario {scenario}, model {model}"] = width
    return _check_ranges(ranges)


def _check_reference(cells: _Cells) -> Verdict:
    ranges: dict[str, Mean] = {}
    for model, (metric, label) in product(MODELS, METRICS.items()):
        means = sorted(
            (cells.mean(_places([s], [model], [metric])[0], REFERENCE) for s in SCENARIOS),
            key=lambda found: found.mean,
        )
        ranges[f"{label}, model {model}"] = _difference(means[-1], means[0])
    return _check_ranges(ranges)


def _check_ranges(ranges: Mapping[str, Mean]) -> Verdict:
    widest = max(ranges, key=lambda place: ranges[place].mean)
    stable = sum(width.mean <= MARGIN for width in ranges.values())
    return Verdict(
        judge(width.room(MARGIN) for width in ranges.values()),
        f"{stable} of {len(ranges)} stable; widest {ranges[widest].mean:.4f} ± "
        f"{ranges[widest].error:.4f} ({widest})",
    )


def _difference(one: Mean, other: Mean) -> Mean:
    """Return the difference of two means over patients of their own."""
    return Mean(
        one.mean - other.mean,
        float(np.hypot(one.sd, other.sd)),
        float(np.hypot(one.error, other.error)),
    )


# --- all of it ----------------------------------------------------------------------------


def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
    """Write tables and figures into `folder`; return the claims."""
    claims = check_claims(rows)
    summarise(rows).to_csv(folder / "summary.csv", index=False)
    texts = {
        "tables.md": results_tables(rows),
        "costs.md": costs_table(rows),
    }
    write_texts(folder, texts)
    for scenario in SCENARIOS:
        draw_differences(rows, scenario).savefig(folder / f"figure2-scenario{scenario}.png")
    for metric in METRICS:
        draw_metric(rows, metric).savefig(folder / f"appendix3-{metric}.png")
    return claims
