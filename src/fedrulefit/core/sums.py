r"""Sums over patients, declared once.

A :class:`Sum` is a frozen dataclass whose fields are declared with :func:`quantity`: what is
added up (a formula), how many numbers that are, in which unit each patient counts, and how much
at most. Everything else follows from that declaration: how a sum is packed into whole numbers,
what it is called in a site's ledger and in the documentation, how totals are read.

In: whole units per patient, added exactly (:mod:`fedrulefit.core.fixed`). Out: one flat vector
of integers per site; over all sites these add up, masked or not, and are read as numbers.

How many numbers a field has, and how large its unit is, depends on public facts: the
question, the grid, the rules. A :class:`Packing` holds these facts for one answer. Site and
coordinator make the same packing, so neither tells the other a length.

Oracle: Python's integers, field by field (``tests/unit/core/test_sums.py``).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.fixed import UNIT_BITS, from_units, to_units

_DECLARED: Final = "quantity"
_NUMERALS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

S = TypeVar("S", bound="Sum")


@dataclass(frozen=True)
class Quantity:
    """One field of a sum.

    Parameters
    ----------
    formula : str
        What is added up over patients.
    shape : str
        Names of sizes, joined by ``·``; empty for a single number.
    bits : int
        A unit is 2^−bits …
    scale : str
        … times this, the name of a public scale; empty for 1.
    most : str
        The largest contribution of one patient of weight w.
    """

    formula: str
    shape: str
    bits: int
    scale: str
    most: str

    @property
    def unit(self) -> str:
        """The unit, as people write it: ``2⁻⁴⁰·b``."""
        power = f"2{f'-{self.bits}'.translate(_NUMERALS)}"
        return f"{power}·{self.scale}" if self.scale else power


def quantity(
    formula: str,
    *,
    shape: str = "",
    bits: int = UNIT_BITS,
    scale: str = "",
    most: str = "w",
    maybe: bool = False,
) -> Any:
    """Declare a field of a sum; see :class:`Quantity`. `maybe`: it may hold no number at all."""
    told = {_DECLARED: Quantity(formula, shape, bits, scale, most)}
    return field(metadata=told, default_factory=_nothing) if maybe else field(metadata=told)


def _nothing() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Sum:
    """A sum over patients, as numbers; all declared fields add up over sites.

    Fields that are not declared with :func:`quantity` are public: they come with the packing.
    """

    @classmethod
    def quantities(cls) -> dict[str, Quantity]:
        """Return what is declared, by field, in the order in which numbers travel."""
        return {
            f.name: f.metadata[_DECLARED]
            for f in dataclasses.fields(cls)
            if _DECLARED in f.metadata
        }


@dataclass(frozen=True, eq=False)
class Packing(Generic[S]):
    """How the numbers of one answer lie: a sum whose sizes and scales are known.

    Parameters
    ----------
    of : type of Sum
    sizes : mapping of str to int
        Values of the names in shapes.
    scales : mapping of str to float64 array, or to a callable that returns one
        Values of the names of scales; only who reads totals needs them.
    public : mapping of str to object
        Fields of the sum that are no quantities.
    """

    of: type[S]
    sizes: Mapping[str, int] = field(default_factory=dict)
    scales: Mapping[str, Floats | Callable[[], Floats]] = field(default_factory=dict)
    public: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lengths(self) -> dict[str, int]:
        """How many numbers each quantity has."""
        return {name: self._length(told.shape) for name, told in self.of.quantities().items()}

    @property
    def size(self) -> int:
        """How many numbers there are in all."""
        return sum(self.lengths.values())

    def pack(self, **units: Ints | int) -> Ints:
        """Return whole units as one flat vector, shape (size,); each field is named."""
        lengths = self.lengths
        if units.keys() != lengths.keys():
            raise TypeError(f"{self.of.__name__} is the sum of {', '.join(lengths)}")
        parts = []
        for name, length in lengths.items():
            part = np.atleast_1d(np.asarray(units[name]))
            if part.dtype.kind != "i" or part.shape != (length,):
                raise TypeError(f"{name} of {self.of.__name__} must be {length} whole numbers")
            parts.append(part.astype(np.int64))
        return np.concatenate(parts)

    def round(self, numbers: S) -> Ints:
        """Return numbers as whole units, flat; for contributions that are units already.

        Raises
        ------
        OverflowError
            If one is not finite, or too large.
        """
        told = self.of.quantities()
        return self.pack(
            **{
                name: to_units(np.asarray(getattr(numbers, name)) / self.scale(q.scale), q.bits)
                for name, q in told.items()
            }
        )

    def split(self, flat: Ints) -> dict[str, Ints]:
        """Return the whole units of each quantity; the reverse of :meth:`pack`."""
        lengths = self.lengths
        if flat.shape != (sum(lengths.values()),):
            raise ValueError(f"expected {sum(lengths.values())} numbers, got shape {flat.shape}")
        ends = np.cumsum(list(lengths.values()))
        return dict(zip(lengths, np.split(flat, ends[:-1]), strict=True))

    def read(self, flat: Ints) -> S:
        """Return the numbers that whole units stand for."""
        parts, told = self.split(flat), self.of.quantities()
        values: dict[str, Any] = dict(self.public)
        for name, q in told.items():
            numbers = from_units(parts[name], q.bits) * self.scale(q.scale)
            values[name] = numbers if q.shape else float(numbers[0])
        return self.of(**values)

    def _length(self, shape: str) -> int:
        return math.prod(self._extent(name) for name in shape.split("·")) if shape else 1

    def _extent(self, name: str) -> int:
        return int(name) if name.isdecimal() else self.sizes[name]

    def scale(self, name: str) -> Floats | float:
        """Return the value of a scale's name; 1 for no name."""
        if not name:
            return 1.0
        scale = self.scales[name]
        return scale() if callable(scale) else scale
