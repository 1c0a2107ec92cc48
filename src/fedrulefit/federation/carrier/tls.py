"""A carrier's TLS, and the port that the coordinator's listens on."""

from __future__ import annotations

import socket
import ssl

from fedrulefit.errors import FederationError
from fedrulefit.federation.kits.kit import CERTIFICATE, KEY, ROOT, Kit
from fedrulefit.files import passing_file


def make_tls(kit: Kit) -> ssl.SSLContext:
    """Return TLS 1.3 with certificates on both sides, of this consortium's root only."""
    leads = kit.side == "coordinator"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if leads else ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.check_hostname = not leads
    if leads:
        tls.num_tickets = 0  # each connection shows its certificate
    tls.load_verify_locations(cadata=kit.files[ROOT].decode("ascii"))
    with passing_file(kit.files[CERTIFICATE] + kit.files[KEY]) as path:
        tls.load_cert_chain(path)
    return tls


def open_listener(kit: Kit) -> socket.socket:
    """Listen on the coordinator's port: all addresses, or this machine's own for localhost."""
    local = kit.coordinator == "localhost"
    both = not local and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(
            ("127.0.0.1" if local else "", kit.port),
            family=socket.AF_INET6 if both else socket.AF_INET,
            dualstack_ipv6=both,
            backlog=256,
        )
    except OSError as error:
        raise FederationError(f"cannot listen on port {kit.port}: {error.strerror}") from None
