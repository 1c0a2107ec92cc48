"""The keys of a file in words: what its fields declare is told from here, and nowhere else.

A key's meaning is the ``description`` of its field; type, bounds and default are read off
the field. The documentation, ``fedrulefit study settings``, the estimators' docstrings and
error messages take them from :func:`describe_keys`.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer
from pydantic.fields import FieldInfo

from fedrulefit.study.levels import Level


class Frozen(BaseModel):
    """A part of a study file: it does not change, and has no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Lasting(Frozen):
    """A part whose :attr:`later` keys are not written while they have their default.

    So files that say nothing of them keep the digest that they had before there were such keys.
    """

    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _write(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        facts: dict[str, Any] = write(self)
        fields = type(self).model_fields
        for name in self.later:
            if name in fields and getattr(self, name) == fields[name].default:
                facts.pop(name, None)
        return facts


@dataclass(frozen=True)
class Key:
    """One key of a file, as its field declares it.

    Parameters
    ----------
    name : str
    type, bounds : str
        In words: ``whole number``, and ``≥ 1, ≤ 254``.
    default : str
        As written in the file; ``required`` where there is none, ``none`` where the key may
        be left out.
    meaning : str
        One or more sentences; names stand in single backticks.
    """

    name: str
    type: str
    bounds: str
    default: str
    meaning: str

    @property
    def holds(self) -> str:
        """Type and bounds: ``whole number, ≥ 1, ≤ 254``."""
        return f"{self.type}, {self.bounds}" if self.bounds else self.type


def describe_keys(part: type[BaseModel]) -> tuple[Key, ...]:
    """Return the keys of a part of a file, in their order."""
    return tuple(describe_key(name, field) for name, field in part.model_fields.items())


def describe_key(name: str, field: FieldInfo) -> Key:
    """Return one key in words."""
    default = "required"
    if not field.is_required():
        default = describe_value(field.get_default(call_default_factory=True))
    return Key(
        name,
        describe_type(field.annotation),
        describe_bounds(field),
        default,
        field.description or "",
    )


def describe_value(value: object) -> str:
    """Return a value as it is written in a file; ``none`` for a key that is left out."""
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        return "defaults"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(describe_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def describe_type(hint: Any) -> str:
    """Return a type in short words; None, which means "left out", is not named."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint == Level:
        return "value"
    if origin is Annotated:
        words = describe_type(args[0])
        bounds = describe_bounds(args[1]) if isinstance(args[1], FieldInfo) else ""
        return f"{words}, {bounds}" if bounds else words
    if origin is Literal:
        return " or ".join(map(describe_value, args))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(describe_type(a) for a in args if a is not type(None)))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return f"list of {_in_plural(args[0])}"
        return f"{len(args)} {describe_type(args[0])}s"
    if origin is dict or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        return "table"
    names = {float: "number", int: "whole number", bool: "true/false", str: "text"}
    return names[hint]


def _in_plural(hint: Any) -> str:
    """Return several of a type in short words: ``texts or lists of texts``."""
    several = hint != Level and typing.get_origin(hint) in (Union, types.UnionType)
    members = typing.get_args(hint) if several else (hint,)
    told = (describe_type(member) for member in members)
    words = (f"lists{each[4:]}" if each.startswith("list of") else f"{each}s" for each in told)
    return " or ".join(dict.fromkeys(words))


_BOUNDS = {
    "gt": "> {}",
    "ge": "≥ {}",
    "lt": "< {}",
    "le": "≤ {}",
    "min_length": "at least {}",
    "max_length": "at most {}",
}
"""Attributes of the bounds that pydantic keeps with a field, in words."""


def describe_bounds(field: FieldInfo) -> str:
    """Return the bounds of a field: ``> 0, ≤ 1``."""
    parts = [
        words.format(_number(bound))
        for rule in field.metadata
        for name, words in _BOUNDS.items()
        if (bound := getattr(rule, name, None)) is not None
        if (name, bound) != ("min_length", 1)  # "required" says so
    ]
    return ", ".join(parts)


def _number(bound: float) -> str:
    if bound == 2**63:
        return "2⁶³"
    return f"{bound:,}".replace(",", " ")
