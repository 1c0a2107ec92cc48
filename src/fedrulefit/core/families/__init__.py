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
    from fedrulefit.core.families.base import Family, Link, Words
    from fedrulefit.core.families.judge import Column, Judge
    from fedrulefit.core.families.yesno import YesNo

__all__ = ["FAMILIES", "Column", "Family", "Judge", "Link", "Words", "YesNo", "family_of"]

_HOMES: Final = {
    "Column": "fedrulefit.core.families.judge",
    "Judge": "fedrulefit.core.families.judge",
    "Family": "fedrulefit.core.families.base",
    "Link": "fedrulefit.core.families.base",
    "Words": "fedrulefit.core.families.base",
    "YesNo": "fedrulefit.core.families.yesno",
}


class _Families(Mapping[str, "Family"]):
    """Families by the kind of an outcome; each loads when it is first asked for."""

    def __init__(self, homes: dict[str, str]) -> None:
        self._homes = homes
        self._made: dict[str, Family] = {}

    def __getitem__(self, kind: str) -> Family:
        if kind not in self._made:
            module, _, name = self._homes[kind].partition(":")
            self._made[kind] = getattr(import_module(module), name)()
        return self._made[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


FAMILIES: Final = _Families(
    {
        "yes/no": "fedrulefit.core.families.yesno:YesNo",
    }
)
"""Every family by the ``kind`` of an outcome in the study file."""


def family_of(kind: str) -> Family:
    """Return the family of an outcome's kind.

    Raises
    ------
    KeyError
        If there is none: a study refuses such a kind before.
    """
    return FAMILIES[kind]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedrulefit.core.families' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
