r"""Calibration curve and decisions of predicted risks, and what is published of them.

In: :class:`~fedrulefit.core.families.time_sums.TimeSums`. Out: for groups of neighbouring bins the
mean prediction and the observed risk by the last horizon, one minus Kaplan and Meier's curve; for
decisions at the edges between bins what they do. With :math:`s` the share of patients at or above a
threshold t, and :math:`r_t` and :math:`r` their risk and that of all:

=====================  ==========================================================
sensitivity            :math:`s\,r_t / r`
specificity            :math:`1 - s(1 - r_t) / (1 - r)`
predictive values      :math:`r_t`, and :math:`1 - (r - s\,r_t)/(1 - s)`
net benefit            :math:`s\,\{r_t - (1 - r_t)\,t/(1 - t)\}` (Vickers 2008)
=====================  ==========================================================

A table of bins and intervals is nothing to publish: most of its cells hold few patients. Published
is, of bins that hold enough patients with and without the event, how many they are, the
mean prediction, the observed risk with its standard error, and the risk of those above
(:class:`Told`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.families.time_measures import Measures, bin_means, follow
from fedrulefit.core.families.time_sums import AnySums, TimeSums, find_starts, merge
from fedrulefit.core.families.yesno_sums import N_BINS
from fedrulefit.core.rounding import EXACT, Rounding, round_digits, round_step, round_up_step
from fedrulefit.core.shares import Z95, wilson_poisson
from fedrulefit.core.sums import Packing


@dataclass(frozen=True, eq=False)
class Told:
    """What is known of bins once their table is not: each of shape (n_bins,).

    Parameters
    ----------
    patients, events : float64
    risks, errors : float64
        Observed by the last horizon, and its standard error.
    above : float64
        Observed risk of all patients of this bin or higher ones.
    measures : Measures
        Of the same patients.
    """

    patients: Floats
    events: Floats
    risks: Floats
    errors: Floats
    above: Floats
    measures: Measures

    def merged(self, starts: Ints) -> Told:
        """Return bins put together: means over their patients."""
        patients = np.add.reduceat(self.patients, starts)
        with np.errstate(invalid="ignore"):
            risks = np.add.reduceat(self.patients * self.risks, starts) / patients
            spread = np.add.reduceat((self.patients * self.errors) ** 2, starts) / patients**2
        events = np.add.reduceat(self.events, starts)
        errors = np.sqrt(spread)
        return replace(
            self,
            patients=patients,
            events=events,
            risks=risks,
            errors=errors,
            above=self.above[starts],
        )


def tell_bins(sums: TimeSums, measures: Measures) -> Told:
    """Return what is told of the bins as they are."""
    if sums.told:
        return sums.told
    table = sums.table
    curve = follow(table)
    alive = curve.survival[:, -1]
    low, high = (end[:, -1] for end in curve.interval())
    with np.errstate(invalid="ignore"):
        errors = alive * np.sqrt(curve.spread[:, -1])
    # Where no events were, or none is left, Greenwood knows no error: Wilson's ends do.
    errors = np.where(np.isfinite(errors) & (errors > 0), errors, (high - low) / (2 * Z95))
    upper = replace(
        table,
        **{name: np.cumsum(part[::-1], axis=0)[::-1] for name, part in vars(table).items()},
    )
    return Told(
        patients=sums.patients,
        events=sums.cases,
        risks=1 - alive,
        errors=errors,
        above=1 - follow(upper).survival[:, -1],
        measures=measures,
    )


def coarsen(sums: AnySums, least: float, *, each: bool = False) -> AnySums | None:
    """Merge neighbouring bins until each holds a weight of at least `least`.

    With `each` that is so of patients with and without the event. None where all are too few.
    """
    starts = find_starts(sums, least, each=each)
    return None if starts is None else merge(sums, starts, bin_means(sums))


@dataclass(frozen=True)
class Group:
    """Patients whose predicted risks lie close together.

    Parameters
    ----------
    predicted : float
        Mean predicted risk, as far as that is known.
    above, below : float
        Where the group begins and ends.
    observed, low, high : float
        Observed risk by the last horizon, and Rothman's 95 % interval.
    patients, events : float
    """

    predicted: float
    above: float
    below: float
    observed: float
    low: float
    high: float
    patients: float
    events: float


def calibration_groups(sums: TimeSums, measures: Measures, n_groups: int) -> list[Group]:
    """Return the calibration curve: at most `n_groups` groups of similar weight.

    Each is of neighbouring bins. Groups of which nobody knows the risk by the last horizon, for
    nobody was followed so far, are left out.
    """
    weight = sums.patients
    if weight.sum() <= 0:
        return []
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    group = np.minimum((middle * n_groups).astype(np.int64), n_groups - 1)
    _, starts = np.unique(group, return_index=True)
    merged = merge(sums, starts.astype(np.int64), bin_means(sums))
    told, means = tell_bins(merged, measures), bin_means(merged)
    low, high = _find_interval(told)
    columns = [
        np.clip(means, merged.ends[:-1], merged.ends[1:]),
        merged.ends[:-1],
        merged.ends[1:],
        told.risks,
        low,
        high,
        told.patients,
        told.events,
    ]
    known = (told.patients > 0) & np.isfinite(told.risks)
    return [Group(*row) for row in np.column_stack(columns)[known].tolist()]


def _find_interval(told: Told) -> tuple[Floats, Floats]:
    """Return Rothman's 95 % interval of the risk of each bin."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sizes = told.risks * (1 - told.risks) / told.errors**2
    inside = (told.risks > 0) & (told.risks < 1) & np.isfinite(sizes)
    # Without events in a bin the error is half of Wilson's interval from 0: z/(n + z²).
    few = np.maximum(Z95**2 * (1 / np.maximum(2 * Z95 * told.errors, 1e-9) - 1), 1.0)
    low, high = wilson_poisson(told.risks, np.where(inside, sizes, few))
    return np.minimum(low, told.risks), np.maximum(high, told.risks)


@dataclass(frozen=True)
class Decision:
    """What a decision at one threshold does, judged at the last horizon; NaN where unknown.

    Parameters
    ----------
    threshold : float
        An edge of the bins: patients at or above it are treated.
    sensitivity, specificity, ppv, npv : float
    net_benefit, treat_all : float
        Net benefit of the model, and of treating everybody.
    """

    threshold: float
    sensitivity: float
    specificity: float
    ppv: float
    npv: float
    net_benefit: float
    treat_all: float


def decide(sums: TimeSums, measures: Measures) -> list[Decision]:
    """Return what decisions at the edges between the bins do."""
    told = tell_bins(sums, measures)
    total, every = float(told.patients.sum()), float(told.above[0])
    found = []
    for b, at in enumerate(sums.edges.tolist(), start=1):
        share = float(told.patients[b:].sum()) / total if total > 0 else np.nan
        # Of nobody above nothing is known, and nothing is needed.
        risk = float(told.above[b]) if share > 0 else 0.0
        odds, hit = at / (1 - at), share * risk
        found.append(
            Decision(
                threshold=at,
                sensitivity=_share(hit, every),
                specificity=_share(1 - every - (share - hit), 1 - every),
                ppv=risk if share > 0 else np.nan,
                npv=_share(1 - share - (every - hit), 1 - share),
                net_benefit=hit - (share - hit) * odds,
                treat_all=every - (1 - every) * odds,
            )
        )
    return found


def _share(part: float, whole: float) -> float:
    """Return a share, of estimates that need not fit each other to the last digit."""
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else float("nan")


# --- published --------------------------------------------------------------------------------


def publish(
    sums: AnySums,
    measures: Measures,
    least: float,
    rounding: Rounding,
    unit: float,
    packing: Packing[AnySums],
) -> tuple[AnySums, Measures] | None:
    """Return what may be published; None where too few in all.

    Parameters
    ----------
    sums : TimeSums
    measures : Measures
        Of the sums before bins were merged.
    least : float
        Each bin holds at least such a weight of patients with and without the event.
    rounding : Rounding
        ``EXACT`` merges bins, and rounds nothing.
    unit : float
        The most that one patient counts.
    packing : Packing
        How the sums of a site lie.
    """
    merged = coarsen(sums, least, each=True)
    if merged is None:
        return None
    told, means = tell_bins(merged, measures), bin_means(merged)
    if rounding != EXACT:
        counts = (rounding.count(x, unit) for x in measures.counts)
        measures = measures.rounded(rounding.multiple * unit).with_counts(*counts)
        moves = unit / told.patients
        means = _round(means, np.diff(merged.ends) * moves)
        upper = unit / np.cumsum(told.patients[::-1])[::-1]
        told = replace(
            told,
            risks=_round(told.risks, moves),
            above=_round(told.above, upper),
            errors=np.array(
                [x if math.isnan(x) else round_digits(x, 2) for x in told.errors.tolist()]
            ),
            patients=np.array([rounding.count(x, unit) for x in told.patients.tolist()]),
            events=np.array([rounding.count(x, unit) for x in told.events.tolist()]),
        )
    means = np.clip(means, merged.ends[:-1], merged.ends[1:])
    return restore(replace(told, measures=measures), merged.edges, means, packing), measures


def _round(values: Floats, moves: Floats) -> Floats:
    """Round no finer than one patient can move a value, and to three decimals at most."""
    steps = [round_up_step(max(move, 1e-3)) for move in moves.tolist()]
    return np.array(
        [
            x if math.isnan(x) else round_step(x, step)
            for x, step in zip(values.tolist(), steps, strict=True)
        ]
    )


def restore(told: Told, edges: Floats, means: Floats, packing: Packing[AnySums]) -> AnySums:
    """Return sums of which only that is known which was told; `packing` is that of any."""
    sizes, tables = packing.lengths, packing.of.tables()
    numbers: dict[str, Any] = {
        name: np.zeros(size // N_BINS * (len(edges) + 1) if name in tables else size)
        for name, size in sizes.items()
    }
    numbers["chances"] = float(told.patients.sum()) * told.measures.expected
    return packing.of(**numbers, **packing.public, edges=edges, means=means, told=told)
