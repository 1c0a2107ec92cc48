"""Outcomes: what the linear predictor F means, for each kind that a study can have.

A family is one file and one line in :data:`FAMILIES`. Whatever else depends on the kind
of an outcome asks the family of the study: solvers for loss, slope and curvature, trees
for the slope, the certificate for the conjugate, a model for the link, and all that
people read for :class:`~fedrulefit.core.families.base.Words`. How well predictions fit
is for its :class:`~fedrulefit.core.families.judge.Judge`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from fedrulefit.core.families.base import Family, Link, Words
from fedrulefit.core.families.judge import Column, Judge
from fedrulefit.core.families.yesno import YesNo

__all__ = ["FAMILIES", "Column", "Family", "Judge", "Link", "Words", "YesNo", "family_of"]

FAMILIES: Final = MappingProxyType({family.kind: family for family in (YesNo(),)})
"""Every family by the ``kind`` of an outcome in the study file."""


def family_of(kind: str) -> Family:
    """Return the family of an outcome's kind.

    Raises
    ------
    KeyError
        If there is none: a study refuses such a kind before.
    """
    return FAMILIES[kind]
