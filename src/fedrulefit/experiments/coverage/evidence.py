"""How often the intervals of rules on held-out patients hold what they are about.

Hospitals that differ in their patients and in their risk are drawn, and a model is learnt from them
as the program learns: rules grow, λ is chosen by cross-validation, half of the patients are held
out. What a rule's odds ratio within these hospitals truly is, many more patients of the same
hospitals tell. Rules that name only covariates without any effect have an odds ratio of 1: how
many of their intervals leave it out is the share of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.engines import inprocess
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import Effort
from fedrulefit.experiments.units import Row
from fedrulefit.model import Model, RuleTerm
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

if TYPE_CHECKING:
    import pandas as pd

N_FEATURES: Final = 6
IDLE: Final = frozenset({3, 4, 5})
"""Covariates without any effect, on each other or on the outcome."""

HOSPITALS: Final = (3, 10)
PATIENTS: Final = (300, 1000)
"""Of each hospital, half of them held out."""

STRENGTHS: Final = (0.0, 1.0)
"""Of all effects; 0 for none."""

SHIFT: Final = 0.8
"""Standard deviation of what hospitals differ by, in log-odds."""

MANY: Final = 40_000
"""Patients of each hospital that tell the truth."""


@dataclass(frozen=True, eq=False)
class Hospital:
    """A hospital: how its first covariate lies, and how ill its patients are."""

    bend: float
    level: float

    def draw(self, n_rows: int, strength: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return covariates between 0 and 1, and outcomes."""
        values = rng.random((n_rows, N_FEATURES))
        values[:, 0] **= self.bend  # ill hospitals have high values: pooled, it would mislead
        x = values.T
        score = (x[0] >= 0.6) + 1.2 * ((x[1] < 0.4) & (x[2] >= 0.5)) + 0.8 * (x[2] - 0.5)
        chance = expit(self.level + strength * (score - 0.5))
        return values, (rng.random(n_rows) < chance).astype(np.float64)


def draw_hospitals(n_sites: int, rng: np.random.Generator) -> list[Hospital]:
    """Return hospitals in which the first covariate and the risk go together."""
    shifts = SHIFT * rng.normal(size=n_sites)
    return [Hospital(math.exp(-0.7 * shift), -1.0 + shift) for shift in shifts.tolist()]


def make_study(**settings: Any) -> Study:
    """Return the study, with the program's defaults but half of the patients held out.

    And without noise, which only moves cut-offs: so that a draw is the same again.
    """
    number = {"kind": "number", "range": [0.0, 1.0]}
    return Study.from_mapping(
        {
            "name": "evidence",
            "outcome": {"column": "y", "positive": 1, "negative": 0},
            "covariates": {f"x{j}": number for j in range(N_FEATURES)},
            "settings": {"holdout": 0.5, "noise": False, **settings},
        }
    )


def learn(
    n_sites: int, patients: int, strength: float, rng: np.random.Generator, study: Study
) -> tuple[Model, list[Hospital]]:
    """Draw hospitals and their patients, and learn a model."""
    hospitals = draw_hospitals(n_sites, rng)
    tables = {}
    for k, hospital in enumerate(hospitals):
        values, outcome = hospital.draw(patients, strength, rng)
        tables[f"site {k:02d}"] = Table(values, outcome, np.ones(patients))
    return inprocess.fit(study, tables).model, hospitals


def find_truth(
    model: Model, hospitals: Sequence[Hospital], strength: float, rng: np.random.Generator
) -> list[float]:
    """Return the logarithm of each rule's odds ratio within the hospitals."""
    rules = [term.rule for term in model.rule_terms]
    above, below = np.zeros((2, len(rules)))
    for hospital in hospitals:
        values, outcome = hospital.draw(MANY, strength, rng)
        design = evaluate_terms(values, model.grid, rules, ())
        for places, block in design.rule_blocks() if rules else ():
            inside, sick = block, outcome[:, None] == 1
            a, b = (inside & sick).sum(axis=0), (inside & ~sick).sum(axis=0)
            c, d = (~inside & sick).sum(axis=0), (~inside & ~sick).sum(axis=0)
            above[places] += a * d / MANY
            below[places] += b * c / MANY
    with np.errstate(divide="ignore"):
        truth: list[float] = np.log(above / below).tolist()
    return truth


@dataclass(frozen=True)
class Told:
    """The interval of one rule: whether it is told, holds the truth, and is a false alarm."""

    known: bool
    held: bool
    width: float
    idle: bool
    alarm: bool


def judge_rules(
    n_sites: int, patients: int, strength: float, rng: np.random.Generator, study: Study
) -> Iterator[Told]:
    """Yield what is told of the rules of one model."""
    model, hospitals = learn(n_sites, patients, strength, rng, study)
    truths = find_truth(model, hospitals, strength, rng)
    for term, truth in zip(model.rule_terms, truths, strict=True):
        idle = strength == 0 or set(term.rule.features) <= IDLE
        yield _judge(term, 0.0 if idle else truth, idle=idle)


def _judge(term: RuleTerm, truth: float, *, idle: bool) -> Told:
    found = term.within
    if found is None:
        return Told(False, False, 0.0, idle, False)
    held = found.low <= truth <= found.high
    return Told(True, held, found.high - found.low, idle, idle and not held)


@dataclass(frozen=True)
class EvidenceUnit:
    """One draw of hospitals, and a model of them."""

    hospitals: int
    patients: int
    strength: float
    draw: int
    seed: int
    quick: bool

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"{self.hospitals}-{self.patients}-{10 * self.strength:.0f}-{self.draw:05d}"

    def run(self) -> list[Row]:
        """Count the rules whose interval is told, and holds the truth."""
        seeds = [self.seed, self.hospitals, self.patients, round(10 * self.strength), self.draw]
        rng = np.random.default_rng(seeds)
        study = make_study(seed=self.draw, **({"n_trees": 20, "folds": 3} if self.quick else {}))
        found = list(judge_rules(self.hospitals, self.patients, self.strength, rng, study))
        known = [told for told in found if told.known]
        return [
            {
                "hospitals": self.hospitals,
                "patients": self.patients,
                "strength": self.strength,
                "repetition": self.draw,
                "asked": float(len(found)),
                "told": float(len(known)),
                "held": float(sum(told.held for told in known)),
                "width": float(sum(told.width for told in known)),
                "idle": float(sum(told.idle for told in known)),
                "alarms": float(sum(told.alarm for told in known)),
            }
        ]


def make_units(repetitions: int, *, seed: int, effort: Effort) -> list[EvidenceUnit]:
    """Return the units, all settings of a draw together."""
    return [
        EvidenceUnit(n_sites, patients, strength, draw, seed, effort.quick)
        for draw in range(repetitions)
        for n_sites in (HOSPITALS[:1] if effort.quick else HOSPITALS)
        for patients in (PATIENTS[:1] if effort.quick else PATIENTS)
        for strength in STRENGTHS
    ]


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage and false alarms with their Monte-Carlo errors, over draws.

    Rules of one model are of the same patients: so the errors are over models.
    """
    import pandas as pd

    keys = ["hospitals", "patients", "strength"]
    groups = rows.groupby(keys, sort=True)
    return pd.DataFrame([dict(zip(keys, key, strict=True)) | _count(own) for key, own in groups])


def _count(own: pd.DataFrame) -> dict[str, float]:
    coverage, error = _share(own["held"], own["told"])
    alarms, alarms_error = _share(own["alarms"], own["idle"])
    asked, told = own["asked"].sum(), own["told"].sum()
    return {
        "rules": asked / len(own),
        "coverage": coverage,
        "error": error,
        "alarms": alarms,
        "alarms_error": alarms_error,
        "width": own["width"].sum() / told if told else math.nan,
        "too_few": 1 - told / asked if asked else math.nan,
    }


def _share(part: pd.Series, whole: pd.Series) -> tuple[float, float]:
    total = float(whole.sum())
    if not total:
        return math.nan, math.nan
    share = float(part.sum()) / total
    return share, float(np.sqrt(((part - share * whole) ** 2).sum())) / total


def write_results(rows: pd.DataFrame, folder: Path) -> str:
    """Write the table into `folder`, and return it as Markdown."""
    table = evidence_table(summarise(rows))
    write_texts(folder, {"tables.md": table})
    return table


def evidence_table(found: pd.DataFrame) -> str:
    """Return the table as Markdown, a row per setting."""
    head = ("hospitals", "patients of each", "effects", "rules", "coverage", "false alarms",
            "mean width", "not told")  # fmt: skip
    return make_table(head, [_tell(row) for row in found.to_dict("records")])


def _tell(row: dict[Hashable, Any]) -> list[str]:
    def share(name: str, error: str) -> str:
        return "–" if math.isnan(row[name]) else f"{row[name]:.3f} ± {row[error]:.3f}"

    return [
        f"{row['hospitals']:.0f}",
        f"{row['patients']:,.0f}",
        "yes" if row["strength"] else "none",
        f"{row['rules']:.1f}",
        share("coverage", "error"),
        share("alarms", "alarms_error"),
        f"{row['width']:.2f}",
        f"{100 * row['too_few']:.0f} %",
    ]
