"""Families of outcomes with some study's public facts: what every family is tested on."""

from __future__ import annotations

from typing import Final

from fedrulefit.core.families import Family, YesNo
from fedrulefit.core.families.classes import Classes
from fedrulefit.core.families.competing import Competing
from fedrulefit.core.families.count import Count
from fedrulefit.core.families.number import Number
from fedrulefit.core.families.ordered import Ordered
from fedrulefit.core.families.time import Time

EXAMPLES: Final[dict[str, Family]] = {
    "yes/no": YesNo(),
    "number": Number(0.0, 10.0, unit="mmol/L"),
    "number, robust": Number(-40.0, 120.0, robust=True),
    "count": Count(50, max_exposure=365.0, per=365.0, unit="visits", exposure_unit="days"),
    "count, negative binomial": Count(
        50,
        max_exposure=365.0,
        per=365.0,
        unit="visits",
        exposure_unit="days",
        negative_binomial=True,
        dispersion=0.4,
    ),
    "time": Time((30.0, 120.0), (365.0,), unit="days"),
    "competing": Competing((30.0, 120.0), (365.0,), ("death", "transplant"), unit="days"),
    "classes": Classes(("home", "rehab", "hospice")),
    "ordered": Ordered(("none", "mild", "severe", "dead")),
}
"""At least one for each kind; a kind with a choice stands here several times."""
