"""FLARE's TCP driver with our own TLS, checks and bounds."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
from functools import partial
from typing import Any, Final

from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.connector_info import ConnectorInfo
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver

from fedrulefit.federation.flare.door import HANDSHAKE_SECONDS, Door
from fedrulefit.federation.flare.frames import Connection
from fedrulefit.federation.transport import Wants

log = logging.getLogger(__name__)

LOST_NAMES: Final = 6
"""Failed look-ups of a name after which a carrier begins afresh."""

MOST_CONNECTIONS: Final = 4
"""Of one certificate at the same time; a new one takes the place of the old."""


class Driver(TcpDriver):  # type: ignore[misc]
    """FLARE's TCP driver with our own TLS, checks and bounds."""

    def __init__(self, tls: ssl.SSLContext, names: tuple[str, ...], wants: Wants) -> None:
        super().__init__()
        self._tls, self._names, self._wants = tls, names, wants
        self._failures = 0
        self.listener: socket.socket | None = None
        self.door = Door()

    def listen(self, connector: ConnectorInfo) -> None:
        """Let hospitals in, for ever."""
        self.connector = connector
        if self.listener is None:
            raise CommError(CommError.BAD_CONFIG, "no socket to listen on")
        while True:
            sock, address = self.listener.accept()
            try:
                secured = self._tls.wrap_socket(
                    sock, server_side=True, do_handshake_on_connect=False
                )
            except OSError:  # it has gone already
                sock.close()
                continue
            if not self.door.enter(secured, address[0]):
                secured.close()
                continue
            threading.Thread(target=self._welcome, args=(secured, connector), daemon=True).start()

    def connect(self, connector: ConnectorInfo) -> None:
        """Call the coordinator, and read until the line breaks."""
        self.connector = connector
        host = connector.params[DriverParams.HOST.value]
        port = connector.params[DriverParams.PORT.value]
        try:
            sock = socket.create_connection((host, port), timeout=HANDSHAKE_SECONDS)
            secured = self._tls.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            self._failed(error, f"{host}:{port}")
            raise
        self._failures = 0
        self._read(secured, connector)

    def shutdown(self) -> None:
        """Take no more calls, and close all lines."""
        if self.listener is not None:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)
        self.close_all()

    def _failed(self, error: OSError, address: str) -> None:
        """Say why there is no connection, once in a while."""
        self._failures += 1
        if self._failures in (1, 10) or self._failures % 100 == 0:
            log.warning("no connection to %s: %s; trying on", address, _words(error))
        if isinstance(error, socket.gaierror) and self._failures >= LOST_NAMES:
            # The system may have replaced the files that a confined process was left with.
            log.warning("starting afresh, to look the name up anew")
            os._exit(1)

    def _welcome(self, sock: ssl.SSLSocket, connector: ConnectorInfo) -> None:
        """Ask a caller for its certificate, and read what it sends."""
        try:
            sock.settimeout(self.door.seconds)
            sock.do_handshake()
        except (OSError, ValueError):
            sock.close()
            return
        finally:
            self.door.leave(sock)
        self._read(sock, connector)

    def _read(self, sock: ssl.SSLSocket, connector: ConnectorInfo) -> None:
        name = common_name(sock.getpeercert())
        if name not in self._names:
            log.warning("refused a connection: its certificate is of another name")
            sock.close()
            return
        self._make_room(name)
        connection = Connection(sock, connector, partial(self._wants, name))
        self.add_connection(connection)
        try:
            connection.read_loop()
        finally:
            connection.close()
            self.close_connection(connection)

    def _make_room(self, name: str) -> None:
        """Close the oldest connections of a certificate that has too many."""
        with self.conn_lock:
            mine = [
                connection
                for connection in self.connections.values()
                if connection.conn_props[DriverParams.PEER_CN.value] == name
            ]
        for connection in mine[: max(0, len(mine) - MOST_CONNECTIONS + 1)]:
            log.warning("closed a connection of %s: a newer one took its place", name)
            connection.close()


def common_name(certificate: Any) -> str:
    """Return the one common name of a certificate as Python's ssl tells it, or nothing."""
    parts = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in parts if key == "commonName"]
    return names[0] if len(names) == 1 else ""


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was refused ({error.verify_message})"
    return error.strerror or type(error).__name__
