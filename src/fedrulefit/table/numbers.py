"""Faults of any column of numbers, weights included."""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.table.findings import Finding, error

DECIMAL_COMMA: Final = error(
    "decimal-comma",
    "{n} of {all} cells are numbers with a comma",
    "write them with a decimal point and without thousands separators: 3.5, not 3,5",
)
NOT_A_NUMBER: Final = error(
    "not-a-number",
    "{n} of {all} cells are not numbers",
    "leave a cell empty where the value is missing, and take out units and remarks",
)
INFINITE: Final = error(
    "infinite",
    "{n} of {all} values are infinite",
    "leave the cell empty where the value is missing",
)


def number_faults(
    name: str, *, n_not_number: int, n_decimal_comma: int, values: Floats
) -> list[Finding]:
    """Return the errors of a column of numbers."""
    faults = (
        (DECIMAL_COMMA, n_decimal_comma),
        (NOT_A_NUMBER, n_not_number),
        (INFINITE, int(np.isinf(values).sum())),
    )
    return [kind.of(name, n=n, all=values.size) for kind, n in faults if n]
