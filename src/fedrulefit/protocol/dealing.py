"""Who of a site's patients is held out, and in which fold.

In: outcomes and weights of the site's patients. Out: folds, and who is held out; neither
leaves the site. The sums without a fold, taken from those of all, are the fold's own: so
at every site a fold has at least k patients with and k without the outcome, or nobody, and
between hospitals patients are dealt by a secret of the site, which no coordinator knows.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import numpy as np

from fedrulefit.core.arrays import Bools, Floats, Ints

NEVER: Final = -2
"""Fold of patients who are in training always: their site has too few to deal."""

_STREAMS: Final = {"folds": 0, "holdout": 1_000_000}
"""Numbers of the random streams; trees have those between."""


def site_rng(seed: int, site: str, purpose: int) -> np.random.Generator:
    """Return a stream of its own for every site and purpose, whatever order they answer in."""
    name = int.from_bytes(hashlib.sha256(site.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, name, purpose])


def dealing_rng(
    seed: int, site: str, secret: bytes | None, purpose: Literal["folds", "holdout"]
) -> np.random.Generator:
    """Return the stream that deals patients: the site's own, where it has a secret.

    That does not depend on the study's seed: other seeds give no other folds to compare.
    """
    if secret is None:
        return site_rng(seed, site, _STREAMS[purpose])
    return np.random.default_rng([int.from_bytes(secret, "little"), _STREAMS[purpose]])


def deal_folds(
    outcome: Floats, weights: Floats, n_folds: int, rng: np.random.Generator, *, least: int
) -> Ints:
    """Deal patients into folds, those with and without the outcome evenly.

    Parameters
    ----------
    outcome, weights : (n_rows,) float64
    n_folds : int
    rng : numpy.random.Generator
    least : int
        k: fewest with, and without, the outcome in a fold. A site that has too few for all
        folds has patients in some of them; if not even in two, in none.

    Returns
    -------
    folds : (n_rows,) int64
    """
    order = np.lexsort((rng.random(len(outcome)), outcome, weights == 0))
    start = rng.integers(n_folds)
    used = np.arange(n_folds)
    if least > 0:
        n_used = min(n_folds, _fewest(outcome, weights) // least)
        if n_used < 2:
            return np.full(len(outcome), NEVER, dtype=np.int64)
        if n_used < n_folds:
            used = rng.permutation(n_folds)[:n_used]
    folds = np.empty(len(outcome), dtype=np.int64)
    folds[order] = used[(np.arange(len(outcome)) + start) % len(used)]
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


def _fewest(outcome: Floats, weights: Floats) -> int:
    """Patients with the outcome, or without it, whichever are fewer."""
    counted = outcome[weights > 0]
    return int(min((counted == 1).sum(), (counted == 0).sum()))
