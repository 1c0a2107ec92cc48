r"""What a site adds up of predicted risks of a cause, and of times to events of several causes.

In: the risk of the cause of interest by each horizon, and entry, time and cause of each patient.
Out: :class:`CompetingSums`, which add up over sites. Leaves the site: the sums.

They are those of :mod:`fedrulefit.core.families.time_sums` for the event of interest, with one more
table: who had an event of another cause, by public bin of the risk and interval of time. Such a
patient is at risk until then, and not lost to follow-up: it is known that the event of interest
will not come. Squared errors and risks are summed over all patients for each horizon, as the risk
by one does not follow from that by another.

Three readings of the table (:class:`CauseCounts`): the cumulative incidence of Aalen and Johansen
with the variance of Marubini and Valsecchi (1995), the risk set of Wolbers (2009), in which a
patient with a competing event has the event of interest never, and that of Fine and Gray (1999), in
which such a patient stays with the chance to be under observation still.

Oracles: patient by patient, and statsmodels (``tests/unit/core/test_competing_judge.py``,
``tests/properties/test_competing_measures.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.families.survival import Curve, estimate_survival
from fedrulefit.core.families.time_sums import (
    Counts,
    TimeSums,
    add_tables,
    lay_out,
    sum_risks,
)
from fedrulefit.core.families.yesno_sums import N_BINS, STEP
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Packing, quantity

PARTS = 3
"""Squared errors of those with the event, with a competing one, and at risk after a horizon."""


@dataclass(frozen=True)
class CauseCounts(Counts):
    """The table, by bin and interval.

    Parameters
    ----------
    started, events, left, partial
        As of :class:`Counts`; events are those of interest.
    others : (n_bins, T) float64
        With an event of another cause.
    """

    others: Floats

    @property
    def entered(self) -> Floats:
        """Who came under observation inside an interval, (n_bins, T)."""
        entered: Floats = super().entered + self.others
        return entered

    @property
    def through(self) -> Floats:
        """Who is known to have been at risk all through an interval, and to go on, (n_bins, T)."""
        return np.maximum(self.started[:, :-1] - self.events - self.others - self.left, 0.0)

    @property
    def patients(self) -> Floats:
        """Who they all are, (n_bins,)."""
        patients: Floats = super().patients + self.others.sum(axis=1)
        return patients

    @property
    def ranked(self) -> Counts:
        """Who had a competing event has the event of interest never: later than all."""
        gone = np.cumsum(self.others, axis=1)
        kept = np.column_stack([np.zeros(len(gone)), gone])
        return Counts(self.started + kept, self.events, self.left, self.partial)

    @property
    def exposed(self) -> Floats:
        """Time at risk as Fine and Gray count it, (n_bins, T): with who had a competing event."""
        kept = self.kept
        middle = np.sqrt(kept[:-1] * kept[1:])
        with np.errstate(divide="ignore", invalid="ignore"):
            weighed = np.where(middle > 0, self.others / middle, 0.0)
        stayed = middle * np.cumsum(weighed, axis=1)
        exposed: Floats = self.through + self.partial + stayed
        return exposed

    @property
    def kept(self) -> Floats:
        """The chance to be under observation still, of all patients together, (T + 1,)."""
        pool = self.pooled()
        ended = (pool.events + pool.others) / 2
        kept: Floats = estimate_survival(pool.left, pool.through, ended).survival[0]
        return kept

    @property
    def any_event(self) -> Counts:
        """The table in which every event is one."""
        return Counts(self.started, self.events + self.others, self.left, self.partial)

    def follow(self) -> Curve:
        """Return one minus the cumulative incidence of the event of interest, by bin."""
        return follow_incidence(self.events, self.others, self.through + self.partial)


def follow_incidence(events: Floats, others: Floats, stay: Floats) -> Curve:
    """Return one minus Aalen and Johansen's cumulative incidence at the ends of intervals.

    Parameters
    ----------
    events, others, stay : (…, T) float64
        Patients with the event of interest, with another one, and the time at risk of those
        without any, as shares of the interval.
    """
    alive = estimate_survival(events + others, stay, np.zeros_like(stay))
    before, size = alive.survival[..., :-1], events + others + stay
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(size > 0, events / size, 0.0)
        ended = np.where((size > 0) & (stay > 0), (events + others) / (size * stay), 0.0)
        noise = np.where(size > 0, rate * (1 - rate) / size, 0.0)
        mixed = np.where(size > 0, rate / size, 0.0)
    found = np.minimum(np.cumsum(before * rate, axis=-1), 1.0)  # sums of shares, in rounding
    sums = [
        np.cumsum(part, axis=-1)
        for part in (
            ended,
            ended * found,
            ended * found**2,
            before**2 * noise,
            before * mixed,
            before * mixed * found,
        )
    ]
    variance = found**2 * sums[0] - 2 * found * sums[1] + sums[2] + sums[3]
    variance += -2 * (found * sums[4] - sums[5])
    none = np.zeros((*events.shape[:-1], 1))
    without = np.concatenate([none + 1, 1 - found], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.maximum(variance, 0.0) / (1 - found) ** 2
    return Curve(without, np.concatenate([none, spread], axis=-1), alive.size)


@dataclass(frozen=True, eq=False, kw_only=True)
class CompetingSums(TimeSums):
    """Sums over patients, of one site or of all; tables are flat, bin by bin.

    Parameters
    ----------
    started, events, left, partial, chances, log_hazards
        As of :class:`TimeSums`: of the risk of the cause of interest by the last horizon.
    others : (n_bins · n_spans,) float64
        Weights of patients with a competing event in an interval.
    squares : (n_horizons · 3,) float64
        For each horizon, summed squared errors of patients with the event by then, with a
        competing one, and at risk after it.
    expected : (n_horizons,) float64
        Summed predicted risk by each horizon.
    times, edges, means, unmerged, told
        As of :class:`TimeSums`.
    horizons : (n_horizons,) float64
        Public; each is one of the times.
    """

    others: Floats = quantity(
        "Σ w of those with a competing event, per bin and interval", shape=f"{N_BINS}·n_spans"
    )
    squares: Floats = quantity(
        "by each horizon Σ w·(1 − p)² of those with the event by then, and Σ w·p² of those with a "
        "competing one by then and of those at risk after it, each to 1/1024",
        shape=f"n_horizons·{PARTS}",
    )
    expected: Floats = quantity("Σ w·p by each horizon, each p to 1/1024", shape="n_horizons")
    horizons: Floats = field(default_factory=lambda: np.ones(1))

    counts: ClassVar[type[Counts]] = CauseCounts

    @classmethod
    def of_horizons(cls, times: Floats, horizons: Sequence[float]) -> Packing[CompetingSums]:
        """Return how the numbers lie."""
        sizes = {"n_times": len(times), "n_spans": len(times) - 1, "n_horizons": len(horizons)}
        public = {"times": times, "horizons": np.array(horizons)}
        return Packing(cls, sizes, public=public)

    @property
    def places(self) -> Ints:
        """Which of the times each horizon is, shape (n_horizons,)."""
        return np.searchsorted(self.times, self.horizons)


def count_causes(
    risks: Floats, outcome: Floats, weights: Floats, packing: Packing[CompetingSums]
) -> CompetingSums:
    """Return the sums of some patients.

    Parameters
    ----------
    risks : (n_rows, n_horizons) float64
        Predicted risk of the cause of interest by each horizon.
    outcome : (n_rows, 3) float64
        Entry, time of the event or of the last news, and cause: 1 that of interest, 0 none.
    weights : (n_rows,) float64
    packing : Packing
    """
    public: dict[str, Any] = dict(packing.public)
    times, horizons = public["times"], public["horizons"]
    tables = lay_out(outcome, times)
    own = (outcome[:, 2] == 1)[:, None]
    tables |= {"events": tables["events"] & own, "others": tables["events"] & ~own}
    wrong = [
        weights @ round_to(part, STEP)
        for place, risk in zip(np.searchsorted(times, horizons), risks.T, strict=True)
        for part in _list_errors(risk, tables, int(place))
    ]
    last: Floats = np.ascontiguousarray(risks[:, -1])
    return CompetingSums(
        **add_tables(last, weights, tables),
        **sum_risks(last, weights),
        squares=np.array(wrong, dtype=np.float64),
        expected=np.array([weights @ round_to(risk, STEP) for risk in risks.T]),
        **public,
    )


def _list_errors(risk: Floats, tables: dict[str, Bools], place: int) -> list[Floats]:
    """Return squared errors of patients by what happened to them, shape (n_rows,) each."""
    happened, forestalled = (tables[n][:, :place].any(axis=1) for n in ("events", "others"))
    return [
        happened * (1 - risk) ** 2,
        forestalled * risk**2,
        tables["started"][:, place] * risk**2,
    ]
