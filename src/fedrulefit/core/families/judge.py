"""How predictions of a kind of outcome are judged, from sums that add up over sites.

In: predictions and outcomes of patients that a model was not learnt from. Out: sums, then
measures of all sites or of one. Leaves the site: the sums; what they may tell of single
patients is their own module's concern (:mod:`fedrulefit.core.families.yesno_sums`).

====================  =======================================================
step                  here
====================  =======================================================
at each site          :meth:`Judge.count`
over sites            :meth:`Judge.add`
too few to tell       :meth:`Judge.coarsen`
measures              :meth:`Judge.measure`
within hospitals      :meth:`Judge.place_within`, :meth:`Judge.measure_within`
over measured sites   :meth:`Judge.heterogeneity`, :meth:`Judge.summarise`
curves                :meth:`Judge.groups`, :meth:`Judge.decisions`
in words              :meth:`Judge.tell` and what follows it
====================  =======================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from fedrulefit.core.arrays import Floats
from fedrulefit.core.heterogeneity import Across
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.sums import Packing, Sum

Sums = TypeVar("Sums", bound=Sum)
Measures = TypeVar("Measures")


@dataclass(frozen=True)
class Column:
    """A column of a table of measures, for people.

    Parameters
    ----------
    name : str
        The field that it shows.
    heading : str
    upto : str
        The field that ends the interval which `name` begins; empty for a single number.
    holds : {"number", "rate", "edge"}
        A rate follows from counts, and is told no finer than they are; an edge is a public
        number, told as it is.
    """

    name: str
    heading: str
    upto: str = ""
    holds: Literal["number", "rate", "edge"] = "number"


@dataclass(frozen=True)
class Summary:
    """One measure of single hospitals, told of hospitals like them.

    Parameters
    ----------
    name, heading : str
        The field of the measures, and its words.
    across : Across
        On the measure's own scale, but for its τ.
    scale : str
        Where hospitals were averaged and τ stands, in words.
    ideal : float
        What a perfect model has; NaN where the larger is the better.
    """

    name: str
    heading: str
    across: Across
    scale: str
    ideal: float


class Within(Protocol):
    """A measure of patients of one and the same hospital, averaged over hospitals."""

    @property
    def sites(self) -> int:
        """Hospitals with enough patients, at least two."""

    def rounded(self, rounding: Rounding, unit: float) -> Within | None:
        """Return what may be published; None of too few patients."""


class Judge(ABC, Generic[Sums, Measures]):
    """What a family judges predictions by; its instances have no state.

    `Sums` declare what adds up over patients, `Measures` are a dataclass of floats that begins
    with ``patients``; it has a method ``rounded(base)``.
    """

    sums: type[Sums]
    """What a site adds up: with a classmethod ``packing()``."""

    measures: type[Measures]
    """What :meth:`measure` returns."""

    within_sums: type[Sum]
    """What a site adds up of its own patients held against each other: four numbers or so."""

    within: type[Any]
    """What :meth:`measure_within` returns, a dataclass: see :class:`Within`."""

    measure_columns: ClassVar[tuple[Column, ...]]
    """Of a table of :meth:`measure`, and of :meth:`measure_within` (``within_…``)."""

    summary_columns: ClassVar[tuple[Column, ...]]
    """Of a table of :meth:`summarise`, after the measure's name."""

    group_columns: ClassVar[tuple[Column, ...]]
    """Of a table of :meth:`groups`."""

    decision_columns: ClassVar[tuple[Column, ...]]
    """Of a table of :meth:`decisions`."""

    def packing(self) -> Packing[Sums]:
        """Return how the numbers lie that a site sends."""
        return Packing(self.sums)

    @abstractmethod
    def count(self, prediction: Floats, outcome: Floats, weights: Floats) -> Sums:
        """Return the sums of some patients; all of shape (n_rows,)."""

    @abstractmethod
    def add(self, parts: Sequence[Sums]) -> Sums:
        """Add up over sites."""

    @abstractmethod
    def coarsen(self, sums: Sums, least: float, *, each: bool = False) -> Sums | None:
        """Merge what holds a weight below `least`; None where all together are too few.

        With `each`, every kind of patient that the sums tell apart must reach it.
        """

    @abstractmethod
    def measure(self, sums: Sums) -> Measures:
        """Return the usual measures; NaN where one is not defined."""

    @abstractmethod
    def place_within(self, sums: Sums, least: float) -> Sum:
        """Return what one site adds to :attr:`within_sums`; zeros below `least` of a kind."""

    @abstractmethod
    def measure_within(self, total: Any) -> Any:
        """Return the mean over sites of a measure within each; None of fewer than two."""

    @abstractmethod
    def summarise(self, sites: Sequence[Measures]) -> Sequence[Summary]:
        """Return what single hospitals tell of hospitals like them, one measure each."""

    @abstractmethod
    def heterogeneity(self, sites: Sequence[Measures]) -> float:
        """Return the standard deviation of the sites' results beyond chance; NaN if unknown."""

    @abstractmethod
    def groups(self, sums: Sums, n_groups: int) -> Sequence[Any]:
        """Return predicted and observed by at most `n_groups` groups, a dataclass each."""

    @abstractmethod
    def decisions(self, sums: Sums) -> Sequence[Any]:
        """Return what a decision at each known threshold does, a dataclass each; maybe none."""

    @abstractmethod
    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence."""

    @abstractmethod
    def tell_within(self, found: Measures, within: Any) -> str:
        """Return discrimination within hospitals in a sentence, held against that over all."""

    @abstractmethod
    def tell_briefly(self, found: Measures) -> Sequence[tuple[str, str]]:
        """Return the main measures as (heading, number), for a row of a narrow table."""

    @abstractmethod
    def tell_summary(self, sites: Sequence[Measures]) -> str:
        """Return what a further hospital may see, in a sentence or two."""

    @abstractmethod
    def tell_unknown(self, found: Mapping[str, Measures]) -> str:
        """Return which measures of whom are not known, and why; empty where all are."""

    @abstractmethod
    def tell_span(self, sites: Sequence[Measures]) -> str:
        """Return from what to what the sites' results go, in a sentence."""

    @abstractmethod
    def tell_heterogeneity(self, sites: Sequence[Measures]) -> str:
        """Return how much the sites differ, in a sentence; empty where that is not known."""
