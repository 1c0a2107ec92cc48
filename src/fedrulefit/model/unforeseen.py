"""What a prediction makes of values that the study does not foresee, and what it says of them.

In: a model, whose study has a policy (:class:`~fedrulefit.study.Unusual`). Out: for each
covariate and kind of cell a :class:`Flag`. This is the only place that decides it: the
prediction in Python, SQL, ONNX and the calculator of the page follow these flags, and show
these words.

A missing value is foreseen, unless the study has the covariate complete: then the model
learnt nothing of missing values, and whatever counts as missing leaves no prediction.

Oracle: a loop over cells that knows the rules by heart (``tests/random_models.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedrulefit.numerals import format_number
from fedrulefit.study import Covariate, Number, Unusual
from fedrulefit.table.reading import Cell

if TYPE_CHECKING:
    from fedrulefit.model.model import Model

Fate = Literal["clip", "missing", "refuse"]
"""Counted at the nearer end of the range; counted as missing; no prediction."""


@dataclass(frozen=True)
class Flag:
    """What becomes of one kind of cell of one covariate.

    Parameters
    ----------
    fate : {"clip", "missing", "refuse"}
    value : float
        What the cell counts as; NaN unless it is clipped.
    text : str
        What is said of it, without the cell's value.
    """

    fate: Fate
    value: float
    text: str


def list_flags(model: Model) -> tuple[dict[Cell, Flag], ...]:
    """Return each covariate's flags; kinds of cells that are not among them need none.

    A covariate that no term names has none: whatever it holds, the prediction is the same.
    """
    covariates = model.study.covariates.items()
    return tuple(
        _find_flags(name, covariate, model.study.unusual) if j in model.features else {}
        for j, (name, covariate) in enumerate(covariates)
    )


def _find_flags(name: str, covariate: Covariate, policy: Unusual) -> dict[Cell, Flag]:
    flags: dict[Cell, Flag] = {}
    if isinstance(covariate, Number):
        for cell, word, end in zip((Cell.BELOW, Cell.ABOVE), _SIDES, covariate.range, strict=True):
            shown = f"{format_number(end, covariate.step)} {covariate.unit}".rstrip()
            fate = _settle(policy.beyond, covariate)
            flags[cell] = _flag(fate, f"{name} {word} the range", end, shown)
        flags[Cell.UNREADABLE] = _flag(_settle(policy.unseen, covariate), f"{name} not a number")
    else:
        fate = _settle(policy.unseen, covariate)
        flags[Cell.UNSEEN] = _flag(fate, f"{name} not a level of the study")
    if covariate.complete:
        flags[Cell.MISSING] = _flag("refuse", f"{name} missing")
    return flags


_SIDES = ("below", "above")


def _settle(fate: Fate, covariate: Covariate) -> Fate:
    """A model of a complete covariate does not know what a missing value means."""
    return "refuse" if fate == "missing" and covariate.complete else fate


def _flag(fate: Fate, what: str, end: float = 0.0, shown: str = "") -> Flag:
    if fate == "clip":
        return Flag(fate, end, f"{what}: counted as {shown}")
    outcome = "counted as missing" if fate == "missing" else "no prediction"
    return Flag(fate, math.nan, f"{what}: {outcome}")
