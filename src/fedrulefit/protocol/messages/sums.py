"""Questions whose answers add up over sites, and their one reply.

A question says what it asks, when it may come and which kind of release it is
(:class:`~fedrulefit.protocol.messages.base.Request`), how the answer's numbers lie, what is
refused on public grounds, and how a site adds its patients up: everything about one sum but its
mathematics, which is in ``core/``. Answers are whole units, flat, one
:class:`~fedrulefit.core.sums.Sum` after another; in a run with secure sums they leave under
masks, and nothing but the total over all sites can be learnt from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedrulefit.core.arrays import Ints
from fedrulefit.core.sums import Packing, Sum
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol.messages.base import Reply, Request, released, stated
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public

__all__ = ["OpenReply", "OpenRequest", "SumReply", "SumRequest"]


@dataclass(frozen=True, eq=False)
class SumRequest(Request, ABC):
    """Ask for a sum over patients."""

    masked = True

    sums: ClassVar[tuple[type[Sum], ...]]
    """What its answer declares."""

    @abstractmethod
    def packings(self, public: Public) -> Sequence[Packing[Any]]:
        """Return how the numbers of the answer lie: one declared sum after another."""

    def check(self, public: Public) -> None:
        """Refuse the question on public grounds, before a patient is touched.

        Raises
        ------
        ProtocolError
        """

    @abstractmethod
    def add_up(self, patients: Patients) -> Sequence[Ints]:
        """Return a site's own whole units, one flat vector per packing."""

    def size(self, public: Public) -> int:
        """Return how many numbers the answer has."""
        return sum(packing.size for packing in self.packings(public))

    def read(self, total: Ints, public: Public) -> list[Any]:
        """Return the sums that the added units of all sites stand for, one per packing.

        Raises
        ------
        ProtocolError
            If they are not as many as were asked for.
        """
        packings = self.packings(public)
        if total.shape != (self.size(public),):
            raise ProtocolError(f"a sum of {total.shape} numbers, {self.size(public)} were due")
        ends = np.cumsum([packing.size for packing in packings])
        parts = np.split(total, ends[:-1])
        return [packing.read(part) for packing, part in zip(packings, parts, strict=True)]

    def shapes(self, public: Public) -> dict[tuple[type[Sum], str], tuple[int, ...]]:
        """Return how many numbers of each declared quantity the answer holds."""
        packings = self.packings(public)
        found: dict[tuple[type[Sum], str], int] = {}
        for packing in packings:
            for name, length in packing.lengths.items():
                found[packing.of, name] = found.get((packing.of, name), 0) + length
        alone = len({packing.of for packing in packings}) == len(packings)
        return {
            (kind, name): () if alone and not kind.quantities()[name].shape else (length,)
            for (kind, name), length in found.items()
        }


@dataclass(frozen=True, eq=False)
class SumReply(Reply):
    """A site's part of a sum: under masks, random numbers until all sites' are added up."""

    masked: bool = stated("whether the numbers are under masks")
    numbers: Ints = released(
        "the numbers of the sum in whole units, plus masks", shape="n", mechanism="secure sum"
    )


@dataclass(frozen=True, eq=False)
class OpenRequest(Request):
    """Ask for the seed of the site's own mask, now that all sites have answered."""

    answered: int


@dataclass(frozen=True, eq=False)
class OpenReply(Reply):
    """The seed of the site's own mask at one step."""

    seed: bytes = stated("seed of the site's own mask")
