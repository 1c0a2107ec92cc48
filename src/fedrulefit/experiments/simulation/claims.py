"""The claims of section 3.2, checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.experiments.claims import MARGIN, OUR_CHECK, Claim, Mean, Verdict, judge
from fedrulefit.experiments.methods import (
    FIXED_UNSAMPLED,
    LOCAL,
    LOCAL_UNSAMPLED,
    METRICS,
    OURS,
    PROPOSED,
    REFERENCE,
    UNSAMPLED,
)
from fedrulefit.experiments.scenarios import MODELS, SCENARIOS
from fedrulefit.experiments.simulation.cells import Cells, Place, list_places

if TYPE_CHECKING:
    import pandas as pd


def check_claims(rows: pd.DataFrame) -> list[Claim]:
    """Check the claims of section 3.2 one by one."""
    cells = Cells(rows)
    return [
        *_claims_of_likeness(cells),
        *_claims_of_stability(cells),
        *_claims_of_rivals(cells),
        *_claims_of_decline(cells),
    ]


def _both(text: str, check: Callable[[str], Verdict]) -> Claim:
    """Check a claim on the proposed method with the paper's settings, and with ours."""
    return Claim(text, check(PROPOSED), check(OURS))


def _claims_of_likeness(cells: Cells) -> list[Claim]:
    """Compare with centralised RuleFit, and beside it with the one whose trees see all patients."""
    five = [place for place in list_places([1], metrics=["auc"]) if place.setting == "M = 5"]

    def alike(text: str, places: Sequence[Place], other: str = REFERENCE) -> Claim:
        return _both(text, lambda method: _check_comparable(cells, method, other, places))

    return [
        *(
            alike(
                f"Scenario {scenario}: comparable to centralised RuleFit [mean difference within "
                f"± {MARGIN} for every setting, model and metric]",
                list_places([scenario]),
            )
            for scenario in SCENARIOS
        ),
        alike(
            f"{OUR_CHECK}scenario 1, M = 5: difference in AUC to centralised RuleFit within "
            f"± {MARGIN} for both models",
            five,
        ),
        *(
            alike(
                f"{OUR_CHECK}scenario {scenario}: comparable to centralised RuleFit without "
                "sampling [as above]",
                list_places([scenario]),
                UNSAMPLED,
            )
            for scenario in SCENARIOS
        ),
        Claim(
            f"{OUR_CHECK}all scenarios: comparable to centralised RuleFit without sampling and "
            "with the same λ = 0.01 [as above]",
            _check_comparable(cells, PROPOSED, FIXED_UNSAMPLED, list_places()),
        ),
    ]


def _claims_of_stability(cells: Cells) -> list[Claim]:
    """See how little results vary over repetitions and settings."""
    return [
        _both(
            "Differences to centralised RuleFit vary little [SD over repetitions at most "
            f"{MARGIN} for every setting, model and metric]",
            lambda method: _check_spread(cells, method),
        ),
        _both(
            "Stable over the settings of each scenario [means differ by at most "
            f"{MARGIN} within a scenario, for every model and metric]",
            lambda method: _check_stable(cells, method),
        ),
        Claim(
            "Centralised RuleFit is stable over the scenarios [means differ by at most "
            f"{MARGIN} for every model and metric]",
            _check_reference(cells),
        ),
    ]


def _claims_of_rivals(cells: Cells) -> list[Claim]:
    """Compare with the federated forest and with BFI."""
    linear, nonlinear = (list_places(models=[model]) for model in (1, 2))
    return [
        _both(
            "Outperforms the federated random forest in all settings [mean difference above 0 "
            "for every setting, model and metric]",
            lambda method: _check_above(cells, method, "forest", list_places()),
        ),
        _both(
            "Outperforms BFI in nonlinear scenarios [mean difference above 0 for every setting "
            "and metric, model 2]",
            lambda method: _check_above(cells, method, "bfi", nonlinear),
        ),
        _both(
            "Remains competitive with BFI in linear settings [mean difference above "
            f"-{MARGIN} for every setting and metric, model 1]",
            lambda method: _check_above(cells, method, "bfi", linear, -MARGIN),
        ),
        _both(
            "BFI performs best in linear scenarios [highest mean of the paper's methods in every "
            "setting and metric, model 1]",
            lambda method: _check_best(cells, "bfi", linear, (method, LOCAL, "forest")),
        ),
        Claim(
            "BFI deteriorates in nonlinear scenarios [mean of model 2 below model 1 for every "
            "setting and metric]",
            _check_drop(cells, "bfi"),
        ),
    ]


def _claims_of_decline(cells: Cells) -> list[Claim]:
    """See how a site's own RuleFit declines; beside it, the one whose trees see all patients."""
    steps = {
        1: "Local RuleFit declines monotonically as M grows [mean of every metric, both models]",
        2: "Local RuleFit declines as sample sizes become imbalanced [the same in scenario 2]",
        3: "Local RuleFit declines as outcomes become imbalanced [the same in scenario 3]",
    }
    steeper = (
        "… particularly in nonlinear settings [fall of the mean AUC from balanced to high, model "
        "2 above 1]"
    )
    return [
        *(Claim(text, _check_falling(cells, LOCAL, scenario=s)) for s, text in steps.items()),
        Claim(steeper, _check_steeper(cells, LOCAL)),
        *(
            Claim(
                f"{OUR_CHECK}local RuleFit without sampling declines in scenario {scenario} [as "
                "above]",
                _check_falling(cells, LOCAL_UNSAMPLED, scenario=scenario),
            )
            for scenario in steps
        ),
        Claim(
            f"{OUR_CHECK}… particularly in nonlinear settings, without sampling [as above]",
            _check_steeper(cells, LOCAL_UNSAMPLED),
        ),
    ]


def _check_comparable(cells: Cells, method: str, other: str, places: Sequence[Place]) -> Verdict:
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


def _check_spread(cells: Cells, method: str) -> Verdict:
    gaps = {place: cells.gap(place, method, REFERENCE) for place in list_places()}
    widest = max(gaps, key=lambda place: gaps[place].sd)
    small = sum(gap.sd <= MARGIN for gap in gaps.values())
    return Verdict(
        # The standard error of a standard deviation, as of normal differences.
        judge(
            Mean(MARGIN - g.sd, g.sd, g.sd / float(np.sqrt(2 * g.df)), g.df) for g in gaps.values()
        ),
        f"{small} of {len(gaps)}; largest {gaps[widest].sd:.4f} ({widest.words()})",
    )


def _check_above(
    cells: Cells, method: str, other: str, places: Sequence[Place], limit: float = 0.0
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
    cells: Cells, method: str, places: Sequence[Place], others: Sequence[str]
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


def _check_drop(cells: Cells, method: str) -> Verdict:
    drops = [
        _difference(cells.mean(place, method), cells.mean(replace(place, model=2), method))
        for place in list_places(models=[1])
    ]
    means = [drop.mean for drop in drops]
    return Verdict(
        judge(drops),
        f"{sum(mean > 0 for mean in means)} of {len(means)} lower, by {min(means):.4f} to "
        f"{max(means):.4f}",
    )


def _check_falling(cells: Cells, method: str, *, scenario: int) -> Verdict:
    falls: list[Mean] = []
    words = []
    for model, metric in product(MODELS, METRICS):
        places = list_places([scenario], [model], [metric])
        falls += [cells.fall(before, after, method) for before, after in pairwise(places)]
        if metric == "auc":
            series = " → ".join(f"{cells.mean(place, method).mean:.4f}" for place in places)
            words.append(f"AUC of model {model}: {series}")
    steps = sum(fall.mean > 0 for fall in falls)
    least = min(falls, key=lambda fall: fall.mean)
    told = [
        f"{steps} of {len(falls)} steps go down, the least by {least.words()} "
        f"({least.df + 1} repetitions)",
        *words,
    ]
    return Verdict(judge(falls), "; ".join(told))


def _check_steeper(cells: Cells, method: str) -> Verdict:
    falls = {}
    for model in MODELS:
        first, *_, last = list_places([3], [model], ["auc"])
        falls[model] = cells.fall(first, last, method)
    return Verdict(
        judge([_difference(falls[2], falls[1])]),
        f"model 1: {falls[1].words()}, model 2: {falls[2].words()} ({falls[1].df + 1} repetitions)",
    )


def _check_stable(cells: Cells, method: str) -> Verdict:
    ranges: dict[str, Mean] = {}
    for scenario, model, (metric, label) in product(SCENARIOS, MODELS, METRICS.items()):
        places = sorted(
            list_places([scenario], [model], [metric]), key=lambda p: cells.mean(p, method).mean
        )
        width = cells.fall(places[-1], places[0], method)
        ranges[f"{label}, scenario {scenario}, model {model}"] = width
    return _check_ranges(ranges)


def _check_reference(cells: Cells) -> Verdict:
    ranges: dict[str, Mean] = {}
    for model, (metric, label) in product(MODELS, METRICS.items()):
        means = sorted(
            (cells.mean(list_places([s], [model], [metric])[0], REFERENCE) for s in SCENARIOS),
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
        min(one.df, other.df),
    )
