"""The real multi-hospital data as studies, and their splits within hospitals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from fedrulefit import Study
from fedrulefit.experiments.trauma.repetitions import split_within

OUTCOMES: Final = {"trauma": "mortality", "heart_uci": "outcome", "ist": "outcome"}
"""The data sets, by the names of their files, with the column of the outcome."""


def load(folder: Path, name: str) -> tuple[Study, pd.DataFrame]:
    variables = json.loads((folder / "variables.json").read_text(encoding="utf-8"))[name]
    frame = pd.read_csv(folder / f"{name}.csv", keep_default_na=False, na_values=[""])
    study = Study.from_mapping(
        {
            "name": name,
            "outcome": {"column": OUTCOMES[name]},
            "covariates": {key: _covariate(facts) for key, facts in variables.items()},
        }
    )
    return study, frame


def _covariate(facts: dict[str, Any]) -> dict[str, Any]:
    match facts["kind"]:
        case "numeric":
            return {"kind": "number", "range": [facts["lo"], facts["hi"]], "unit": facts["unit"]}
        case "ordinal":
            ends = [min(facts["levels"]), max(facts["levels"])]
            return {"kind": "number", "range": ends, "step": 1}
        case "binary":
            return {"kind": "yes/no"}
        case _:
            return {"kind": "category", "levels": facts["levels"]}


def split(frame: pd.DataFrame, seed: int, repetition: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return 70 % of every hospital's patients to learn from, and the rest to test on."""
    train = split_within(frame["site"].to_numpy(), np.random.default_rng([seed, repetition]))
    return frame[train], frame[~train]


def splits(frame: pd.DataFrame, repeats: int) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield splits from the seed 0."""
    for repetition in range(repeats):
        yield split(frame, 0, repetition)
