"""How much a model's outcomes vary about their means, where that was learnt."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

from fedrulefit.numerals import format_number

if TYPE_CHECKING:
    from fedrulefit.core.families import Family
    from fedrulefit.model.model import Model


class Dispersed:
    """What a model says of the dispersion of its outcome."""

    @cached_property
    def family(self: Model) -> Family:  # type: ignore[misc]
        """What F means, with the dispersion that was learnt."""
        return self.study.family.with_dispersion(self.dispersion)

    @property
    def theta(self: Model) -> float:  # type: ignore[misc]
        """θ of negative binomial counts, which vary by μ + μ²/θ about their mean μ.

        Infinite where they vary no more than Poisson's; NaN of other outcomes.
        """
        if self.dispersion is None:
            return math.nan
        return 1 / self.dispersion if self.dispersion > 0 else math.inf

    @property
    def of_dispersion(self: Model) -> str:  # type: ignore[misc]
        """How counts vary about what is predicted, in a sentence; empty of other outcomes."""
        if self.dispersion is None:
            return ""
        if self.dispersion == 0:
            return (
                "Counts vary about the predictions no more than Poisson's do: the study looked for "
                "a negative binomial dispersion and found none, so the model is Poisson's."
            )
        return (
            "Counts are taken to vary about their mean μ by μ + μ²/θ, with "
            f"θ = {format_number(self.theta, digits=3)} learnt from these patients (negative "
            "binomial)."
        )
