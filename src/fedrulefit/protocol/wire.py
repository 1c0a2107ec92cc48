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
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgpack
import numpy as np

from fedrulefit.core.rules import Condition, Rule
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


def body_of(message: messages.Message, data: bytes) -> bytes:
    """Return what of a message's bytes stands behind its type and header.

    The same for every site that is asked the same.
    """
    front = {"type": type(message).__name__, "header": _pack_fields(message.header)}
    return data[len(msgpack.packb(front, use_bin_type=True)) :]


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
    packer = _PACKERS.get(type(value))
    if packer is not None:
        return packer(value)
    if dataclasses.is_dataclass(value):
        return _pack_fields(value)
    return value.item() if isinstance(value, np.generic) else value


def _pack_array(value: Any) -> list[Any]:
    code = _DTYPES[value.dtype]
    return [code, list(value.shape), value.astype(code, order="C").tobytes()]


def _pack_condition(value: Condition) -> list[Any]:
    return [value.feature, value.codes.to_bytes(32, "little")]


def _pack_rule(value: Rule) -> dict[str, Any]:
    return {"conditions": [_pack_condition(condition) for condition in value.conditions]}


def _pack_fields(value: Any) -> dict[str, Any]:
    return {name: _pack(getattr(value, name)) for name in _names(value.__class__)}


_PACKERS: Final[dict[type, Callable[[Any], Any]]] = {
    np.ndarray: _pack_array,
    Condition: _pack_condition,
    Rule: _pack_rule,  # as any dataclass, only faster: rules are many
    tuple: lambda value: [_pack(item) for item in value],
}


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


Builder = Callable[[Any, str], Any]
"""Builds a value from what was unpacked, or refuses and says where."""


def _build(kind: Any, packed: Any, where: str) -> Any:
    """Build a value of type `kind`, or refuse."""
    return _builder(kind)(packed, where)


@cache
def _builder(kind: Any) -> Builder:
    """Return what builds values of type `kind`."""
    origin = get_origin(kind)
    if kind in _BUILDERS:
        return _BUILDERS[kind]
    if dataclasses.is_dataclass(kind):
        return partial(_build_dataclass, typing.cast(type, kind))
    if origin is np.ndarray:
        return partial(_build_array, np.dtype(get_args(get_args(kind)[1])[0]))
    if origin is tuple:
        return partial(_build_tuple, get_args(kind))
    if origin is Literal:
        return partial(_build_literal, get_args(kind))
    return partial(_build_scalar, kind)


def _build_literal(values: tuple[Any, ...], packed: Any, where: str) -> Any:
    if not isinstance(packed, str) or packed not in values:
        raise ProtocolError(f"{where}: unexpected value")
    return packed


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
        build = _builder(kinds[0])
        return tuple([build(item, where) for item in packed])
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
    if isinstance(packed, list) and len(packed) == 2:
        feature, codes = packed
        fits = type(feature) is int and type(codes) is bytes and len(codes) == 32
        if fits and 0 <= feature < 2**31:
            return _make_condition(feature, codes)
    raise ProtocolError(f"{where}: not a condition")


@lru_cache(maxsize=10_000)
def _make_condition(feature: int, codes: bytes) -> Condition:
    """Make a condition, or return an equal one: rules share most of theirs."""
    return Condition(feature, int.from_bytes(codes, "little"))


def _build_rule(packed: Any, where: str) -> Rule:
    if not isinstance(packed, dict) or packed.keys() != {"conditions"}:
        raise ProtocolError(f"{where}: fields missing or unknown")
    conditions = packed["conditions"]
    if not isinstance(conditions, list):
        raise ProtocolError(f"{where}: expected a list")
    return Rule(tuple([_build_condition(condition, where) for condition in conditions]))


_BUILDERS: Final[dict[type, Builder]] = {
    Condition: _build_condition,
    Rule: _build_rule,  # as any dataclass, only faster: rules are many
}


def _build_dataclass(cls: type, packed: Any, where: str) -> Any:
    if not isinstance(packed, dict):
        raise ProtocolError(f"{where}: expected the fields of {cls.__name__}")
    builders = _field_builders(cls)
    if packed.keys() != builders.keys():
        raise ProtocolError(f"{where}: fields missing or unknown")
    values = {name: build(packed[name], f"{where}.{name}") for name, build in builders.items()}
    try:
        return cls(**values)
    except ValueError as error:
        raise ProtocolError(f"{where}: {error}") from None


@cache
def _field_builders(cls: type) -> dict[str, Builder]:
    hints = get_type_hints(cls)
    return {name: _builder(hints[name]) for name in _names(cls)}
