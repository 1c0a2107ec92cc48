"""What each wish of a study costs: the same fit with and without it, on the same folds.

In: a fitted model and the tables that it was learnt from, all on this machine. Out: the model, with
a price beside each wish: by how much the mean deviance of held-out patients rises with it, in the
cross-validation, and the standard error of that over the folds. Both fits are on the model's
cut-offs, so no histogram is made and no noise drawn again; trees are grown again, since wishes
change which rules are found.

A study whose λ is a number is priced by the cross-validation that it would have without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.engines.base import Engine
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.errors import FitError
from fedrulefit.model import Model
from fedrulefit.model.wishes import without
from fedrulefit.protocol.coordinator import Progress
from fedrulefit.study import Study
from fedrulefit.table.patients import Table


def price_wishes(
    model: Model,
    tables: Mapping[str, Table],
    *,
    engine: Engine = EMBEDDED,
    n_threads: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Model:
    """Return the model with the price of each wish of its study.

    Parameters
    ----------
    model : Model
    tables : mapping of site name to Table
        Those that it was learnt from.
    engine : Engine
    n_threads : int
        Sites that work at the same time.
    on_progress : callable, optional
        Told where each fit is.

    Raises
    ------
    FitError
        If the study's solver has no cross-validation.
    """
    if not model.wishes:
        return model
    check_priceable(model.study)
    study = model.study.with_settings(penalty="cv")

    def fit(asked: Study) -> Floats:
        fitted = engine.fit(
            asked,
            tables,
            grid=fix_cutoffs(model.grid, asked),
            n_threads=n_threads,
            on_progress=on_progress,
        )
        if fitted.held is None:
            raise FitError("the fit has no cross-validation to price a wish by")
        return fitted.held

    own = fit(study)
    priced = []
    for wish in model.wishes:
        price, error = compare_folds(own, fit(without(study, wish)))
        priced.append(replace(wish, price=price, error=error))
    bill = model.privacy.with_further(1 + len(priced), "to price the study's wishes")
    return replace(model, wishes=tuple(priced), privacy=bill)


def check_priceable(study: Study) -> None:
    """Refuse to price the wishes of a study that no cross-validation can be made for.

    Raises
    ------
    FitError
        If its solver has none.
    """
    if study.settings.solver != "exact":
        raise FitError(
            "a wish is priced by cross-validation, which only the exact solver has: choose "
            'solver = "exact", or do without prices'
        )


def compare_folds(held: Floats, other: Floats) -> tuple[float, float]:
    """Return by how much the deviance is above another's on the same folds, and its error."""
    differences = 2 * (held - other)
    error = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return float(differences.mean()), float(error)


def fix_cutoffs(grid: Grid, study: Study) -> Grid:
    """Return the grid with the cut-offs that a study fixes; all others stay."""
    axes = []
    for axis, bins in zip(grid.axes, study.bins, strict=True):
        fixed = bins.cutoffs
        axes.append(axis if fixed is None else _with_cutoffs(axis, fixed))
    return Grid(tuple(axes))


def _with_cutoffs(axis: Axis, cutoffs: Floats) -> Axis:
    return replace(axis, cutoffs=cutoffs, n_codes=len(cutoffs) + 1)
