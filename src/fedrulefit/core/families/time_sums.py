r"""What a site adds up of predicted risks and times: a table of risk bins and intervals of time.

In: risks by the last horizon, and entry, time and event of each patient. Out: :class:`TimeSums`,
which add up over sites; :mod:`fedrulefit.core.families.time_measures` reads the usual measures
off them. Leaves the site: the sums; neither a risk nor a time of a patient.

Risks are counted in the public bins of yes/no outcomes
(:data:`~fedrulefit.core.families.yesno_sums.EDGES`), times in public intervals: those of the
baseline, cut further until none is longer than 1/16 of the whole (:func:`find_times`). Of each bin
and interval four numbers leave: who was at risk at its begin, who had the event, whose
follow-up ended without it, and how long those were at risk who were so for a part of it only, as
shares of its length, each to 1/8. So a patient is known to a bin, an interval and an eighth of it.

Five sums are over all patients: of the risks and the squared errors, each to 1/1024, and of the
log cumulative hazards :math:`F = \log(-\log(1 - p))` below and above p = ½, each to 1/64, from −16
to 4. None is over the patients of one bin.

All are sums of what depends on one patient and on public facts alone: any split of the same
patients into sites gives the same totals, to the last bit. They do not depend on the unit of time.

Oracle: patient by patient, in plain Python (``tests/unit/core/test_time_scores.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.families.survival import Curve, estimate_survival
from fedrulefit.core.families.time_at_risk import find_interval, to_ticks
from fedrulefit.core.families.yesno_sums import EDGES, N_BINS, STEP
from fedrulefit.core.fixed import UNIT_BITS
from fedrulefit.core.rounding import round_to
from fedrulefit.core.sums import Packing, Sum, quantity

if TYPE_CHECKING:
    from fedrulefit.core.families.time_groups import Told

FINEST: Final = 16
"""No interval is longer than this part of the whole."""

PART_STEP: Final = 1 / 8
"""How long somebody was at risk in an interval is a multiple of this share of it."""

HAZARD_STEP: Final = 1 / 64
"""What a patient adds to a sum of log cumulative hazards is a multiple of this."""

LEAST_HAZARD: Final = -16.0
MOST_HAZARD: Final = 4.0
"""Log cumulative hazards beyond count as this: risks of 1 in 9 million, and of all."""

AnySums = TypeVar("AnySums", bound="TimeSums")
AnyCounts = TypeVar("AnyCounts", bound="Counts")


def find_times(ends: Floats, horizons: Sequence[float]) -> Floats:
    """Return the public times at which patients are counted, from 0 on, shape (n_times,).

    They are the ends of the baseline's intervals and the horizons, and times at equal distances
    between them.
    """
    places = np.union1d(ends, horizons)
    parts = np.ceil(np.diff(places) / places[-1] * FINEST * (1 - 1e-9)).astype(np.int64)
    pieces = [
        low + (high - low) * np.arange(n) / n
        for low, high, n in zip(places[:-1], places[1:], parts.tolist(), strict=True)
    ]
    return np.concatenate([*pieces, places[-1:]])


@dataclass(frozen=True, eq=False)
class Counts:
    """The table, by bin and interval.

    Parameters
    ----------
    started : (n_bins, T + 1) float64
        At risk when an interval begins; at last those who were followed to the end.
    events, left, partial : (n_bins, T) float64
    """

    started: Floats
    events: Floats
    left: Floats
    partial: Floats

    @property
    def entered(self) -> Floats:
        """Who came under observation inside an interval, (n_bins, T)."""
        entered: Floats = np.diff(self.started, axis=1) + self.events + self.left
        return entered

    @property
    def through(self) -> Floats:
        """Who is known to have been at risk all through an interval, and to go on, (n_bins, T)."""
        return np.maximum(self.started[:, :-1] - self.events - self.left, 0.0)

    @property
    def patients(self) -> Floats:
        """Who they all are, (n_bins,)."""
        ended: Floats = (self.events + self.left).sum(axis=1)
        return ended + self.started[:, -1]

    @property
    def ranked(self) -> Counts:
        """The table in which patients are held against each other, by who had the event first."""
        return self

    @property
    def exposed(self) -> Floats:
        """The time at risk of those without the event in an interval, (n_bins, T)."""
        return self.through + self.partial

    def follow(self) -> Curve:
        """Return the chance of no event up to each time, of the patients of each bin."""
        return estimate_survival(self.events, self.through, self.partial)

    def pooled(self: AnyCounts) -> AnyCounts:
        """Return the table of all bins together."""
        return self.merged(np.zeros(1, dtype=np.int64))

    def merged(self: AnyCounts, starts: Ints) -> AnyCounts:
        """Return the table of bins put together, each from a start on."""
        parts = {name: np.add.reduceat(part, starts) for name, part in vars(self).items()}
        return replace(self, **parts)


@dataclass(frozen=True, eq=False)
class TimeSums(Sum):
    """Sums over patients, of one site or of all; tables are flat, bin by bin.

    Parameters
    ----------
    started : (n_bins · n_times,) float64
        Weights of patients at risk after each public time; after the last one, of those who were
        followed to it without an event.
    events, left : (n_bins · n_spans,) float64
        Weights of patients with the event in an interval, and of those whose follow-up
        ended there without it.
    partial : (n_bins · n_spans,) float64
        Summed shares of an interval at which patients were at risk who were not all through it
        and had no event in it.
    chances : float
        Summed predicted risk.
    squares : (2,) float64
        Summed squared errors of patients with the event, and of those followed to the end.
    log_hazards : (2,) float64
        Summed log cumulative hazards below and above risk ½.
    times : (n_times,) float64
        Public: :func:`find_times`.
    edges : (n_bins - 1,) float64
        Between the bins of the risk.
    means : (n_bins,) float64, optional
        Estimated mean prediction of each bin; None: by the edges alone.
    unmerged : TimeSums, optional
        The sums before bins were merged; None where none were.
    told : Told, optional
        What was published in place of the table; None where the table is known.
    """

    started: Floats = quantity(
        "Σ w of those at risk after each public time, per public bin of the risk",
        shape=f"{N_BINS}·n_times",
    )
    events: Floats = quantity(
        "Σ w of those with the event, per bin and public interval", shape=f"{N_BINS}·n_spans"
    )
    left: Floats = quantity(
        "Σ w of those whose follow-up ended without it, per bin and interval",
        shape=f"{N_BINS}·n_spans",
    )
    partial: Floats = quantity(
        "Σ w·share of the interval at risk, to 1/8, of those without event there who were at risk "
        "for a part of it",
        shape=f"{N_BINS}·n_spans",
    )
    chances: float = quantity("Σ w·p, each p to 1/1024")
    squares: Floats = quantity(
        "Σ w·(1 − p)² of those with the event and Σ w·p² of those followed to the end, each to "
        "1/1024",
        shape="2",
    )
    log_hazards: Floats = quantity(
        "Σ w·F below and above p = ½: F = log(−log(1 − p)) to 1/64, from −16 to 4",
        shape="2",
        bits=UNIT_BITS - 4,
        most="16·w",
    )
    times: Floats = field(default_factory=lambda: np.array([0.0, 1.0]))
    edges: Floats = field(default_factory=lambda: EDGES)
    means: Floats | None = None
    unmerged: Any = None
    told: Told | None = None

    counts: ClassVar[type[Counts]] = Counts

    @classmethod
    def packing(cls, times: Floats) -> Packing[TimeSums]:
        """Return how the numbers lie."""
        sizes = {"n_times": len(times), "n_spans": len(times) - 1}
        return Packing(cls, sizes, public={"times": times})

    @property
    def n_bins(self) -> int:
        """Bins of the risk."""
        return len(self.edges) + 1

    @property
    def table(self) -> Counts:
        """The counts by bin and interval."""
        return self.counts(*(getattr(self, n).reshape(self.n_bins, -1) for n in self.tables()))

    @classmethod
    def tables(cls) -> tuple[str, ...]:
        """Return the quantities that are tables."""
        return tuple(table.name for table in fields(cls.counts))

    @property
    def ends(self) -> Floats:
        """Where bins begin and end, from 0 to 1, shape (n_bins + 1,)."""
        return np.concatenate([[0.0], self.edges, [1.0]])

    @property
    def fine(self: AnySums) -> AnySums:
        """The sums before bins were merged."""
        found: AnySums = self.unmerged or self
        return found

    @property
    def patients(self) -> Floats:
        """Weight of patients per bin, (n_bins,)."""
        return self.told.patients if self.told else self.table.patients

    @property
    def cases(self) -> Floats:
        """Weight of patients with the event per bin, (n_bins,)."""
        return self.told.events if self.told else self.table.events.sum(axis=1)


def to_log_hazard(risk: Floats) -> Floats:
    """Return log(−log(1 − p)), from −16 to 4."""
    with np.errstate(divide="ignore"):
        hazard: Floats = np.clip(np.log(-np.log1p(-risk)), LEAST_HAZARD, MOST_HAZARD)
    return hazard


def count_times(risk: Floats, outcome: Floats, weights: Floats, times: Floats) -> TimeSums:
    """Return the sums of some patients.

    Parameters
    ----------
    risk : (n_rows,) float64
        Predicted risk by the last public time.
    outcome : (n_rows, 3) float64
        Entry, time of the event or of the last news, and event (1) or none (0).
    weights : (n_rows,) float64
    times : (n_times,) float64
        Public times, from 0 to the last horizon; what happens later does not count.
    """
    happened, followed = find_ends(outcome, times)
    tables = lay_out(outcome, times)
    wrong = [(weights * happened) @ round_to((1 - risk) ** 2, STEP)]
    wrong += [(weights * followed) @ round_to(risk**2, STEP)]
    return TimeSums(
        **add_tables(risk, weights, tables),
        **sum_risks(risk, weights),
        squares=np.array(wrong, dtype=np.float64),
        times=times,
    )


def find_ends(outcome: Floats, times: Floats) -> tuple[Bools, Bools]:
    """Return who had the event by the last public time, and who was followed to it without."""
    time = to_ticks(outcome[:, 1], times[-1])
    happened = (outcome[:, 2] > 0) & (time <= 1)
    return happened, ~happened & (time >= 1)


def lay_out(outcome: Floats, times: Floats) -> dict[str, Any]:
    """Return what each patient adds to the tables, by their names: (n_rows, T) or (n_rows, T + 1).

    Any event above 0 is one.
    """
    entry, time = to_ticks(outcome[:, :2], times[-1]).T
    ends = to_ticks(times, times[-1])
    happened, followed = find_ends(outcome, times)
    ended, spans = find_interval(time, ends), np.arange(len(times) - 1)
    here = spans == ended[:, None]
    # Somebody of day 0 was at risk, too, if but for a moment.
    begun = (entry[:, None] <= ends[:-1]) & (spans <= ended[:, None])
    since, until = np.maximum(entry[:, None], ends[:-1]), np.minimum(time[:, None], ends[1:])
    shares = round_to(np.clip((until - since) / np.diff(ends), 0.0, 1.0), PART_STEP)
    left = here & ~(happened | followed)[:, None]
    parts = left | ((shares > 0) & ~begun & ~(here & happened[:, None]))
    return {
        "started": np.column_stack([begun, followed]),
        "events": here & happened[:, None],
        "left": left,
        "partial": np.where(parts, shares, 0.0),
    }


def add_tables(risk: Floats, weights: Floats, tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables of some patients, flat, by public bin of their risks."""
    bins = np.searchsorted(EDGES, risk, side="right")
    return {name: _add_bins(bins, weights[:, None] * part) for name, part in tables.items()}


def sum_risks(risk: Floats, weights: Floats) -> dict[str, Any]:
    """Return the sums of the risks, and of their log cumulative hazards."""
    hazards, above = round_to(to_log_hazard(risk), HAZARD_STEP), risk >= 0.5
    return {
        "chances": float(weights @ round_to(risk, STEP)),
        "log_hazards": np.array([(weights * side) @ hazards for side in (~above, above)]),
    }


def _add_bins(bins: Ints, parts: Floats) -> Floats:
    """Return the sums of rows by bin, flat."""
    found = [np.bincount(bins, part, N_BINS) for part in parts.T]
    return np.column_stack(found).astype(np.float64).ravel()


def add_times(parts: Sequence[AnySums]) -> AnySums:
    """Add up over sites."""
    names = parts[0].quantities()
    total: dict[str, Any] = {name: sum(getattr(part, name) for part in parts) for name in names}
    return replace(parts[0], **total)


def merge(sums: AnySums, starts: Ints, means: Floats) -> AnySums:
    """Return the sums with bins put together, each from a start on; `means` are those of now."""
    patients = np.add.reduceat(sums.patients, starts)
    chances = np.add.reduceat(sums.patients * means, starts)
    table: dict[str, Any] = {
        name: np.add.reduceat(getattr(sums, name).reshape(sums.n_bins, -1), starts).ravel()
        for name in sums.tables()
    }
    return replace(
        sums,
        **table,
        edges=sums.edges[starts[1:] - 1],
        means=chances / np.maximum(patients, 1e-300),
        unmerged=sums.fine,
        told=sums.told and sums.told.merged(starts),
    )


def find_starts(sums: TimeSums, least: float, *, each: bool = False) -> Ints | None:
    """Return from which bins on others begin that hold a weight of at least `least`.

    With `each` that is so of patients with and without the event. None where all are too few.
    """
    cases, patients = sums.cases, sums.patients
    parts = np.stack([cases, patients - cases] if each else [patients])
    held, left = np.zeros(len(parts)), parts.sum(axis=1)
    if (left < least).any():
        return None
    starts = [0]
    for b in range(parts.shape[1] - 1):
        held, left = held + parts[:, b], left - parts[:, b]
        if (held >= least).all() and (left >= least).all():  # the last takes what is left over
            starts.append(b + 1)
            held = np.zeros(len(parts))
    return np.array(starts, dtype=np.int64)
