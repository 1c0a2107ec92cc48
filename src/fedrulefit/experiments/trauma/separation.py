"""How far apart mortality is inside and outside the rules that a split's model shows.

A model's rules were chosen because they separate the training patients, so that their
difference there tells little; the split's test patients tell what it is for new ones.

Oracle: the rates counted patient by patient (``tests/unit/experiments/trauma``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools, Codes, Floats, Ints
from fedrulefit.core.grid import encode
from fedrulefit.core.rules import Rule
from fedrulefit.experiments.units import Row
from fedrulefit.model import Model, RuleTerm

TOP: Final = 5
"""Rules that are shown, as in the paper's table 1."""
MIN_SUPPORT: Final = 0.1
"""Least support of a rule that is shown."""
PARTS: Final = ("trained", "tested", "gcs")
PLACES: Final = range(1, TOP + 1)


def separate(model: Model, values: Floats, outcome: Ints, train: Bools) -> Row:
    """Return mortality inside minus outside the rules shown, most important first.

    Columns ``trained_1`` to ``trained_5`` of training patients, ``tested_1`` to ``tested_5`` of
    test patients, and ``gcs_1`` to ``gcs_5``: 1 where the rule involves GCS, else 0. NaN where
    there is no such rule, or nobody on one of its sides.

    Parameters
    ----------
    model : Model
    values : Floats, shape (n_rows, n_features)
    outcome : Ints, shape (n_rows,)
    train : Bools, shape (n_rows,)
    """
    codes = encode(values, model.grid)
    row = {f"{part}_{place}": float("nan") for part in PARTS for place in PLACES}
    for place, term in enumerate(shown_rules(model), start=1):
        inside = _satisfy(codes, term.rule)
        for part, here in (("trained", train), ("tested", ~train)):
            row[f"{part}_{place}"] = _difference(outcome[here], inside[here])
        row[f"gcs_{place}"] = float(model.study.names.index("GCS") in term.rule.features)
    return row


def shown_rules(model: Model) -> list[RuleTerm]:
    """Return the rules of table 1 and figure 3."""
    return model.top_rules(top=TOP, min_support=MIN_SUPPORT)


def _satisfy(codes: Codes, rule: Rule) -> Bools:
    """Return who satisfies a rule, shape (n_rows,)."""
    inside = np.ones(len(codes), np.bool_)
    for condition in rule:
        inside &= condition.table()[codes[:, condition.feature]]
    return inside


def _difference(outcome: Ints, inside: Bools) -> float:
    if inside.all() or not inside.any():
        return float("nan")
    return float(outcome[inside].mean() - outcome[~inside].mean())
