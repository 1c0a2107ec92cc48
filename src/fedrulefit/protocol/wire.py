"""Messages ↔ bytes, without pickle.

A message is a MessagePack map: the class's name and its fields. Arrays travel
as dtype, shape and little-endian bytes. Rules share most of their conditions, so a
list of rules tells each condition once, as its covariate and 32 bytes of codes, and
of every rule the places of its conditions. Decoding builds nothing but the closed set
of message classes: every field must be there, no other may be, and each must have its
declared type; floats must be finite; lengths are bounded before anything is allocated.

Equal messages have equal bytes, which the site's ledger hashes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import typing
from collections.abc import Callable
from functools import cache, partial
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

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
_RULES: Final = tuple[Rule, ...]
_MESSAGES: Final = {cls.__name__: cls for cls in get_args(messages.Message)}


def to_bytes(message: messages.Message) -> bytes:
    """Return the message's bytes."""
    packed = {"type": type(message).__name__, **_pack_fields(message)}
    data: bytes = msgpack.packb(packed, use_bin_type=True)
    return data


def body_of(message: messages.Message) -> bytes:
    """Return the bytes of a message without its header.

    They follow from what the message means, not from the bytes that it came in: equal for every
    site that is asked the same, and different where one is not.
    """
    body = _pack_fields(message)
    del body["header"]
    data: bytes = msgpack.packb(body, use_bin_type=True)
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
    message: messages.Message = _build_dataclass(cls, packed, cls.__name__)
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


class _Codec(NamedTuple):
    """How values of a declared type travel."""

    pack: Callable[[Any], Any]
    """Turns a value into what MessagePack knows."""
    build: Callable[[Any, str], Any]
    """Builds a value from what was unpacked, or refuses and says where."""


@cache
def _codec(kind: Any) -> _Codec:
    """Return how values of type `kind` travel."""
    origin, kinds = get_origin(kind), get_args(kind)
    if kind == _RULES:
        return _Codec(_pack_rules, _build_rules)
    if dataclasses.is_dataclass(kind):
        return _Codec(_pack_fields, partial(_build_dataclass, typing.cast(type, kind)))
    if origin is np.ndarray:
        return _Codec(_pack_array, partial(_build_array, np.dtype(get_args(kinds[1])[0])))
    if origin is tuple:
        return _Codec(partial(_pack_tuple, kinds), partial(_build_tuple, kinds))
    if origin is Literal:
        return _Codec(_pack_scalar, partial(_build_literal, kinds))
    return _Codec(_pack_scalar, partial(_build_scalar, kind))


@cache
def _field_codecs(cls: type) -> dict[str, _Codec]:
    """Return how the fields of a class travel, in their order."""
    hints = get_type_hints(cls)
    return {field.name: _codec(hints[field.name]) for field in dataclasses.fields(cls)}


def _is_open(kinds: tuple[Any, ...]) -> bool:
    """Whether a tuple of these types may have any length."""
    return len(kinds) == 2 and kinds[1] is Ellipsis


def _pack_fields(value: Any) -> dict[str, Any]:
    codecs = _field_codecs(value.__class__)
    return {name: codec.pack(getattr(value, name)) for name, codec in codecs.items()}


def _pack_tuple(kinds: tuple[Any, ...], value: tuple[Any, ...]) -> list[Any]:
    if _is_open(kinds):
        pack = _codec(kinds[0]).pack
        return [pack(item) for item in value]
    return [_codec(kind).pack(item) for kind, item in zip(kinds, value, strict=True)]


def _pack_array(value: Any) -> list[Any]:
    code = _DTYPES[value.dtype]
    return [code, list(value.shape), value.astype(code, order="C").tobytes()]


def _pack_scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _pack_rules(rules: tuple[Rule, ...]) -> dict[str, Any]:
    """Tell each condition once, in the order in which rules first use them."""
    places: dict[Condition, int] = {}
    used = [[places.setdefault(c, len(places)) for c in rule.conditions] for rule in rules]
    conditions = [[c.feature, c.codes.to_bytes(32, "little")] for c in places]
    return {"conditions": conditions, "rules": used}


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
    if _is_open(kinds):
        build = _codec(kinds[0]).build
        return tuple([build(item, where) for item in packed])
    if len(kinds) != len(packed):
        raise ProtocolError(f"{where}: expected {len(kinds)} entries, got {len(packed)}")
    return tuple(_codec(kind).build(item, where) for kind, item in zip(kinds, packed, strict=True))


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


def _build_rules(packed: Any, where: str) -> tuple[Rule, ...]:
    if not isinstance(packed, dict) or packed.keys() != {"conditions", "rules"}:
        raise ProtocolError(f"{where}: fields missing or unknown")
    told, rules = packed["conditions"], packed["rules"]
    if not isinstance(told, list) or not isinstance(rules, list):
        raise ProtocolError(f"{where}: expected a list")
    # One pass each, in C: rules are many.
    if not set(map(type, rules)) <= {list} or sum(map(len, rules)) > MAX_ITEMS:
        raise ProtocolError(f"{where}: not a list of rules, or too long")
    conditions = [_build_condition(condition, where) for condition in told]
    places = list(chain.from_iterable(rules))
    in_order = list(dict.fromkeys(places)) if set(map(type, places)) <= {int} else None
    # Not a set of conditions: hashes of bytes cannot be made to collide.
    distinct = len({(feature, codes) for feature, codes in told})
    if in_order != list(range(len(conditions))) or distinct < len(conditions):
        raise ProtocolError(f"{where}: conditions must be told once, in the order of their use")
    return tuple([Rule(tuple([conditions[place] for place in rule])) for rule in rules])


def _build_condition(packed: Any, where: str) -> Condition:
    if isinstance(packed, list) and len(packed) == 2:
        feature, codes = packed
        fits = type(feature) is int and type(codes) is bytes and len(codes) == 32
        if fits and 0 <= feature < 2**31:
            return Condition(feature, int.from_bytes(codes, "little"))
    raise ProtocolError(f"{where}: not a condition")


def _build_dataclass(cls: type, packed: Any, where: str) -> Any:
    if not isinstance(packed, dict):
        raise ProtocolError(f"{where}: expected the fields of {cls.__name__}")
    codecs = _field_codecs(cls)
    if packed.keys() != codecs.keys():
        raise ProtocolError(f"{where}: fields missing or unknown")
    values = {name: codec.build(packed[name], f"{where}.{name}") for name, codec in codecs.items()}
    try:
        return cls(**values)
    except ValueError as error:
        raise ProtocolError(f"{where}: {error}") from None
