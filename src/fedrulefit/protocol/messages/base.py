"""What every message has: a header, and of which kind it is.

Each field of a reply states what it is (a formula) and how it is protected
(:func:`released`); each request states when it may come (:class:`Turn`) and which kind of
release it asks for. Whatever else depends on a message (bytes, ledger rows, the site's checks,
the tables of the documentation) follows from these declarations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final

from fedrulefit.privacy.policy import ReleaseKind
from fedrulefit.study import Settings, Study

__all__ = [
    "NO_PATIENT_DATA",
    "PROTOCOL_VERSION",
    "Header",
    "Message",
    "Refusal",
    "Reply",
    "Request",
    "Turn",
    "blank_header",
]

PROTOCOL_VERSION: Final = 7

NO_PATIENT_DATA: Final = "no patient data"
"""The mechanism of fields that tell nothing of patients."""


class Turn(IntEnum):
    """Requests come in this order; only rounds of the fit, and of refits, repeat."""

    JOIN = 0
    KEYS = 1
    PEERS = 2
    GRID = 3
    SPREADS = 4
    RULES = 5
    VOTES = 6
    TERMS = 7
    FIT = 8
    VARIANT_VOTES = 9
    VARIANTS = 10
    REFIT = 11
    SLOPES = 12
    SUMMARY = 13
    BETWEEN = 14
    MODEL = 15
    EVALUATION = 16
    ADJUST = 17
    OFFER = 18
    RESULTS = 19

    @property
    def repeats(self) -> bool:
        """Whether requests of this turn come again and again."""
        return self in (Turn.FIT, Turn.REFIT, Turn.ADJUST)


def released(formula: str, *, shape: str = "", mechanism: str = "exact") -> Any:
    """Declare a field that leaves the site."""
    return field(metadata={"formula": formula, "shape": shape, "mechanism": mechanism})


def stated(formula: str) -> Any:
    """Declare a field that leaves the site, and tells nothing of its patients."""
    return released(formula, mechanism=NO_PATIENT_DATA)


@dataclass(frozen=True)
class Header:
    """On every message: which version, run, step, site and study it belongs to."""

    version: int
    run: str
    step: int
    site: str
    study: str


def blank_header(site: str) -> Header:
    """Return the header of an answer to something that had none."""
    return Header(PROTOCOL_VERSION, "", 0, site, "")


@dataclass(frozen=True, eq=False)
class Request:
    """What a coordinator asks."""

    turn: ClassVar[Turn | None] = None
    """When it may come; None for whenever its sum is open."""

    release: ClassVar[ReleaseKind | None] = None
    """Which kind of release it asks for; None if nothing of patients."""

    hands_out: ClassVar[bool] = False
    """Whether it changes what the site knows: a restarted site reads it again."""

    masked: ClassVar[bool] = False
    """Whether it is answered under masks, where there are some."""

    in_rounds: ClassVar[bool] = False
    """Whether it is asked again and again, of all terms: a round of the fit."""

    least_sites: ClassVar[int] = 1
    """Fewest sites of a run that ever asks it."""

    wording: ClassVar[str] = ""
    """What is about to leave in answer, for the person who lets it out; empty: as its release."""

    header: Header

    @classmethod
    def asked_in(cls, settings: Settings) -> bool:
        """Whether a run with these settings ever asks it."""
        del settings
        return True

    of_dispersion: ClassVar[bool] = False
    """Whether only a study asks it whose outcome has a dispersion that is learnt."""

    @classmethod
    def asked_by(cls, study: Study) -> bool:
        """Whether a run of this study ever asks it."""
        may = study.family.disperses or not cls.of_dispersion
        return may and cls.asked_in(study.settings)

    by_family: ClassVar[bool] = False
    """Whether what its answer tells depends on the kind of outcome."""

    @classmethod
    def tells(cls, study: Study) -> str:
        """Return what its answer tells of patients, as the privacy bill says it; or nothing."""
        del study
        return ""

    def without_evidence(self) -> Request:
        """Return it without what sites signed for this run: what it asks, in any run."""
        return self

    @property
    def ledger_round(self) -> int | None:
        """The round that the site's ledger names; None if it asks for no round."""
        return None

    @property
    def noted(self) -> dict[str, bytes]:
        """What of it a site notes, so that a later question can be held against it."""
        return {}


@dataclass(frozen=True, eq=False)
class Reply:
    """What a site answers."""

    header: Header


@dataclass(frozen=True, eq=False)
class Refusal(Reply):
    """The site does not answer; `code` is for machines, `reason` for people."""

    code: str = stated("why not, as a code")
    reason: str = stated("why not, in words")


Message = Request | Reply
