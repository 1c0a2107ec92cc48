"""Cells → numbers, positions of levels, or missing: nothing is guessed.

===========  ==========================================  ==================
covariate    in the source                               in ``Table.values``
===========  ==========================================  ==================
number       number, or text of one with a point         the number
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

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.study import Level, level_key
from fedrulefit.table.columns import Raw

MISSING_WORDS: Final = frozenset({"", "na", "nan", "n/a", "null", "."})
"""Texts that stand for a missing value, in lower case, unless they are a declared level.

Not "none": that is what many tables say of a patient who has none of it."""

YES_WORDS: Final = frozenset(
    {"1", "yes", "y", "true", "dead", "died", "death", "deceased", "positive", "event", "case"}
)
"""Values that usually say that the event came, in lower case."""

NO_WORDS: Final = frozenset(
    {"0", "no", "n", "false", "alive", "none", "negative", "survived", "survivor", "control"}
)
"""Values that usually say that it did not."""

_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")

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
    n_decimal_comma : int
        How many of these would be numbers with a decimal comma.
    """

    values: Floats
    unreadable: Bools
    n_decimal_comma: int = 0

    @property
    def n_not_number(self) -> int:
        """How many cells are no numbers, whatever the comma."""
        return int(self.unreadable.sum()) - self.n_decimal_comma

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
        coded = [float(code) for code in codes if _is_number(code)]
        values = np.where(np.isin(plain, coded), np.nan, plain) if coded else plain
        return Numbers(values, np.zeros(len(raw), dtype=np.bool_))
    places, texts = factorise(raw)
    lookup = np.full(len(texts) + 1, np.nan)
    unreadable = np.zeros(len(texts) + 1, dtype=np.bool_)
    commas = np.zeros(len(texts) + 1, dtype=np.bool_)
    for place, text in enumerate(str(text).strip() for text in texts):
        if text.casefold() in MISSING_WORDS or level_key(text).casefold() in codes:
            continue
        unreadable[place] = "_" in text or not _is_number(text)
        commas[place] = unreadable[place] and _DECIMAL_COMMA.fullmatch(text) is not None
        lookup[place] = np.nan if unreadable[place] else float(text)
    return Numbers(lookup[places], unreadable[places], int(commas[places].sum()))


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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
