"""Who a site is: a certificate of the consortium, and its private key.

A certificate says what its key is for: to sign (envelopes, keys of secure sums) or for
TLS. Here only those for signing count, so that whoever takes over the process that has
the network, and with it the key for TLS, can sign nothing.

A site signs the key of its secure sums with its identity; the others verify the
certificate's issuer (the consortium's root) and name, and the signature. So a
coordinator, which only carries the keys, cannot put its own in their place.
Whoever holds the root's private key could issue a false certificate: a site that
does not trust that party pins the others' fingerprints in its policy.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from fedrulefit.errors import ProtocolError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

SIGNING: Final = "1.3.6.1.5.5.7.3.36"
"""The extended key usage of certificates that sign documents (RFC 9336)."""


@dataclass(frozen=True)
class Identity:
    """A site's certificate (DER) and private key (PKCS #8, DER)."""

    certificate: bytes
    private_key: bytes = field(repr=False)

    @classmethod
    def from_pem(cls, certificate: bytes, private_key: bytes) -> Identity:
        """Read the files of a start-up kit."""
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
            load_pem_private_key,
        )

        key = load_pem_private_key(private_key, password=None)
        return cls(
            load_pem(certificate).public_bytes(Encoding.DER),
            key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate."""
        return hashlib.sha256(self.certificate).hexdigest()

    @property
    def expires(self) -> dt.date:
        """The last day of the certificate."""
        return expiry(self.certificate)

    @cached_property
    def _key(self) -> Any:
        from cryptography.hazmat.primitives.serialization import load_der_private_key

        return load_der_private_key(self.private_key, password=None)

    def check(self, name: str) -> None:
        """Check that certificate and key belong together, and to `name`.

        Raises
        ------
        ValueError
            If they do not.
        """
        from cryptography.x509 import load_der_x509_certificate

        certificate = load_der_x509_certificate(self.certificate)
        if _names_in(certificate) != [name]:
            raise ValueError("the certificate is of another name")
        if certificate.public_key() != self._key.public_key():
            raise ValueError("the key is of another certificate")

    def sign(self, data: bytes) -> bytes:
        """Sign `data`."""
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
        from cryptography.hazmat.primitives.hashes import SHA256

        key = self._key
        if isinstance(key, ed25519.Ed25519PrivateKey):
            return key.sign(data)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return key.sign(data, ec.ECDSA(SHA256()))
        if isinstance(key, rsa.RSAPrivateKey):
            return key.sign(data, _pss(), SHA256())
        raise ProtocolError("the identity's key is neither RSA, EC nor Ed25519", code="identity")


def expiry(certificate: bytes) -> dt.date:
    """Return the last day of a certificate (DER)."""
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(certificate).not_valid_after_utc.date()


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class Trust:
    """Whom a site believes: the consortium's root, and fingerprints it has pinned.

    Parameters
    ----------
    root : bytes
        The root certificate, DER.
    pinned : mapping of str to str
        Site to the SHA-256 of its certificate; empty trusts the root for all.
    clock : callable
        Gives the time at which certificates must be valid.
    """

    root: bytes
    pinned: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], dt.datetime] = _utc_now

    @classmethod
    def from_pem(cls, root: bytes, pinned: Mapping[str, str] | None = None) -> Trust:
        """Read the root's file."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return cls(load_pem(root).public_bytes(Encoding.DER), pinned or {})

    def verify(self, name: str, certificate: bytes, data: bytes, signature: bytes) -> None:
        """Check that the site or coordinator `name` signed `data`.

        Raises
        ------
        ProtocolError
            With the code ``identity``, saying what does not hold.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.x509 import load_der_x509_certificate

        def refuse(why: str) -> ProtocolError:
            return ProtocolError(f"what {name!r} signed is not to be trusted: {why}", "identity")

        try:
            claimed = load_der_x509_certificate(certificate)
            names = _names_in(claimed)
            public = claimed.public_key()
            claimed.verify_directly_issued_by(load_der_x509_certificate(self.root))
        except InvalidSignature:
            raise refuse("its certificate is not of this consortium") from None
        except Exception as error:
            raise refuse(f"its certificate is not readable ({type(error).__name__})") from None
        if names != [name]:
            raise refuse("its certificate is of another name")
        if not is_for_signing(claimed):
            raise refuse("its certificate is not one for signing")
        now, end = self.clock(), claimed.not_valid_after_utc
        if now > end:
            raise refuse(f"its certificate expired on {end.date()}: it needs a new kit")
        if now < claimed.not_valid_before_utc:
            raise refuse("its certificate is not valid yet: compare the clocks")
        pinned = self.pinned.get(name)
        if pinned is not None and pinned != hashlib.sha256(certificate).hexdigest():
            raise refuse("its certificate is not the one pinned by this site's charter or policy")
        if not verifies(public, data, signature):
            raise refuse("its signature is wrong")


def make_consortium(sites: Sequence[str]) -> tuple[dict[str, Identity], Trust]:
    """Make identities for sites of one process: a root that is thrown away, and certificates."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    now = _utc_now()
    root, root_key = "fedrulefit embedded", Ed25519PrivateKey.generate()

    def issue(name: str, key: Ed25519PrivateKey) -> bytes:
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_common_name(name))
            .issuer_name(_common_name(root))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=365))
            .add_extension(x509.ExtendedKeyUsage([x509.ObjectIdentifier(SIGNING)]), critical=True)
            .sign(root_key, None)
        )
        return certificate.public_bytes(Encoding.DER)

    identities = {}
    for site in sites:
        key = Ed25519PrivateKey.generate()
        raw = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        identities[site] = Identity(issue(site, key), raw)
    return identities, Trust(issue(root, root_key))


def _common_name(name: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _names_in(certificate: Certificate) -> list[Any]:
    """Return whose certificate it is; a proper one has one name."""
    from cryptography.x509.oid import NameOID

    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return [part.value for part in names]


def is_for_signing(certificate: Certificate) -> bool:
    """Whether a certificate's key is there to sign documents, and for nothing else."""
    from cryptography import x509

    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return False
    return [purpose.dotted_string for purpose in usage] == [SIGNING]


def load_pem(data: bytes) -> Certificate:
    """Read a certificate in PEM."""
    from cryptography.x509 import load_pem_x509_certificate

    return load_pem_x509_certificate(data)


def _pss() -> Any:
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.hashes import SHA256

    return padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)


def verifies(public: Any, data: bytes, signature: bytes) -> bool:
    """Whether `signature` of `data` was made with the private half of a key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        match public:
            case ed25519.Ed25519PublicKey():
                public.verify(signature, data)
            case ec.EllipticCurvePublicKey():
                public.verify(signature, data, ec.ECDSA(SHA256()))
            case rsa.RSAPublicKey():
                public.verify(signature, data, _pss(), SHA256())
            case _:
                return False
    except InvalidSignature:
        return False
    return True
