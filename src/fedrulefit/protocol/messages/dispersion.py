"""How much outcomes vary about their means: asked between rounds of the fit, and handed out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.dispersion import DispersionSums, sum_dispersion
from fedrulefit.core.sums import Packing
from fedrulefit.protocol.messages.base import Reply, Request, Turn, stated
from fedrulefit.protocol.messages.sums import SumRequest
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.study import Settings, Study

__all__ = ["DispersionRequest", "ShareDispersionReply", "ShareDispersionRequest"]


@dataclass(frozen=True, eq=False)
class DispersionRequest(SumRequest):
    """Ask how the likelihood changes with the dispersion, at a model's coefficients.

    Only of outcomes with a dispersion that is learnt. `terms` are positions, the intercept first,
    and `coef` their coefficients; `dispersion` is a step of a public ladder.
    """

    turn = Turn.FIT
    release = "curvature"
    by_family = of_dispersion = True
    sums = (DispersionSums,)

    terms: Ints
    coef: Floats
    dispersion: float

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        del study
        return (
            "how much outcomes vary about the predictions: two sums at each of a few dispersions, "
            "until the likeliest is found"
        )

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's solver is the exact one."""
        return settings.solver == "exact"

    @property
    def ledger_round(self) -> int:
        """The step of the run."""
        return self.header.step

    def packings(self, public: Public) -> tuple[Packing[DispersionSums]]:
        """Return how the numbers lie: two."""
        del public
        return (Packing(DispersionSums),)

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's, and dispersions off the ladder."""
        public.check_dispersion(self.dispersion)
        public.check_coefs(self.terms, self.coef)

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's two sums; zeros where they would be nearly one patient's."""
        predictor = patients.design.take(self.terms).predictor(self.coef)
        family, weights = patients.public.family, patients.scaled_weights
        if not patients.hides_spread:
            weights = np.zeros_like(weights)
        found = sum_dispersion(family, predictor, patients.outcome, weights, self.dispersion)
        return (found,)


@dataclass(frozen=True, eq=False)
class ShareDispersionRequest(Request):
    """Hand out the dispersion with which the run goes on; 0 for none."""

    turn = Turn.FIT
    hands_out = of_dispersion = True

    dispersion: float

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study's solver is the exact one."""
        return settings.solver == "exact"


@dataclass(frozen=True, eq=False)
class ShareDispersionReply(Reply):
    """The site goes on with it."""

    dispersion: float = stated("the dispersion that was handed out")
