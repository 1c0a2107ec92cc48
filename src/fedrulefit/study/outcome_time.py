"""The time to an event as an outcome, with the events that compete with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, model_validator

from fedrulefit.study.intervals import increases, place_cuts
from fedrulefit.study.levels import Level, level_key
from fedrulefit.study.outcome_base import LABEL, OutcomeBase, check_two_values, make_of_kind
from fedrulefit.study.sizes import check_size

if TYPE_CHECKING:
    from fedrulefit.core.families import Family

MAX_INTERVALS: Final = 50
"""Most intervals of the baseline of a time: more have too few events each."""

INSTANT: Final = 1000
"""Nobody is followed for less than the last horizon divided by this: no time at risk, no risk."""


class TimeOutcome(OutcomeBase):
    """The time to an event, which may come after the follow-up of a patient has ended."""

    later = ("competing",)

    kind: Literal["time"] = Field(
        default="time", description="Says that the outcome is a time to an event."
    )
    time: str = Field(
        min_length=1,
        description="Column of the time to the event, or to the end of follow-up, from the same "
        "start for all.",
    )
    event: str = Field(
        min_length=1, description="Column that says whether the event came at that time."
    )
    positive: Level = Field(default=1, description="The value of `event` where it came.")
    negative: Level = Field(
        default=0, description="The value of `event` where follow-up ended without it."
    )
    competing: dict[str, Level] = Field(
        default={},
        description="Other events that end the follow-up and forestall the one of interest, such "
        "as death before a readmission: a name for each, and its value of `event`. Risks then are "
        "cumulative incidences, and each event has rules of its own. Left out, the follow-up of "
        "such patients ends without the event.",
    )
    entry: str | None = Field(
        default=None,
        min_length=1,
        description="Column of the time at which a patient came under observation, where that is "
        "after the start. Leave it out where all are followed from the start.",
    )
    unit: str = Field(default="", description='Unit of all times, such as `"days"`.')
    horizons: tuple[float, ...] = Field(
        min_length=1,
        max_length=MAX_INTERVALS,
        description="The times by which a risk is told, increasing, **public**. Follow-up ends at "
        "the last, which is the main one: the model predicts the risk by then.",
    )
    cuts: tuple[float, ...] | None = Field(
        default=None,
        max_length=MAX_INTERVALS - 1,
        description="Times between which the rate of events of patients without any rule is "
        "taken as constant, **public**, increasing, between 0 and the last horizon; every other "
        "horizon is one of them. Left out, they follow from `intervals` and `horizons`.",
    )
    intervals: int = Field(
        default=8,
        ge=1,
        le=MAX_INTERVALS,
        description="How many such intervals there are, where `cuts` does not say. They are "
        "shorter at the start.",
    )
    label: str = Field(default="", description=LABEL)

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_two_values(self.positive, self.negative)
        self._check_competing()
        *others, last = self.horizons
        if self.horizons[0] <= 0 or not increases(self.horizons):
            raise ValueError("'horizons' must increase, and be above 0")
        check_size("the last of 'horizons'", last)
        if self.cuts is None:
            if self.intervals < len(self.horizons):
                raise ValueError("'intervals' must be at least as many as 'horizons'")
            return self
        if not increases(self.cuts) or any(not 0 < cut < last for cut in self.cuts):
            raise ValueError("'cuts' must increase, and lie between 0 and the last horizon")
        if not set(others) <= set(self.cuts):
            raise ValueError("'cuts' must hold every horizon but the last")
        return self

    @property
    def has_direction(self) -> bool:
        """Whether no event forestalls another: a risk falls as the hazard of others rises."""
        return not self.competing

    def _check_competing(self) -> None:
        values = [self.negative, self.positive, *self.competing.values()]
        if len(set(map(level_key, values))) < len(values):
            raise ValueError(
                "'competing' names a value twice, or that of 'positive' or 'negative': each event "
                "has a value of its own"
            )
        for name in self.competing:
            if not name.strip() or name[0].isdigit() or name == self.cause:
                raise ValueError(
                    "the names in 'competing' must begin with a letter, and differ from that of "
                    f"the event of interest, {self.cause!r}: it is 'label', or else 'positive'"
                )

    @property
    def cause(self) -> str:
        """The event of interest in words, among competing ones."""
        return self.label or str(self.positive)

    @property
    def causes(self) -> tuple[str, ...]:
        """The event of interest, and those that compete with it; empty where none do."""
        return (self.cause, *self.competing) if self.competing else ()

    @property
    def values(self) -> tuple[Level, ...]:
        """The values of `event`: of none, of the event of interest, of competing ones."""
        return (self.negative, self.positive, *self.competing.values())

    @property
    def columns(self) -> dict[str, str]:
        """The time, the event, and the entry if there is one."""
        more = {} if self.entry is None else {"entry": self.entry}
        return {"outcome": self.time, "event": self.event, **more}

    @property
    def column(self) -> str:
        """The column of the time."""
        return self.time

    @property
    def title(self) -> str:
        """The event in words: its label, or its column, and what it says where that is a word."""
        value = level_key(self.positive)
        return self.label or (self.event if value in ("1", "true") else f"{self.event} = {value}")

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns of times."""
        return (self.time,) if self.entry is None else (self.time, self.entry)

    @property
    def inner_cuts(self) -> tuple[float, ...]:
        """The times between 0 and the last horizon at which one interval ends and another begins.

        Those of the study, or such that follow from its horizons.
        """
        return place_cuts(self.horizons, self.intervals) if self.cuts is None else self.cuts

    @property
    def instant(self) -> float:
        """The shortest time that a patient counts as followed."""
        return self.horizons[-1] / INSTANT

    @property
    def definition(self) -> str:
        """The columns, which value is the event, and where follow-up ends."""
        late = f", from “{self.entry}” on" if self.entry else ""
        end = f"{self.horizons[-1]:g} {self.unit}".rstrip()
        rivals = ", ".join(f"{name} {value!r}" for name, value in self.competing.items())
        more = f", competing events {rivals}" if rivals else ""
        return (
            f"time “{self.time}”{late}, event “{self.event}” {self.positive!r}{more}, otherwise "
            f"{self.negative!r}; followed to {end} at most"
        )

    def family(self) -> Family:
        """Return the family of times with these intervals and horizons."""
        if self.competing:
            facts = (self.inner_cuts, self.horizons, self.causes)
            return make_of_kind("competing", *facts, unit=self.unit)
        return make_of_kind("time", self.inner_cuts, self.horizons, unit=self.unit)
