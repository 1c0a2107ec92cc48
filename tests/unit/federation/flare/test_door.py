"""What a connection may do before it has shown a certificate."""

from __future__ import annotations

import pytest

from fedrulefit.federation.flare import door


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_addresses_of_one_party_count_together(one: str, other: str, near: bool) -> None:
    assert (door._neighbourhood(one) == door._neighbourhood(other)) is near
