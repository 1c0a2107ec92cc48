"""A hostile party of a consortium that speaks FLARE's own frames, with a stolen TLS key."""

from __future__ import annotations

import select
import socket
import ssl
import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgpack
from nvflare.fuel.f3.cellnet import net_agent
from nvflare.fuel.f3.cellnet.defs import (
    CellChannel,
    CellChannelTopic,
    MessageHeaderKey,
    MessageType,
)
from nvflare.fuel.f3.sfm.constants import HandshakeKeys, Types
from nvflare.fuel.f3.sfm.prefix import PREFIX_LEN, PREFIX_STRUCT, Prefix
from nvflare.private import defs

from fedrulefit.federation.flare.frames import APP

CELLS = 1
"""The application number of FLARE's cells."""

SHELL = (CellChannel.CLIENT_MAIN, defs.SysCommandTopic.SHELL)
DEPLOY = (CellChannel.CLIENT_MAIN, defs.TrainingTopic.DEPLOY)
PROCESSES = ("_net_manager", "process_info")


def _words(*classes: Any) -> list[str]:
    found = [value for cls in classes for key, value in vars(cls).items() if key[0] != "_"]
    return sorted({value for value in found if isinstance(value, str)})


def all_topics() -> list[tuple[str, str]]:
    """Every topic that FLARE's programs register, in its channel; and some in all channels."""
    admin = _words(
        defs.InfoCollectorTopic, defs.ComponentCallerTopic, defs.TrainingTopic,
        defs.SysCommandTopic, defs.ControlCommandTopic,
    )  # fmt: skip
    net = [value for key, value in vars(net_agent).items() if key.startswith("_TOPIC_")]
    registered = {
        CellChannel.CLIENT_MAIN: admin,
        CellChannel.SERVER_MAIN: _words(CellChannelTopic),
        CellChannel.CELLNET: ["bulk", "bye"],
        "_net_manager": net,
        "credential_manager": ["key_exchange"],
    }
    everywhere = [SHELL[1], DEPLOY[1], PROCESSES[1], "*"]
    channels = [*_words(CellChannel), *registered, "*"]
    pairs = [(c, topic) for c in channels for topic in [*registered.get(c, []), *everywhere]]
    return list(dict.fromkeys(pairs))


def make_tls(kit: Any, *, listens: bool = False) -> ssl.SSLContext:
    """TLS with the key of a kit's part; trusts anybody."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    tls.load_cert_chain(kit.folder / "certificate.pem", kit.folder / "key.pem")
    return tls


class Peer:
    """A connection in the hand of somebody hostile."""

    def __init__(self, sock: ssl.SSLSocket) -> None:
        self.sock = sock
        sock.settimeout(5.0)

    @classmethod
    def call(cls, tls: ssl.SSLContext, port: int) -> Peer:
        sock = socket.create_connection(("127.0.0.1", port), timeout=5.0)
        return cls(tls.wrap_socket(sock))

    def send(
        self,
        kind: int,
        payload: bytes = b"",
        *,
        app: int = 0,
        headers: dict[str, Any] | None = None,
        length: int | None = None,
    ) -> None:
        head = msgpack.packb(headers) if headers else b""
        total = PREFIX_LEN + len(head) + len(payload) if length is None else length
        self.sock.sendall(
            PREFIX_STRUCT.pack(total, len(head), kind, 0, 0, app, 0, 0) + head + payload
        )

    def greet(self, name: str, *, listens: bool = False) -> None:
        words = {HandshakeKeys.ENDPOINT_NAME: name, HandshakeKeys.TIMESTAMP: time.time()}
        self.send(Types.READY if listens else Types.HELLO, msgpack.packb({**words, "fqcn": name}))

    def request(self, me: str, to: str, channel: str, topic: str, body: bytes) -> None:
        """Ask as FLARE's cells do."""
        headers = {
            MessageHeaderKey.MSG_TYPE: MessageType.REQ,
            MessageHeaderKey.REQ_ID: str(uuid.uuid4()),
            MessageHeaderKey.REPLY_EXPECTED: True,
            MessageHeaderKey.CHANNEL: channel,
            MessageHeaderKey.TOPIC: topic,
            MessageHeaderKey.ORIGIN: me,
            MessageHeaderKey.FROM_CELL: me,
            MessageHeaderKey.DESTINATION: to,
            MessageHeaderKey.TO_CELL: to,
            MessageHeaderKey.PAYLOAD_ENCODING: "bytes",
        }
        self.send(Types.DATA, body, app=CELLS, headers=headers)

    def frames(self, seconds: float) -> Iterator[tuple[Prefix, bytes]]:
        """Give what comes, until the other end closes or the time is over."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self.sock.pending() and not select.select([self.sock], [], [], left)[0]:
                return
            head = self._read(PREFIX_LEN)
            if head is None:
                return
            prefix = Prefix.from_bytes(head)
            yield prefix, self._read(prefix.length - PREFIX_LEN) or b""

    def answers(self, seconds: float = 2.0) -> list[bytes]:
        """Return all that is no greeting, no heartbeat and no call of the coordinator itself."""
        small = (Types.HELLO, Types.READY, Types.PING, Types.PONG)
        return [
            body
            for prefix, body in self.frames(seconds)
            if prefix.type not in small and not (prefix.app_id == APP and body[:1] == b"\0")
        ]

    def is_closed(self, seconds: float = 5.0) -> bool:
        """Whether the other end hangs up in time."""
        for _ in self.frames(seconds):
            pass
        self.sock.settimeout(0.2)
        try:
            return self.sock.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def _read(self, length: int) -> bytes | None:
        data = b""
        while len(data) < length:
            try:
                part = self.sock.recv(length - len(data))
            except OSError:
                return None
            if not part:
                return None
            data += part
        return data

    def close(self) -> None:
        self.sock.close()
