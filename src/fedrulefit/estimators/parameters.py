"""The parameters of an estimator: those of its parts, and the settings of a study.

scikit-learn reads an estimator's parameters off the signature of its ``__init__``.
:func:`takes_settings` makes that signature, and the docstring's list of parameters, from
the classes that the estimator is made of and the fields of :class:`fedrulefit.study.Settings`.
"""

from __future__ import annotations

import inspect
import operator
import re
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from functools import reduce, wraps
from inspect import Parameter
from typing import Any, TypeVar

from fedrulefit.errors import did_you_mean
from fedrulefit.study import Settings, describe_settings

C = TypeVar("C", bound=type)

_PLACE = "**settings"
"""Stands in the written docstring where parameters are listed in the finished one."""

_FITTED = "**attributes"
"""The same, of what a fitted estimator has."""


def takes_settings(
    elsewhere: Mapping[str, str], settings: type[Settings] = Settings
) -> Callable[[C], C]:
    """Return a decorator that gives an estimator one parameter per setting.

    Each ``__init__`` as written has the parameters that its class adds, keyword-only, and
    ``**settings``, which it hands on. The last is handed every setting, None where it was not
    given. The docstring of each class lists what it adds.

    Parameters
    ----------
    elsewhere : mapping of str to str
        Settings that are no parameters here, and what to do instead.
    settings : type[Settings]
    """

    def decorate(cls: C) -> C:
        written: Callable[..., None] = cls.__init__  # type: ignore[misc]
        signature = add_settings(_join_signatures(cls), elsewhere, settings)
        taken = [name for name in settings.model_fields if name not in elsewhere]

        @wraps(written)
        def init(self: Any, **given: Any) -> None:
            for name in given:
                if name not in signature.parameters:
                    raise TypeError(_refuse(cls.__name__, name, signature, elsewhere))
            written(self, **{**dict.fromkeys(taken), **given})

        init.__signature__ = signature  # type: ignore[attr-defined]
        cls.__init__ = init  # type: ignore[misc]
        cls.__doc__ = _list_inherited(cls, _PLACE, "Parameters", keep=True)
        cls.__doc__ = _list_inherited(cls, _FITTED, "Attributes")
        cls.__doc__ = list_settings(cls.__doc__, elsewhere, settings)
        return cls

    return decorate


def _writers(cls: type) -> list[type]:
    """Return the classes that an estimator is made of, the most general first."""
    return [base for base in reversed(cls.__mro__) if "__init__" in vars(base)][1:]


def _join_signatures(cls: type) -> inspect.Signature:
    """Return the signature with the parameters of all classes that `cls` is made of."""
    found: dict[str, Parameter] = {}
    for base in _writers(cls):
        found |= inspect.signature(vars(base)["__init__"]).parameters
    return inspect.Signature(sorted(found.values(), key=lambda parameter: parameter.kind))


def _list_inherited(cls: type, place: str, section: str, *, keep: bool = False) -> str:
    """Return the docstring with a section of those of all bases at a place; `keep` the place."""
    doc = inspect.getdoc(cls) or ""
    listed = [_read_section(base, section) for base in _writers(cls) if base is not cls]
    lines = [*filter(None, listed), *([place] if keep else [])]
    return doc.replace(place, "\n".join(lines))


def _read_section(cls: type, section: str) -> str:
    """Return the entries of a section of a class's own docstring."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    start = rf"^{section}\n-+\n"
    found = re.search(rf"{start}(.*?)(?=\n\n|\Z)", doc, flags=re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def add_settings(
    signature: inspect.Signature, elsewhere: Mapping[str, str], settings: type[Settings]
) -> inspect.Signature:
    """Return the signature with a parameter per setting in place of ``**settings``."""
    own = [p for p in signature.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    added = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=None, annotation=_plain(field.annotation) | None
        )
        for name, field in settings.model_fields.items()
        if name not in elsewhere
    ]
    return signature.replace(parameters=[*own, *added])


def list_settings(doc: str, elsewhere: Mapping[str, str], settings: type[Settings]) -> str:
    """Return the docstring with numpydoc's list of the settings in place of ``**settings``."""
    lines = []
    for setting in describe_settings(settings):
        if setting.name in elsewhere:
            continue
        field = settings.model_fields[setting.name]
        bounds = f" ({setting.bounds})" if setting.bounds else ""
        lines.append(f"{setting.name} : {_name_type(_plain(field.annotation))}, optional")
        lines += textwrap.wrap(setting.meaning, 88, initial_indent="    ", subsequent_indent="    ")
        lines.append(f"    Preset `default`: {field.default!r}{bounds}.")
    return doc.replace(_PLACE, "\n".join(lines))


def _refuse(
    owner: str, name: str, signature: inspect.Signature, elsewhere: Mapping[str, str]
) -> str:
    if name in elsewhere:
        return f"{owner} has no parameter {name!r}: {elsewhere[name]}"
    known = [known for known in signature.parameters if known != "self"]
    return f"{owner} has no parameter {did_you_mean(name, known)}"


def _plain(hint: Any) -> Any:
    """Return a type without the bounds inside it."""
    args = typing.get_args(hint)
    match typing.get_origin(hint):
        case typing.Annotated:
            return args[0]
        case typing.Union | types.UnionType:
            return reduce(operator.or_, map(_plain, args))
    return hint


def _name_type(hint: Any) -> str:
    """Return a type as numpydoc writes it: ``{"min", "1se"}``, ``float or "cv"``."""
    args = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    match typing.get_origin(hint):
        case typing.Literal:
            values = [f'"{value}"' for value in args]
            return f"{{{', '.join(values)}}}" if len(values) > 1 else values[0]
        case typing.Union | types.UnionType:
            return " or ".join(map(_name_type, args))
    return str(getattr(hint, "__name__", hint))
