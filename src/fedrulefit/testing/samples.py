"""Small synthetic hospitals with every kind of covariate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table

SMALL: dict[str, Any] = {
    "n_trees": 20,
    "solver": "fedda",
    "rounds": 10,
    "local_steps": 5,
    "client_step": 0.2,
    "learning_rate": 0.1,
    "penalty": 0.002,
    "single_cutoffs": False,
    "linear_factor": 1.0,
    "interaction_factor": 1.0,
}
"""Settings of a small run of the paper's FedDA."""

EXACT: dict[str, Any] = {
    "solver": "exact",
    "single_cutoffs": True,
    "linear_factor": 0.2,
    "interaction_factor": 1.75,
}
SOLVERS: dict[str, dict[str, Any]] = {
    "fedda": {},
    "exact": {**EXACT, "penalty": 0.01},
    "cv": {
        **EXACT,
        "penalty": "cv",
        "folds": 3,
        "path_length": 10,
        "path_ratio": 0.05,
        "selection": "min",
    },
    "own": {
        **EXACT,
        "penalty": "cv",
        "folds": 3,
        "path_length": 6,
        "path_ratio": 0.1,
        "selection": "min",
        "baseline": "site",
    },
    "pruned": {
        **EXACT,
        "penalty": "cv",
        "folds": 3,
        "path_length": 8,
        "path_ratio": 0.1,
        "selection": "pruned",
        "max_terms": 4,
    },
}
"""What turns :data:`SMALL` into a run of each way to fit."""


OUTCOMES: dict[str, dict[str, Any]] = {
    "yes/no": {"column": "died", "positive": "yes", "negative": "no"},
    "number": {"kind": "number", "column": "stay", "range": [0, 60], "unit": "days"},
    "number, robust": {"kind": "number", "column": "stay", "range": [0, 60], "robust": True},
    "count": {
        "kind": "count",
        "column": "visits",
        "most": 30,
        "exposure": "months",
        "max_exposure": 24,
        "unit": "visits",
        "exposure_unit": "months",
    },
    "count, negative binomial": {
        "kind": "count",
        "column": "contacts",
        "most": 60,
        "exposure": "months",
        "max_exposure": 24,
        "dispersion": "negative-binomial",
    },
    "time": {
        "kind": "time",
        "time": "days",
        "event": "readmitted",
        "unit": "days",
        "horizons": [90, 365],
        "intervals": 5,
    },
    "time, competing": {
        "kind": "time",
        "time": "stays",
        "event": "ended",
        "positive": "died",
        "negative": "stays",
        "competing": {"discharge": "home", "transfer": "moved"},
        "unit": "days",
        "horizons": [90, 365],
        "intervals": 5,
        "label": "Death",
    },
    "ordered": {
        "kind": "ordered",
        "column": "disability",
        "levels": ["none", "mild", "severe", "dead"],
    },
    "classes": {"kind": "classes", "column": "goes", "levels": ["home", "rehab", "hospice"]},
}
"""Outcomes of the same patients, at least one of each kind that can be learnt."""


def study_facts(outcome: str = "yes/no", **settings: Any) -> dict[str, Any]:
    """Return the facts of a study with every kind of covariate, and one of :data:`OUTCOMES`."""
    return {
        "name": "sepsis",
        "outcome": {**OUTCOMES[outcome]},
        "covariates": {
            "age": {"kind": "number", "range": [18, 100], "unit": "years"},
            "lactate": {"kind": "number", "range": [0.1, 25], "spacing": "log", "unit": "mmol/l"},
            "gcs": {"kind": "number", "range": [3, 15], "step": 1, "complete": True},
            "ward": {"kind": "category", "levels": ["icu", "er", "general", "other"]},
            "sex": {
                "kind": "yes/no",
                "yes": "f",
                "no": "m",
                "labels": ["male", "female"],
                "complete": True,
            },
        },
        "settings": {**SMALL, "noise": settings.get("epsilon") is not None, **settings},
    }


def make_study(outcome: str = "yes/no", **settings: Any) -> Study:
    """Return the study, by default small and without noise."""
    return Study.from_mapping(study_facts(outcome, **settings))


def make_frame(n_rows: int = 150, seed: int = 0) -> pd.DataFrame:
    """Return patients as a hospital would export them, some values missing."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 100, n_rows).round(1)
    lactate = np.exp(rng.normal(0.7, 0.7, n_rows)).round(2)
    gcs = rng.integers(3, 16, n_rows)
    ward = rng.choice(["icu", "er", "general", "other"], n_rows, p=[0.3, 0.3, 0.3, 0.1])
    sex = rng.choice(["m", "f"], n_rows)
    odds = 0.04 * (age - 60) + 1.5 * (lactate > 2.5) - 0.2 * (gcs - 9) + 1.0 * (ward == "icu")
    died = rng.random(n_rows) < 1 / (1 + np.exp(0.5 - odds))
    frame = pd.DataFrame(
        {
            "age": age,
            "lactate": lactate,
            "gcs": gcs,
            "ward": ward.astype(object),
            "sex": sex,
            "died": np.where(died, "yes", "no"),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, "lactate"] = np.nan
    frame.loc[rng.random(n_rows) < 0.05, "ward"] = None
    return frame


def add_outcomes(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return the patients with columns for all of :data:`OUTCOMES`."""
    rng, n_rows = np.random.default_rng([seed, 1]), len(frame)
    ill = (
        0.03 * (frame["age"] - 60) + 1.2 * (frame["lactate"] > 2.5) + 0.8 * (frame["ward"] == "icu")
    )
    stay = 15 + 6 * ill + 4 * rng.standard_t(4, n_rows)
    months = rng.uniform(1, 24, n_rows).round(1)
    due, news = rng.exponential(600 * np.exp(-ill)), rng.uniform(50, 500, n_rows)
    chance = np.random.default_rng([seed, 2])
    steps = np.array(["none", "mild", "severe", "dead"], dtype=object)
    place = np.digitize(ill + chance.logistic(size=n_rows), [-0.4, 0.7, 1.8])
    ways = np.array(["home", "rehab", "hospice"], dtype=object)
    pull = np.column_stack([0.5 - 0 * ill, 1.5 * (frame["gcs"] < 9) - 0.3, 0.8 * ill - 0.3])
    way = (pull + chance.gumbel(size=(n_rows, 3))).argmax(axis=1)
    own = np.random.default_rng([seed, 4])
    causes = np.column_stack(
        [
            own.exponential(500 * np.exp(-ill)),
            own.exponential(700 * np.exp(0.05 * (9 - frame["gcs"]))),
            own.exponential(1500, n_rows),
            own.uniform(50, 600, n_rows),
        ]
    )
    ends = np.array(["died", "home", "moved", "stays"], dtype=object)
    frailty = np.random.default_rng([seed, 3])
    often = 0.2 * months * np.exp(0.7 * ill) * frailty.gamma(0.8, 1 / 0.8, n_rows)
    return frame.assign(
        stays=causes.min(axis=1).round().clip(1),
        ended=ends[causes.argmin(axis=1)],
        stay=stay.clip(0, 60).round(1),
        months=months,
        visits=rng.poisson(0.12 * months * np.exp(0.7 * ill)).clip(0, 30),
        days=np.minimum(due, news).round().clip(1),
        readmitted=(due <= news).astype(int),
        disability=steps[place],
        goes=ways[way],
        contacts=frailty.poisson(often).clip(0, 60),
    )


def make_tables(
    study: Study, sizes: Sequence[int] = (70, 50, 30), seed: int = 0
) -> dict[str, Table]:
    """Return one table per site."""
    names = ("north", "south", "west", "east", "centre", "coast")
    return {
        name: load_table(add_outcomes(make_frame(size, seed + k), seed + k), study)
        for k, (name, size) in enumerate(zip(names, sizes, strict=False))
    }
