r"""Secure sums: the coordinator learns Σ over sites, and nothing of one site.

In: a site's numbers. Out: as many 64-bit integers, each uniformly random on its
own; added up over all sites of the sum, the masks cancel.

Fixed point
    Numbers are whole multiples of 2⁻³² (or of the field's own unit), added modulo
    :math:`2^{64}`. They are sums over patients that were rounded patient by patient
    (:mod:`fedrulefit.core.fixed`), so a total does not tell how the patients are spread
    over the sites. A number of which M could overflow, :math:`2^{63}/M` units, cannot
    occur: questions and tables are bounded on public grounds. One that does is an
    error, never cut. Sums without masks are added in the same way: with or without them
    the model is the same, bit for bit, and does not depend on the order of the sites.

Masks
    Every two sites i < j share a secret by X25519, from keys made for this run
    and signed by the sites' identities (:mod:`fedrulefit.privacy.identity`).
    HKDF-SHA256 turns it into a fresh ChaCha20 key for each (pair, study, run,
    set of sites, step, transcript and question); its keystream is the mask, which
    i adds and j subtracts. A step number is used once: a repeated round is a new
    step.

Self-masks
    Where a run may go on without a site that dropped out, every site adds a
    mask of its own as well, and gives its seed away only once all sites of the
    sum have answered (the *opening*). It opens at most one of the attempts of a
    round, so that no two sums of one round can be subtracted.

Oracle: the plain sum (``tests/properties/test_secure_sums.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.fixed import UNIT_BITS

SEED_BYTES: Final = 32
_SCALE: Final = 2.0**UNIT_BITS


class RingOverflowError(ValueError):
    """A number is too large for the ring; the message does not say which."""


def to_ring(numbers: Floats | Ints, n_sites: int) -> Ints:
    """Return whole units, shape (n,): integers are units already.

    Raises
    ------
    RingOverflowError
        If a number is so large that the sum over `n_sites` could wrap round.
    """
    whole = numbers.dtype.kind == "i"
    most = 2.0 ** (63 - UNIT_BITS) / n_sites
    if not (np.abs(numbers.astype(np.float64)) < (most * _SCALE if whole else most)).all():
        raise RingOverflowError(
            f"a sum is too large for {n_sites} sites: numbers must stay below {most:.3g}"
        )
    ring: Ints = (numbers if whole else np.rint(numbers * _SCALE)).astype(np.int64)
    return ring


def from_ring(total: Ints) -> Floats:
    """Return the sum that the integers stand for, shape (n,)."""
    numbers: Floats = total.astype(np.float64) / _SCALE
    return numbers


def add_rings(parts: Iterable[Ints], length: int) -> Ints:
    """Add modulo 2^64."""
    total = np.zeros(length, dtype=np.uint64)
    for part in parts:
        total += part.view(np.uint64)
    return total.view(np.int64)


def make_secret() -> bytes:
    """Draw a site's secret for one run."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(secret: bytes) -> bytes:
    """Return what the other sites may know of a secret."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def keystream(key: bytes, length: int) -> Ints:
    """Return `length` numbers of the ring, by ChaCha20; a key is used once."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    stream = encryptor.update(bytes(8 * length)) + encryptor.finalize()
    return np.frombuffer(stream, dtype="<i8").astype(np.int64)


class Masks:
    """One site's masks in one run.

    Parameters
    ----------
    site : str
    secret : bytes
        The site's own, from :func:`make_secret`.
    publics : mapping of str to bytes
        The public keys of all sites of the sum, this one's included.
    context : bytes
        What the masks are bound to: study and run.

    Raises
    ------
    ValueError
        If a key is not a usable point of the curve.
    """

    def __init__(
        self, site: str, secret: bytes, publics: Mapping[str, bytes], context: bytes
    ) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import (
            X25519PrivateKey,
            X25519PublicKey,
        )

        self.site = site
        self.sites = tuple(sorted(publics))
        own = X25519PrivateKey.from_private_bytes(secret)
        self._secret, self._publics = secret, dict(publics)
        self._shared = {
            peer: own.exchange(X25519PublicKey.from_public_bytes(publics[peer]))
            for peer in self.sites
            if peer != site
        }
        self._context = context
        # Bound to the keys as well as the names: another set of either, other masks.
        self._salt = hashlib.sha256(
            b"\0".join(part for peer in self.sites for part in (peer.encode(), publics[peer]))
        ).digest()

    def among(self, sites: Iterable[str]) -> Masks:
        """Return the masks of the same run among fewer sites, this one included."""
        publics = {site: self._publics[site] for site in sites}
        return Masks(self.site, self._secret, publics, self._context)

    def mask(self, ring: Ints, *, step: int, question: bytes, self_mask: bool) -> Ints:
        """Return the masked integers of one answer, shape (n,)."""
        parts = [ring]
        for peer, shared in self._shared.items():
            pair = "\0".join(sorted((self.site, peer))).encode()
            mask = keystream(self._derive(shared, b"pair", pair, step, question), len(ring))
            parts.append(mask if self.site < peer else -mask)
        if self_mask:
            parts.append(keystream(self.self_seed(step=step, question=question), len(ring)))
        return add_rings(parts, len(ring))

    def self_seed(self, *, step: int, question: bytes) -> bytes:
        """Return the seed of this site's own mask at a step."""
        return self._derive(self._secret, b"self", self.site.encode(), step, question)

    def _derive(self, key: bytes, purpose: bytes, who: bytes, step: int, question: bytes) -> bytes:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        parts = (b"fedrulefit mask 1", purpose, self._context, who, step.to_bytes(8, "big"))
        info = b"".join(len(part).to_bytes(4, "big") + part for part in (*parts, question))
        return HKDF(SHA256(), SEED_BYTES, salt=self._salt, info=info).derive(key)


def open_sum(masked: Sequence[Ints], seeds: Sequence[bytes], length: int) -> Ints:
    """Add masked answers up and take the opened self-masks off, shape (length,)."""
    masks = (-keystream(seed, length) for seed in seeds)
    return add_rings([*masked, *masks], length)
