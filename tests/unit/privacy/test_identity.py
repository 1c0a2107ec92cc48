"""Who a site is: certificates of every kind of key, and what is not to be trusted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.identity import SIGNING, Identity, Trust, make_consortium

DATA = b"this key is mine"
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH.dotted_string
SERVER = ExtendedKeyUsageOID.SERVER_AUTH.dotted_string
ANY = ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE.dotted_string
NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
KEYS: dict[str, Any] = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ec": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
}


def name_of(*names: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])


class Root:
    """A certificate authority, as a consortium's provisioning makes one."""

    def __init__(self, kind: str = "ed25519", name: str = "root") -> None:
        self.key, self.name = KEYS[kind](), name
        self.certificate = self.issue((name,), self.key)

    def issue(
        self,
        names: tuple[str, ...],
        key: Any,
        *,
        days: tuple[int, int] = (-1, 365),
        purposes: tuple[str, ...] = (SIGNING,),
    ) -> Any:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name_of(*names))
            .issuer_name(name_of(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + dt.timedelta(days=days[0]))
            .not_valid_after(NOW + dt.timedelta(days=days[1]))
        )
        if purposes:
            builder = builder.add_extension(
                x509.ExtendedKeyUsage([x509.ObjectIdentifier(p) for p in purposes]), critical=True
            )
        plain = isinstance(self.key, ed25519.Ed25519PrivateKey)
        return builder.sign(self.key, None if plain else SHA256())

    def trust(self, **options: Any) -> Trust:
        der = self.certificate.public_bytes(Encoding.DER)
        return Trust(der, clock=lambda: NOW, **options)

    def identity(self, *names: str, kind: str = "ed25519", **options: Any) -> Identity:
        key = KEYS[kind]()
        certificate = self.issue(names, key, **options).public_bytes(Encoding.DER)
        return Identity(
            certificate, key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        )


def refusal(trust: Trust, site: str, identity: Identity, data: bytes = DATA) -> str:
    with pytest.raises(ProtocolError) as caught:
        trust.verify(site, identity.certificate, data, identity.sign(DATA))
    assert caught.value.code == "identity"
    assert repr(site) in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("root_kind", KEYS)
def test_a_signature_of_every_kind_of_key_is_verified(kind: str, root_kind: str) -> None:
    root = Root(root_kind)
    identity = root.identity("north", kind=kind)
    signature = identity.sign(DATA)
    root.trust().verify("north", identity.certificate, DATA, signature)
    for data, signed in (
        (DATA + b".", signature),
        (DATA, signature[:-1]),
        (DATA, b""),
        (DATA, bytes(len(signature))),
        (DATA, signature[:-1] + bytes([signature[-1] ^ 1])),
        (DATA, root.identity("north", kind=kind).sign(DATA)),
    ):
        with pytest.raises(ProtocolError, match="signature is wrong") as caught:
            root.trust().verify("north", identity.certificate, data, signed)
        assert caught.value.code == "identity"


def test_a_certificate_of_another_consortium_is_refused() -> None:
    """Even where its root has the very same name."""
    trust = Root().trust()
    assert "consortium" in refusal(trust, "north", Root().identity("north"))
    assert "certificate" in refusal(trust, "north", Root(name="other").identity("north"))


def test_a_site_cannot_issue_certificates() -> None:
    root, key = Root(), KEYS["ed25519"]()
    middle = Root(name="south")
    middle.key = key
    middle.certificate = root.issue(("south",), key)
    refusal(root.trust(), "north", middle.identity("north"))


def test_a_certificate_of_another_name_is_refused() -> None:
    root = Root()
    for names in (("south",), ("North",), ("north",) * 2, ("north", "south"), ("north ",)):
        assert "another name" in refusal(root.trust(), "north", root.identity(*names))


@pytest.mark.parametrize(
    ("days", "words"), [((-30, -1), "expired on 20"), ((1, 30), "not valid yet")]
)
def test_a_certificate_is_valid_only_in_its_time(days: tuple[int, int], words: str) -> None:
    root = Root()
    assert words in refusal(root.trust(), "north", root.identity("north", days=days))
    # The clock decides, not the day of the test.
    later = dataclasses.replace(
        root.trust(), clock=lambda: NOW + dt.timedelta(days=(days[0] + days[1]) // 2)
    )
    identity = root.identity("north", days=days)
    later.verify("north", identity.certificate, DATA, identity.sign(DATA))


def test_pins_win_over_the_root() -> None:
    root = Root()
    north, again, south = (root.identity(name) for name in ("north", "north", "south"))
    trust = root.trust(pinned={"north": north.fingerprint})
    trust.verify("north", north.certificate, DATA, north.sign(DATA))
    assert "pinned" in refusal(trust, "north", again)
    # The root still speaks for those that are not pinned.
    trust.verify("south", south.certificate, DATA, south.sign(DATA))
    both = root.trust(pinned={"north": north.fingerprint, "south": south.fingerprint})
    both.verify("south", south.certificate, DATA, south.sign(DATA))
    # A pin alone does not make a certificate of the consortium.
    foreign = Root().identity("north")
    refusal(root.trust(pinned={"north": foreign.fingerprint}), "north", foreign)
    assert north.fingerprint == hashlib.sha256(north.certificate).hexdigest()


@pytest.mark.parametrize("garbage", [b"", b"\x30\x82", b"x" * 500, bytes(2000)])
def test_garbage_is_not_a_certificate(garbage: bytes) -> None:
    root = Root()
    identity = root.identity("north")
    refusal(root.trust(), "north", dataclasses.replace(identity, certificate=garbage))
    half = identity.certificate[: len(identity.certificate) // 2]
    refusal(root.trust(), "north", dataclasses.replace(identity, certificate=half))
    longer = identity.certificate + garbage + b"\0"
    refusal(root.trust(), "north", dataclasses.replace(identity, certificate=longer))


def test_any_flipped_bit_of_a_certificate_is_noticed() -> None:
    root = Root()
    identity = root.identity("north")
    signature = identity.sign(DATA)
    for place in range(0, len(identity.certificate), 3):
        bad = bytearray(identity.certificate)
        bad[place] ^= 1 << place % 8
        with pytest.raises(ProtocolError) as caught:
            root.trust().verify("north", bytes(bad), DATA, signature)
        assert caught.value.code == "identity"


def test_a_key_of_another_kind_does_not_sign() -> None:
    key = dsa.generate_private_key(2048)
    raw = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ProtocolError) as caught:
        Identity(b"", raw).sign(DATA)
    assert caught.value.code == "identity"


def test_a_private_key_is_not_shown() -> None:
    identity = Root().identity("north")
    assert "private_key" not in repr(identity)
    assert repr(identity.private_key)[2:20] not in repr(identity)


@pytest.mark.parametrize("kind", KEYS)
def test_files_of_a_kit_are_read(kind: str, tmp_path: Path) -> None:
    root, key = Root(), KEYS[kind]()
    certificate = root.issue(("north",), key)
    files = {
        "site.crt": certificate.public_bytes(Encoding.PEM),
        "site.key": key.private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
        )
        if kind != "ed25519"
        else key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "root.crt": root.certificate.public_bytes(Encoding.PEM),
    }
    identity = Identity.from_pem(files["site.crt"], files["site.key"])
    trust = Trust.from_pem(files["root.crt"], {"north": identity.fingerprint})
    assert trust.pinned == {"north": identity.fingerprint}
    assert Trust.from_pem(files["root.crt"]).pinned == {}
    checked = dataclasses.replace(trust, clock=lambda: NOW)
    checked.verify("north", identity.certificate, DATA, identity.sign(DATA))


def test_an_embedded_consortium_trusts_itself_and_nobody_else() -> None:
    identities, trust = make_consortium(["north", "south"])
    for name, identity in identities.items():
        trust.verify(name, identity.certificate, DATA, identity.sign(DATA))
    refusal(trust, "south", identities["north"])
    others, _ = make_consortium(["north"])
    refusal(trust, "north", others["north"])


@pytest.mark.parametrize(
    "purposes",
    [(), (CLIENT,), (SERVER,), (SIGNING, CLIENT), (ANY,)],
    ids=["none", "client", "server", "both", "any"],
)
def test_a_certificate_for_something_else_signs_nothing(purposes: tuple[str, ...]) -> None:
    root = Root()
    identity = root.identity("north", purposes=purposes)
    assert "not one for signing" in refusal(root.trust(), "north", identity)


def test_a_certificate_is_valid_from_its_first_second_to_its_last() -> None:
    root = Root()
    identity = root.identity("north", days=(-1, 1))
    signature, second = identity.sign(DATA), dt.timedelta(seconds=1)

    def verify(now: dt.datetime) -> None:
        trust = dataclasses.replace(root.trust(), clock=lambda: now)
        trust.verify("north", identity.certificate, DATA, signature)

    first, last = NOW - dt.timedelta(days=1), NOW + dt.timedelta(days=1)
    verify(first)
    verify(last)
    with pytest.raises(ProtocolError, match="not valid yet"):
        verify(first - second)
    with pytest.raises(ProtocolError, match="expired on 2030-01-02"):
        verify(last + second)
    assert identity.expires == dt.date(2030, 1, 2)


def test_identities_of_one_process_are_valid_for_a_year() -> None:
    identities, trust = make_consortium(["north"])
    north, now = identities["north"], dt.datetime.now(dt.UTC)
    for days in (-0.99, 0, 364.99):
        clock = now + dt.timedelta(days=days)
        dataclasses.replace(trust, clock=lambda clock=clock: clock).verify(
            "north", north.certificate, DATA, north.sign(DATA)
        )
    for days in (-1.01, 365.01):
        clock = now + dt.timedelta(days=days)
        with pytest.raises(ProtocolError):
            dataclasses.replace(trust, clock=lambda clock=clock: clock).verify(
                "north", north.certificate, DATA, north.sign(DATA)
            )
