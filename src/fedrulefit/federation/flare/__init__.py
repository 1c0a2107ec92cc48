"""NVIDIA FLARE as a transport: its messaging layer, and nothing above it.

Of FLARE we use the *communicator*: endpoints known by their certificates, reconnection
with growing pauses, heartbeats, and frames of bytes over one TLS connection. FLARE's
client and server applications, which register shell, deployment, job, administration and
network-manager commands, are never started, nor even loaded; nor are its cells, which have
channels and topics, forward for others, and decode objects by class name. So there are no
topics here: a frame goes to an application *number*, and we register one.

What we put around it:

* our own TLS 1.3, with certificates on both sides that say what they are for; the name in
  the certificate must be one of the consortium, and is the only name that counts;
* a frame is judged by its first 16 bytes, before anything is read or decoded: greetings
  and heartbeats of at most a kilobyte, and after a greeting envelopes up to the largest.
  Anything else closes the connection (``frames.py``);
* an envelope that nobody waits for is passed over, byte by byte, without being kept;
* a door that bounds the connections which have not shown a certificate yet (``door.py``).

Only this package imports nvflare (the extra ``flare``), and only a carrier's
process imports this package.
"""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from types import ModuleType


def load_messaging_only() -> None:
    """Let parts of nvflare be imported without the package's own opening.

    That opening loads FLARE's whole application, with shell commands and job runners,
    and what decodes objects by class name. None of it would be used; so it is not there.
    """
    spec = find_spec("nvflare")
    if "nvflare" in sys.modules or spec is None:
        return
    bare = ModuleType("nvflare")
    bare.__spec__, bare.__path__ = spec, list(spec.submodule_search_locations or ())
    sys.modules["nvflare"] = bare


# Here, so that whatever imports FLARE through us imports no more than this.
load_messaging_only()
# A line that breaks is told by us, once in a while; FLARE tells every try, in its own words.
logging.getLogger("nvflare").setLevel(logging.CRITICAL)
