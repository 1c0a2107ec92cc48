"""Cells → numbers, positions of levels, or missing: nothing is guessed.

===========  ==========================================  ==================
covariate    in the source                               in ``Table.values``
===========  ==========================================  ==================
number       number, or text of one with a point         the number
category     a level, in any spelling that ``level_key``  position of the level
             takes as the same
yes/no       ``yes`` or ``no`` of the study              1.0 or 0.0
any          null, NaN, empty, or ``MISSING_WORDS``      NaN
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

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Level, level_key
from fedrulefit.table.columns import Raw

MISSING_WORDS: Final = frozenset({"", "na", "nan", "n/a", "null", "none", "."})
"""Texts that stand for a missing value, in lower case, unless they are a declared level."""

YES_WORDS: Final = frozenset(
    {"1", "yes", "y", "true", "dead", "died", "death", "deceased", "positive", "event", "case"}
)
"""Values that usually say that the event came, in lower case."""

NO_WORDS: Final = frozenset(
    {"0", "no", "n", "false", "alive", "none", "negative", "survived", "survivor", "control"}
)
"""Values that usually say that it did not."""

_DECIMAL_COMMA: Final = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")

_UNKNOWN: Final = -1.0

_Code = TypeVar("_Code")


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column read as numbers: NaN where missing or not a number."""

    values: Floats
    n_not_number: int
    n_decimal_comma: int

    @property
    def n_infinite(self) -> int:
        """How many values are infinite."""
        return int(np.isinf(self.values).sum())


def parse_numbers(raw: Raw) -> Numbers:
    """Read a column as numbers; nothing is guessed."""
    if raw.dtype == np.float64:
        return Numbers(raw, 0, 0)
    try:
        values = raw.astype(np.float64)
        # Python takes "1_000" for a number.
        clean = not any("_" in text for text in raw if text is not None)
    except ValueError:
        clean = False
    if clean:
        return Numbers(values, 0, 0)
    codes, texts = factorise(raw)
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    lookup = np.full(len(texts) + 1, np.nan)
    n_not_number = n_decimal_comma = 0
    for position, text in enumerate(str(text).strip() for text in texts):
        if text.casefold() in MISSING_WORDS:
            continue
        try:
            lookup[position] = float("bad" if "_" in text else text)
        except ValueError:
            n = int(counts[position])
            if _DECIMAL_COMMA.fullmatch(text):
                n_decimal_comma += n
            else:
                n_not_number += n
    return Numbers(lookup[codes], n_not_number, n_decimal_comma)


def match_levels(raw: Raw, levels: Sequence[Level]) -> tuple[Floats, int]:
    """Return each row's position in `levels`, NaN where missing, and how many are unknown.

    Unknown rows are NaN, too.
    """
    keys = {level_key(level): float(i) for i, level in enumerate(levels)}
    keys |= boolean_aliases(keys)
    missing = MISSING_WORDS - {key.casefold() for key in keys}
    codes, uniques = factorise(raw)
    lookup = np.full(len(uniques) + 1, np.nan)
    for position, value in enumerate(uniques):
        key = level_key(value)
        if key in keys:
            lookup[position] = keys[key]
        elif key.casefold() not in missing:
            lookup[position] = _UNKNOWN
    positions = lookup[codes]
    unknown = positions == _UNKNOWN
    positions[unknown] = np.nan
    return positions, int(unknown.sum())


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
