"""Everything that can leave a hospital, and everything it can be asked.

One frozen class per arrow; together they are a closed set (:data:`MESSAGES`). What the words of
a message are, who may send it and when, is declared in the class itself
(:mod:`fedrulefit.protocol.messages.base`).
"""

from collections.abc import Iterable
from typing import Final, TypeVar

# Each module says in its ``__all__`` what it gives to this package, and no list here repeats it.
from fedrulefit.protocol.messages.adjust import *
from fedrulefit.protocol.messages.agreement import *
from fedrulefit.protocol.messages.base import *
from fedrulefit.protocol.messages.between import *
from fedrulefit.protocol.messages.dispersion import *
from fedrulefit.protocol.messages.fit import *
from fedrulefit.protocol.messages.own import *
from fedrulefit.protocol.messages.results import *
from fedrulefit.protocol.messages.sums import *

K = TypeVar("K", bound=type)


def _own(kinds: Iterable[K]) -> tuple[K, ...]:
    """Return those that these modules define: a class from elsewhere is no message."""
    return tuple(kind for kind in kinds if kind.__module__.startswith(f"{__name__}."))


SUM_REQUESTS: Final = _own(SumRequest.__subclasses__())
"""Every question whose answers add up."""

REQUESTS: Final[tuple[type[Request], ...]] = tuple(
    sorted(
        [
            kind
            for kind in (*_own(Request.__subclasses__()), *SUM_REQUESTS)
            if kind is not SumRequest
        ],
        key=lambda kind: len(Turn) if kind.turn is None else kind.turn,
    )
)
"""Every question, in the order in which they come."""

MESSAGES: Final[tuple[type[Message], ...]] = (*REQUESTS, *_own(Reply.__subclasses__()))
"""The closed set: nothing else is read or sent."""
