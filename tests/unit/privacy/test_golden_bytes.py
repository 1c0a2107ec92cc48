"""Masks, signatures and ledgers are, byte for byte, those of earlier versions.

Frozen by ``tests/golden/make_bytes.py``. Where both ends of a run change together, every
other test passes; a hospital that runs the version before would be left out.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from tests.golden import make_bytes
from tests.golden.make_bytes import CONTEXT, QUESTION, RING, SIGNED, SITES, STEP, secret

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.identity import Trust
from fedrulefit.privacy.ledger import Ledger, read_rows

GOLDEN = Path(make_bytes.__file__).parent
LEDGER = GOLDEN / "ledger-v1.jsonl"
FROZEN: dict[str, Any] = json.loads((GOLDEN / "bytes-v1.json").read_text(encoding="utf-8"))


def test_masks_are_those_of_earlier_versions() -> None:
    assert make_bytes.mask_facts() == FROZEN["masks"]


def test_what_sites_sign_is_what_earlier_versions_sign() -> None:
    assert make_bytes.claim_facts() == FROZEN["claims"]


@pytest.mark.parametrize("kind", ["ed25519", "ec", "rsa"])
def test_signatures_of_earlier_versions_hold(kind: str) -> None:
    facts = FROZEN["signatures"][kind]
    certificate, signature = (bytes.fromhex(facts[name]) for name in ("certificate", "signature"))
    assert hashlib.sha256(certificate).hexdigest() == facts["fingerprint"]
    trust = Trust(
        bytes.fromhex(FROZEN["root"]),
        {"east": facts["fingerprint"]},
        clock=lambda: dt.datetime(2030, 6, 1, tzinfo=dt.UTC),
    )
    trust.verify("east", certificate, SIGNED, signature)
    with pytest.raises(ProtocolError, match="signature is wrong"):
        trust.verify("east", certificate, SIGNED + b".", signature)


def test_the_signature_of_a_fixed_key_is_the_same() -> None:
    """Ed25519 draws nothing: certificate and signature come out alike, byte by byte."""
    identity = make_bytes.make_identity("ed25519")
    facts = FROZEN["signatures"]["ed25519"]
    assert identity.certificate.hex() == facts["certificate"]
    assert identity.sign(SIGNED).hex() == facts["signature"]


def test_a_ledger_of_earlier_versions_is_read_and_gone_on_with(tmp_path: Path) -> None:
    rows = list(read_rows(LEDGER))
    assert [row["hash"] for row in rows] == [
        "c3a0da7d8e6f5ecd48fa555196f2be071b385066353f719685e24afe333670b9",
        "5225ce80ca19ff1c4d31e9b6edc57c7c3b9ffb14a1d1fff519d9d53864a768cc",
        "fcb245eb66f2b0c319cb82d23ace51641dbb9bcffcbf0df0e1b6d08a9d9ad8e3",
    ]
    again = tmp_path / "ledger.jsonl"
    Ledger(again, clock=lambda: make_bytes.TIME).append(*make_bytes.RELEASES)
    assert again.read_bytes() == LEDGER.read_bytes()
    assert [release.facts() for release in Ledger(again).releases] == [
        {**release.facts(), "time": make_bytes.TIME} for release in make_bytes.RELEASES
    ]


# --- by hand ------------------------------------------------------------------------------


def hkdf(secret_bytes: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 with SHA-256, for one block of 32 bytes."""
    key = hmac.digest(salt, secret_bytes, "sha256")
    return hmac.digest(key, info + b"\x01", "sha256")


def info_of(*parts: bytes) -> bytes:
    """Each part behind its length in four bytes."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def stream(key: bytes) -> Any:
    """ChaCha20 (RFC 8439) with nonce and counter 0, as signed 64-bit integers."""
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * len(RING))), "<i8")


def test_a_sealed_answer_is_what_the_documents_say() -> None:
    """Only from the words of ``privacy/masks.py``: X25519, HKDF, ChaCha20, and a sign."""
    publics = {site: bytes.fromhex(key) for site, key in FROZEN["masks"]["publics"].items()}
    # Bytes order the sites: "Köln" before "coast".
    salt = hashlib.sha256(
        b"\0".join([b"K\xc3\xb6ln", publics["Köln"], b"coast", publics["coast"],
                    b"east", publics["east"]])
    ).digest()  # fmt: skip
    step = b"\0\0\0\0\0\0\0\x07"
    assert STEP == 7
    own = X25519PrivateKey.from_private_bytes(secret("coast"))
    total = np.array(RING, np.int64)
    for peer, pair, sign in (("Köln", b"K\xc3\xb6ln\0coast", -1), ("east", b"coast\0east", 1)):
        shared = own.exchange(X25519PublicKey.from_public_bytes(publics[peer]))
        info = info_of(b"fedrulefit mask 1", b"pair", CONTEXT, pair, step, QUESTION)
        total = total + sign * stream(hkdf(shared, salt, info))
    assert total.tolist() == FROZEN["masks"]["sealed"]["coast"]
    info = info_of(b"fedrulefit mask 1", b"self", CONTEXT, b"coast", step, QUESTION)
    seed = hkdf(secret("coast"), salt, info)
    assert seed.hex() == FROZEN["masks"]["seeds"]["coast"]
    assert (total + stream(seed)).tolist() == FROZEN["masks"]["sealed_twice"]["coast"]
    assert sorted(SITES) == ["Köln", "coast", "east"]


def test_the_chain_of_hashes_is_what_the_documents_say() -> None:
    """Each hash is of its row's other facts, sorted and without spaces, the last hash included."""
    previous = "0" * 64
    for line in LEDGER.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        told = row.pop("hash")
        assert row["previous"] == previous
        text = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert hashlib.sha256(text.encode()).hexdigest() == told
        previous = told
