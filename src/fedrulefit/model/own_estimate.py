"""A hospital's own baseline of a finished model, from its own patients with their outcomes.

In: a model that expects hospitals' own baselines, and a hospital's table. Out: its baseline
(:mod:`fedrulefit.model.own_file`), and how far predictions are off in the large, without it and
with it. All is computed here: the model's terms stay as they are, its spread τ is public, and
nothing is sent. So a hospital that took no part in the run, or one whose patients have changed
since, gets what the others have.

With few patients, or in an interval of time with few events, b stays near 0: so the prior N(0, τ²)
has it. Standard errors take rows for patients of their own.

Oracles: a dense minimum and statsmodels (``tests/unit/model/test_own_estimate.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.own import estimate
from fedrulefit.errors import DataError, ModelFileError
from fedrulefit.model.matrix import judge_values
from fedrulefit.model.own_file import OwnBaseline, fingerprint
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.table.sources import Source

FEWEST_PATIENTS: Final = 200
"""Of fewer no baseline is estimated."""

FEWEST_EVENTS: Final = 20
"""Nor of fewer with the outcome, or fewer without it."""

FAR: Final = 3.0
"""A baseline of more than so many τ is unlikely to be a hospital's ways alone."""


@dataclass(frozen=True)
class InTheLarge:
    """How far predictions are off in the mean over a hospital's patients.

    Parameters
    ----------
    observed : dict of str to float
        Share, mean, rate or risk, as the outcome's predictions are; by level, where it has
        several that are told alike, else under an empty name. NaN where too few tell it.
    expected : dict of str to float
        The mean prediction.
    """

    observed: Mapping[str, float]
    expected: Mapping[str, float]

    @property
    def off(self) -> float:
        """The largest distance between the two; NaN where none is known."""
        gaps = [abs(seen - self.expected[name]) for name, seen in self.observed.items()]
        return max((gap for gap in gaps if not math.isnan(gap)), default=math.nan)


def estimate_from(model: Model, source: Source, *, site: str = "") -> OwnBaseline:
    """Return :func:`estimate_own` of the patients in a table, checked against the study."""
    return estimate_own(model, load_table(source, model.study), site=site)


def estimate_own(model: Model, table: Table, *, site: str = "") -> OwnBaseline:
    """Return the own baseline of the hospital with these patients.

    Raises
    ------
    ModelFileError
        If the model expects none.
    DataError
        If too few patients tell it.
    """
    spread = model.own_baselines
    if spread is None:
        raise ModelFileError(
            "this model has one baseline for all hospitals, and expects none of a hospital's own: "
            "a study whose settings say baseline = 'afterwards' (or 'site') makes such models"
        )
    shared = model if model.hospital is None else model.hospital.shared
    outcome = _check_enough(shared, table)
    predictor = find_predictors(shared, table.values)
    found = estimate(shared.family, predictor, outcome, table.weights, spread)
    return OwnBaseline.of(shared.family, fingerprint(shared), found, site=site)


def _check_enough(model: Model, table: Table) -> Floats:
    """Return the outcomes, or refuse patients too few to tell a baseline."""
    if table.outcome is None:
        raise DataError("a hospital's own baseline needs the outcomes of its patients")
    counted = table.take(table.weights > 0)
    words, fewest = model.study.family.words, counted.people.fewest()
    if counted.n_patients < FEWEST_PATIENTS:
        raise DataError(
            f"{counted.n_patients} patients are too few to tell a hospital's own baseline: it "
            f"takes {FEWEST_PATIENTS}. Predict as for a new hospital until there are more"
        )
    if fewest < FEWEST_EVENTS:
        raise DataError(
            f"fewer than {FEWEST_EVENTS} of these {counted.n_patients} patients "
            f"{words.have_or_not}: too few to tell a hospital's own baseline. Predict as for a "
            "new hospital until there are more"
        )
    return table.outcome


def find_predictors(model: Model, values: Floats) -> Floats:
    """Return all of each patient's predictors, as the family's loss takes them.

    Shape (n_rows,) or (n_rows, n_baseline).
    """
    predictor, family = model.linear_predictor(values), model.study.family
    return predictor if family.n_baseline == 1 else family.spread(predictor, model.baseline)


def judge_in_the_large(model: Model, table: Table) -> InTheLarge:
    """Return how far a model, as it is, is off in the mean over these patients."""
    if table.outcome is None:
        raise DataError("only patients whose outcomes are known tell how far predictions are off")
    judge, counted = model.family.judge, table.weights > 0
    prediction = judge_values(model, table.values[counted])
    sums = judge.count(prediction, table.outcome[counted], table.weights[counted])
    levels = judge.levels_of(sums)
    if levels:
        told = {level.level: (level.observed, level.expected) for level in levels}
    else:
        found = judge.measure(sums)
        told = {"": (found.observed, found.expected)}
    return InTheLarge(
        {name: pair[0] for name, pair in told.items()},
        {name: pair[1] for name, pair in told.items()},
    )


def is_far(model: Model, own: OwnBaseline) -> bool:
    """Whether a baseline is so far from the model's that it needs a look."""
    spread = model.own_baselines
    return spread is not None and bool(np.abs(own.shift).max() > FAR * spread)
