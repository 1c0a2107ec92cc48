"""Families of outcomes with some study's public facts: what every family is tested on."""

from __future__ import annotations

from typing import Final

from fedrulefit.core.families import Family, YesNo
from fedrulefit.core.families.number import Number

EXAMPLES: Final[dict[str, Family]] = {
    "yes/no": YesNo(),
    "number": Number(0.0, 10.0, unit="mmol/L"),
    "number, robust": Number(-40.0, 120.0, robust=True),
}
"""At least one for each kind; a kind with a choice stands here several times."""
