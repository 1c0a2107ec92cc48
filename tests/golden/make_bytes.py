"""How ``bytes-v1.json`` and ``ledger-v1.jsonl`` were made. Not to be run again after a release.

Hospitals of different versions meet in one run: the masks of one must cancel those of the
other, and each must verify what the other signed. A ledger is kept for years.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import (
    CertificateBuilder,
    ExtendedKeyUsage,
    Name,
    NameAttribute,
    ObjectIdentifier,
)
from cryptography.x509.oid import NameOID

from fedrulefit.privacy.identity import SIGNING, Identity
from fedrulefit.privacy.ledger import EXACT, Ledger, Release
from fedrulefit.privacy.masks import Masks, keystream, public_key
from fedrulefit.protocol import agreed
from fedrulefit.protocol import messages as m

HERE = Path(__file__).parent
SITES = ("coast", "east", "Köln")
CONTEXT = b"study and run"
QUESTION = hashlib.sha256(b"question").digest()
STEP = 7
RING = [0, 1, -1, 2**62, -(2**63)]
SIGNED = b"this key is mine"
HEADER = m.Header(m.PROTOCOL_VERSION, "run 1", 3, "east", "ab" * 32)
RELEASES = (
    Release(
        "GridReply", "histogram of age", (12,), "discrete Laplace, OpenDP 0.12", 0.1, "ab" * 32,
        sensitivity=1.0, scale=10.0, study="sepsis", run="run 1", step=3,
    ),
    Release("CurvatureReply", "gradient", (3, 4), EXACT, None, "cd" * 32, sum_of=3, round=7),
    Release("RulesReply", "rules", (4,), EXACT, None, "ef" * 32, study="Käse", run="run 2"),
)  # fmt: skip
TIME = "2030-01-01T00:00:00+00:00"


def secret(site: str) -> bytes:
    """Return a site's secret of these bytes only."""
    return hashlib.sha256(f"secret of {site}".encode()).digest()


def make_masks() -> dict[str, Masks]:
    """Return the masks of three sites."""
    publics = {site: public_key(secret(site)) for site in SITES}
    return {site: Masks(site, secret(site), publics, CONTEXT) for site in SITES}


def mask_facts() -> dict[str, Any]:
    """Return keystream, seeds and sealed numbers."""
    ring = np.array(RING, np.int64)
    masks = make_masks()

    def seal(mask: Masks, *, self_mask: bool) -> list[int]:
        sealed = mask.mask(ring, step=STEP, question=QUESTION, self_mask=self_mask)
        numbers: list[int] = sealed.tolist()
        return numbers

    return {
        "keystream": keystream(bytes(range(32)), 9).tolist(),
        "publics": {site: public_key(secret(site)).hex() for site in SITES},
        "seeds": {
            site: mask.self_seed(step=STEP, question=QUESTION).hex() for site, mask in masks.items()
        },
        "sealed": {site: seal(mask, self_mask=False) for site, mask in masks.items()},
        "sealed_twice": {site: seal(mask, self_mask=True) for site, mask in masks.items()},
        "sealed_by_two": {
            site: seal(masks[site].among(SITES[:2]), self_mask=False) for site in SITES[:2]
        },
    }


def claim_facts() -> dict[str, str]:
    """Return the bytes that sites sign."""
    claims = {
        "histogram": agreed.histogram_claim(HEADER, "east", np.array([3, -1, 2**40])),
        "rules": agreed.sender_claim(HEADER, "east", 17),
        "votes": agreed.ballot_claim(HEADER, "east", b"votes", QUESTION, b"seed"),
    }
    return {name: claim.hex() for name, claim in claims.items()}


def make_identity(kind: str) -> Identity:
    """Return a site that signs, with a key of this kind and a certificate of its own."""
    key: Any = {
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
        "ed25519": lambda: ed25519.Ed25519PrivateKey.from_private_bytes(secret("east")),
    }[kind]()
    issuer = ed25519.Ed25519PrivateKey.from_private_bytes(secret("root"))
    name = Name([NameAttribute(NameOID.COMMON_NAME, "east")])
    certificate = (
        CertificateBuilder()
        .subject_name(name)
        .issuer_name(Name([NameAttribute(NameOID.COMMON_NAME, "root")]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(dt.datetime(2030, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2031, 1, 1, tzinfo=dt.UTC))
        .add_extension(ExtendedKeyUsage([ObjectIdentifier(SIGNING)]), critical=True)
        .sign(issuer, None)
    )
    raw = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return Identity(certificate.public_bytes(Encoding.DER), raw)


def signature_facts() -> dict[str, dict[str, str]]:
    """Return certificates, and what their keys signed."""
    made = {kind: make_identity(kind) for kind in ("ed25519", "ec", "rsa")}
    return {
        kind: {
            "certificate": identity.certificate.hex(),
            "fingerprint": identity.fingerprint,
            "signature": identity.sign(SIGNED).hex(),
        }
        for kind, identity in made.items()
    }


def make_root() -> bytes:
    """Return the certificate of the authority, which signs itself."""
    key = ed25519.Ed25519PrivateKey.from_private_bytes(secret("root"))
    name = Name([NameAttribute(NameOID.COMMON_NAME, "root")])
    certificate = (
        CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(2)
        .not_valid_before(dt.datetime(2030, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2031, 1, 1, tzinfo=dt.UTC))
        .sign(key, None)
    )
    return certificate.public_bytes(Encoding.DER)


def main() -> None:
    facts = {
        "masks": mask_facts(),
        "claims": claim_facts(),
        "root": make_root().hex(),
        "signatures": signature_facts(),
    }
    (HERE / "bytes-v1.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (HERE / "ledger-v1.jsonl").unlink(missing_ok=True)
    Ledger(HERE / "ledger-v1.jsonl", clock=lambda: TIME).append(*RELEASES)


if __name__ == "__main__":
    main()
