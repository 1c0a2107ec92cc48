r"""Rules that say nearly the same, told as one idea with its variants.

In: a model. Out: its terms in groups. Two rules that hold for nearly the same patients
(:math:`|r| \ge 0.8`, as :mod:`fedrulefit.core.refinding` has it) are one idea for a reader,
whatever their coefficients are: `height < 168` and `height < 170` are read together, and so are
`age ≥ 60` and `age < 58`. The most important rule of an idea leads it; each variant is near the
leader, so that ideas do not chain. Linear terms stand for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.refinding import SAME, Alike
from fedrulefit.model.terms import RuleTerm, Term

if TYPE_CHECKING:
    from fedrulefit.model.model import Model

MARK: Final = "≈ "
"""Stands before a variant, below the rule that it is a variant of."""

_SLACK: Final = 1e-9
_MEANING: Final = (
    f"“{MARK.strip()}” marks a variant of the rule above it: it holds for nearly the same patients "
    "(|r| ≥ 0.8), so read them together."
)


@dataclass(frozen=True)
class Idea:
    """A term, and those that say nearly the same.

    Parameters
    ----------
    leader : Term
        The most important of them.
    variants : tuple of RuleTerm
        The others, most important first.
    """

    leader: Term
    variants: tuple[RuleTerm, ...] = ()

    def __iter__(self) -> Iterator[Term]:
        return iter((self.leader, *self.variants))


def group_ideas(model: Model, terms: Sequence[Term] | None = None) -> list[Idea]:
    """Return the model's terms, or some of them, as ideas, in the order of their leaders."""
    every = list(model.terms if terms is None else terms)
    alike, left, ideas = Alike(model.grid, model.distribution), np.ones(len(every), np.bool_), []
    odds = np.array([_find_odds(alike, term) for term in every])
    for place, leader in enumerate(every):
        if not left[place]:
            continue
        left[place] = False
        near = []
        for at in np.flatnonzero(left & _may_be_alike(odds[place], odds)).tolist():
            other = every[at]
            if isinstance(other, RuleTerm) and _are_alike(leader, other, alike):
                near.append(other)
                left[at] = False
        ideas.append(Idea(leader, tuple(near)))
    return ideas


def _find_odds(alike: Alike, term: Term) -> float:
    """Return the odds that a rule holds; NaN of other terms, and of everybody or nobody."""
    share = alike.share(dict(term.rule.conditions)) if isinstance(term, RuleTerm) else 0.0
    return share / (1 - share) if 0 < share < 1 else math.nan


def _may_be_alike(one: float, others: Floats) -> Bools:
    """Return whether rules with these odds can be so alike at all: cheap, and mostly no."""
    with np.errstate(invalid="ignore"):
        same, opposite = one / others, one * others
        most = np.maximum(np.minimum(same, 1 / same), np.minimum(opposite, 1 / opposite))
        possible: Bools = np.sqrt(most) >= SAME - _SLACK
    return possible


def _are_alike(one: Term, other: RuleTerm, alike: Alike) -> bool:
    """Whether two rules hold for nearly the same patients, or one for whom the other does not."""
    if not isinstance(one, RuleTerm) or one.level != other.level:
        return False
    return abs(alike.correlate(one.rule, other.rule)) >= SAME


def number_ideas(model: Model) -> dict[int, int]:
    """Return of which idea each term is: by the term's place in the model, from 1."""
    places = {id(term): place for place, term in enumerate(model.terms)}
    return {
        places[id(term)]: number
        for number, idea in enumerate(group_ideas(model), start=1)
        for term in idea
    }


def tell_variants(there_are: bool) -> str:
    """Return what marks a variant, in a sentence; empty where there are none."""
    return _MEANING if there_are else ""
