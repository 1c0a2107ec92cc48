"""Messages ↔ bytes, without pickle.

A message is a MessagePack map: the class's name and its fields. Arrays travel
as dtype, shape and little-endian bytes. Rules share most of their conditions, so a
list of rules tells each condition once, as its covariate and 32 bytes of codes, and
of every rule the places of its conditions. Decoding builds nothing but the closed set
of message classes: every field must be there, no other may be, and each must have its
declared type; floats must be finite.

Decoding never builds what a sender wrote and looks at it afterwards. A first walk over the
bytes builds nothing, and finds the message's class; a second one reads part by part what that
class declares. Bytes are bounded by the class, and entries of lists are counted before they
are read, so a message takes a small multiple of its own bytes, whoever made it.

Equal messages have equal bytes, which the site's ledger hashes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgpack
import numpy as np

from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages

MAX_BYTES: Final = 256 * 2**20
"""Most bytes of a message that holds arrays or rules."""

SMALL_BYTES: Final = 2**20
"""Most bytes of any other message."""

MAX_FIELDS: Final = 64
MAX_HEADER: Final = 2**16
MAX_TEXT: Final = 100_000
MAX_ITEMS: Final = 2_000_000
"""Most entries of all lists and maps of a message together."""

_DTYPES: Final = {np.dtype(np.float64): "<f8", np.dtype(np.int64): "<i8"}
_RULES: Final = tuple[Rule, ...]
_MESSAGES: Final[dict[str, type]] = {cls.__name__: cls for cls in messages.MESSAGES}

# What MessagePack's first byte of a part says of its kind; 256 stands for the end.
_END: Final = 256
_KIND: Final = ["other"] * (_END + 1)
_KIND[0x80:0x90] = ["map"] * 16
_KIND[0x90:0xA0] = ["list"] * 16
_KIND[0xDC:0xE0] = ["list", "list", "map", "map"]
_BYTES_HEAD: Final = {0xC4: 2, 0xC5: 3, 0xC6: 5}


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


def question_digest(request: messages.Request) -> bytes:
    """Return a hash of what a request asks: the same for every site and step."""
    front = f"{type(request).__name__}\0{request.header.study}\0".encode()
    return hashlib.sha256(front + body_of(request)).digest()


def read_request(data: bytes) -> messages.Request:
    """Read the bytes of a request.

    Raises
    ------
    ProtocolError
        With the code ``unreadable``, or ``version`` for another version's.
    """
    message = from_bytes(data)
    if not isinstance(message, messages.Request):
        raise ProtocolError("a reply came where a request was due")
    return message


def read_reply(data: bytes) -> messages.Reply:
    """Read the bytes of a reply.

    Raises
    ------
    ProtocolError
        If they are not one.
    """
    message = from_bytes(data)
    if not isinstance(message, messages.Reply):
        raise ProtocolError("a site sent a request where a reply was due")
    return message


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
    _check_size(data, MAX_BYTES)
    cls = _find_type(data)
    _check_size(data, _most_bytes(cls))
    message: messages.Message = _build_fields(cls, _Reader(data), cls.__name__, ("type",))
    return message


def _check_size(data: bytes, most: int) -> None:
    if len(data) > most:
        raise ProtocolError(f"message of {len(data)} bytes is over the limit of {most}")


def _find_type(data: bytes) -> type:
    """Walk over the whole message once, building nothing; return the class that it names."""
    reader = _Reader(data)
    name: Any = None
    for _ in range(reader.open_map("message")):
        field = reader.value("message")
        if field == "type" and not reader.at_container:
            name = reader.value("message")
            continue
        value = reader.skip()
        if field == "header":
            _check_version(value)
    reader.check_end()
    cls = _MESSAGES.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ProtocolError("message is of an unknown type")
    return cls


def _check_version(data: memoryview) -> None:
    """Tell another version's message by its header, before its fields are read."""
    if len(data) > MAX_HEADER:
        raise ProtocolError(f"header of {len(data)} bytes is over the limit of {MAX_HEADER}")
    reader = _Reader(bytes(data))
    for _ in range(reader.open_map("header") if reader.at_map else 0):
        is_version = reader.value("header") == "version" and not reader.at_container
        version = reader.value("header") if is_version else reader.skip()
        if type(version) is int and version != messages.PROTOCOL_VERSION:
            raise ProtocolError(
                f"a message of protocol version {version}, but this program speaks "
                f"{messages.PROTOCOL_VERSION}: install the same version of fedrulefit everywhere",
                "version",
            )


class _Reader:
    """Walks over the bytes of a message, one part at a time.

    Nothing is built but the single values that are asked for, so what a message takes in
    memory follows from the declared classes, not from what its sender wrote.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_ITEMS
        self._unpacker = msgpack.Unpacker(
            raw=False, max_str_len=MAX_TEXT, max_ext_len=0, max_buffer_size=max(len(data), 1)
        )
        self._unpacker.feed(data)

    @property
    def _next(self) -> int:
        """First byte of the next part, which tells its kind."""
        place = self._unpacker.tell()
        return self._data[place] if place < len(self._data) else _END

    @property
    def at_map(self) -> bool:
        """Whether a map comes next."""
        return _KIND[self._next] == "map"

    @property
    def at_container(self) -> bool:
        """Whether a list or a map comes next."""
        return _KIND[self._next] in ("list", "map")

    def open_list(self, where: str) -> int:
        """Go into a list; return its length."""
        if _KIND[self._next] != "list":
            raise ProtocolError(f"{where}: expected a list")
        return self._spend(self._call(self._unpacker.read_array_header), where)

    def open_map(self, where: str) -> int:
        """Go into a map; return its length."""
        if not self.at_map:
            raise ProtocolError(f"{where}: expected a map of fields")
        n: int = self._call(self._unpacker.read_map_header)
        if n > MAX_FIELDS:
            raise ProtocolError(f"{where}: fields missing or unknown")
        return self._spend(n, where)

    def value(self, where: str) -> Any:
        """Return a single value: no list and no map."""
        if self.at_container:
            raise ProtocolError(f"{where}: expected a single value")
        return self._call(self._unpacker.unpack)

    def skip(self) -> memoryview:
        """Go past the next part, whatever it is; return its bytes."""
        start = self._unpacker.tell()
        self._call(self._unpacker.skip)
        return memoryview(self._data)[start : self._unpacker.tell()]

    def raw(self, where: str) -> memoryview:
        """Return the content of a part of plain bytes, without copying it."""
        width = _BYTES_HEAD.get(self._next)
        if width is None:
            raise ProtocolError(f"{where}: expected bytes")
        return self.skip()[width:]

    def check_end(self) -> None:
        """Refuse a message that goes on after its end."""
        if self._unpacker.tell() != len(self._data):
            raise ProtocolError("message is not readable (it goes on after its end)")

    def _spend(self, n: int, where: str) -> int:
        """Count parts before they are read: many small ones take much memory."""
        self._left -= n
        if self._left < 0:
            raise ProtocolError(f"{where}: over {MAX_ITEMS} parts, the message is too long")
        return n

    @staticmethod
    def _call(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:
            raise ProtocolError(f"message is not readable ({type(error).__name__})") from None


def read_value(unpacker: Any, data: bytes) -> Any:
    """Return the next value of `data`, if it is a single one: no list and no map."""
    first = data[unpacker.tell()]
    if first & 0xE0 == 0x80 or 0xDC <= first <= 0xDF:  # a list or a map
        raise ValueError
    return unpacker.unpack()


class _Codec(NamedTuple):
    """How values of a declared type travel."""

    pack: Callable[[Any], Any]
    """Turns a value into what MessagePack knows."""
    build: Callable[[_Reader, str], Any]
    """Reads a value, or refuses and says where."""


@cache
def _codec(kind: Any) -> _Codec:
    """Return how values of type `kind` travel."""
    origin, kinds = get_origin(kind), get_args(kind)
    if kind == _RULES:
        return _Codec(_pack_rules, _build_rules)
    if dataclasses.is_dataclass(kind):
        return _Codec(_pack_fields, partial(_build_fields, typing.cast(type, kind)))
    if origin is np.ndarray:
        return _Codec(_pack_array, partial(_build_array, np.dtype(get_args(kinds[1])[0])))
    if origin is tuple:
        return _Codec(partial(_pack_tuple, kinds), partial(_build_tuple, kinds))
    if origin is Literal:
        return _Codec(_pack_scalar, partial(_build_literal, kinds))
    return _Codec(_pack_scalar, partial(_build_scalar, kind))


def _most_bytes(cls: type) -> int:
    """Return how long a message of a class may be, from what it is declared to hold."""
    return MAX_BYTES if _is_long(cls) else SMALL_BYTES


@cache
def _is_long(kind: Any) -> bool:
    """Whether values of a type hold arrays or rules."""
    if kind == _RULES or get_origin(kind) is np.ndarray:
        return True
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return any(_is_long(hints[field.name]) for field in dataclasses.fields(kind))
    return any(_is_long(part) for part in get_args(kind))


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


def _build_literal(values: tuple[Any, ...], reader: _Reader, where: str) -> Any:
    value = reader.value(where)
    if not isinstance(value, str) or value not in values:
        raise ProtocolError(f"{where}: unexpected value")
    return value


def _build_scalar(kind: type, reader: _Reader, where: str) -> Any:
    value = reader.value(where)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise ProtocolError(f"{where}: expected {kind.__name__}, got {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtocolError(f"{where}: not a finite number")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ProtocolError(f"{where}: number out of range")
    return value


def _build_tuple(kinds: tuple[Any, ...], reader: _Reader, where: str) -> tuple[Any, ...]:
    n = reader.open_list(where)
    if _is_open(kinds):
        build = _codec(kinds[0]).build
        return tuple([build(reader, where) for _ in range(n)])
    if len(kinds) != n:
        raise ProtocolError(f"{where}: expected {len(kinds)} entries, got {n}")
    return tuple([_codec(kind).build(reader, where) for kind in kinds])


def _build_array(dtype: np.dtype[Any], reader: _Reader, where: str) -> Any:
    if reader.open_list(where) != 3:
        raise ProtocolError(f"{where}: expected an array")
    code = reader.value(where)
    if code != _DTYPES[dtype]:
        raise ProtocolError(f"{where}: expected an array of {dtype}")
    length = reader.value(where) if reader.open_list(where) == 1 else None
    raw = reader.raw(where) if type(length) is int else memoryview(b"")
    if type(length) is not int or length * dtype.itemsize != len(raw):
        raise ProtocolError(f"{where}: the array's shape does not fit its bytes")
    array = np.frombuffer(raw, dtype=code).astype(dtype) if length else np.empty(0, dtype)
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise ProtocolError(f"{where}: the array holds a number that is not finite")
    return array


def _build_rules(reader: _Reader, where: str) -> tuple[Rule, ...]:
    if reader.open_map(where) != 2 or reader.value(where) != "conditions":
        raise ProtocolError(f"{where}: fields missing or unknown")
    told = [_build_condition(reader, where) for _ in range(reader.open_list(where))]
    # Not a set of conditions: hashes of bytes cannot be made to collide.
    if len(set(told)) < len(told):
        raise ProtocolError(f"{where}: conditions must be told once, in the order of their use")
    conditions = [Condition(feature, int.from_bytes(codes, "little")) for feature, codes in told]
    if reader.value(where) != "rules":
        raise ProtocolError(f"{where}: fields missing or unknown")
    rules, n_used = [], 0
    for _ in range(reader.open_list(where)):
        places = [reader.value(where) for _ in range(reader.open_list(where))]
        for place in places:
            if type(place) is not int or not 0 <= place <= min(n_used, len(told) - 1):
                raise ProtocolError(
                    f"{where}: conditions must be told once, in the order of their use"
                )
            n_used += place == n_used
        rules.append(Rule(tuple([conditions[place] for place in places])))
    if n_used < len(told):
        raise ProtocolError(f"{where}: conditions must be told once, in the order of their use")
    return tuple(rules)


def _build_condition(reader: _Reader, where: str) -> tuple[int, bytes]:
    if reader.open_list(where) == 2:
        feature, codes = reader.value(where), reader.value(where)
        fits = type(feature) is int and type(codes) is bytes and len(codes) == 32
        if fits and 0 <= feature < 2**31:
            return feature, codes
    raise ProtocolError(f"{where}: not a condition")


def _build_fields(cls: type, reader: _Reader, where: str, besides: tuple[str, ...] = ()) -> Any:
    """Read the fields of a class, in whatever order they stand; `besides` are passed over."""
    codecs = _field_codecs(cls)
    values: dict[str, Any] = {}
    n = reader.open_map(where)
    if n != len(codecs) + len(besides):
        raise ProtocolError(f"{where}: fields missing or unknown")
    for _ in range(n):
        name = reader.value(where)
        if name in besides:
            reader.skip()
        elif not isinstance(name, str) or name not in codecs or name in values:
            raise ProtocolError(f"{where}: fields missing or unknown")
        else:
            values[name] = codecs[name].build(reader, f"{where}.{name}")
    if len(values) < len(codecs):
        raise ProtocolError(f"{where}: fields missing or unknown")
    try:
        return cls(**values)
    except ValueError as error:
        raise ProtocolError(f"{where}: {error}") from None
