"""Cells → numbers, positions of levels, or missing: nothing is guessed.

===========  ==========================================  ==================
covariate    in the source                               in ``Table.values``
===========  ==========================================  ==================
number       number, or text that spells one clearly     the number
             (:mod:`fedrulefit.table.spelling`)
category     a level, in any spelling that ``level_key``  position of the level
             takes as the same
yes/no       ``yes`` or ``no`` of the study              1.0 or 0.0
ordered      as a category                               place in their order
any          null, NaN, empty, ``MISSING_WORDS``, or a    NaN
             code that the study names as ``missing``
===========  ==========================================  ==================

Oracle: a loop over the cells (``tests/unit/table/test_cells.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.study import Level, level_key
from fedrulefit.table.columns import Raw
from fedrulefit.table.spelling import is_plain_number, read_number

MISSING_WORDS: Final = frozenset({"", "na", "nan", "n/a", "null", "."})
"""Texts that stand for a missing value, in lower case, unless they are a declared level.

Not "none": that is what many tables say of a patient who has none of it."""

_Code = TypeVar("_Code")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column read as numbers.

    Parameters
    ----------
    values : (n_rows,) float64
        NaN where missing, or not a number.
    unreadable : (n_rows,) bool
        Where a cell is neither a number nor missing.
    """

    values: Floats
    unreadable: Bools

    @property
    def n_not_number(self) -> int:
        """How many cells are no numbers."""
        return int(self.unreadable.sum())

    @property
    def n_infinite(self) -> int:
        """How many values are infinite."""
        return int(np.isinf(self.values).sum())


def parse_numbers(raw: Raw, missing: Sequence[Level] = ()) -> Numbers:
    """Read a column as numbers; nothing is guessed, and no cell depends on another.

    Parameters
    ----------
    raw : (n_rows,) float64 or object
    missing : sequence of Level
        Codes that stand for a missing value.
    """
    codes = {level_key(code).casefold() for code in missing}
    plain = _as_floats(raw)
    if plain is not None:
        coded = [float(code) for code in codes if is_plain_number(code)]
        values = np.where(np.isin(plain, coded), np.nan, plain) if coded else plain
        return Numbers(values, np.zeros(len(raw), dtype=np.bool_))
    places, texts = factorise(raw)
    lookup = np.full(len(texts) + 1, np.nan)
    unreadable = np.zeros(len(texts) + 1, dtype=np.bool_)
    for place, text in enumerate(str(text).strip() for text in texts):
        if text.casefold() in MISSING_WORDS or level_key(text).casefold() in codes:
            continue
        number = read_number(text)
        unreadable[place] = number is None
        lookup[place] = np.nan if number is None else number
    lookup[np.isin(lookup, [float(code) for code in codes if is_plain_number(code)])] = np.nan
    return Numbers(lookup[places], unreadable[places])


def _as_floats(raw: Raw) -> Floats | None:
    """Return a column of which every cell is a number or missing, at the speed of numpy."""
    if raw.dtype == np.float64:
        return raw
    try:
        values: Floats = raw.astype(np.float64)
    except ValueError:
        return None
    # Python takes "1_000" for a number.
    return None if any("_" in text for text in raw if text is not None) else values


def match_levels(
    raw: Raw, levels: Sequence[Level], missing: Sequence[Level] = ()
) -> tuple[Floats, Bools]:
    """Return each row's position in `levels`, NaN where missing or unknown, and which are unknown.

    Both are of shape (n_rows,). `missing` are codes that stand for a missing value.
    """
    keys = {level_key(level): float(i) for i, level in enumerate(levels)}
    keys |= boolean_aliases(keys)
    absent = MISSING_WORDS - {key.casefold() for key in keys}
    absent |= {level_key(code).casefold() for code in missing}
    codes, uniques = factorise(raw)
    lookup = np.full(len(uniques) + 1, np.nan)
    unknown = np.zeros(len(uniques) + 1, dtype=np.bool_)
    for position, value in enumerate(uniques):
        key = level_key(value)
        lookup[position] = keys.get(key, np.nan)
        unknown[position] = key not in keys and key.casefold() not in absent
    return lookup[codes], unknown[codes]


def boolean_aliases(keys: Mapping[str, _Code]) -> dict[str, _Code]:
    """Let true/false stand for 1/0 and back, where the study has only one of the pairs."""
    if set(keys) == {"0", "1"}:
        return {"false": keys["0"], "true": keys["1"]}
    if set(keys) == {"false", "true"}:
        return {"0": keys["false"], "1": keys["true"]}
    return {}


def factorise(raw: Raw) -> tuple[npt.NDArray[np.intp], Raw]:
    """Return codes and distinct values; missing has the code -1, the last of a lookup."""
    codes, uniques = pd.factorize(raw)
    return codes, np.asarray(uniques)
