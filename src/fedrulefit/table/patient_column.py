"""The column that says whose a row is, checked against the study.

Identifiers end here: what goes on are numbers in the order in which patients first come. No
finding shows an identifier.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Ints
from fedrulefit.study import Study
from fedrulefit.table.cells import MISSING_WORDS, factorise
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.findings import Finding, error

_EXACT: Final = 2.0**53
"""From here on, whole numbers that differ can be the same float."""

PATIENT_MISSING: Final = error(
    "patient-missing",
    "{n} of {all} rows do not say whose they are",
    "give every row the identifier of its patient",
)
PATIENT_INEXACT: Final = error(
    "patient-inexact",
    "{n} of {all} identifiers are numbers so long that two patients' may read as one",
    "export the column as text",
    when="in Parquet and data frames",
)
PATIENT_ROWS: Final = error(
    "patient-rows",
    "{n} of {all} patients have more rows than the study's bound {bound}",
    "keep at most {bound} rows of each, or agree on a larger 'max_rows' with all sites",
)


def check_patients(columns: Columns, study: Study) -> tuple[Ints | None, list[Finding]]:
    """Return whose each row is, shape (n_rows,), or None without such a column."""
    if study.patient is None or study.patient.column not in columns.arrays:
        return None, []
    name, bound = study.patient.column, study.patient.max_rows
    raw = columns.arrays[name]
    places = number_patients(raw)
    found = []
    n_missing, n_inexact = int((places < 0).sum()), _count_inexact(raw)
    if n_missing:
        found.append(PATIENT_MISSING.of(name, n=n_missing, all=places.size))
    if n_inexact:
        found.append(PATIENT_INEXACT.of(name, n=n_inexact, all=places.size))
    rows = np.bincount(places[places >= 0])
    n_many = int((rows > bound).sum())
    if n_many:
        found.append(PATIENT_ROWS.of(name, n=n_many, all=rows.size, bound=bound))
    return places, found


def number_patients(raw: Raw) -> Ints:
    """Return a number for each distinct identifier, in order of appearance; −1 where missing."""
    codes, identifiers = factorise(raw)
    kept: dict[object, int] = {}
    lookup = np.full(len(identifiers) + 1, -1, dtype=np.int64)
    for position, identifier in enumerate(identifiers):
        key = identifier.strip() if isinstance(identifier, str) else identifier
        if not (isinstance(key, str) and key.casefold() in MISSING_WORDS):
            lookup[position] = kept.setdefault(key, len(kept))
    return lookup[codes]


def _count_inexact(raw: Raw) -> int:
    return int((np.abs(raw) >= _EXACT).sum()) if raw.dtype == np.float64 else 0
