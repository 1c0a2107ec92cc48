"""A synthetic trauma registry with planted rules, for the demo and the tests.

Nothing here is a patient. Three hospitals of different size and case mix draw
age, sex, Injury Severity Score (ISS) and Glasgow Coma Scale (GCS). Some GCS values are
missing, as they are in registries. Of the same patients there are outcomes of several kinds
(:data:`OUTCOMES`): each declares its part of the study file, the rules that patients follow,
and how it is drawn. The first is mortality, a yes/no outcome, which follows :data:`PLANTED`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.special import expit, gammaincinv, pdtrik

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.predictor import evaluate_terms
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import Model
from fedrulefit.study import Study

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Planted:
    """A rule that the synthetic patients follow, and what it adds to what their outcome follows.

    That are log-odds for a yes/no outcome and for each step of ordered levels, days of a stay,
    logarithms of a rate or of a hazard; of classes the log-odds of `level`, against all others.
    """

    words: str
    holds: Callable[[pd.DataFrame], Bools]
    adds: float
    level: str = ""


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


Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """One of the outcomes that the synthetic patients have.

    Parameters
    ----------
    toml : str
        What the study says under ``[outcome]``.
    columns : tuple of str
        The columns of the tables, the outcome itself first.
    baseline : float
        What the outcome follows where no planted rule holds; :attr:`Planted.adds` says in what.
    planted : tuple of Planted
        The rules that it follows.
    draw : callable
        What patients' outcomes follow, their luck (even in [0, 1]; the same for all outcomes)
        and a generator for all else → their columns.
    tell : callable
        A hospital's table → its outcomes in a few words.
    levels : tuple of str
        Classes that each follow rules of their own; empty for outcomes of other kinds.
    """

    toml: str
    columns: tuple[str, ...]
    baseline: float
    planted: tuple[Planted, ...]
    draw: Callable[[Floats, Floats, np.random.Generator], Columns]
    tell: Callable[[pd.DataFrame], str]
    levels: tuple[str, ...] = ()

    def follow(self, frame: pd.DataFrame) -> Floats:
        """Return what patients' outcomes follow: the baseline and the rules that hold.

        Shape (n_rows,), or (n_rows, n_levels) of classes.
        """
        total = np.full((len(frame), len(self.levels) or 1), self.baseline)
        for planted in self.planted:
            own = self.levels.index(planted.level) if self.levels else 0
            total[:, own] += planted.adds * planted.holds(frame)
        return total if self.levels else total[:, 0]


FOUND: Final = 0.8
"""Correlation (φ) from which a planted rule counts as found."""

COVARIATES: Final = ("age", "sex", "ISS", "GCS")

HOSPITALS: Final[Mapping[str, Hospital]] = {
    "academic": Hospital(1500, 42, 24, 0.35),
    "regional": Hospital(700, 50, 18, 0.25),
    "rural": Hospital(300, 57, 16, 0.20),
}

_HEAD_TOML: Final = """\
# The study that all sites of the demo sign.
name = "Synthetic trauma registry"
description = "Made-up patients of three made-up hospitals, for trying things out."
synthetic = true

[outcome]
"""

_COVARIATES_TOML: Final = """
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


# --- outcomes -----------------------------------------------------------------------------


def _coma(below: int, adds: float, level: str = "") -> Planted:
    return Planted(f"GCS < {below}", lambda d: (d["GCS"] < below).to_numpy(), adds, level)


def _old_and_hurt(age: int, severity: int, adds: float) -> Planted:
    return Planted(
        f"age ≥ {age} & ISS ≥ {severity}",
        lambda d: ((d["age"] >= age) & (d["ISS"] >= severity)).to_numpy(),
        adds,
    )


def _badly_hurt(severity: int, adds: float) -> Planted:
    return Planted(
        f"ISS ≥ {severity}", lambda d: (d["ISS"] >= severity).to_numpy(), adds, "rehabilitation"
    )


def _frail(age: int, adds: float) -> Planted:
    return Planted(f"age ≥ {age}", lambda d: (d["age"] >= age).to_numpy(), adds, "nursing home")


def _tell_levels(outcomes: pd.Series[str], levels: tuple[str, ...]) -> str:
    """Return how many are at each level."""
    counts = outcomes.value_counts()
    return ", ".join(
        f"{level} {100 * counts.get(level, 0) / len(outcomes):.0f} %" for level in levels
    )


def _draw_mortality(log_odds: Floats, luck: Floats, rng: np.random.Generator) -> Columns:
    """Who dies in hospital."""
    del rng
    return {"mortality": (luck < expit(log_odds)).astype(int)}


def _draw_stay(mean: Floats, luck: Floats, rng: np.random.Generator) -> Columns:
    """Days in hospital: skewed, as stays are (gamma of shape 3), and whole."""
    del rng
    return {"stay": np.clip(np.rint(mean * gammaincinv(3, luck) / 3), 1, 90).astype(int)}


def _draw_readmissions(log_rate: Floats, luck: Floats, rng: np.random.Generator) -> Columns:
    """Readmissions while followed, for 3 to 24 months; frailty makes them vary more than chance."""
    months = rng.integers(3, 25, len(luck))
    mean = np.exp(log_rate) * months * rng.gamma(8, 1 / 8, len(luck))
    counts = np.ceil(np.maximum(pdtrik(luck, mean), 0))
    return {"readmissions": np.minimum(counts, 40).astype(int), "months": months}


def _draw_disability(log_odds: Floats, luck: Floats, rng: np.random.Generator) -> Columns:
    """How disabled patients leave: each goes on, or not, to the next level."""
    del rng
    going = expit(log_odds[:, None] + np.array(_STEPS))
    reached = np.cumprod(going, axis=1)
    place = (luck[:, None] < reached).sum(axis=1)  # the chance to reach a level falls along them
    return {"disability": np.array(_DISABILITY, dtype=object)[place]}


def _draw_discharge(pulls: Floats, luck: Floats, rng: np.random.Generator) -> Columns:
    """Where patients go from hospital."""
    del rng
    heights = np.exp(pulls + np.array(_PULLS))
    ends = np.cumsum(heights / heights.sum(axis=1, keepdims=True), axis=1)
    place = (luck[:, None] > ends[:, :-1]).sum(axis=1)
    return {"discharge": np.array(_DISCHARGE, dtype=object)[place]}


_DISABILITY: Final = ("none", "mild", "severe", "dead")
_STEPS: Final = (0.0, -0.6, -1.2)
"""How much less likely each further step of the scale is, in log-odds."""

_DISCHARGE: Final = ("home", "rehabilitation", "nursing home", "died")
_PULLS: Final = (0.0, -1.0, -1.3, -1.4)
"""Log-odds of each class against the first where no planted rule holds."""


def _draw_death(log_hazard: Floats, luck: Floats, rng: np.random.Generator) -> Columns:
    """Days to death, most of them early (Weibull).

    Follow-up ends on one day for all, 100 to 800 days after they came. One in eight comes under
    observation late, from another hospital, and has survived until then.
    """
    late = rng.random(len(luck)) < 1 / 8
    entry = np.where(late, rng.integers(1, 31, len(luck)), 0)
    news = rng.integers(100, 801, len(luck))
    hazard = (entry / 365) ** _EARLY - np.log1p(-luck) / np.exp(log_hazard)
    death = np.ceil(365 * hazard ** (1 / _EARLY))
    return {
        "days": np.minimum(death, news).astype(int),
        "status": np.where(death <= news, "dead", "alive"),
        "entry": entry,
    }


_EARLY: Final = 0.6
"""Of a hazard that does not change it is 1; below, more die early."""

OUTCOMES: Final[Mapping[str, Outcome]] = {
    "yes/no": Outcome(
        toml="""\
column = "mortality"
label = "Mortality"
positive = 1
negative = 0
expected_rate = [0.02, 0.60]
""",
        columns=("mortality",),
        baseline=-3.0,
        planted=(_coma(6, 2.5), _old_and_hurt(60, 20, 2.5)),
        draw=_draw_mortality,
        tell=lambda d: f"mortality {100 * d['mortality'].mean():.0f} %",
    ),
    "number": Outcome(
        toml="""\
kind = "number"
column = "stay"
label = "Length of stay"
range = [0, 90]
unit = "days"
step = 1
""",
        columns=("stay",),
        baseline=8.0,
        planted=(_coma(6, 7.0), _old_and_hurt(60, 20, 8.0)),
        draw=_draw_stay,
        tell=lambda d: f"mean stay {d['stay'].mean():.1f} days",
    ),
    "count": Outcome(
        toml="""\
kind = "count"
column = "readmissions"
label = "Readmissions"
most = 40
unit = "readmissions"
exposure = "months"
max_exposure = 24
exposure_unit = "months"
per = 12
""",
        columns=("readmissions", "months"),
        baseline=-2.6,
        planted=(_coma(8, 1.0), _old_and_hurt(60, 20, 1.6)),
        draw=_draw_readmissions,
        tell=lambda d: (
            f"{d['readmissions'].sum():,} readmissions, "
            f"{12 * d['readmissions'].sum() / d['months'].sum():.1f} per 12 months"
        ),
    ),
    "time": Outcome(
        toml="""\
kind = "time"
time = "days"
event = "status"
label = "Death"
positive = "dead"
negative = "alive"
entry = "entry"
unit = "days"
horizons = [30, 365]
""",
        columns=("days", "status", "entry"),
        baseline=-2.4,
        planted=(_coma(6, 1.8), _old_and_hurt(60, 20, 1.8)),
        draw=_draw_death,
        tell=lambda d: (
            f"{(d['status'] == 'dead').sum()} deaths, {(d['entry'] > 0).sum()} followed late"
        ),
    ),
    "ordered": Outcome(
        toml="""\
kind = "ordered"
column = "disability"
label = "Disability at discharge"
levels = ["none", "mild", "severe", "dead"]
""",
        columns=("disability",),
        baseline=-0.5,
        planted=(_coma(6, 2.0), _old_and_hurt(60, 20, 1.8)),
        draw=_draw_disability,
        tell=lambda d: _tell_levels(d["disability"], _DISABILITY),
    ),
    "classes": Outcome(
        toml="""\
kind = "classes"
column = "discharge"
label = "Discharged to"
levels = ["home", "rehabilitation", "nursing home", "died"]
""",
        columns=("discharge",),
        baseline=0.0,
        planted=(_badly_hurt(30, 2.0), _frail(65, 2.2), _coma(6, 2.6, "died")),
        draw=_draw_discharge,
        tell=lambda d: _tell_levels(d["discharge"], _DISCHARGE),
        levels=_DISCHARGE,
    ),
}
"""Outcomes of the same synthetic patients, by the kind that a study gives them."""

OTHER_WORDS: Final[Mapping[str, str]] = {
    "binary": "yes/no",
    "yesno": "yes/no",
    "continuous": "number",
    "counts": "count",
    "survival": "time",
    "ordinal": "ordered",
    "multiclass": "classes",
}
"""What people also call these kinds."""

PLANTED: Final = OUTCOMES["yes/no"].planted


def find_kind(word: str) -> str:
    """Return the kind of outcome that a word names.

    Raises
    ------
    FedRuleFitError
        If it names none.
    """
    kind = OTHER_WORDS.get(word.lower(), word.lower())
    if kind not in OUTCOMES:
        raise FedRuleFitError(
            f"the demo has no outcome {word!r}: it has {', '.join(OUTCOMES)} (also "
            f"{', '.join(OTHER_WORDS)})"
        )
    return kind


def study_toml(kind: str = "yes/no") -> str:
    """Return the study file of the synthetic registry, with an outcome of this kind."""
    return _HEAD_TOML + OUTCOMES[find_kind(kind)].toml + _COVARIATES_TOML


STUDY_TOML: Final = study_toml()


def demo_study(kind: str = "yes/no") -> Study:
    """Return the study of the synthetic registry, with an outcome of this kind."""
    return Study.from_mapping(tomllib.loads(study_toml(kind)), source="demo study")


# --- patients -----------------------------------------------------------------------------


def draw_hospital(
    hospital: Hospital, rng: np.random.Generator, *, kind: str = "yes/no"
) -> pd.DataFrame:
    """Draw one hospital's patients: the same for outcomes of every kind."""
    import pandas as pd

    outcome = OUTCOMES[find_kind(kind)]
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
    luck, unknown = rng.random(n), rng.random(n) < 0.03
    frame = frame.assign(**outcome.draw(outcome.follow(frame), luck, rng.spawn(1)[0]))
    frame.loc[unknown, "GCS"] = np.nan
    return frame


def draw_registry(seed: int = 2026, *, kind: str = "yes/no") -> dict[str, pd.DataFrame]:
    """Draw all three hospitals.

    Parameters
    ----------
    seed : int
    kind : str
        Of the outcome: one of :data:`OUTCOMES`, or what people also call it.
    """
    streams = np.random.default_rng(seed).spawn(len(HOSPITALS))
    return {
        name: draw_hospital(hospital, rng, kind=kind)
        for (name, hospital), rng in zip(HOSPITALS.items(), streams, strict=True)
    }


def draw_fresh(seed: int = 2026, *, kind: str = "yes/no") -> pd.DataFrame:
    """Draw patients of a fourth hospital, which no model has seen."""
    rng = np.random.default_rng([seed, 1])
    return draw_hospital(Hospital(5000, 46, 20, 0.3), rng, kind=kind)


def pool(
    hospitals: Mapping[str, pd.DataFrame],
) -> tuple[pd.DataFrame, Any, pd.Series[str]]:
    """Return all patients' covariates, outcomes and hospitals.

    Outcomes are a series, or, of several columns such as a time and its event, a data frame.
    """
    import pandas as pd

    frame = pd.concat(hospitals, names=["hospital", None]).reset_index("hospital")
    frame = frame.reset_index(drop=True)
    columns = [name for name in frame if name not in ("hospital", *COVARIATES)]
    outcome = frame[columns[0] if len(columns) == 1 else columns]
    return frame[[*COVARIATES]], outcome, frame["hospital"]


def match_planted(model: Model, frame: pd.DataFrame) -> list[Match]:
    """Find, for each planted rule, the model's rule that holds for the same patients.

    The planted rules are those of the kind of outcome that the model learnt. `frame` are patients
    to compare on; best fresh ones.
    """
    values, terms = model.read_values(frame), model.rule_terms
    hits = evaluate_terms(values, model.grid, [term.rule for term in terms], ()).dense_rules()
    matches = []
    for planted in OUTCOMES[model.study.outcome.kind].planted:
        own = [k for k, term in enumerate(terms) if (term.level or "") == planted.level]
        rules = [terms[k] for k in own]
        truth = planted.holds(frame).astype(np.float64)
        phi = np.array([_correlation(truth, column) for column in hits[:, own].T])
        best = int(np.argmax(np.abs(phi))) if len(phi) else None
        words = "none" if best is None else model.describe(rules[best])
        matches.append(Match(planted, words, 0.0 if best is None else float(phi[best])))
    return matches


def _correlation(a: Floats, b: Floats) -> float:
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
