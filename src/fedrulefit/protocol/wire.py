"""Messages ↔ bytes, without pickle.

A message is a MessagePack map: the class's name and its fields. Arrays travel
as dtype, shape and little-endian bytes; a condition as its covariate and 32
bytes of codes. Decoding builds nothing but the closed set of message classes:
every field must be there, no other may be, and each must have its declared
type; floats must be finite; lengths are bounded before anything is allocated.

Equal messages have equal bytes, which the site's ledger hashes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import typing
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgpack
import numpy as np

from fedrulefit.core.rules import Condition
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages

MAX_BYTES: Final = 256 * 2**20
MAX_TEXT: Final = 100_000
MAX_ITEMS: Final = 1_000_000
MAX_FIELDS: Final = 64

_DTYPES: Final = {np.dtype(np.float64): "<f8", np.dtype(np.int64): "<i8"}
_MESSAGES: Final = {cls.__name__: cls for cls in get_args(messages.Message)}


def to_bytes(message: messages.Message) -> bytes:
    """Return the message's bytes."""
    packed = {"type": type(message).__name__, **_pack_fields(message)}
    data: bytes = msgpack.packb(packed, use_bin_type=True)
    return data


def digest(data: bytes) -> str:
    """Return the SHA-256 of a message's bytes."""
    return hashlib.sha256(data).hexdigest()


def from_bytes(data: bytes) -> messages.Message:
    """Check `data` and build the message.

    Raises
    ------
    ProtocolError
        If the bytes are not exactly one well-formed message.
    """
    try:
        return _from_bytes(data)
    except ProtocolError as error:
        raise ProtocolError(
            str(error), error.code if error.code == "version" else "unreadable"
        ) from None


def _from_bytes(data: bytes) -> messages.Message:
    if len(data) > MAX_BYTES:
        raise ProtocolError(f"message of {len(data)} bytes is over the limit of {MAX_BYTES}")
    try:
        packed = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_str_len=MAX_TEXT,
            max_ext_len=0,
            max_array_len=MAX_ITEMS,
            max_map_len=MAX_FIELDS,
        )
    except Exception as error:
        raise ProtocolError(f"message is not readable ({type(error).__name__})") from None
    if not isinstance(packed, dict):
        raise ProtocolError("message is not a map")
    _check_version(packed.get("header"))
    name = packed.pop("type", None)
    cls = _MESSAGES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ProtocolError("message is of an unknown type")
    message: messages.Message = _build(cls, packed, cls.__name__)
    return message


def _check_version(header: Any) -> None:
    """Tell another version's message by its header, before its fields are read."""
    version = header.get("version") if isinstance(header, dict) else None
    if type(version) is int and version != messages.PROTOCOL_VERSION:
        raise ProtocolError(
            f"a message of protocol version {version}, but this program speaks "
            f"{messages.PROTOCOL_VERSION}: install the same version of fedrulefit everywhere",
            "version",
        )


def _pack(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        code = _DTYPES[value.dtype]
        return [code, list(value.shape), value.astype(code, order="C").tobytes()]
    if isinstance(value, Condition):
        return [value.feature, value.codes.to_bytes(32, "little")]
    if dataclasses.is_dataclass(value):
        return _pack_fields(value)
    if isinstance(value, tuple):
        return [_pack(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def _pack_fields(value: Any) -> dict[str, Any]:
    return {f.name: _pack(getattr(value, f.name)) for f in dataclasses.fields(value)}


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(kind: Any, packed: Any, where: str) -> Any:
    """Build a value of type `kind`, or refuse."""
    origin = get_origin(kind)
    if kind is Condition:
        return _build_condition(packed, where)
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast(type, kind), packed, where)
    if origin is np.ndarray:
        return _build_array(np.dtype(get_args(get_args(kind)[1])[0]), packed, where)
    if origin is tuple:
        return _build_tuple(get_args(kind), packed, where)
    if origin is Literal:
        if packed not in get_args(kind):
            raise ProtocolError(f"{where}: unexpected value")
        return packed
    return _build_scalar(kind, packed, where)


def _build_scalar(kind: type, packed: Any, where: str) -> Any:
    if kind is float and type(packed) is int:
        packed = float(packed)
    if type(packed) is not kind:
        raise ProtocolError(f"{where}: expected {kind.__name__}, got {type(packed).__name__}")
    if isinstance(packed, float) and not math.isfinite(packed):
        raise ProtocolError(f"{where}: not a finite number")
    if isinstance(packed, int) and not -(2**63) <= packed < 2**63:
        raise ProtocolError(f"{where}: number out of range")
    return packed


def _build_tuple(kinds: tuple[Any, ...], packed: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(packed, list):
        raise ProtocolError(f"{where}: expected a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(packed)
    if len(kinds) != len(packed):
        raise ProtocolError(f"{where}: expected {len(kinds)} entries, got {len(packed)}")
    return tuple(_build(kind, item, where) for kind, item in zip(kinds, packed, strict=True))


def _build_array(dtype: np.dtype[Any], packed: Any, where: str) -> Any:
    if not isinstance(packed, list) or len(packed) != 3:
        raise ProtocolError(f"{where}: expected an array")
    code, shape, raw = packed
    if code != _DTYPES[dtype] or not isinstance(raw, bytes) or not isinstance(shape, list):
        raise ProtocolError(f"{where}: expected an array of {dtype}")
    if len(shape) != 1 or type(shape[0]) is not int or shape[0] * dtype.itemsize != len(raw):
        raise ProtocolError(f"{where}: the array's shape does not fit its bytes")
    array = np.frombuffer(raw, dtype=code).astype(dtype)
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise ProtocolError(f"{where}: the array holds a number that is not finite")
    return array


def _build_condition(packed: Any, where: str) -> Condition:
    match packed:
        case [int() as feature, bytes() as codes] if (
            type(feature) is int and 0 <= feature < 2**31 and len(codes) == 32
        ):
            return Condition(feature, int.from_bytes(codes, "little"))
    raise ProtocolError(f"{where}: not a condition")


def _build_dataclass(cls: type, packed: Any, where: str) -> Any:
    if not isinstance(packed, dict):
        raise ProtocolError(f"{where}: expected the fields of {cls.__name__}")
    hints = _hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    if set(packed) != set(names):
        raise ProtocolError(f"{where}: fields missing or unknown")
    values = {name: _build(hints[name], packed[name], f"{where}.{name}") for name in names}
    try:
        return cls(**values)
    except ValueError as error:
        raise ProtocolError(f"{where}: {error}") from None
