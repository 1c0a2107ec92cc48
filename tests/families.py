"""Families of outcomes with some study's public facts: what every family is tested on."""

from __future__ import annotations

from typing import Final

from fedrulefit.core.families import Family, YesNo

EXAMPLES: Final[dict[str, Family]] = {
    "yes/no": YesNo(),
}
"""At least one for each kind; a kind with a choice stands here several times."""
