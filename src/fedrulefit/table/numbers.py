"""Faults of any column of numbers, weights included."""

from __future__ import annotations

from typing import Final

from fedrulefit.table.cells import Numbers
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


def number_faults(name: str, numbers: Numbers) -> list[Finding]:
    """Return the errors of a column of numbers."""
    faults = (
        (DECIMAL_COMMA, numbers.n_decimal_comma),
        (NOT_A_NUMBER, numbers.n_not_number),
        (INFINITE, numbers.n_infinite),
    )
    return [kind.of(name, n=n, all=numbers.values.size) for kind, n in faults if n]
