"""Who of a site's patients is held out, and in which fold.

In: the site's patients. Out: folds, and who is held out; neither leaves the site. The sums
without a fold, taken from those of all, are the fold's own: so at every site each fold has at
least k patients with and k without the outcome, or none has anybody. All rows of a patient go
together: a patient is dealt once, as one with the outcome if any of the rows has it. Nor is
anybody dealt where one patient would outweigh all others of a group, or where fewer than k of it
are in a part of the loss (:class:`~fedrulefit.core.people.Sensitive`).

Between hospitals a secret of the site deals, which no coordinator knows. What is dealt then
depends on the patients, in whatever order the file has them, and on the number that the study
names (of folds, or the share held out), and on nothing else: other seeds give no other deal to
compare, and two numbers, or two tables, give deals that have nothing to do with each other.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import msgpack
import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints
from fedrulefit.core.people import People, Sensitive
from fedrulefit.protocol.tables import mark_patients
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

Purpose = Literal["folds", "holdout"]

NEVER: Final = -2
"""Fold of patients who are in training always: their site has too few to deal."""

_STREAMS: Final[dict[Purpose, int]] = {"folds": 0, "holdout": 1_000_000}
"""Numbers of the random streams; trees have those between."""

_STARTS: Final = 2_000_000


def site_rng(seed: int, site: str, purpose: int) -> np.random.Generator:
    """Return a stream of its own for every site and purpose, whatever order they answer in."""
    name = int.from_bytes(hashlib.sha256(site.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, name, purpose])


def draw_starts(seed: int, site: str) -> tuple[float, float]:
    """Return where a site's own sums are rounded from, as shares of a step: public numbers.

    Of numerators and of denominators (:mod:`fedrulefit.core.families.evidence`).
    """
    first, second = site_rng(seed, site, _STARTS).random(2).tolist()
    return first, second


@dataclass(frozen=True)
class Dealer:
    """Deals a site's patients in a study.

    Parameters
    ----------
    study : Study
    site : str
    secret : bytes or None
        By which patients are dealt; without it, they are dealt in the order of the file by
        the study's seed, which everybody knows.
    least : int
        k: fewest with, and without, the outcome among patients that are dealt together.
    """

    study: Study
    site: str
    secret: bytes | None
    least: int

    def hold_out(self, table: Table) -> Bools:
        """Draw the patients that the model is judged on, shape (n_rows,)."""
        share, people = self.study.settings.holdout, table.people
        order, rng = self._shuffle(table, "holdout", share)
        held = np.zeros(people.n_people, dtype=np.bool_)
        outcome, weights = people.outcome[order], people.weights[order]
        held[order] = hold_out(outcome, weights, share, rng, least=self.least)
        dealt = held[people.place]
        groups = (dealt, ~dealt) if dealt.any() else ()
        return dealt if self._are_fit(table, people, groups) else np.zeros_like(dealt)

    def deal_folds(self, table: Table) -> Ints:
        """Deal patients into folds, shape (n_rows,)."""
        n_folds, people = self.study.settings.folds, table.people
        order, rng = self._shuffle(table, "folds", n_folds)
        folds = np.empty(people.n_people, dtype=np.int64)
        outcome, weights = people.outcome[order], people.weights[order]
        folds[order] = deal_folds(outcome, weights, n_folds, rng, least=self.least)
        dealt = folds[people.place]
        groups = [side for fold in range(n_folds) for side in (dealt == fold, dealt != fold)]
        if not self._are_fit(table, people, groups if (dealt != NEVER).any() else ()):
            return np.full(len(dealt), NEVER, dtype=np.int64)
        return dealt

    def _are_fit(self, table: Table, people: People, groups: Iterable[Bools]) -> bool:
        """Whether sums over these groups of rows hide every patient in them."""
        if self.least <= 0 or table.outcome is None:
            return True
        sensitive = Sensitive.of(self.study.family, table.outcome)
        for group in groups:
            rows = group & (table.weights > 0)
            own, place = sensitive.take(rows), people.place[rows]
            if own.fewest(place) < self.least or own.is_one_sided(table.weights[rows], place):
                return False
        return True

    def _shuffle(
        self, table: Table, purpose: Purpose, number: float
    ) -> tuple[Ints, np.random.Generator]:
        """Return the order in which patients are dealt, and the stream that deals them."""
        people = table.people
        if self.secret is None:
            rng = site_rng(self.study.settings.seed, self.site, _STREAMS[purpose])
            return np.arange(people.n_people), rng
        marks = mark_patients(table, self.study, hashlib.sha256(self.secret).digest())
        order: Ints = np.lexsort((marks, people.weights == 0))
        counted = marks[order][: int((people.weights > 0).sum())]
        facts = [purpose, float(number), counted.astype("<u8").tobytes()]
        seed = hmac.new(self.secret, msgpack.packb(facts), hashlib.sha256).digest()
        return order, np.random.default_rng(int.from_bytes(seed, "little"))


def deal_folds(
    outcome: Floats, weights: Floats, n_folds: int, rng: np.random.Generator, *, least: int
) -> Ints:
    """Deal patients into folds, those with and without the outcome evenly.

    Parameters
    ----------
    outcome, weights : (n_people,) float64
    n_folds : int
    rng : numpy.random.Generator
    least : int
        k: fewest with, and without, the outcome in a fold. A site that has too few for all
        folds has patients in none: in some, it would tell how many it has.

    Returns
    -------
    folds : (n_people,) int64
    """
    if People.of(outcome, weights, None).fewest() < n_folds * least:
        return np.full(len(outcome), NEVER, dtype=np.int64)
    order = np.lexsort((rng.random(len(outcome)), outcome, weights == 0))
    start = rng.integers(n_folds)
    folds = np.empty(len(outcome), dtype=np.int64)
    folds[order] = (np.arange(len(outcome)) + start) % n_folds
    return folds


def hold_out(
    outcome: Floats, weights: Floats, share: float, rng: np.random.Generator, *, least: int
) -> Bools:
    """Draw the patients that the model is judged on, cases and others in the same share.

    Nobody, where fewer than `least` of either would be held out, or left to learn from.
    """
    held = np.zeros(len(outcome), dtype=np.bool_)
    for value in (0.0, 1.0):
        rows = np.flatnonzero((outcome == value) & (weights > 0))
        n_held = round(share * len(rows))
        if min(n_held, len(rows) - n_held) < least:
            return np.zeros(len(outcome), dtype=np.bool_)
        held[rng.permutation(rows)[:n_held]] = True
    return held
