"""Making start-up kits: a root of the consortium, and for each party two certificates.

One certificate is for TLS (``carrier/``), the other signs (``site/``, ``coordinator/``);
each says so itself, and neither serves for the other. There is no administrator and no
other identity: nobody but the parties of the consortium can connect, and nobody at all
can do more than exchange envelopes.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import shutil
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedrulefit.federation.kits.consortium import Consortium
from fedrulefit.federation.kits.kit import CERTIFICATE, KEY, ROOT, seal_part
from fedrulefit.privacy.identity import SIGNING, Identity

ROOT_DAYS: Final = 3650
KIT_DAYS: Final = 365

_README: Final = {
    "carrier": (
        "The part of a start-up kit that has the network: the key for TLS, and nothing else.\n"
        "'fedrulefit site start' and 'coordinator start' use it themselves. As a user or\n"
        "container of its own: fedrulefit carrier start --kit THIS_FOLDER --socket PATH\n"
    ),
    "site": (
        "The part of a start-up kit that signs for one hospital. Keep it private.\n"
        "Start with: fedrulefit site start --kit THIS_KIT --study study.toml "
        "--data patients.csv --policy policy.toml\n"
    ),
    "coordinator": (
        "The part of a start-up kit that signs for the coordinator. Keep it private.\n"
        "Start with: fedrulefit coordinator start --kit THIS_KIT\n"
    ),
}


def provision(consortium: Consortium, folder: Path) -> dict[str, Path]:
    """Make a start-up kit for the coordinator and each hospital.

    The consortium's root is kept in ``authority/`` and used again the next time;
    everybody's private keys are in their kits only.

    Parameters
    ----------
    consortium : Consortium
    folder : Path
        Where kits and authority go; older kits are replaced.

    Returns
    -------
    kits : dict of str to Path
        The coordinator's kit under ``coordinator``, each hospital's under its name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = _Authority.open(folder / "authority", consortium.name)
    kits = {name: folder / name for name in ("coordinator", *consortium.site_names)}
    for name, kit in kits.items():
        if kit.is_symlink():
            kit.unlink()
        shutil.rmtree(kit, ignore_errors=True)
        _make_kit(consortium, name, kit, authority)
    return kits


def _make_kit(consortium: Consortium, name: str, kit: Path, authority: _Authority) -> None:
    side = "coordinator" if name == "coordinator" else "site"
    owner = consortium.coordinator.host if side == "coordinator" else name
    for role in ("carrier", side):
        part = kit / role
        part.mkdir(parents=True, mode=0o700)
        certificate, key = authority.issue(owner, role, side)
        _write(part / CERTIFICATE, certificate)
        _write(part / KEY, key)
        _write(part / ROOT, authority.certificate.public_bytes(Encoding.PEM))
        _write(part / "readme.txt", _README[role].encode())
        facts = {
            "consortium": consortium.name,
            "coordinator": consortium.coordinator.host,
            "name": owner,
            "port": consortium.coordinator.port,
            "role": role,
            "side": side,
            "sites": list(consortium.site_names),
            "transport": consortium.transport,
        }
        seal_part(part, facts, authority.identity)
    kit.chmod(0o700)


def _write(path: Path, data: bytes) -> None:
    """Write a new file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


class _Authority:
    """The holder of the root."""

    def __init__(self, certificate: x509.Certificate, key: Any) -> None:
        self.certificate, self._key = certificate, key

    @classmethod
    def open(cls, folder: Path, consortium: str) -> _Authority:
        """Take up the root of a folder, or begin one."""
        path = folder / "root.json"
        if path.exists():
            facts = json.loads(path.read_text(encoding="utf-8"))
            key = load_pem_private_key(facts["root_pri_key"].encode(), password=None)
            return cls(x509.load_pem_x509_certificate(facts["root_cert"].encode()), key)
        folder.mkdir(mode=0o700, exist_ok=True)
        made = cls._begin(consortium)
        facts = {
            "root_cert": made.certificate.public_bytes(Encoding.PEM).decode(),
            "root_pri_key": _key_pem(made._key).decode(),
        }
        _write(path, json.dumps(facts).encode())
        return made

    @classmethod
    def _begin(cls, consortium: str) -> _Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, consortium),
                x509.NameAttribute(NameOID.COMMON_NAME, "root"),
            ]
        )
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            _builder(name, name, key.public_key(), ROOT_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
        )
        return cls(builder.sign(key, SHA256()), key)

    @property
    def identity(self) -> Identity:
        """The root as one that signs seals."""
        return Identity(
            self.certificate.public_bytes(Encoding.DER),
            self._key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        )

    def issue(self, owner: str, role: str, side: str) -> tuple[bytes, bytes]:
        """Return a certificate and its new key, both in PEM."""
        key = ec.generate_private_key(ec.SECP256R1()) if role == "carrier" else _signing_key()
        builder = (
            _builder(_common_name(owner), self.certificate.subject, key.public_key(), KIT_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_purpose(role, side)]), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if (role, side) == ("carrier", "coordinator"):
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_address(owner)]), critical=False
            )
        certificate = builder.sign(self._key, SHA256())
        return certificate.public_bytes(Encoding.PEM), _key_pem(key)


def _signing_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def _purpose(role: str, side: str) -> x509.ObjectIdentifier:
    """What a certificate is for; the other end of a connection asks for exactly this."""
    if role != "carrier":
        return x509.ObjectIdentifier(SIGNING)
    client, server = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH
    return server if side == "coordinator" else client


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: Any, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem
