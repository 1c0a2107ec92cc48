"""The finished model, handed out so that each site finds its own baseline of it."""

from __future__ import annotations

from dataclasses import dataclass

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.protocol.messages.base import Reply, Request, Turn, stated
from fedrulefit.protocol.public import Public
from fedrulefit.study import Settings

__all__ = ["ShareModelReply", "ShareModelRequest"]


@dataclass(frozen=True, eq=False)
class ShareModelRequest(Request):
    """Hand out the finished model, of which each site then finds its own baseline, for itself.

    `terms` are the positions of its terms, the intercept first, and `coef` their coefficients, as
    they are published.
    """

    turn = Turn.MODEL
    hands_out = True

    terms: Ints
    coef: Floats

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether sites have baselines of their own."""
        return settings.own_spread is not None

    def check(self, public: Public) -> None:
        """Refuse coefficients that are none of this fit's."""
        public.check_coefs(self.terms, self.coef)


@dataclass(frozen=True, eq=False)
class ShareModelReply(Reply):
    """The site has the model; of its own baseline it says nothing."""

    n_terms: int = stated("length of the coefficient vector that was handed out")
