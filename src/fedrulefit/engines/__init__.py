"""Engines move messages between the coordinator and the sites.

:data:`ENGINES` knows all by name. A new one is one file with a subclass of
:class:`~fedrulefit.engines.base.Engine`; :mod:`fedrulefit.testing.engines` says whether it is
right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fedrulefit.errors import FitError
from fedrulefit.registry import Choice, Registry

if TYPE_CHECKING:
    from fedrulefit.engines.base import Engine

DEFAULT: Final = "inprocess"

ENGINES: Final[Registry[Engine]] = Registry(
    "engine",
    "fedrulefit.engines",
    FitError,
    {DEFAULT: Choice("fedrulefit.engines.inprocess:InProcess")},
)
"""All engines, by name."""
