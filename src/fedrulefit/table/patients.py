"""A site's patients as numbers, in the order and coding of the study.

Nothing here reads files or knows data frames: :mod:`fedrulefit.table.check` makes a
:class:`Table` of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.people import People
from fedrulefit.errors import DataError


@dataclass(frozen=True, eq=False)
class Table:
    """A site's patients in the order and coding of the study.

    Parameters
    ----------
    values : Floats, shape (n_rows, n_features)
        NaN is missing; a category is its level's position; yes/no is 1/0.
    outcome : Floats or None, shape (n_rows,) or (n_rows, n_parts)
        Of yes/no: 1 for the event, 0 otherwise; of other kinds as
        :mod:`fedrulefit.study.outcomes` says. None where it was not asked for.
    weights : Floats, shape (n_rows,)
        Ones without a weight column.
    patients : Ints or None, shape (n_rows,)
        Whose each row is: numbers that stand for patients, and say nothing else of them. None
        where every row is one patient.
    events : Floats or None, shape (n_rows,)
        1 for rows that count as **with** the outcome wherever patients with and without it are
        counted, 0 for others: the study's family says which. An outcome of 0 and 1 says so itself.
    """

    values: Floats
    outcome: Floats | None
    weights: Floats
    patients: Ints | None = None
    events: Floats | None = None

    def __post_init__(self) -> None:
        """Take an outcome of 0 and 1 for what counts as with and without."""
        y = self.outcome
        if self.events is None and y is not None and y.ndim == 1 and np.isin(y, (0, 1)).all():
            object.__setattr__(self, "events", y)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    @property
    def n_patients(self) -> int:
        """The number of patients."""
        return self.n_rows if self.patients is None else len(np.unique(self.patients))

    @property
    def people(self) -> People:
        """The patients, each once."""
        if self.outcome is None or self.events is None:
            raise DataError("a site needs the outcome of its patients")
        return People.of(self.events, self.weights, self.patients)

    @property
    def digest(self) -> bytes:
        """Hash of the patients, to notice that they changed; events follow from the outcome."""
        hasher = hashlib.sha256()
        for array in (self.values, self.outcome, self.weights, self.patients):
            hasher.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return hasher.digest()

    def take(self, rows: Bools) -> Table:
        """Return the table of some rows only."""
        outcome = None if self.outcome is None else self.outcome[rows]
        patients = None if self.patients is None else self.patients[rows]
        events = None if self.events is None else self.events[rows]
        return Table(self.values[rows], outcome, self.weights[rows], patients, events)
