"""Certificates that end: spoken of in time, and refused afterwards."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final

from fedrulefit.errors import FederationError
from fedrulefit.privacy.identity import Identity, Trust, expiry

SOON: Final = (60, 30, 7)
"""Days before its end from which on a certificate is spoken of, more and more loudly."""

_LOUDER: Final = ("expires in", "expires soon, in", "EXPIRES in")


def warn_of_expiry(
    certificates: Mapping[str, dt.date], today: dt.date | None = None, within: int = SOON[0]
) -> list[str]:
    """Say which certificates have expired or soon will.

    Parameters
    ----------
    certificates : mapping of str to date
        Whose ("this site's certificate"), and its last day.
    today : date, optional
    within : int
        Days before the end from which on it is said; -1 says only what is over.
    """
    today = today or dt.datetime.now(dt.UTC).date()
    said = []
    for whose, end in certificates.items():
        days = (end - today).days
        if days < 0:
            said.append(f"{whose} EXPIRED on {end}: it needs a new kit ('federation init --renew')")
        elif days <= within:
            how = _LOUDER[sum(days <= limit for limit in SOON) - 1]
            said.append(f"{whose} {how} {days} days, on {end}: ask for new kits in time")
    return said


def own_certificates(role: str, identity: Identity, trust: Trust) -> dict[str, dt.date]:
    """Return the last days of the owner's certificate, and of the root's."""
    return {
        f"the certificate of this {role}": identity.expires,
        "the consortium's root certificate": expiry(trust.root),
    }


def refuse_expired(role: str, identity: Identity) -> None:
    """Refuse to start with a certificate that nobody believes any more."""
    today = dt.datetime.now(dt.UTC).date()
    if identity.expires < today:
        raise FederationError(
            f"the certificate of this {role} expired on {identity.expires}: nobody would believe "
            "it. Ask the consortium's authority for a new kit ('federation init --renew')"
        )
