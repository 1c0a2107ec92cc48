"""Replies that add up ↔ flat integers, and the question they answer.

A sum's fields stand one after another in a flat vector of units; how many numbers
each has follows from the question alone, never from the patients. The coordinator
adds the vectors up, masked or not, and builds the same class from the total: whole
numbers stay units, floats become numbers again.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_type_hints

import numpy as np

from fedrulefit.core.arrays import Ints
from fedrulefit.core.families.yesno_scores import N_BINS
from fedrulefit.core.newton import STEPS, Query
from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.masks import RingOverflowError, from_ring, to_ring
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.wire import body_of

SumReply = TypeVar("SumReply", bound=m.Sum)

Lengths = Mapping[str, int | None]
"""Numbers per field, in order; None for a single one."""


def spread_lengths(n_features: int) -> Lengths:
    """Return the lengths of a :class:`SpreadsReply`."""
    return dict.fromkeys(("known", "sums", "squares"), n_features)


def dual_lengths(n_terms: int) -> Lengths:
    """Return the lengths of a :class:`DualReply`."""
    return {"increment": n_terms, "loss": None, "weight": None}


def curvature_lengths(queries: Sequence[Query], n_terms: int) -> Lengths:
    """Return the lengths of a :class:`CurvatureReply`."""
    n = len(queries)
    return {
        "weights": n,
        "held_weights": n,
        "losses": n * len(STEPS),
        "held_losses": n,
        "gradients": n * n_terms,
        "hessians": sum(triangle_size(query) for query in queries),
    }


def triangle_size(query: Query) -> int:
    """Return the numbers in the upper triangle of a query's Hessian."""
    return len(query.active) * (len(query.active) + 1) // 2


def slope_lengths(n_terms: int) -> Lengths:
    """Return the lengths of a :class:`SlopesReply`."""
    return {"cases": n_terms, "others": n_terms}


def summary_lengths(n_rules: int, n_terms: int) -> Lengths:
    """Return the lengths of a :class:`SummaryReply` on the model's own terms."""
    n_linear = n_terms - 1 - n_rules
    return {
        "total": None,
        "events": None,
        "inside": n_rules,
        "events_inside": n_rules,
        "sums": n_linear,
        "squares": n_linear,
        "loss": None,
        "conjugate": None,
    }


def evaluate_lengths() -> Lengths:
    """Return the lengths of an :class:`EvaluateReply`."""
    histograms = dict.fromkeys(("cases", "others"), N_BINS)
    return {**histograms, "chances": None, "squares": None, "loss": None}


def offer_lengths(n_rules: int) -> Lengths:
    """Return the lengths of an :class:`OfferReply` on the model's own rules."""
    return {"rules": n_rules, "totals": None, "evaluation": None}


def size(lengths: Lengths) -> int:
    """Return how many numbers a sum has in all."""
    return sum(1 if length is None else length for length in lengths.values())


def ring_of(reply: m.Sum, n_sites: int) -> Ints:
    """Return all numbers of a sum in whole units, shape (n,).

    Raises
    ------
    ProtocolError
        With the code ``overflow``, if they could wrap round.
    """
    parts = [np.atleast_1d(getattr(reply, field.name)) for field in _sum_fields(type(reply))]
    try:
        return np.concatenate([to_ring(part, n_sites) for part in parts])
    except RingOverflowError as error:
        raise ProtocolError(f"site {reply.header.site!r}: {error}", "overflow") from None


def check_lengths(reply: m.Sum, lengths: Lengths) -> None:
    """Refuse a sum that does not have the numbers asked for."""
    for name, length in lengths.items():
        value = getattr(reply, name)
        if length is not None and value.shape != (length,):
            raise ProtocolError(
                f"site {reply.header.site!r} sent {len(value)} numbers of {name!r} "
                f"where {length} were due"
            )


def from_total(kind: type[SumReply], header: m.Header, lengths: Lengths, total: Ints) -> SumReply:
    """Build the sum over all sites from their added integers."""
    ends = np.cumsum([1 if length is None else length for length in lengths.values()])
    types = get_type_hints(kind)
    values: dict[str, Any] = {}
    for name, part in zip(lengths, np.split(total, ends[:-1]), strict=True):
        whole = types[name] in (int, Ints)
        numbers = part if whole else from_ring(part)
        values[name] = numbers if lengths[name] is not None else numbers[0].item()
    return kind(header, **values)


def question_digest(request: m.Request) -> bytes:
    """Return a hash of what a request asks: the same for every site and step."""
    front = f"{type(request).__name__}\0{request.header.study}\0".encode()
    return hashlib.sha256(front + body_of(request)).digest()


def _sum_fields(kind: type[m.Sum]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if field.name != "header"]
