"""FLARE's communicator as a :class:`Transport`: endpoints known by their certificates."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from nvflare.fuel.f3.cellnet.identity import CellIdentityResolver
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.communicator import Communicator
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.endpoint import Endpoint, EndpointMonitor, EndpointState
from nvflare.fuel.f3.message import Message, MessageReceiver
from nvflare.fuel.f3.sfm.constants import Types
from nvflare.fuel.f3.sfm.prefix import Prefix

from fedrulefit.federation.flare.driver import Driver
from fedrulefit.federation.flare.frames import APP
from fedrulefit.federation.transport import OnBytes, OnGone, Transport, Wants

log = logging.getLogger(__name__)


class _Names(CellIdentityResolver):  # type: ignore[misc]
    """An endpoint has the name of its certificate, and no other."""

    def require_match(self, fqcn: str, peer_cn: str, peer_desc: str) -> None:
        if not peer_cn or fqcn != _endpoint(peer_cn):
            raise ValueError("an endpoint with a name that is not its certificate's")


def _endpoint(name: str) -> str:
    """Return the name that FLARE knows an endpoint by: it gives dots a meaning, we do not."""
    return name.encode().hex()


class _Bounded(ThreadPoolExecutor):
    """A pool that takes nothing in before it has room: what is not taken stays unread.

    Greetings are handled at once, so that no envelope overtakes them; heartbeats too, so that
    who reads no answer to them holds up its own line and no worker.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, "frames")
        self._room = threading.Semaphore(2 * workers)

    def submit(self, task: Callable[..., Any], /, *facts: Any, **named: Any) -> Future[Any]:
        if Prefix.from_bytes(facts[-1]).type != Types.DATA:
            task(*facts, **named)
            return Future()
        self._room.acquire()
        future = super().submit(task, *facts, **named)
        future.add_done_callback(lambda _: self._room.release())
        return future


class Wire(Transport, MessageReceiver, EndpointMonitor):  # type: ignore[misc]
    """One end of the network, as FLARE's communicator has it."""

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        tls: ssl.SSLContext,
        *,
        wants: Wants,
        on_bytes: OnBytes,
        on_gone: OnGone,
    ) -> None:
        self._names = {_endpoint(other): other for other in names}
        self._on_bytes, self._on_gone = on_bytes, on_gone
        self.driver = Driver(tls, names, wants)
        me = Endpoint(_endpoint(name), properties={}, conn_props={})
        self.communicator = Communicator(me, _Names(_endpoint(name)))
        self.communicator.conn_manager.frame_mgr_executor = _Bounded(8)
        self.communicator.register_message_receiver(APP, self)
        self.communicator.register_monitor(self)

    def listen(self, listener: socket.socket) -> None:
        """Take calls on a socket."""
        self.driver.listener = listener
        self._start(Mode.PASSIVE, "", listener.getsockname()[1])

    def call(self, host: str, port: int) -> None:
        """Call the coordinator, and again whenever the line breaks."""
        self._start(Mode.ACTIVE, host, port)

    def _start(self, mode: Mode, host: str, port: int) -> None:
        params = {
            DriverParams.SCHEME.value: "stcp",  # by which FLARE knows to check names
            DriverParams.URL.value: f"stcp://{host}:{port}",
            DriverParams.HOST.value: host,
            DriverParams.PORT.value: port,
        }
        self.communicator.add_connector_advanced(self.driver, mode, params, secure=True)
        self.communicator.start()

    def stop(self) -> None:
        """End all lines and threads."""
        self.communicator.stop()

    def send(self, name: str, payload: bytes) -> bool:
        """Send bytes to `name`; return whether they went out."""
        endpoint = self.communicator.find_endpoint(_endpoint(name))
        if endpoint is None or endpoint.state != EndpointState.READY:
            return False
        try:
            self.communicator.send(endpoint, APP, Message(None, payload))
        except CommError:
            return False
        return True

    def process_message(
        self, endpoint: Endpoint, connection: Any, app_id: int, message: Message
    ) -> None:
        """Hand on what came (FLARE calls this)."""
        name = self._names.get(endpoint.name)
        if name is not None and message.payload is not None:
            self._on_bytes(name, message.payload)

    def state_change(self, endpoint: Endpoint) -> None:
        """Tell that a line broke (FLARE calls this)."""
        name = self._names.get(endpoint.name)
        if name is not None:
            log.info("%s is %s", name, "here" if endpoint.state == EndpointState.READY else "gone")
            if endpoint.state != EndpointState.READY:
                self._on_gone(name)
