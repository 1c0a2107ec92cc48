"""How many patients stand behind rows, where several rows may be of one patient.

In: rules, the outcome of every row, and whose rows they are. Out: counts of distinct patients,
for the disclosure gate, for folds and for what a site tells of itself. Nothing leaves the site
here.

In a group of rows (those inside a rule, those outside it, those of a fold) a patient counts
once: as one **with** the outcome where any of the patient's rows in the group has it, as one
**without** otherwise. So k with and k without are 2·k people, and no cell of the table rule ×
outcome holds rows of fewer people than are counted in it: a patient with both kinds of rows
stands in both cells, and counts in the first alone. Without patients every row is one.

Of outcomes that are more than with or without, counts do not say all (:class:`Sensitive`). A sum
of numbers over many patients is nearly one patient's number where that one *outweighs* the
others: lies further from the group's median than all others together, with weights. And a sum
over an interval of time is of those who were at risk then, who may be fewer than the group.
Of several levels sums inside a rule tell how many are at each: of a single one, whether the rule
holds for that patient.

Oracle: a loop over patients (``tests/unit/core/test_people.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.design import Design

if TYPE_CHECKING:
    from fedrulefit.core.families import Family

SLACK: Final = 1e-9
"""A patient outweighs the others by at least this share of all: exactly a half does not."""


@dataclass(frozen=True, eq=False)
class People:
    """Patients, each with what its rows say together.

    Parameters
    ----------
    place : (n_rows,) int64
        Whose each row is: a position among the patients.
    outcome : (n_people,) float64
        1 where any of a patient's rows that count has the outcome.
    weights : (n_people,) float64
        Of all of a patient's rows.
    """

    place: Ints
    outcome: Floats
    weights: Floats

    @classmethod
    def of(cls, outcome: Floats, weights: Floats, patients: Ints | None) -> People:
        """Return who the rows are of; all arguments are of shape (n_rows,)."""
        if patients is None:
            return cls(np.arange(len(outcome)), outcome, weights)
        place = np.unique(patients, return_inverse=True)[1].astype(np.int64)
        summed = [np.bincount(place, part) for part in (outcome * (weights > 0), weights)]
        return cls(place, (summed[0] > 0).astype(np.float64), summed[1].astype(np.float64))

    @property
    def n_people(self) -> int:
        """The number of patients."""
        return len(self.outcome)

    def fewest(self) -> int:
        """Return the patients with the outcome, or without it, whichever are fewer."""
        counted = self.outcome[self.weights > 0]
        return int(min((counted == 1).sum(), (counted == 0).sum()))


@dataclass(frozen=True, eq=False)
class Sensitive:
    """What of rows a sum could tell although it is over enough patients.

    Parameters
    ----------
    magnitudes : (n_rows, any) float64
        Numbers in which one patient could outweigh all others.
    present : (n_rows, any) bool
        In which parts of the loss a row is at all.
    kinds : (n_rows, any) bool, optional
        Of which kinds the patients are that sums inside rules count apart.
    """

    magnitudes: Floats
    present: Bools
    kinds: Bools | None = None

    @classmethod
    def of(cls, family: Family, outcome: Floats) -> Sensitive:
        """Return it for outcomes of a family."""
        return cls(family.magnitudes(outcome), family.present(outcome), family.kinds(outcome))

    @property
    def is_measured(self) -> bool:
        """Whether patients have numbers, rather than an outcome or none."""
        return bool(self.magnitudes.shape[1])

    def take(self, rows: Bools | Ints) -> Sensitive:
        """Return it for some rows."""
        kinds = None if self.kinds is None else self.kinds[rows]
        return Sensitive(self.magnitudes[rows], self.present[rows], kinds)

    @property
    def parts(self) -> Bools:
        """Of what each group that a rule makes must hold enough: parts of the loss, and kinds."""
        return self.present if self.kinds is None else np.hstack([self.present, self.kinds])

    def fewest(self, place: Ints | None) -> float:
        """Return the fewest patients in a part; infinite where there are no parts.

        `place` says whose each row is; without it every row is one patient.
        """
        counts = [
            int(part.sum()) if place is None else len(np.unique(place[part]))
            for part in self.present.T
        ]
        return min(counts, default=np.inf)

    def is_one_sided(self, weights: Floats, place: Ints | None) -> bool:
        """Whether one patient outweighs all others in a number."""
        return any(outweighs(numbers, weights, place) for numbers in self.magnitudes.T)


def outweighs(numbers: Floats, weights: Floats, place: Ints | None = None) -> bool:
    """Whether one patient lies further from the median than all others together.

    All of shape (n_rows,); `place` says whose each row is.
    """
    if not len(numbers):
        return False
    gaps = weights * np.abs(numbers - np.median(numbers))
    each = gaps if place is None else np.bincount(place, gaps)
    return bool(2 * each.max() > each.sum() * (1 + SLACK))


@dataclass(frozen=True, eq=False)
class Cells:
    """Distinct patients in the cells of the table rule × outcome, each of shape (n_rules,)."""

    with_inside: Ints
    without_inside: Ints
    with_outside: Ints
    without_outside: Ints

    @property
    def smallest(self) -> Ints:
        """Fewest patients in a cell."""
        cells = self.with_inside, self.without_inside, self.with_outside, self.without_outside
        fewest: Ints = np.minimum.reduce(cells)
        return fewest

    @property
    def smallest_side(self) -> Ints:
        """Fewest patients inside or outside."""
        sides = self.with_inside + self.without_inside, self.with_outside + self.without_outside
        fewest: Ints = np.minimum(*sides)
        return fewest

    @property
    def smallest_inside(self) -> Ints:
        """Fewest patients outside, or inside with, or without, the outcome."""
        outside = self.with_outside + self.without_outside
        fewest: Ints = np.minimum.reduce([self.with_inside, self.without_inside, outside])
        return fewest


def count_cells(
    design: Design, outcome: Floats, counted: Bools, patients: Ints | None = None
) -> Cells:
    """Count distinct patients inside and outside each rule of a design.

    Parameters
    ----------
    design : Design
    outcome : (n_rows,) float64
    counted : (n_rows,) bool
        The rows that count.
    patients : (n_rows,) int64, optional
        Whose each row is; without it every row is one patient.
    """
    if patients is None:
        return _count_rows(design, outcome, counted)
    order = np.flatnonzero(counted)
    order = order[np.argsort(patients[order], kind="stable")]
    starts = np.flatnonzero(np.diff(patients[order], prepend=-1))
    sick = outcome[order, None] == 1
    found = np.zeros((4, design.layout.n_rules), dtype=np.int64)
    for rules, block in design.rule_blocks() if len(order) else ():
        inside = block[order]
        for k, group in enumerate((inside, ~inside)):
            there, ill = (np.logical_or.reduceat(part, starts) for part in (group, group & sick))
            found[2 * k, rules] = ill.sum(axis=0)
            found[2 * k + 1, rules] = (there & ~ill).sum(axis=0)
    return Cells(*found)


def _count_rows(design: Design, outcome: Floats, counted: Bools) -> Cells:
    """Count rows: faster, where each is one patient."""
    ones = counted.astype(np.float64)
    ill = ones * outcome
    inside, sick = (
        np.rint(design.transpose_dot(part)[design.layout.rules]).astype(np.int64)
        for part in (ones, ill)
    )
    missed = int(ill.sum()) - sick
    return Cells(sick, inside - sick, missed, int(ones.sum()) - inside - missed)


def count_rows_each(patients: Ints | None) -> int:
    """Return the most rows that one patient has; 1 where every row is one patient."""
    if patients is None or not len(patients):
        return 1
    return int(np.unique(patients, return_counts=True)[1].max())


def count_present(
    design: Design, sensitive: Sensitive, counted: Bools, patients: Ints | None = None
) -> Floats:
    """Return the fewest patients inside or outside each rule in a part, or of a kind, (n_rules,).

    Infinite where there are neither. Other arguments as of :func:`count_cells`.
    """
    fewest = np.full(design.layout.n_rules, np.inf)
    for part in sensitive.parts.T:
        cells = count_cells(design, np.zeros(len(part)), counted & part, patients)
        fewest = np.minimum.reduce([fewest, cells.without_inside, cells.without_outside])
    return fewest


def count_apart(design: Design, sensitive: Sensitive, patients: Ints | None = None) -> Ints:
    """Return the patients inside each rule whose number is not the rule's median, (n_rules,).

    Of outcomes that are numbers these take the place of patients with and without: where nearly
    all inside have one and the same number, whoever knows the rule knows theirs. All rows must
    count; the number is the first of :attr:`Sensitive.magnitudes`.
    """
    found = np.zeros(design.layout.n_rules, dtype=np.int64)
    numbers = sensitive.magnitudes[:, 0]
    for rules, block in design.rule_blocks() if len(numbers) else ():
        for k, inside in enumerate(np.ascontiguousarray(block.T), rules.start):
            own = numbers[inside]
            apart = own != np.median(own) if len(own) else np.zeros(0, dtype=np.bool_)
            found[k] = apart.sum() if patients is None else len(np.unique(patients[inside][apart]))
    return found


def find_one_sided(
    design: Design, sensitive: Sensitive, weights: Floats, patients: Ints | None = None
) -> Bools:
    """Return the rules inside or outside which one patient outweighs all others, (n_rules,).

    Outside, too: totals are known, and so is what is left of them. All rows must count.
    """
    found = np.zeros(design.layout.n_rules, dtype=np.bool_)
    place = None if patients is None else np.unique(patients, return_inverse=True)[1]
    for numbers in sensitive.magnitudes.T:
        for rules, block in design.rule_blocks() if len(weights) else ():
            for k, inside in enumerate(np.ascontiguousarray(block.T), rules.start):
                found[k] |= any(
                    outweighs(numbers[side], weights[side], None if place is None else place[side])
                    for side in (inside, ~inside)
                )
    return found
