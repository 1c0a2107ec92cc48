"""The settings of a study as parameters of an estimator.

scikit-learn reads an estimator's parameters off the signature of its ``__init__``.
:func:`takes_settings` makes that signature, and the docstring's list of parameters, from
the fields of :class:`fedrulefit.study.Settings`.
"""

from __future__ import annotations

import inspect
import operator
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
"""Stands in the written docstring where the settings are listed in the finished one."""


def takes_settings(
    elsewhere: Mapping[str, str], settings: type[Settings] = Settings
) -> Callable[[C], C]:
    """Return a decorator that gives an estimator one parameter per setting.

    The ``__init__`` as written has the estimator's own parameters, keyword-only, and
    ``**settings``. It is handed every setting, None where it was not given.

    Parameters
    ----------
    elsewhere : mapping of str to str
        Settings that are no parameters here, and what to do instead.
    settings : type[Settings]
    """

    def decorate(cls: C) -> C:
        written: Callable[..., None] = cls.__init__  # type: ignore[misc]
        signature = add_settings(inspect.signature(written), elsewhere, settings)
        taken = [name for name in settings.model_fields if name not in elsewhere]

        @wraps(written)
        def init(self: Any, **given: Any) -> None:
            for name in given:
                if name not in signature.parameters:
                    raise TypeError(_refuse(cls.__name__, name, signature, elsewhere))
            written(self, **{**dict.fromkeys(taken), **given})

        init.__signature__ = signature  # type: ignore[attr-defined]
        cls.__init__ = init  # type: ignore[misc]
        cls.__doc__ = list_settings(inspect.getdoc(cls) or "", elsewhere, settings)
        return cls

    return decorate


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
