"""A site's noisy histograms: drawn once per question, and repeated ever after.

In: exact counts of each covariate, and the site's memory across runs. Out: noisy counts
(paper 2.2.1, step 1), and the rows that tell the ledger of them.

Fresh noise in every run would average out, and every run would have to be paid for. So a
site remembers its noise. Where a covariate is asked for again, and its counts, its public
bins, the most that a patient counts, ε and the mechanism are the same, the very same noisy
counts leave again, and cost nothing more. Whatever differs makes it another question,
with noise and a price of its own.

Noise is remembered before it leaves, under a keyed hash of the question: killed in between,
a site finds it again. Whether it was paid for is asked of the ledger alone, so that
noise that was drawn and never left is still to be paid.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgpack
import numpy as np

from fedrulefit.core.arrays import Ints
from fedrulefit.core.bins import Bins, split_cells
from fedrulefit.privacy.bill import one_patient
from fedrulefit.privacy.ledger import EXACT, Ledger
from fedrulefit.privacy.mechanisms import Noise, law_of
from fedrulefit.protocol.store import Memory
from fedrulefit.study import Study

_SECRET: Final = "noise-secret"  # noqa: S105 (the name under which it is kept)


@dataclass(frozen=True, eq=False)
class _Question:
    """One covariate's counts, and the hash under which their noise is remembered."""

    quantity: str
    cells: Ints
    key: str


class Histograms:
    """The histograms that a site releases in a study.

    Parameters
    ----------
    study : Study
    counts : (n_cells,) int64
        Exact counts of all covariates, one after another.
    sensitivity : int
        The most that one patient counts, with all rows.
    noise : Noise
    memory : Memory
        Of the data set, across runs.
    """

    def __init__(
        self, study: Study, counts: Ints, *, sensitivity: int, noise: Noise, memory: Memory
    ) -> None:
        self._epsilon = study.epsilon_per_histogram
        self._one_patient = one_patient(study.max_rows)
        self._counts = counts
        self._sensitivity = sensitivity
        self._noise = noise
        self._memory = memory
        covariates = zip(study.names, study.bins, split_cells(counts, study.bins), strict=True)
        self._questions = [self._question(*covariate) for covariate in covariates]

    @property
    def mechanism(self) -> str:
        """What protects them, as the reply tells it."""
        return EXACT if self._epsilon is None else self._noise.name

    def release(self) -> Ints:
        """Return the noisy counts: those that left before, and fresh ones where none did."""
        if self._epsilon is None:
            return self._counts
        fresh = [q for q in self._questions if self._memory.get(f"noise/{q.key}") is None]
        if fresh:
            self._memory.put(self._draw(fresh, self._epsilon))
        cells = [self._recall(question)[2] for question in self._questions]
        return np.concatenate([np.array(noisy, dtype=np.int64) for noisy in cells])

    def _draw(self, fresh: Sequence[_Question], epsilon: float) -> dict[str, bytes | None]:
        """Return noisy counts and the ε of each, to be remembered.

        Noise is drawn for all cells at once: every cell's is independent, of a scale that is for
        one covariate.
        """
        cells = np.concatenate([question.cells for question in fresh])
        noisy, spent = self._noise.add(cells, sensitivity=self._sensitivity, epsilon=epsilon)
        ends = np.cumsum([len(question.cells) for question in fresh])
        return {
            f"noise/{question.key}": msgpack.packb([self._noise.name, spent, part.tolist()])
            for question, part in zip(fresh, np.split(noisy, ends[:-1]), strict=True)
        }

    def cost(self, ledger: Ledger) -> float:
        """Return the ε that a release adds to the ledger; 0 where all of it left before."""
        if self._epsilon is None or not self._noise.private:
            return 0.0
        told = _told(ledger)
        return self._epsilon * sum(not self._origin(q, told) for q in self._questions)

    def words(self, ledger: Ledger) -> str:
        """Say what a release costs, for the person who lets it out."""
        cost, spent = self.cost(ledger), f"spent so far: {ledger.epsilon:g}."
        if cost == 0:
            return f"They repeat the noise of an earlier run: this costs nothing more; {spent}"
        return (
            f"This costs ε = {cost:g} for adding or removing {self._one_patient}, {2 * cost:g} for "
            f"replacing one; {spent}"
        )

    def book(self, ledger: Ledger, digest: str, run: str) -> Iterator[dict[str, Any]]:
        """Yield what the ledger tells of each histogram in the message of this digest.

        The message is noted as the one that pays: it does once the ledger holds its row.
        """
        told, paying = _told(ledger), {}
        for question in self._questions:
            mechanism, spent, origin = EXACT, None, ""
            if self._epsilon is not None:
                mechanism, spent, _ = self._recall(question)
                origin = self._origin(question, told)
            if origin:
                mechanism = f"{mechanism}, repeated from run {origin}"
                spent = None if spent is None else 0.0
            elif self._epsilon is not None:
                paying[f"paid/{question.key}"] = msgpack.packb([digest, run])
            yield {
                "quantity": question.quantity,
                "shape": question.cells.shape,
                "mechanism": mechanism,
                "epsilon": spent,
                "sensitivity": float(self._sensitivity),
                "scale": None if self._epsilon is None else self._sensitivity / self._epsilon,
            }
        if paying:
            self._memory.put(paying)

    def _question(self, covariate: str, bins: Bins, cells: Ints) -> _Question:
        key = ""
        if self._epsilon is not None:
            facts = (
                covariate,
                (bins.kind, bins.complete, bins.edges.tobytes()),
                (law_of(self._noise), self._sensitivity, self._epsilon),
                np.ascontiguousarray(cells, dtype=np.int64).tobytes(),
            )
            key = hmac.new(self._secret(), msgpack.packb(facts), hashlib.sha256).hexdigest()
        return _Question(f"histogram of {covariate}", cells, key)

    def _secret(self) -> bytes:
        """Return the data set's own key: a bare hash of a few counts could be guessed."""
        kept = self._memory.get(_SECRET)
        if kept is None:
            kept = secrets.token_bytes(32)
            self._memory.put({_SECRET: kept})
        return kept

    def _recall(self, question: _Question) -> tuple[str, float | None, list[int]]:
        mechanism, spent, cells = msgpack.unpackb(self._memory.get(f"noise/{question.key}") or b"")
        return mechanism, spent, cells

    def _origin(self, question: _Question, told: set[tuple[str, str]]) -> str:
        """Return the run that paid for this noise; nothing if none did."""
        kept = self._memory.get(f"paid/{question.key}")
        if kept is None:
            return ""
        digest, run = msgpack.unpackb(kept)
        return run if (digest, question.quantity) in told else ""


def _told(ledger: Ledger) -> set[tuple[str, str]]:
    """Messages and quantities that the ledger tells of."""
    return {(row.digest, row.quantity) for row in ledger.releases if row.message == "GridReply"}
