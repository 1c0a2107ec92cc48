"""How often the intervals over hospitals hold what they are about.

Hospitals of 150 to 2,000 patients are drawn, a sixth of them with the outcome on average, whose
AUC, calibration slope and calibration in the large differ by τ (the slope by half of it). Each
is judged as the program judges, from score histograms and to three decimals, and it is counted
how often the mean over hospitals, the prediction interval for a further one, and the interval of
the AUC within hospitals hold the truth.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import expit, logit, ndtri

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import YesNo
from fedrulefit.core.families.yesno_measures import Measures
from fedrulefit.core.sums import Packing, Sum
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import Effort
from fedrulefit.experiments.units import Row
from fedrulefit.privacy.policy import MIN_COUNT

if TYPE_CHECKING:
    import pandas as pd

HOSPITALS: Final = (3, 5, 10, 25)
SPREADS: Final = (0.0, 0.1, 0.3, 0.6)
AREA: Final = 0.85
RATE: Final = 1 / 6
SIZES: Final = (150, 2000)
BLOCK: Final = 50
"""Draws of a unit."""

_JUDGE: Final = YesNo.judge


@dataclass(frozen=True)
class Truth:
    """What is true of one hospital: logit of the AUC, calibration slope and in the large."""

    area: float
    slope: float
    large: float


@dataclass(frozen=True)
class Told:
    """An interval of one draw: of which measure, for whom, and whether it held the truth."""

    interval: str
    low: float
    high: float
    truth: float

    @property
    def known(self) -> bool:
        """Whether the program tells it."""
        return not np.isnan(self.low)

    @property
    def held(self) -> bool:
        """Whether it holds the truth."""
        return self.low <= self.truth <= self.high


def draw_truth(spread: float, rng: np.random.Generator) -> Truth:
    """Draw what is true of a hospital; calibration and AUC differ independently.

    True log-odds have an AUC above ½: in the two of 1,000 draws (τ = 0.6) where that is not so,
    draw again.
    """
    area, slope, large = rng.normal(size=3) * spread
    while logit(AREA) + area <= 0:
        area = rng.normal() * spread
    return Truth(float(logit(AREA) + area), float(1 + slope / 2), float(large))


def draw_scores(truth: Truth, rng: np.random.Generator, *, sloped: bool) -> tuple[Floats, Floats]:
    """Draw one hospital's predictions and outcomes.

    Log-odds are normal, and those of patients with the outcome higher by their variance: so
    they are true. What is predicted differs from them by the slope (`sloped`) or by a shift.
    """
    low, high = np.log(SIZES)
    n_rows = int(np.exp(rng.uniform(low, high)))
    outcome = (rng.random(n_rows) < RATE).astype(np.float64)
    width = np.sqrt(2) * ndtri(expit(truth.area))
    base = logit(RATE) - width**2 / 2
    true = base + width**2 * outcome + width * rng.normal(size=n_rows)
    told = (true - base) / max(truth.slope, 0.05) + base if sloped else true - truth.large
    return expit(told), outcome


def judge_hospitals(n_sites: int, spread: float, rng: np.random.Generator) -> Iterator[Told]:
    """Yield the intervals of one draw of so many hospitals."""
    shifted = [draw_truth(spread, rng) for _ in range(n_sites)]
    sums = [_count(truth, rng, sloped=False) for truth in shifted]
    new = draw_truth(spread, rng)
    areas, _, large = (found.across for found in _JUDGE.summarise(_measure(sums)))
    yield Told("mean AUC", areas.low, areas.high, AREA)
    yield Told("AUC of a further hospital", areas.new_low, areas.new_high, float(expit(new.area)))
    yield Told("mean in the large", large.low, large.high, 0.0)
    yield Told("in the large of a further hospital", large.new_low, large.new_high, new.large)
    tilted = [_count(draw_truth(spread, rng), rng, sloped=True) for _ in range(n_sites)]
    _, slopes, _ = (found.across for found in _JUDGE.summarise(_measure(tilted)))
    yield Told("mean slope", slopes.low, slopes.high, 1.0)
    yield Told("slope of a further hospital", slopes.new_low, slopes.new_high, new.slope)
    yield _judge_within(sums, shifted)


def _judge_within(sums: Sequence[Any], truths: Sequence[Truth]) -> Told:
    packing = Packing(_JUDGE.within_sums)
    placed = [_JUDGE.place_within(part, MIN_COUNT) for part in sums]
    total = packing.read(np.sum([packing.round(part) for part in placed], axis=0))
    found = _JUDGE.measure_within(total)
    name = "AUC within hospitals"
    if found is None:
        return Told(name, np.nan, np.nan, np.nan)
    true = [float(expit(truth.area)) for truth in truths]
    return Told(
        name,
        found.auc_low,
        found.auc_high,
        float(np.average(true, weights=[p.cases for p in placed])),
    )


def _count(truth: Truth, rng: np.random.Generator, *, sloped: bool) -> Sum:
    chance, outcome = draw_scores(truth, rng, sloped=sloped)
    return _JUDGE.count(chance, outcome, np.ones(len(chance)))


def _measure(sums: Sequence[Any]) -> list[Measures]:
    """Return the measures of the hospitals that have enough patients, as a site tells them."""
    enough = [part for part in sums if _JUDGE.coarsen(part, MIN_COUNT, each=True) is not None]
    merged = [_JUDGE.coarsen(part, MIN_COUNT) for part in enough]
    return [_JUDGE.measure(part).rounded(MIN_COUNT) for part in merged if part is not None]


@dataclass(frozen=True)
class HospitalsUnit:
    """Draws of so many hospitals that differ by τ = `spread`."""

    hospitals: int
    spread: float
    block: int
    draws: int
    seed: int

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"{self.hospitals}-{1000 * self.spread:.0f}-{self.block:04d}"

    def run(self) -> list[Row]:
        """Count for each interval how often it was told, and how often it held the truth."""
        seeds = [self.seed, self.hospitals, round(1000 * self.spread), self.block]
        rng = np.random.default_rng(seeds)
        told = [
            found
            for _ in range(self.draws)
            for found in judge_hospitals(self.hospitals, self.spread, rng)
        ]
        return [
            self._count(name, [found for found in told if found.interval == name])
            for name in dict.fromkeys(found.interval for found in told)
        ]

    def _count(self, name: str, own: Sequence[Told]) -> Row:
        known = [found for found in own if found.known]
        return {
            "hospitals": self.hospitals,
            "tau": self.spread,
            "interval": name,
            "repetition": self.block,
            "asked": float(len(own)),
            "told": float(len(known)),
            "held": float(sum(found.held for found in known)),
            "width": float(sum(found.high - found.low for found in known)),
        }


def make_units(
    repetitions: int,
    *,
    seed: int,
    effort: Effort,
    hospitals: Sequence[int] = HOSPITALS,
    spreads: Sequence[float] = SPREADS,
) -> list[HospitalsUnit]:
    """Return the units, all numbers of hospitals of a block together."""
    return [
        HospitalsUnit(n_sites, spread, start // BLOCK, min(BLOCK, repetitions - start), seed)
        for start in range(0, repetitions, BLOCK)
        for n_sites in (hospitals[:1] if effort.quick else hospitals)
        for spread in spreads
    ]


def summarise_hospitals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, its Monte-Carlo error, mean width and the share that is not told.

    A row per number of hospitals, τ and interval.
    """
    keys = ["hospitals", "tau", "interval"]
    found = rows.groupby(keys, sort=False)[["asked", "told", "held", "width"]].sum()
    share = found["held"] / found["told"].where(found["told"] > 0)
    found["coverage"] = share
    found["error"] = np.sqrt(share * (1 - share) / found["told"])
    found["width"] = found["width"] / found["told"].where(found["told"] > 0)
    found["too_few"] = 1 - found["told"] / found["asked"]
    return found.drop(columns=["asked", "told", "held"]).reset_index()


def write_results(rows: pd.DataFrame, folder: Path) -> str:
    """Write the table into `folder`, and return it as Markdown."""
    table = hospitals_table(summarise_hospitals(rows))
    write_texts(folder, {"tables.md": table})
    return table


def hospitals_table(found: pd.DataFrame) -> str:
    """Return the table as Markdown: a row per interval and number of hospitals, a column per τ."""
    spreads = sorted(set(found["tau"]))
    head = ["interval", "hospitals", *(f"τ = {spread:g}" for spread in spreads)]
    cells = {
        (row["interval"], row["hospitals"], row["tau"]): _tell_cell(row)
        for row in found.to_dict("records")
    }
    names, counts = list(dict.fromkeys(found["interval"])), sorted(set(found["hospitals"]))
    lines = [(name, count) for name in names for count in counts]
    return make_table(
        head,
        [[name, str(count), *(cells[name, count, s] for s in spreads)] for name, count in lines],
    )


def _tell_cell(row: dict[Hashable, Any]) -> str:
    """Return coverage, its error and the mean width."""
    if np.isnan(row["coverage"]):
        return "too few"
    return f"{row['coverage']:.3f} ± {row['error']:.3f} ({row['width']:.2f})"
