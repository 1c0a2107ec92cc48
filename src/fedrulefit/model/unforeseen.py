"""What a prediction makes of values that the study does not foresee, and what it says of them.

In: a study, with its policy (:class:`~fedrulefit.study.Unusual`). Out: for each covariate and
kind of cell a :class:`Flag`. This is the only place that decides it: the prediction in Python,
SQL, ONNX and the calculator of the page all follow these flags, and show these words.

A missing value is foreseen, unless the study has the covariate complete: then the model
learnt nothing of missing values, and whatever counts as missing leaves no prediction.

Oracle: a loop over cells that knows the rules by heart (``tests/random_models.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedrulefit.study import Covariate, Number, Study
from fedrulefit.table.reading import Cell

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


def list_flags(study: Study, name: str) -> dict[Cell, Flag]:
    """Return the flags of a covariate; kinds of cells that are not among them need none."""
    covariate, policy = study.covariates[name], study.unusual
    flags: dict[Cell, Flag] = {}
    if isinstance(covariate, Number):
        unit = f" {covariate.unit}" if covariate.unit else ""
        for cell, word, end in zip((Cell.BELOW, Cell.ABOVE), _SIDES, covariate.range, strict=True):
            fate = _settle(policy.beyond, covariate)
            what = f"{name} {word} the range"
            flags[cell] = _flag(fate, what, end, f"{end:.15g}{unit}")
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
    return Flag(
        fate,
        float("nan"),
        f"{what}: counted as missing" if fate == "missing" else f"{what}: no prediction",
    )
