"""Signed envelopes: between hospitals, who says what.

The network authenticates the two ends of a connection; what comes through the
coordinator's server could still have been sent by another of its clients. So every
message is signed with the sender's identity, for one recipient. Inside, a site is
asked in short calls: *ask* hands over a request and *poll* fetches the answer, so
that a site which dies at work is noticed within seconds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

import msgpack

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.protocol.wire import MAX_BYTES

Call = Literal["hello", "ask", "poll"]
Result = Literal["here", "working", "unknown", "done"]
_KINDS: Final = (*get_args(Call), *get_args(Result))
_SLACK: Final = 1 << 16
"""Bytes that an envelope may have beyond its message."""


@dataclass(frozen=True)
class Letter:
    """What an envelope holds.

    Parameters
    ----------
    kind : str
        What is wanted, or how far the site is.
    subject : str
        Hash of the request that this is about; empty for a greeting.
    body : bytes
        The request, or the reply.
    """

    kind: Call | Result
    subject: str = ""
    body: bytes = b""


def close(letter: Letter, *, sender: Identity, recipient: str) -> bytes:
    """Sign a letter for one recipient, and put it into an envelope."""
    signature = sender.sign(_claim(letter, recipient))
    parts = [letter.kind, letter.subject, letter.body, sender.certificate, signature]
    data: bytes = msgpack.packb(parts)
    return data


def unseal(data: bytes, *, trust: Trust, sender: str, recipient: str) -> Letter:
    """Open an envelope, if `sender` signed it for `recipient`.

    Raises
    ------
    ProtocolError
        If not.
    """
    if len(data) > MAX_BYTES + _SLACK:
        raise ProtocolError("an envelope is over the limit", "unreadable")
    match _unpack(data):
        case [
            str() as kind,
            str() as subject,
            bytes() as body,
            bytes() as certificate,
            bytes() as signature,
        ] if kind in _KINDS:
            letter = Letter(cast(Call | Result, kind), subject, body)
        case _:
            raise ProtocolError("an envelope is not readable", "unreadable")
    trust.verify(sender, certificate, _claim(letter, recipient), signature)
    return letter


def _unpack(data: bytes) -> Any:
    try:
        return msgpack.unpackb(
            data, max_ext_len=0, max_map_len=0, max_array_len=8, max_str_len=1024
        )
    except Exception:
        return None


def _claim(letter: Letter, recipient: str) -> bytes:
    body = hashlib.sha256(letter.body).digest()
    claim: bytes = msgpack.packb(
        ["fedrulefit letter 1", letter.kind, letter.subject, body, recipient]
    )
    return claim
