"""The refit of the finished model's terms to held-out patients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrulefit.core.adjusting import MOST_TERMS
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.curvature import CurvatureSums, Query, sum_curvature
from fedrulefit.core.fixed import Bounds
from fedrulefit.core.sums import Packing
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.messages.base import Turn
from fedrulefit.protocol.messages.sums import SumRequest
from fedrulefit.protocol.patients import Patients, outcome_of
from fedrulefit.protocol.public import Public
from fedrulefit.study import Settings, Study

__all__ = ["AdjustRequest"]


@dataclass(frozen=True, eq=False)
class AdjustRequest(SumRequest):
    """A round of the refit of the model's terms to the patients that were held out.

    `terms` are the positions of its terms, the intercept first; `start` and `end` are
    coefficients: losses are summed on the way, derivatives at its end. All sites share a baseline,
    also where they have their own in the fit: exact sums at these would give them away.
    """

    turn = Turn.ADJUST
    release = "evaluation"
    by_family = True
    sums = (CurvatureSums,)

    terms: Ints
    start: Floats
    end: Floats

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what the total tells."""
        return (
            "gradients, second derivatives and losses of the model's terms, of held-out patients "
            f"(from which {study.family.tells.inside} inside these follow)"
        )

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether the study asks for adjusted effects."""
        return settings.adjusted and settings.holdout > 0

    @property
    def _query(self) -> Query:
        every = np.arange(len(self.terms))
        return Query(-1, every, self.start, self.end, every)

    def _bounds(self, public: Public) -> Bounds:
        """Return how large the numbers of a held-out patient's row can be."""
        sizes = public.bounds.terms[self.terms]
        return Bounds(sizes, public.study.most_row, public.family.unit)

    def packings(self, public: Public) -> tuple[Packing[CurvatureSums]]:
        """Return how the numbers lie."""
        return (CurvatureSums.packing(self._query, self._bounds(public)),)

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's, or too many of them."""
        if len(self.terms) > MOST_TERMS:
            raise ProtocolError(f"more terms than {MOST_TERMS} are not adjusted")
        for coef in (self.start, self.end):
            public.check_coefs(self.terms, coef)

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's sums over the patients that it holds out."""
        public, held = patients.public, patients.held_out
        return (
            sum_curvature(
                public.family,
                patients.held_terms(self.terms),
                outcome_of(held),
                held.weights,
                np.zeros(held.n_rows, dtype=np.int64),
                self._query,
                self._bounds(public),
            ),
        )
