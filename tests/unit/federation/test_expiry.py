"""Certificates that end: said louder and louder, and refused afterwards."""

from __future__ import annotations

import datetime as dt

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.expiry import refuse_expired, warn_of_expiry
from fedrulefit.privacy.identity import make_consortium

TODAY = dt.date(2026, 11, 17)


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (61, None),
        (60, "north expires in 60 days, on 2027-01-16"),
        (31, "expires in 31"),
        (30, "expires soon, in 30"),
        (8, "expires soon, in 8"),
        (7, "EXPIRES in 7"),
        (0, "EXPIRES in 0"),
        (-1, "north EXPIRED on 2026-11-16"),
    ],
)
def test_the_end_of_a_certificate_is_said_louder_and_louder(days: int, words: str | None) -> None:
    said = warn_of_expiry({"north": TODAY + dt.timedelta(days=days)}, TODAY)
    assert len(said) == (words is not None)
    assert words is None or words in said[0]
    only_over = warn_of_expiry({"north": TODAY + dt.timedelta(days=days)}, TODAY, within=-1)
    assert len(only_over) == (days < 0)


def test_an_expired_certificate_does_not_start() -> None:
    identities, _ = make_consortium(["north"])
    refuse_expired("site", identities["north"])

    class Expired:
        expires = dt.date(2020, 1, 1)

    with pytest.raises(FederationError, match="this site expired on 2020-01-01"):
        refuse_expired("site", Expired())  # type: ignore[arg-type]
