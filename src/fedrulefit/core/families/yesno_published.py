"""What is published of yes/no predictions, and how a model file holds it.

In: the sums of score histograms, and the measures that were read off them. Out: merged bins with
rounded counts, as rows of a file and back. Nothing leaves a site here.

Oracle: ``tests/unit/model/test_publish.py``; what can be worked back: ``tests/attacks``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.judge import Facts
from fedrulefit.core.families.yesno_measures import Measures, bin_means
from fedrulefit.core.families.yesno_places import is_below
from fedrulefit.core.families.yesno_sums import ScoreSums, sum_log_odds
from fedrulefit.core.rounding import EXACT, Rounding, round_step, round_up_step

GROUP_WORDS: Final[Mapping[str, str]] = {
    "above": "The group's probabilities are at least this.",
    "below": "And below this.",
    "events": "Patients with the event.",
    "others": "Patients without it.",
    "predicted": "Estimated mean of its probabilities; null in files that do not tell it.",
}
"""A row of a model file: held-out patients of similar predictions."""

MEASURE_WORDS: Final[Mapping[str, str]] = {
    "patients": "Patients judged (with weights).",
    "events": "Those of them with the event.",
    "auc": "Area under the ROC curve; like all below, null where it is not defined.",
    "auc_low": "Lower end of its 95 % interval; null with fewer than two of either outcome.",
    "auc_high": "Upper end.",
    "auc_bound": "Most that the bins can shift it.",
    "brier": "Brier score.",
    "log_loss": "Log-loss.",
    "slope": "Calibration slope; 1 is right. Null where too few have the event, or not.",
    "slope_low": "Lower end of its 95 % interval.",
    "slope_high": "Upper end.",
    "intercept": "Calibration in the large; 0 is right.",
    "intercept_low": "Lower end of its 95 % interval.",
    "intercept_high": "Upper end.",
    "observed": "Share with the event.",
    "expected": "Mean predicted probability.",
}

WITHIN_WORDS: Final[Mapping[str, str]] = {
    "sites": "Sites with enough patients with and without the event.",
    "cases": "Their patients with the event, roughly.",
    "auc": "Mean of the sites' own areas under the ROC curve, weighted by cases.",
    "auc_low": "Lower end of its 95 % interval.",
    "auc_high": "Upper end.",
}


def round_groups(
    merged: ScoreSums, measures: Measures, rounding: Rounding, unit: float
) -> ScoreSums:
    """Return merged bins as they may be published: with rounded counts and means.

    The mean prediction of a group is told no finer than what one patient can move it by.

    Parameters
    ----------
    merged : ScoreSums
    measures : Measures
        Of the same patients, rounded.
    rounding : Rounding
    unit : float
        The most that one patient counts.
    """
    cases, others, means = merged.cases, merged.others, bin_means(merged)
    if rounding != EXACT:
        cases, others = (
            np.array([rounding.count(x, unit) for x in part.tolist()]) for part in (cases, others)
        )
        means = _round_means(means, np.diff(merged.ends) * unit / (cases + others))
    means = np.clip(means, merged.ends[:-1], merged.ends[1:])
    return restore_sums(cases, others, measures, merged.edges, means)


def _round_means(means: Floats, moves: Floats) -> Floats:
    """Round mean predictions no finer than one patient can move them within the group."""
    steps = [round_up_step(max(move, 1e-3)) for move in moves.tolist()]
    return np.array([round_step(x, step) for x, step in zip(means.tolist(), steps, strict=True)])


def restore_sums(
    cases: Floats, others: Floats, measures: Measures, edges: Floats, means: Floats | None
) -> ScoreSums:
    """Return score sums from counts per bin and the measures of the same patients.

    Sums that calibration is read off are as if all patients of a bin had its mean prediction.
    """
    total = float(cases.sum() + others.sum())
    sums = ScoreSums(
        cases,
        others,
        chances=total * measures.expected,
        squares=total * measures.brier,
        loss=total * measures.log_loss,
        log_odds=np.zeros(4),
        odds_squares=np.zeros(2),
        edges=edges,
        means=means,
    )
    log_odds, squares = sum_log_odds(bin_means(sums), cases, others, is_below(sums.ends))
    return replace(sums, log_odds=log_odds, odds_squares=squares)


def write_groups(sums: ScoreSums) -> Facts:
    """Return the bins as rows of a model file."""
    columns = (sums.ends[:-1], sums.ends[1:], sums.cases, sums.others, bin_means(sums))
    rows = np.column_stack(columns).tolist()
    return {"groups": [dict(zip(GROUP_WORDS, row, strict=True)) for row in rows]}


def read_groups(facts: Facts, measures: Measures) -> ScoreSums:
    """Return the sums of a model file's rows; the reverse of :func:`write_groups`.

    Raises
    ------
    ValueError
        If the rows contradict themselves.
    """
    groups: Sequence[Mapping[str, Any]] = facts["groups"]
    older = GROUP_WORDS.keys() - {"predicted"}
    for group in groups:
        if not older <= group.keys() <= GROUP_WORDS.keys():
            raise ValueError(f"evaluation.groups: each has {', '.join(GROUP_WORDS)}")
        if any(group[name] is None for name in older):
            raise ValueError("evaluation.groups: a number is missing")
        if min(group["events"], group["others"]) < -1e-6:
            raise ValueError("evaluation.groups: a count is below 0")
    ends = [group["above"] for group in groups] + [groups[-1]["below"]]
    fits = [group["below"] for group in groups[:-1]] == ends[1:-1]
    if not fits or (ends[0], ends[-1]) != (0, 1) or (np.diff(ends) <= 0).any():
        raise ValueError("the groups of the evaluation do not cover 0 to 1 without gaps")
    cases, others = (np.array([group[name] for group in groups]) for name in ("events", "others"))
    return restore_sums(cases, others, measures, np.array(ends[1:-1]), _read_means(groups))


def _read_means(groups: Sequence[Mapping[str, Any]]) -> Floats | None:
    """Return the groups' mean predictions; None where an older file does not tell them."""
    means = [group.get("predicted") for group in groups]
    if any(mean is None for mean in means):
        return None
    inside = (g["above"] <= mean <= g["below"] for g, mean in zip(groups, means, strict=True))
    if not all(inside):
        raise ValueError("the mean prediction of a group lies outside of the group")
    return np.array(means)
