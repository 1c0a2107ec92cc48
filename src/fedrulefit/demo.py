"""A synthetic trauma registry with planted rules, for the demo and the tests.

Nothing here is a patient. Three hospitals of different size and case mix draw
age, sex, Injury Severity Score (ISS) and Glasgow Coma Scale (GCS), and mortality
follows :data:`PLANTED`. Some GCS values are missing, as they are in registries.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.model import Model
from fedrulefit.study import Study

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Planted:
    """A rule that the synthetic patients follow, and its log-odds."""

    words: str
    holds: Callable[[pd.DataFrame], Bools]
    log_odds: float


@dataclass(frozen=True)
class Hospital:
    """Size and case mix of one synthetic hospital."""

    patients: int
    mean_age: float
    mean_severity: float
    share_coma: float


@dataclass(frozen=True)
class Match:
    """The model's rule that comes nearest to a planted one."""

    planted: Planted
    rule: str
    correlation: float

    @property
    def found(self) -> bool:
        """Whether the two hold for nearly the same patients."""
        return abs(self.correlation) >= FOUND


STUDY_TOML: Final = """\
# The study that all sites of the demo sign.
name = "Synthetic trauma registry"
description = "Made-up patients of three made-up hospitals, for trying things out."
synthetic = true

[outcome]
column = "mortality"
label = "Mortality"
positive = 1
negative = 0
expected_rate = [0.02, 0.60]

[covariates.age]
kind = "number"
range = [15, 100]
unit = "years"
step = 1
complete = true

[covariates.sex]
kind = "yes/no"
yes = "female"
no = "male"
complete = true

[covariates.ISS]
kind = "number"
range = [1, 75]
step = 1
complete = true
note = "Injury Severity Score, higher is worse"

[covariates.GCS]
kind = "number"
range = [3, 15]
step = 1
note = "Glasgow Coma Scale, higher is better; sometimes missing"

[settings]
preset = "default"
"""

FOUND: Final = 0.8
"""Correlation (φ) from which a planted rule counts as found."""

BASELINE: Final = -3.0

PLANTED: Final = (
    Planted("GCS < 6", lambda d: (d["GCS"] < 6).to_numpy(), 2.5),
    Planted("age ≥ 60 & ISS ≥ 20", lambda d: ((d["age"] >= 60) & (d["ISS"] >= 20)).to_numpy(), 2.5),
)

HOSPITALS: Final[Mapping[str, Hospital]] = {
    "academic": Hospital(1500, 42, 24, 0.35),
    "regional": Hospital(700, 50, 18, 0.25),
    "rural": Hospital(300, 57, 16, 0.20),
}


def demo_study() -> Study:
    """Return the study of the synthetic registry."""
    return Study.from_mapping(tomllib.loads(STUDY_TOML), source="demo study")


def draw_hospital(hospital: Hospital, rng: np.random.Generator) -> pd.DataFrame:
    """Draw one hospital's patients."""
    import pandas as pd

    n = hospital.patients
    coma = rng.random(n) < hospital.share_coma
    frame = pd.DataFrame(
        {
            "age": np.clip(np.rint(rng.normal(hospital.mean_age, 19, n)), 16, 98).astype(int),
            "sex": np.where(rng.random(n) < 0.3, "female", "male"),
            "ISS": np.clip(np.rint(rng.gamma(2.2, hospital.mean_severity / 2.2, n)), 1, 75),
            "GCS": np.where(coma, rng.integers(3, 10, n), rng.integers(9, 16, n)).astype(float),
        }
    )
    frame["mortality"] = (rng.random(n) < expit(true_log_odds(frame))).astype(int)
    frame.loc[rng.random(n) < 0.03, "GCS"] = np.nan
    return frame


def draw_registry(seed: int = 2026) -> dict[str, pd.DataFrame]:
    """Draw all three hospitals."""
    streams = np.random.default_rng(seed).spawn(len(HOSPITALS))
    return {
        name: draw_hospital(hospital, rng)
        for (name, hospital), rng in zip(HOSPITALS.items(), streams, strict=True)
    }


def draw_fresh(seed: int = 2026) -> pd.DataFrame:
    """Draw patients of a fourth hospital, which no model has seen."""
    return draw_hospital(Hospital(5000, 46, 20, 0.3), np.random.default_rng([seed, 1]))


def pool(
    hospitals: Mapping[str, pd.DataFrame],
) -> tuple[pd.DataFrame, pd.Series[int], pd.Series[str]]:
    """Return all patients' covariates, outcomes and hospitals."""
    import pandas as pd

    frame = pd.concat(hospitals, names=["hospital", None]).reset_index("hospital")
    frame = frame.reset_index(drop=True)
    return frame[["age", "sex", "ISS", "GCS"]], frame["mortality"], frame["hospital"]


def true_log_odds(frame: pd.DataFrame) -> Floats:
    """Return the log-odds that the synthetic patients follow."""
    log_odds = np.full(len(frame), BASELINE)
    for planted in PLANTED:
        log_odds += planted.log_odds * planted.holds(frame)
    return log_odds


def match_planted(model: Model, frame: pd.DataFrame) -> list[Match]:
    """Find, for each planted rule, the model's rule that holds for the same patients.

    `frame` are patients to compare on; best fresh ones.
    """
    values = model.read_values(frame)
    rules = model.rule_terms
    hits = evaluate_terms(values, model.grid, [term.rule for term in rules], ()).dense_rules()
    matches = []
    for planted in PLANTED:
        truth = planted.holds(frame).astype(np.float64)
        phi = np.array([_correlation(truth, column) for column in hits.T])
        best = int(np.argmax(np.abs(phi))) if len(phi) else None
        words = "none" if best is None else model.describe(rules[best])
        matches.append(Match(planted, words, 0.0 if best is None else float(phi[best])))
    return matches


def _correlation(a: Floats, b: Floats) -> float:
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
