"""In how many random halves of the patients the terms of a model are found again.

In: a model and the tables that it was learnt from. Out: the model, each of whose terms tells the
share of halves in which a fit to that half alone has a term for nearly the same patients, in the
same direction (:mod:`fedrulefit.core.refinding`). Halves come in pairs: the patients of one are
those that the other lacks (Shah and Samworth 2013, J. R. Statist. Soc. B 75: 55–80). Each site
halves its own patients; all rows of a patient stay together.

A half is fitted as the study says, trees and cross-validation included, on the cut-offs of the
model: so it costs as many fits as there are halves. It is for patients on one machine. Between
hospitals every half would be a run of its own, with all that leaves in one; there the folds of
the cross-validation say in how many of them a term is found again, at no further cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Bools
from fedrulefit.core.refinding import Alike, Kept, count_found_again
from fedrulefit.engines.base import Engine
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.errors import FedRuleFitError, FitError
from fedrulefit.model import Model
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

MOST_HALVES: Final = 1000


def find_in_halves(
    model: Model,
    tables: Mapping[str, Table],
    *,
    n_halves: int = 20,
    engine: Engine = EMBEDDED,
    n_threads: int = 1,
    on_half: Callable[[int], None] | None = None,
) -> Model:
    """Return the model with the share of halves in which each term is found again.

    Parameters
    ----------
    model : Model
        Fitted to these tables.
    tables : mapping of site name to Table
    n_halves : int
        Even, 2 to 1,000.
    engine : Engine
    n_threads : int
        Sites that work at the same time.
    on_half : callable, optional
        Told how many halves are done.

    Raises
    ------
    FitError
        If no model can be learnt from half of the patients, or `n_halves` is odd.
    """
    check_halves(n_halves)
    if set(tables) != set(model.provenance.sites):
        raise FitError("the tables are not those of the model's sites: halve what it was learnt of")
    study = model.study.with_settings(holdout=0.0, per_site=False, between_sites=False)
    halves: list[Kept] = []
    for done in range(n_halves):
        half = {name: _halve(table, name, done, study) for name, table in tables.items()}
        try:
            fitted = engine.fit(study, half, grid=model.grid, n_threads=n_threads).model
        except FedRuleFitError as error:
            raise FitError(f"no model of half of the patients: {error}") from None
        halves.append(_list_kept(fitted))
        if on_half is not None:
            on_half(done + 1)
    counts = count_found_again(_list_kept(model), halves, Alike(model.grid, model.distribution))
    terms = (
        replace(term, in_halves=count / n_halves)
        for term, count in zip(model.terms, counts, strict=True)
    )
    return replace(model, terms=tuple(terms))


def check_halves(n_halves: int) -> None:
    """Refuse numbers of halves that are no pairs, or too many."""
    if not (2 <= n_halves <= MOST_HALVES and n_halves % 2 == 0):
        raise FitError(
            f"halves come in pairs: give an even number from 2 to {MOST_HALVES:,}, not {n_halves:,}"
        )


def _list_kept(model: Model) -> Kept:
    return [(*term.key, term.coefficient) for term in model.terms]


def _halve(table: Table, site: str, number: int, study: Study) -> Table:
    """Return a half of a site's patients; numbers 2k and 2k + 1 are complements."""
    whose = np.arange(table.n_rows) if table.patients is None else table.patients
    patients = np.unique(whose)
    rng = np.random.default_rng([study.settings.seed, number // 2, *site.encode()])
    first = rng.permutation(patients)[: len(patients) // 2]
    inside: Bools = np.isin(whose, first, invert=bool(number % 2))
    return table.take(inside)
