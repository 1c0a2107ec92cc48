r"""How the probability of each level follows from a model's predictors, for any language.

In: a :class:`Language`, which writes sums and products as SQL or as nodes of a graph, and the
predictors in it. Out: the probability of each level in it. Nothing leaves a site here.

.. math:: \text{ordered: } P(y = k) = \prod_{j ≤ k} σ(F_j)\,·\,σ(-F_{k+1}),\qquad
   \text{classes: } P(y = c) = 1 \Big/ \sum_b e^{F_b - F_c}

Oracle: :meth:`~fedrulefit.core.families.base.Family.predict`
(``tests/unit/core/test_recipes.py``; of the page's program ``tests/browser/test_levels.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

STEPS_JAVASCRIPT: Final = """(steps) => {
    let reached = 1;
    const found = steps.map((f) => {
      const staying = reached * family.inverse(-f);
      reached *= family.inverse(f);
      return staying;
    });
    return [...found, reached];
  }"""
"""A JavaScript function from F of each step to the probability of each level."""

SHARES_JAVASCRIPT: Final = """(predictors) => {
    const most = Math.max(...predictors), heights = predictors.map((f) => Math.exp(f - most));
    const whole = heights.reduce((a, b) => a + b, 0);
    return heights.map((height) => height / whole);
  }"""
"""A JavaScript function from F of each class to the probability of each."""


class Language(ABC):
    """Writes what is done with numbers; a text is the name of a number, or an expression."""

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a constant."""

    @abstractmethod
    def add(self, first: str, second: str) -> str:
        """Return a sum."""

    @abstractmethod
    def multiply(self, first: str, second: str) -> str:
        """Return a product."""

    @abstractmethod
    def negate(self, value: str) -> str:
        """Return −x."""

    @abstractmethod
    def invert(self, value: str) -> str:
        """Return 1/x of an x above 0."""

    @abstractmethod
    def exp(self, value: str) -> str:
        """Return the exponential; of numbers so large or small that it cannot be told, nearly."""

    @abstractmethod
    def link(self, value: str) -> str:
        """Return what the inverse of the family's link makes of a predictor."""


def write_steps(language: Language, predictor: str, baseline: Sequence[float]) -> list[str]:
    """Return the probability of each of len(baseline) + 1 ordered levels.

    `predictor` is F of the first step, `baseline` each step's own less that of the first.
    """
    found, reached = [], ""
    for own in baseline:
        step = language.add(predictor, language.number(own)) if own else predictor
        staying = language.link(language.negate(step))
        going = language.link(step)
        found.append(language.multiply(reached, staying) if reached else staying)
        reached = language.multiply(reached, going) if reached else going
    return [*found, reached]


def write_shares(language: Language, predictors: Sequence[str]) -> list[str]:
    """Return the probability of each class, from the predictor of each."""
    found = []
    for c, own in enumerate(predictors):
        total = language.number(1.0)
        for b, other in enumerate(predictors):
            if b != c:
                apart = language.add(other, language.negate(own))
                total = language.add(total, language.exp(apart))
        found.append(language.invert(total))
    return found
