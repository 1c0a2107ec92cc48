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
what is published     :meth:`Judge.publish`, :meth:`Judge.round`
in a model file       :meth:`Judge.write`, :meth:`Judge.read`
in words              :meth:`Judge.tell` and what follows it
====================  =======================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar

from fedrulefit.core.arrays import Floats
from fedrulefit.core.heterogeneity import Across
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.sums import Packing, Sum

if TYPE_CHECKING:
    from fedrulefit.core.families.survival import Timeline
    from fedrulefit.core.families.time_horizons import Scores

Facts = Mapping[str, Any]
"""Numbers, lists of numbers, and rows of named numbers: what a model file can hold."""


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


class Judged(Protocol):
    """Measures on some patients: a dataclass of floats that begins with ``patients``."""

    @property
    def patients(self) -> float:
        """Those judged, with weights."""

    @property
    def with_outcome(self) -> float:
        """Those of them whose outcome counts as an event; NaN where none does."""

    @property
    def fewest(self) -> float:
        """The smallest number of patients that the measures rest on and tell apart."""

    @property
    def counts(self) -> tuple[float, ...]:
        """What is told as counts are, the patients first."""

    def rounded(self, base: float) -> Any:
        """Return counts as multiples of `base`, and the rest coarse."""

    def with_counts(self, *counts: float) -> Any:
        """Return the same with other :attr:`counts`, and with what follows from them."""


Sums = TypeVar("Sums", bound=Sum)
Measures = TypeVar("Measures", bound=Judged)


class Judge(ABC, Generic[Sums, Measures]):
    """What a family judges predictions by.

    `Sums` declare what adds up over patients, `Measures` are what follows from them
    (:class:`Judged`).
    """

    sums: type[Sums]
    """What a site adds up: with a classmethod ``packing()``."""

    measures: type[Measures]
    """What :meth:`measure` returns."""

    within_sums: type[Sum]
    """What a site adds up of its own patients held against each other: four numbers or so."""

    within: type[Any]
    """What :meth:`measure_within` returns, a dataclass: see :class:`Within`."""

    measure_columns: tuple[Column, ...]
    """Of a table of :meth:`measure`, and of :meth:`measure_within` (``within_…``)."""

    summary_columns: ClassVar[tuple[Column, ...]]
    """Of a table of :meth:`summarise`, after the measure's name."""

    group_columns: tuple[Column, ...]
    """Of a table of :meth:`groups`."""

    decision_columns: ClassVar[tuple[Column, ...]]
    """Of a table of :meth:`decisions`."""

    level_columns: ClassVar[tuple[Column, ...]] = ()
    """Of a table of :meth:`levels_of`."""

    estimates_means: ClassVar[bool] = True
    """Whether the mean prediction of :meth:`groups` is known only roughly."""

    measures_title: ClassVar[str] = "Discrimination and calibration"
    """What stands over a table of :meth:`measure`."""

    file_words: ClassVar[Mapping[str, Mapping[str, str]]]
    """What the numbers of a model file mean, by their names: of ``overall`` (the measures), of
    ``groups`` and ``sums`` (:meth:`write`) and of ``within``."""

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
    def groups(
        self, sums: Sums, n_groups: int, rounding: Rounding = EXACT, unit: float = 1.0
    ) -> Sequence[Any]:
        """Return predicted and observed by at most `n_groups` groups, a dataclass each.

        `rounding` and `unit` are those with which the sums were published
        (:meth:`Judge.publish`): intervals count with it.
        """

    @abstractmethod
    def decisions(self, sums: Sums) -> Sequence[Any]:
        """Return what a decision at each known threshold does, a dataclass each; maybe none."""

    def levels_of(self, sums: Sums) -> Sequence[Any]:
        """Return a row per level of an outcome of several, a dataclass each; else none."""
        del sums
        return []

    def round(self, found: Measures, rounding: Rounding, unit: float) -> Measures:
        """Return measures as they may be published: rounded counts, and the rest coarse."""
        counts = (rounding.count(x, unit) for x in found.counts)
        told: Measures = found.rounded(rounding.multiple * unit).with_counts(*counts)
        return told

    @abstractmethod
    def publish(
        self, sums: Sums, measures: Measures, rounding: Rounding, unit: float
    ) -> tuple[Sums, Measures] | None:
        """Return what may be published of some patients; None where they are too few.

        Parameters
        ----------
        sums : Sums
        measures : Measures
            Of these patients, maybe taken before bins were merged.
        rounding : Rounding
            :data:`~fedrulefit.core.rounding.EXACT` merges bins, and rounds nothing.
        unit : float
            The most that one patient counts.
        """

    @abstractmethod
    def write(self, sums: Sums) -> Facts:
        """Return what a model file holds of published sums, beside their measures.

        ``groups`` is a list of rows, each of named numbers; ``sums``, where there are any, are
        numbers or lists of numbers by name.
        """

    @abstractmethod
    def read(self, facts: Facts, measures: Measures) -> Sums:
        """Return the sums that :meth:`write` wrote, as far as they and the measures tell.

        Raises
        ------
        ValueError
            If they contradict themselves; the message is for people.
        """

    @abstractmethod
    def tell(self, found: Measures) -> str:
        """Return the measures in a sentence."""

    def score_over_time(self, sums: Sums, timeline: Timeline | None) -> Scores | None:
        """Return how far off risks by earlier times are; None where time has no part in it."""
        del sums, timeline
        return None

    def tell_over_time(self, scores: Scores) -> str:
        """Return these scores in a sentence."""
        raise NotImplementedError

    def find_reaches(self, found: Measures) -> Mapping[int, float]:
        """Return how far a new patient may be from the prediction, by percent of patients."""
        del found
        return {}

    range_javascript: ClassVar[str] = (
        "(value, reaches) => reaches.map(([share, reach]) => "
        "[share, family.tell(value - reach), family.tell(value + reach)])"
    )
    """:meth:`find_ranges` as a JavaScript function, of a prediction and :meth:`range_facts`; ends
    as text."""

    @property
    def range_words(self) -> str:
        """Whose ranges these are, as the beginning of a sentence's clause."""
        return "the value of a new patient like this one lies"

    def range_facts(self, found: Measures) -> list[Any]:
        """Return what else follows ranges; empty where there are none."""
        return [[share, reach] for share, reach in self.find_reaches(found).items()]

    def find_ranges(
        self, found: Measures, prediction: float, tell: Callable[[float], str]
    ) -> list[tuple[int, str, str]]:
        """Return between what a new patient's outcome lies: percent of patients, and both ends.

        Parameters
        ----------
        found : Measures
            Of held-out patients.
        prediction : float
        tell : callable
            How the family tells a prediction.
        """
        return [
            (share, tell(prediction - reach), tell(prediction + reach))
            for share, reach in self.find_reaches(found).items()
        ]

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
