"""What a caller says of columns: ``categorical=``, ``ordered=`` and ``missing=`` of the estimators.

In: the three as given, and the names of the columns. Out: :class:`Asked`, by name, or an error
that says which name is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrulefit.errors import DataError, did_you_mean
from fedrulefit.study import Level, as_level, first_spellings

_EXAMPLES = {
    "categorical": "categorical=['ward']",
    "ordered": "ordered={'nyha': ['I', 'II', 'III', 'IV']}",
    "missing": "missing={'gcs': [-9, 'unknown']}, or missing=[-9] for all columns",
}


@dataclass(frozen=True)
class Asked:
    """What a caller says of columns.

    Parameters
    ----------
    categorical : frozenset of str
        Columns whose values are levels in no order.
    ordered : mapping of str to tuple of Level
        Columns whose values are levels, the lowest first.
    missing : mapping of str to tuple of Level
        Codes of a column that stand for a missing value.
    everywhere : tuple of Level
        Those of all columns.
    """

    categorical: frozenset[str] = frozenset()
    ordered: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)
    missing: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)
    everywhere: tuple[Level, ...] = ()

    def codes(self, name: str) -> tuple[Level, ...]:
        """Return the codes of a column that stand for a missing value, each once."""
        return first_spellings((*self.missing.get(name, ()), *self.everywhere))


def resolve_asked(
    names: Sequence[str], *, categorical: Any = None, ordered: Any = None, missing: Any = None
) -> Asked:
    """Return what is asked, by name.

    Parameters
    ----------
    names : sequence of str
        Of the columns; each may be given by its position, too.
    categorical : sequence of str or int, optional
    ordered : mapping of str or int to sequence, optional
    missing : sequence, or mapping of str or int to sequence, optional
    """
    chosen = frozenset(
        _find(column, names, "categorical")
        for column in (() if categorical is None else _listed(categorical, "categorical"))
    )
    ranks = _by_column(ordered, names, "ordered")
    for name, levels in ranks.items():
        if name in chosen:
            raise DataError(f"column {name!r} is in categorical= and in ordered=: leave one out")
        if len(first_spellings(levels)) < max(2, len(levels)):
            raise DataError(
                f"ordered= must give column {name!r} two levels or more, each once, lowest first"
            )
    if missing is None or isinstance(missing, Mapping):
        return Asked(chosen, ranks, _by_column(missing, names, "missing"))
    return Asked(chosen, ranks, {}, _levels(missing, "missing"))


def _by_column(given: Any, names: Sequence[str], of: str) -> dict[str, tuple[Level, ...]]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise DataError(f"{of}= must say what it is of which column: {_EXAMPLES[of]}")
    return {_find(column, names, of): _levels(levels, of) for column, levels in given.items()}


def _levels(given: Any, of: str) -> tuple[Level, ...]:
    return tuple(as_level(level) for level in _listed(given, of))


def _listed(given: Any, of: str) -> list[Any]:
    """Return what should be a list: a text would fall apart into its letters."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise DataError(f"{of}= wants a list: {_EXAMPLES[of]}")
    return list(given)


def _find(column: Any, names: Sequence[str], of: str) -> str:
    """Return a column's name, given its name or its position."""
    if isinstance(column, (int, np.integer)) and not isinstance(column, bool):
        place = int(column)
        if not 0 <= place < len(names):
            raise DataError(f"{of}= names column {column}; X has columns 0 to {len(names) - 1}")
        return names[place]
    name = str(column).strip()
    if name not in names or isinstance(column, bool):
        raise DataError(f"{of}= names a column that X does not have: {did_you_mean(name, names)}")
    return name
