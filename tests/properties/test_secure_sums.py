"""Secure sums against the plain sum: equal in fixed point, and nothing but the sum."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedrulefit.core.fixed import UNIT_BITS, from_units, to_units
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.masks import (
    SEED_BYTES,
    Masks,
    RingOverflowError,
    add_rings,
    check_ring,
    keystream,
    make_secret,
    open_sum,
    public_key,
)
from tests.samples import SOLVERS, fit_model, make_study, make_tables


def to_ring(numbers: Any, n_sites: int) -> Any:
    """Return numbers as the units that a site would mask; integers are units already."""
    units = numbers if numbers.dtype.kind == "i" else to_units(numbers)
    check_ring(units, n_sites)
    return units


def rounding_bound(n_sites: int) -> float:
    """The largest error of a sum over sites that each round their number."""
    return n_sites * 2.0 ** -(UNIT_BITS + 1)


LIMIT = 2.0 ** (63 - UNIT_BITS)
FALSE_ALARM = 1e-7
"""Of each statistical test; keys are fixed, so that it fails always or never."""

CONTEXT = b"study\0run"
QUESTION = b"q" * 32


def secret(number: int) -> bytes:
    """A fixed key, so that every statistical test here is deterministic."""
    return hashlib.sha256(b"secret %d" % number).digest()


def make_masks(n_sites: int, context: bytes = CONTEXT, first: int = 0) -> list[Masks]:
    secrets = {f"site {k}": secret(first + k) for k in range(n_sites)}
    publics = {name: public_key(key) for name, key in secrets.items()}
    return [Masks(name, key, publics, context) for name, key in secrets.items()]


def mask_all(
    masks: Sequence[Masks],
    rings: Sequence[Any],
    *,
    step: int = 5,
    question: bytes = QUESTION,
    self_mask: bool = False,
) -> list[Any]:
    return [
        mask.mask(ring, step=step, question=question, self_mask=self_mask)
        for mask, ring in zip(masks, rings, strict=True)
    ]


@st.composite
def many_numbers(draw: st.DrawFn) -> Any:
    """Numbers of 1 to 6 sites, shape (n_sites, length), of which no sum overflows."""
    n_sites = draw(st.integers(1, 6))
    length = draw(st.integers(0, 9))
    exponent = draw(st.integers(-45, 30))
    most = min(2.0**exponent, LIMIT / n_sites * (1 - 1e-12))
    rows = st.lists(st.floats(-most, most), min_size=length, max_size=length)
    return np.array([draw(rows) for _ in range(n_sites)]).reshape(n_sites, length)


@settings(max_examples=100, deadline=None)
@given(many_numbers(), st.booleans(), st.integers(0, 2**63 - 1))
def test_the_sealed_sum_is_the_plain_sum_in_fixed_point(
    numbers: Any, self_mask: bool, step: int
) -> None:
    n_sites, length = numbers.shape
    rings = [to_ring(row, n_sites) for row in numbers]
    masks = make_masks(n_sites)
    masked = mask_all(masks, rings, step=step, self_mask=self_mask)
    seeds = [mask.self_seed(step=step, question=QUESTION) for mask in masks] if self_mask else []
    total = open_sum(masked, seeds, length)
    np.testing.assert_array_equal(total, add_rings(rings, length))
    # Against Python's own integers, which do not wrap round.
    exact = [sum(int(ring[k]) for ring in rings) for k in range(length)]
    assert total.tolist() == exact


@settings(max_examples=300, deadline=None)
@given(many_numbers())
def test_the_rounding_error_stays_within_its_bound(numbers: Any) -> None:
    n_sites, length = numbers.shape
    total = from_units(add_rings([to_ring(row, n_sites) for row in numbers], length))
    for k in range(length):
        exact = math.fsum(numbers[:, k])
        # The float64 result's own rounding comes on top; fsum is rounded, too.
        assert abs(total[k] - exact) <= rounding_bound(n_sites) + 2 * 2.0**-53 * abs(exact)


def test_the_bound_is_reached_and_is_what_the_docs_say() -> None:
    half = 2.0 ** -(UNIT_BITS + 1)
    for n_sites in (1, 3, 20):
        assert rounding_bound(n_sites) == n_sites * 2.0**-33
        # Just above a half rounds up at every site: the errors add up.
        numbers = np.full((n_sites, 1), half * (1 + 2**-20))
        total = from_units(add_rings([to_ring(row, n_sites) for row in numbers], 1))[0]
        error = abs(total - math.fsum(numbers[:, 0]))
        assert 0.99 * rounding_bound(n_sites) < error <= rounding_bound(n_sites)


@pytest.mark.parametrize("n_sites", [1, 3, 7, 20])
def test_a_number_of_which_the_sum_could_wrap_round_is_refused(n_sites: int) -> None:
    edge = LIMIT / n_sites
    below = np.nextafter(edge, 0)
    for sign in (1, -1):
        rings = [to_ring(np.array([sign * below]), n_sites)] * n_sites
        (total,) = from_units(add_rings(rings, 1))
        assert np.sign(total) == sign
        assert total == pytest.approx(sign * below * n_sites, rel=1e-9)
        for bad in (edge, 2 * edge, 1e300, np.inf):
            with pytest.raises(OverflowError) as caught:
                to_ring(np.array([0.0, sign * bad]), n_sites)
            assert f"{bad:g}" not in str(caught.value) or bad == edge
    with pytest.raises(OverflowError):
        to_ring(np.array([np.nan]), n_sites)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=8), st.integers(1, 40))
def test_whole_units_go_into_the_ring_as_they_are_or_not_at_all(
    units: list[int], n_sites: int
) -> None:
    """Nothing is cut: what could wrap round is an error."""
    array = np.array(units, dtype=np.int64)
    if all(abs(float(unit)) < 2.0**63 / n_sites for unit in units):
        assert to_ring(array, n_sites).tolist() == units
        total = add_rings([array] * n_sites, len(array))
        assert total.tolist() == [n_sites * unit for unit in units]
    else:
        with pytest.raises(RingOverflowError):
            to_ring(array, n_sites)


@pytest.mark.parametrize("self_mask", [False, True])
@pytest.mark.parametrize("plain", ["zeros", "counts"])
def test_one_sealed_vector_looks_like_random_bits(plain: str, self_mask: bool) -> None:
    """Chi-square on bytes at each place, single bits, and neighbours; α = 1e-7 each."""
    length = 40_000
    rng = np.random.default_rng(0)
    numbers = np.zeros(length) if plain == "zeros" else rng.integers(0, 50, length).astype(float)
    ring = to_ring(numbers, 3)
    for mask in make_masks(3):
        masked = mask.mask(ring, step=1, question=QUESTION, self_mask=self_mask)
        data = np.frombuffer(masked.astype("<i8").tobytes(), np.uint8).reshape(-1, 8)
        for place in range(8):
            seen = np.bincount(data[:, place], minlength=256)
            assert stats.chisquare(seen).pvalue > FALSE_ALARM, place
        ones = np.unpackbits(data, axis=1).sum(axis=0)
        for count in ones.tolist():
            assert stats.binomtest(count, length, 0.5).pvalue > FALSE_ALARM
        # And it does not go with what it hides.
        top = data[:, 7].astype(float)
        if plain == "counts":
            assert stats.pearsonr(top, numbers).pvalue > FALSE_ALARM
        assert stats.pearsonr(top[1:], top[:-1]).pvalue > FALSE_ALARM
    # The test has power: what it hides fails it at once.
    bare = np.frombuffer(ring.astype("<i8").tobytes(), np.uint8).reshape(-1, 8)
    assert stats.chisquare(np.bincount(bare[:, 4], minlength=256)).pvalue < FALSE_ALARM


def test_masks_differ_for_another_step_question_run_set_and_key() -> None:
    ring = np.zeros(64, dtype=np.int64)

    def seal(masks: list[Masks], *, step: int = 5, question: bytes = QUESTION) -> Any:
        return masks[0].mask(ring, step=step, question=question, self_mask=False)

    first = seal(make_masks(3))
    np.testing.assert_array_equal(first, seal(make_masks(3)))
    others = {
        "step": seal(make_masks(3), step=6),
        "question": seal(make_masks(3), question=b"r" * 32),
        "run": seal(make_masks(3, context=b"study\0run 2")),
        "study": seal(make_masks(3, context=b"study 2\0run")),
        "set": seal(make_masks(4)),
        "fewer": seal(make_masks(2)),
        "keys": seal(make_masks(3, first=10)),
    }
    seen = [first, *others.values()]
    for a in range(len(seen)):
        for b in range(a):
            # 64 numbers of 64 bits: one equal pair by chance has probability < 2^-50.
            assert not (seen[a] == seen[b]).any()
    masks = make_masks(3)
    seeds = {
        mask.self_seed(step=step, question=question)
        for mask in (*masks, *make_masks(4), *make_masks(3, context=b"other"))
        for step in (0, 1)
        for question in (QUESTION, b"r" * 32)
    }
    assert len(seeds) == (3 + 4 + 3) * 2 * 2
    assert {len(seed) for seed in seeds} == {SEED_BYTES}


def test_parts_of_what_a_mask_is_bound_to_do_not_run_into_one_another() -> None:
    """Study "ab", run "c" is not study "a", run "bc"; nor are names and keys mixed up."""
    ring = np.zeros(8, dtype=np.int64)
    keys = [secret(k) for k in range(3)]

    def seal(names: Sequence[str], question: bytes) -> bytes:
        publics = {name: public_key(key) for name, key in zip(names, keys, strict=True)}
        masks = Masks(names[0], keys[0], publics, CONTEXT)
        return masks.mask(ring, step=1, question=question, self_mask=False).tobytes()

    seen = {
        seal(names, question)
        for names in (("a", "b", "c"), ("a", "bc", "d"), ("ab", "c", "d"), ("a", "c", "b"))
        for question in (b"", b"q")
    }
    assert len(seen) == 8


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.data())
def test_without_any_one_part_nothing_can_be_read(n_sites: int, data: st.DataObject) -> None:
    """Sums of fewer sites than all stay under a mask: none of 64 numbers is right."""
    numbers = np.tile(np.arange(64.0), (n_sites, 1))
    rings = [to_ring(row, n_sites) for row in numbers]
    masks = make_masks(n_sites)
    masked = mask_all(masks, rings)
    left = data.draw(st.integers(0, n_sites - 1))
    kept = [k for k in range(n_sites) if k != left]
    partial = add_rings([masked[k] for k in kept], 64)
    wanted = add_rings([rings[k] for k in kept], 64)
    assert not (partial == wanted).any()
    # Nor is it near: within 2^40 of the truth has probability 64·2^-23 for random masks.
    near = np.abs((partial - wanted).astype(np.float64)) < 2.0**40
    assert near.sum() <= 1


@pytest.mark.parametrize("n_sites", [2, 3, 5])
def test_a_sum_with_self_masks_opens_only_with_every_seed(n_sites: int) -> None:
    rings = [to_ring(np.arange(50.0) * (k + 1), n_sites) for k in range(n_sites)]
    masks = make_masks(n_sites)
    masked = mask_all(masks, rings, self_mask=True)
    seeds = [mask.self_seed(step=5, question=QUESTION) for mask in masks]
    truth = add_rings(rings, 50)
    np.testing.assert_array_equal(open_sum(masked, seeds, 50), truth)
    np.testing.assert_array_equal(open_sum(masked[::-1], seeds[::-1], 50), truth)
    for left in range(n_sites):
        some = seeds[:left] + seeds[left + 1 :]
        assert not (open_sum(masked, some, 50) == truth).any()
        other = [masks[left].self_seed(step=6, question=QUESTION)]
        assert not (open_sum(masked, some + other, 50) == truth).any()
        # A seed takes its own mask off, and leaves the pairwise ones on.
        alone = open_sum([masked[left]], [seeds[left]], 50)
        assert not (alone == rings[left]).any()


def test_the_keystream_is_chacha20_s() -> None:
    """RFC 8439, A.1, test vector 1: key, nonce and counter all zero."""
    stream = keystream(bytes(32), 2).astype("<i8").tobytes()
    assert stream.hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_secrets_are_drawn_anew() -> None:
    drawn = {make_secret() for _ in range(20)}
    assert len(drawn) == 20
    assert {len(s) for s in drawn} == {32}


def test_keys_that_are_no_keys_are_refused() -> None:
    good = {"a": public_key(secret(0)), "b": public_key(secret(1))}
    for bad in (bytes(32), b"short", b"", (1).to_bytes(32, "little")):
        with pytest.raises(ValueError):  # noqa: PT011
            Masks("a", secret(0), {**good, "b": bad}, CONTEXT)


# --- whole runs ---------------------------------------------------------------------------


def facts_without_bill(model: Any) -> dict[str, Any]:
    facts = model_facts(model)
    assert facts.pop("privacy")
    return facts


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("extra", [{}, {"spreads": "exact", "epsilon": 1.0}])
def test_secure_sums_do_not_change_the_model(solver: str, extra: dict[str, Any]) -> None:
    study = make_study(**{**SOLVERS[solver], **extra})
    tables = make_tables(study)
    plain = fit_model(study, tables)
    secure = fit_model(study, tables, secure=True)
    assert facts_without_bill(secure) == facts_without_bill(plain)
    assert (plain.privacy.sum_of, secure.privacy.sum_of) == (None, 3)


@pytest.mark.parametrize("solver", ["exact", "cv"])
@pytest.mark.parametrize("sizes", [(70, 50, 30), (30,) * 6])
def test_the_exact_solver_reaches_its_tolerance_under_secure_sums(
    solver: str, sizes: Sequence[int]
) -> None:
    study = make_study(**SOLVERS[solver])
    model = fit_model(study, make_tables(study, sizes=sizes), secure=True)
    certificate = model.provenance.certificate
    assert certificate.residual <= study.settings.tolerance == 1e-8
    assert certificate.gap is not None
    # The gap is of sums with rounding errors of 2^-33 for each patient.
    assert certificate.gap <= 1e-7
