"""Cut-offs and frequencies of pooled patients, for which no histogram has to be made."""

from __future__ import annotations

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.cutoffs import estimate_shares, exact_grid
from fedrulefit.core.grid import Grid, encode
from fedrulefit.study import Study
from fedrulefit.table.patients import Table


def pooled_grid(table: Table, study: Study) -> Grid:
    """Return cut-offs between the values themselves, at most `n_cutoffs`."""
    settings = study.settings
    return exact_grid(
        table.values,
        table.weights,
        study.bins,
        n_cutoffs=settings.n_cutoffs,
        winsor=settings.winsor,
        centre=settings.centre,
        style=settings.cutoff_style,
    )


def pooled_shares(table: Table, grid: Grid) -> tuple[Floats, ...]:
    """Return the share of patients with each code, where no histogram was made."""
    codes = encode(table.values, grid)
    counts = (np.bincount(column, table.weights, minlength=MISSING + 1) for column in codes.T)
    return estimate_shares(
        [
            np.append(found[: axis.n_codes], [] if axis.complete else found[MISSING])
            for found, axis in zip(counts, grid.axes, strict=True)
        ]
    )
