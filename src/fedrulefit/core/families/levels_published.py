"""What is published of predictions of several levels, and how a model file holds it.

In: the sums of all splits, and the measures that were read off them. Out: merged bins with rounded
counts, as rows of a file and back. Nothing leaves a site here.

Areas are those of the bins before they were merged, which would blur them.

Oracle: the sums themselves, and what is worked back (``tests/unit/core/test_levels_published.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.file_rows import check_ends, check_rows
from fedrulefit.core.families.judge import Facts
from fedrulefit.core.families.levels_measures import LevelsMeasures, find_areas
from fedrulefit.core.families.levels_sums import LevelsSums, coarsen_levels
from fedrulefit.core.families.yesno_measures import bin_means
from fedrulefit.core.families.yesno_places import is_below
from fedrulefit.core.families.yesno_sums import ScoreSums, sum_log_odds
from fedrulefit.core.rounding import EXACT, Rounding, round_step, round_up_step

AREAS: Final = ("auc", "auc_low", "auc_high", "auc_bound")

MEASURE_WORDS: Final[Mapping[str, str]] = {
    "patients": "Patients judged (with weights).",
    "rarest": "Those of them at the rarest level.",
    "auc": "Area under the ROC curve: the mean over levels, each against the rest; of ordered "
    "levels, each and above against those below.",
    "auc_low": "Lower end of its 95 % interval; null where a level has fewer than two.",
    "auc_high": "Upper end.",
    "auc_bound": "Most that the bins can shift it.",
    "log_loss": "Log-loss.",
    "brier": "Brier score over all levels, from 0 to 2.",
    "rps": "Ranked probability score; null of levels without an order.",
    "explained": "Share of the log-loss that the model explains, beside the levels' mere shares.",
}

GROUP_WORDS: Final[Mapping[str, str]] = {
    "split": "Position of the level that the group's probabilities are of; of ordered levels, of "
    "the lowest that counts.",
    "above": "The group's probabilities are at least this.",
    "below": "And below this.",
    "events": "Patients at the level (or above it).",
    "others": "Patients at others (or below it).",
    "predicted": "Estimated mean of its probabilities.",
}

SUM_WORDS: Final[Mapping[str, str]] = {
    "expected": "Mean predicted probability of each split.",
    "squares": "Brier score of each split.",
    "auc": "Area under the ROC curve of each split.",
    "auc_low": "Lower end of its 95 % interval; not there where one is not known.",
    "auc_high": "Upper end; likewise.",
    "auc_bound": "Most that the bins can shift it.",
}

WITHIN_WORDS: Final[Mapping[str, str]] = {
    "sites": "Sites with enough patients on either side of every split.",
    "cases": "Their patients on the smallest side, roughly.",
    "auc": "Mean of the sites' own mean areas under the ROC curve, weighted by these.",
    "auc_low": "Lower end of its 95 % interval.",
    "auc_high": "Upper end.",
}


def publish_levels(
    sums: LevelsSums, told: LevelsMeasures, rounding: Rounding, unit: float
) -> LevelsSums | None:
    """Return what may be published of some patients; None where a level has too few.

    Parameters
    ----------
    sums : LevelsSums
    told : LevelsMeasures
        Of these patients, as they are published.
    rounding : Rounding
    unit : float
        The most that one patient counts.
    """
    merged = coarsen_levels(sums, rounding.least(unit), each=True)
    if merged is None:
        return None
    areas = find_areas(sums)
    expected, squares = sums.chances / sums.total, sums.squares / sums.total
    if rounding != EXACT:
        areas, expected, squares = (np.round(x, 3) for x in (areas, expected, squares))
    rounded = [_round_split(split, rounding, unit) for split in merged.splits]
    return _restore(rounded, told, expected, squares, areas, ordered=sums.ordered)


def _round_split(split: ScoreSums, rounding: Rounding, unit: float) -> ScoreSums:
    """Return a split's merged bins with rounded counts, and means no finer than one patient's."""
    cases, others, means = split.cases, split.others, bin_means(split)
    if rounding != EXACT:
        cases, others = (
            np.array([rounding.count(x, unit) for x in part.tolist()]) for part in (cases, others)
        )
        moves = np.diff(split.ends) * unit / (cases + others)
        steps = [round_up_step(max(move, 1e-3)) for move in moves.tolist()]
        means = np.array([round_step(*x) for x in zip(means.tolist(), steps, strict=True)])
    means = np.clip(means, split.ends[:-1], split.ends[1:])
    return replace(split, cases=cases, others=others, means=means)


def _restore(
    splits: Sequence[ScoreSums],
    measures: LevelsMeasures,
    expected: Floats,
    squares: Floats,
    areas: Floats,
    *,
    ordered: bool,
) -> LevelsSums:
    """Return sums from merged bins with their means, and the measures of the same patients."""
    n_splits, total = len(splits), splits[0].total  # rounded counts add up to other patients
    merged = tuple(
        _place_at_means(split, float(chance), float(square))
        for split, chance, square in zip(splits, expected, squares, strict=True)
    )
    unknown = np.zeros(0)
    return LevelsSums(
        cases=unknown,
        others=unknown,
        chances=np.array([split.chances for split in merged]),
        squares=np.array([split.squares for split in merged]),
        log_odds=np.zeros(4 * n_splits),
        odds_squares=np.zeros(2 * n_splits),
        log_loss=measures.log_loss * total,
        brier=measures.brier * total,
        ordered=ordered,
        merged=merged,
        areas=areas,
    )


def _place_at_means(split: ScoreSums, expected: float, square: float) -> ScoreSums:
    """Return the split as if all patients of a bin had its mean prediction."""
    total = split.n_cases + split.n_others
    log_odds, odds_squares = sum_log_odds(
        bin_means(split), split.cases, split.others, is_below(split.ends)
    )
    return ScoreSums(
        cases=split.cases,
        others=split.others,
        chances=total * expected,
        squares=total * square,
        loss=math.nan,
        log_odds=log_odds,
        odds_squares=odds_squares,
        edges=split.edges,
        means=split.means,
    )


def write_levels(sums: LevelsSums) -> Facts:
    """Return published sums as rows and lists of numbers, for a model file."""
    rows = [
        dict(zip(GROUP_WORDS, (float(k), *row), strict=True))
        for k, split in enumerate(sums.splits, start=int(sums.ordered))
        for row in np.column_stack(
            [split.ends[:-1], split.ends[1:], split.cases, split.others, bin_means(split)]
        ).tolist()
    ]
    total = np.array([split.total for split in sums.splits])
    chances = np.array([split.chances for split in sums.splits])
    squares = np.array([split.squares for split in sums.splits])
    lists = {"expected": chances / total, "squares": squares / total}
    lists |= dict(zip(AREAS, find_areas(sums).T, strict=True))
    known = {name: x.tolist() for name, x in lists.items() if np.isfinite(x).all()}
    return {"groups": rows, "sums": known}


def read_levels(
    facts: Facts, measures: LevelsMeasures, n_levels: int, *, ordered: bool
) -> LevelsSums:
    """Return the sums that :func:`write_levels` wrote, as far as they and the measures tell.

    Raises
    ------
    ValueError
        If they contradict themselves.
    """
    positions = range(int(ordered), n_levels)
    rows: Sequence[Mapping[str, Any]] = facts["groups"]
    check_rows(rows, GROUP_WORDS)
    if {row["split"] for row in rows} != set(positions):
        raise ValueError("evaluation.groups: some level has no group, or there is one too many")
    lists = {name: np.asarray(x, dtype=np.float64) for name, x in facts.get("sums", {}).items()}
    if not {"expected", "squares"} <= lists.keys() <= SUM_WORDS.keys():
        raise ValueError(f"evaluation.sums: each has {', '.join(SUM_WORDS)}")
    if any(x.shape != (len(positions),) for x in lists.values()):
        raise ValueError("evaluation.sums: a number for each split")
    unknown = np.full(len(positions), np.nan)
    areas = np.stack([lists.get(name, unknown) for name in AREAS], axis=1)
    if ((areas < 0) | (areas > 1)).any() or (areas[:, 1] > areas[:, 2]).any():
        raise ValueError("evaluation.sums: an area lies outside of its interval, or of 0 to 1")
    splits = [_read_split([row for row in rows if row["split"] == k]) for k in positions]
    return _restore(splits, measures, lists["expected"], lists["squares"], areas, ordered=ordered)


def _read_split(rows: Sequence[Mapping[str, float]]) -> ScoreSums:
    """Return the bins of one split's rows."""
    _, above, below, cases, others, means = np.array([[*row.values()] for row in rows]).T
    check_ends(above, below)
    if (above[0], below[-1]) != (0, 1):
        raise ValueError("the groups of the evaluation do not cover 0 to 1")
    if min(cases.min(), others.min()) < -1e-6:
        raise ValueError("evaluation.groups: a count is below 0")
    if ((means < above) | (means > below)).any():
        raise ValueError("the mean prediction of a group lies outside of the group")
    nothing = np.zeros(4), np.zeros(2)
    return ScoreSums(
        cases, others, math.nan, math.nan, math.nan, *nothing, edges=below[:-1], means=means
    )
