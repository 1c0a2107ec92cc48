"""Signed envelopes: between hospitals, who says what.

The network authenticates the two ends of a connection; what comes through the
coordinator's server could still have been sent by another of its clients. So every
message is signed with the sender's identity, for one recipient. Inside, a site is
asked in short calls: *ask* hands over a request and *poll* fetches the answer, so
that a site which dies at work is noticed within seconds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast, get_args

import msgpack

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.protocol.wire import MAX_BYTES, read_value

Call = Literal["hello", "ask", "poll"]
Result = Literal["here", "working", "unknown", "done"]
_KINDS: Final = (*get_args(Call), *get_args(Result))
_SLACK: Final = 1 << 16
"""Bytes that an envelope may have beyond its message."""
_MOST: Final = 64
"""Characters of an instance's name."""

_PARTS: Final = 6
_TEXT: Final = 1024
"""Characters of a text in an envelope."""


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
    instance : str
        Which process of the site says so, so that two with one kit are noticed; empty in
        requests and replies.
    signed : (bytes, bytes)
        Certificate and signature of a letter that was opened: with them others, too, can see
        who wrote it.
    """

    kind: Call | Result
    subject: str = ""
    body: bytes = b""
    instance: str = ""
    signed: tuple[bytes, bytes] = field(default=(b"", b""), compare=False, repr=False)


def sign_letter(letter: Letter, *, sender: Identity, recipient: str) -> bytes:
    """Sign a letter for one recipient, and put it into an envelope."""
    signature = sender.sign(_claim(letter, recipient))
    parts = [letter.kind, letter.subject, letter.body, letter.instance]
    parts += [sender.certificate, signature]
    data: bytes = msgpack.packb(parts)
    return data


def read_signed(data: bytes, *, trust: Trust, sender: str, recipient: str) -> Letter:
    """Open an envelope, if `sender` signed it for `recipient`.

    Raises
    ------
    ProtocolError
        If not.
    """
    if len(data) > MAX_BYTES + _SLACK:
        raise ProtocolError("an envelope is over the limit", "unreadable")
    match unpack_parts(data, _PARTS):
        case [
            str() as kind,
            str() as subject,
            bytes() as body,
            str() as instance,
            bytes() as certificate,
            bytes() as signature,
        ] if kind in _KINDS and len(instance) <= _MOST:
            letter = Letter(cast(Call | Result, kind), subject, body, instance)
        case _:
            raise ProtocolError("an envelope is not readable", "unreadable")
    verify_letter(letter, (certificate, signature), trust=trust, sender=sender, recipient=recipient)
    return replace(letter, signed=(certificate, signature))


def verify_letter(
    letter: Letter, signed: tuple[bytes, bytes], *, trust: Trust, sender: str, recipient: str
) -> None:
    """Check that `sender` signed a letter for `recipient`.

    Raises
    ------
    ProtocolError
        If not.
    """
    certificate, signature = signed
    trust.verify(sender, certificate, _claim(letter, recipient), signature)


def unpack_parts(data: bytes, n_parts: int) -> list[Any] | None:
    """Read a list of single values; None if it is anything else.

    Anybody can send an envelope, so none may hold lists of lists.
    """
    unpacker = msgpack.Unpacker(
        max_ext_len=0,
        max_map_len=0,
        max_array_len=n_parts,
        max_str_len=_TEXT,
        max_buffer_size=max(len(data), 1),
    )
    unpacker.feed(data)
    try:
        if unpacker.read_array_header() != n_parts:
            return None
        parts = [read_value(unpacker, data) for _ in range(n_parts)]
    except Exception:
        return None
    return parts if unpacker.tell() == len(data) else None


def _claim(letter: Letter, recipient: str) -> bytes:
    body = hashlib.sha256(letter.body).digest()
    claim: bytes = msgpack.packb(
        ["fedrulefit letter 2", letter.kind, letter.subject, body, letter.instance, recipient]
    )
    return claim
