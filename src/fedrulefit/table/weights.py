"""The column of patients' weights, checked against the study."""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.study import Study
from fedrulefit.table.cells import parse_numbers
from fedrulefit.table.columns import Columns
from fedrulefit.table.findings import Finding, error
from fedrulefit.table.numbers import number_faults

WEIGHT_MISSING: Final = error(
    "weight-missing", "{n} of {all} weights are missing", "give every patient a weight"
)
WEIGHT_NEGATIVE: Final = error(
    "weight-negative", "{n} of {all} weights are negative", "use weights from 0"
)
WEIGHT_TOO_LARGE: Final = error(
    "weight-too-large",
    "{n} of {all} weights are above the study's bound {bound}",
    "rescale the weights, or agree on a larger 'max' with all sites",
)
WEIGHT_ZERO: Final = error(
    "weight-zero",
    "{n} of {all} weights are zero, so that no patient counts",
    "check the export",
)


def check_weights(columns: Columns, study: Study) -> tuple[Floats | None, list[Finding]]:
    """Return the weights, shape (n_rows,), or None without a weight column."""
    if study.weight is None or study.weight.column not in columns.arrays:
        return None, []
    name, top = study.weight.column, study.weight.max
    numbers = parse_numbers(columns.arrays[name])
    w = numbers.values
    finite = w[np.isfinite(w)]
    faults = (
        (
            WEIGHT_MISSING,
            int((np.isnan(w) & ~numbers.unreadable).sum()),
        ),
        (WEIGHT_NEGATIVE, int((w < 0).sum())),
        (WEIGHT_TOO_LARGE, int((finite > top).sum())),
        (WEIGHT_ZERO, 0 if finite.any() else finite.size),
    )
    return w, [
        *number_faults(name, columns.arrays[name], numbers.unreadable, w),
        *(kind.of(name, n=n, all=w.size, bound=f"{top:g}") for kind, n in faults if n),
    ]
