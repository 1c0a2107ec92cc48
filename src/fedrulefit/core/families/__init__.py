"""Outcomes: what the linear predictor F means, for each kind that a study can have.

A family is one file and one line in :data:`FAMILIES`. Whatever else depends on the kind
of an outcome asks the family of the study: solvers for loss, slope and curvature, trees
for the slope, the certificate for the conjugate, a model for the link and the words
(:class:`~fedrulefit.core.families.base.Words`), an evaluation for the
:class:`~fedrulefit.core.families.judge.Judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fedrulefit.core.families.base import Family, Words
    from fedrulefit.core.families.judge import Column, Judge
    from fedrulefit.core.families.link import Link
    from fedrulefit.core.families.yesno import YesNo

__all__ = ["FAMILIES", "Column", "Family", "Judge", "Link", "Words", "YesNo", "make_family"]

_HOMES: Final = {
    "Column": "fedrulefit.core.families.judge",
    "Judge": "fedrulefit.core.families.judge",
    "Family": "fedrulefit.core.families.base",
    "Link": "fedrulefit.core.families.link",
    "Words": "fedrulefit.core.families.base",
    "YesNo": "fedrulefit.core.families.yesno",
}


class _Families(Mapping[str, "type[Family]"]):
    """Families by the kind of an outcome; each loads when it is first asked for."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes

    def __getitem__(self, kind: str) -> type[Family]:
        module, _, name = self._homes[kind].partition(":")
        found: type[Family] = getattr(import_module(module), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


FAMILIES: Final = _Families(
    {
        "yes/no": "fedrulefit.core.families.yesno:YesNo",
        "number": "fedrulefit.core.families.number:Number",
        "count": "fedrulefit.core.families.count:Count",
        "time": "fedrulefit.core.families.time:Time",
        "competing": "fedrulefit.core.families.competing:Competing",
        "ordered": "fedrulefit.core.families.ordered:Ordered",
        "classes": "fedrulefit.core.families.classes:Classes",
    }
)
"""Every family by the ``kind`` of an outcome in the study file; a study makes it with the public
facts that it states of the outcome."""


def make_family(kind: str, *args: Any, **facts: Any) -> Family:
    """Return the family of an outcome's kind, with the public facts that a study states.

    Raises
    ------
    KeyError
        If this version has none for the kind.
    """
    return FAMILIES[kind](*args, **facts)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedrulefit.core.families' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
