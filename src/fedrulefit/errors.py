"""The errors a user can meet.

Each message says what is wrong, where, and what to do. None contains a
patient's value: tests in ``tests/disclosure`` check that.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError


class FedRuleFitError(ValueError):
    """Base of all errors raised on purpose by fedrulefit."""


class StudyError(FedRuleFitError):
    """The study file contradicts itself or cannot be read."""


class DataError(FedRuleFitError):
    """A site's table does not fit the study."""


class ProtocolError(FedRuleFitError):
    """A message came at the wrong time, from the wrong study, or malformed.

    Parameters
    ----------
    message : str
    code : str
        The same for machines; ``docs/protocol.md`` lists all codes.
    """

    def __init__(self, message: str, code: str = "bad-request") -> None:
        super().__init__(message)
        self.code = code


class PolicyError(FedRuleFitError):
    """A site's policy file contradicts itself or cannot be read."""


class LedgerError(FedRuleFitError):
    """A ledger is damaged: its chain of hashes does not hold."""


class FederationError(FedRuleFitError):
    """A federation is not set up, not running, or out of reach."""


class FitError(FedRuleFitError):
    """The model could not be fitted with these settings."""


class ModelFileError(FedRuleFitError):
    """A model file is damaged, hostile, or of another version."""


class BaselineWarning(UserWarning):
    """A model expects a hospital's own baseline, and predicts without one."""


class ReadingWarning(UserWarning):
    """How an estimator read a column is a guess, or deserves a look."""


def get_extra(extra: str) -> str:
    """Return how to install an extra: from a clone, while no package is published."""
    return f"""in the folder of fedrulefit's source: pip install -e ".[{extra}]\""""


MOST_WORDS: Final = 500
"""Most characters of another's text that are shown."""

MOST_FAULTS: Final = 50
"""Most faults of a file that are listed."""


def printable(text: str, keep: str = "") -> str:
    """Escape control characters and turns of direction, which could steer a terminal."""
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def one_line(text: str, most: int = MOST_WORDS) -> str:
    """Return what somebody else wrote on one line, escaped and not too long.

    So a refusal cannot imitate lines of the program itself.
    """
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[:most]}…"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a name that is not known, and the known one that it is close to, if any."""
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f": did you mean {close[0]!r}?" if close else ""
    return f"{one_line(name, 100)!r}{hint}"


def explain(error: ValidationError, heading: str, whole: str = "file") -> str:
    """Turn pydantic's list of faults into one line per fault, under a heading.

    `whole` names what a fault is in that is not in one place.
    """
    lines = [heading]
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    for fault in faults[:MOST_FAULTS]:
        place = [str(part) for part in fault["loc"]]
        if place[:1] == ["covariates"]:
            del place[2:3]  # pydantic repeats the kind after the covariate's name
        if place[:1] == ["outcome"]:
            del place[1:2]  # and after the outcome
        if place[-1:] and place[-1].startswith(("literal[", "constrained-")):
            del place[-1]  # and names the members of a union
        message = fault["msg"].removeprefix("Value error, ")
        lines.append(f"  {one_line('.'.join(place)) or whole}: {message}")
    if len(faults) > MOST_FAULTS:
        lines.append(f"  and {len(faults) - MOST_FAULTS} more")
    return "\n".join(lines)
