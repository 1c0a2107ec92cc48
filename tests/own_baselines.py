"""Models that expect hospitals' own baselines, and baselines that nobody estimated."""

from __future__ import annotations

import datetime
from dataclasses import replace
from functools import cache

import numpy as np

from fedrulefit.core.own import count_own
from fedrulefit.model import Model
from fedrulefit.model.own_file import OwnBaseline, fingerprint, name_own
from tests.samples import SOLVERS, fit_model, make_study

DAY = datetime.date(2026, 3, 1)


@cache
def own_model(outcome: str = "yes/no") -> Model:
    """Return a fitted model of any outcome that expects hospitals' own baselines."""
    settings = {**SOLVERS["exact"], "penalty": 0.005, "baseline": "afterwards"}
    return fit_model(make_study(outcome, **settings))


def expecting(model: Model) -> Model:
    """Return a model that expects them, else as it is."""
    return replace(model, study=model.study.with_settings(baseline="afterwards"))


def make_own(model: Model, seed: int = 3, *, site: str = "north") -> OwnBaseline:
    """Return some baseline of a model."""
    family = model.study.family
    values = np.random.default_rng(seed).normal(0, 0.4, count_own(family))
    errors, names = (0.1,) * len(values), name_own(family)
    return OwnBaseline(fingerprint(model), names, tuple(values.tolist()), errors, 400.0, DAY, site)
