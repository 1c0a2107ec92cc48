"""What outcomes of all kinds have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import field_validator, model_validator

from fedrulefit.core.families import make_family
from fedrulefit.study.fields import Lasting
from fedrulefit.study.levels import Level, level_key

if TYPE_CHECKING:
    from fedrulefit.core.families import Family

KINDS: Final = ("yes/no", "number", "count", "time", "ordered", "classes")
"""Every ``kind`` that an outcome can have."""

LABEL: Final = "The outcome in words, for tables and figures."
COLUMN: Final = "Column of the outcome."


class OutcomeBase(Lasting):
    """What all kinds have in common."""

    kind: str

    if TYPE_CHECKING:  # fields of each kind, at a place of their own: the digest keeps their order

        @property
        def column(self) -> str:
            """The column of the outcome."""

        @property
        def label(self) -> str:
            """The outcome in words."""

    @field_validator("kind", mode="before")
    @classmethod
    def _check_kind(cls, kind: object) -> object:
        if kind not in KINDS:
            raise ValueError(f"'kind' must be one of {', '.join(KINDS)}")
        return kind

    @property
    def columns(self) -> dict[str, str]:
        """The columns by their role; the first is ``outcome``."""
        return {"outcome": self.column}

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        return ()

    @property
    def averages(self) -> bool:
        """Whether the paper's solver can learn it: a patient's slope has a bound of its own."""
        return False

    @property
    def has_direction(self) -> bool:
        """Whether one prediction can be above another for all that it tells."""
        return True

    @property
    def counts_events(self) -> bool:
        """Whether patients have it or have not, and are told so as counts."""
        return True

    @property
    def title(self) -> str:
        """The outcome in words: its label, or the name of its column."""
        return self.label or self.column

    @property
    def name(self) -> str:
        """The same as :attr:`title`."""
        return self.title

    @property
    def definition(self) -> str:
        """The columns and what they mean, in a clause."""
        raise NotImplementedError

    def family(self) -> Family:
        """Return what the linear predictor means for this outcome."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        roles: dict[str, str] = {}
        for role, column in self.columns.items():
            if column in roles:
                raise ValueError(f"{roles[column]} and {role} name the same column")
            roles[column] = role
        return self


def check_two_values(positive: Level, negative: Level) -> None:
    """Refuse one value for patients with the event and without it."""
    if level_key(positive) == level_key(negative):
        raise ValueError(
            "'positive' and 'negative' are the same value: give the value of "
            "patients with the event as 'positive' and the other as 'negative'"
        )


def make_of_kind(kind: str, *args: Any, **facts: Any) -> Family:
    """Return the family of a kind; it is loaded when a study first asks for it."""
    return make_family(kind, *args, **facts)
