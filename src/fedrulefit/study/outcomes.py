r"""The outcome that a study names: its kind, its columns, and what is public of it.

In: the table ``[outcome]`` of a study file. Out: one of the classes below, chosen by its ``kind``;
without one it is yes/no. Ranges, bounds and horizons are public: agreed on, never read off the
data. Each class names its columns by their role, and makes the
:class:`~fedrulefit.core.families.base.Family` that learns it.

=============  ==============================  =====================================
kind           columns, by role                in ``Table.outcome``
=============  ==============================  =====================================
yes/no         outcome                         (n_rows,): 1 with the event, 0 without
number         outcome                         (n_rows,): cut to the range
count          outcome, exposure               (n_rows, 2): count, exposure
time           outcome (the time), event,      (n_rows, 3): entry, time, event
               entry
ordered        outcome                         (n_rows,): position of the level
classes        outcome                         (n_rows,): position of the level
=============  ==============================  =====================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.families import make_family
from fedrulefit.study.fields import Lasting
from fedrulefit.study.intervals import increases, place_cuts
from fedrulefit.study.levels import Level, level_key
from fedrulefit.study.sizes import MOST_COUNT, check_range, check_size

if TYPE_CHECKING:
    from fedrulefit.core.families import Family

KINDS: Final = ("yes/no", "number", "count", "time", "ordered", "classes")
"""Every ``kind`` that an outcome can have."""

MAX_INTERVALS: Final = 50
"""Most intervals of the baseline of a time: more have too few events each."""

INSTANT: Final = 1000
"""Nobody is followed for less than the last horizon divided by this: no time at risk, no risk."""

_LABEL: Final = "The outcome in words, for tables and figures."
_COLUMN: Final = "Column of the outcome."


class _Outcome(Lasting):
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


class YesNoOutcome(_Outcome):
    """A patient has the outcome, or has not; and which of its values is the event."""

    kind: Literal["yes/no"] = Field(
        default="yes/no", description="Says that a patient has the outcome, or has not."
    )
    column: str = Field(min_length=1, description=_COLUMN)
    positive: Level = Field(default=1, description="The value of patients **with** the event.")
    negative: Level = Field(default=0, description="The value of patients without it.")
    label: str = Field(default="", description=_LABEL)
    expected_rate: tuple[float, float] | None = Field(
        default=None,
        description="Lowest and highest share of events that a site may plausibly have. Finds "
        "reversed coding.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_two_values(self.positive, self.negative)
        if self.expected_rate is not None:
            low, high = self.expected_rate
            if not 0 <= low < high <= 1:
                raise ValueError("'expected_rate' must be two shares, e.g. [0.05, 0.40]")
        return self

    @property
    def averages(self) -> bool:
        """It can: it is the paper's."""
        return True

    @property
    def definition(self) -> str:
        """The column, and which value is the event."""
        return f"column “{self.column}”, event {self.positive!r}, otherwise {self.negative!r}"

    def family(self) -> Family:
        """Return the logistic family."""
        return _make(self.kind)


class NumberOutcome(_Outcome):
    """A measured number with a public range, such as a length or a score."""

    kind: Literal["number"] = Field(
        default="number", description="Says that the outcome is a number."
    )
    column: str = Field(min_length=1, description=_COLUMN)
    range: tuple[float, float] = Field(
        description="Lowest and highest value, **public**: agreed on from the literature, never "
        "read off the data. Values beyond count at the nearer end."
    )
    unit: str = Field(default="", description="Unit, shown with predictions.")
    step: float | None = Field(
        default=None,
        gt=0,
        description="Values are multiples of this, such as 1 for a score.",
    )
    robust: bool = Field(
        default=False,
        description="False: the mean is predicted (squared error). True: a value far from its "
        "prediction counts less (pseudo-Huber loss), for outcomes with outliers.",
    )
    outlier: float | None = Field(
        default=None,
        gt=0,
        description="With `robust`: from which error on, in the unit. Left out, a twentieth of "
        "the range.",
    )
    label: str = Field(default="", description=_LABEL)

    @model_validator(mode="after")
    def _check(self) -> Self:
        low, high = self.range
        check_range(low, high, self.outlier)
        if self.step is not None and self.step > high - low:
            raise ValueError("'step' must not be larger than the range")
        return self

    @property
    def numeric(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.column,)

    @property
    def counts_events(self) -> bool:
        """Nobody is with or without a number."""
        return False

    @property
    def averages(self) -> bool:
        """It can where large errors count linearly."""
        return self.robust

    @property
    def definition(self) -> str:
        """The column and its range."""
        low, high = self.range
        return f"column “{self.column}”, {low:g} to {high:g} {self.unit}".rstrip()

    def family(self) -> Family:
        """Return the family of numbers in this range."""
        low, high = self.range
        return _make(
            "number",
            low,
            high,
            robust=self.robust,
            outlier=self.outlier,
            unit=self.unit,
            step=self.step,
        )


class CountOutcome(_Outcome):
    """How often something happened to a patient, over a time or another exposure."""

    later = ("dispersion",)

    kind: Literal["count"] = Field(default="count", description="Says that the outcome is a count.")
    column: str = Field(min_length=1, description="Column of the counts: whole numbers from 0.")
    most: int = Field(
        ge=1,
        le=MOST_COUNT,
        description="Largest count of a row, **public**. Larger ones count as this.",
    )
    exposure: str | None = Field(
        default=None,
        min_length=1,
        description="Column of the time, or whatever else, over which was counted. Leave it out "
        "where it is the same for all.",
    )
    max_exposure: float | None = Field(
        default=None,
        gt=0,
        description="Largest exposure of a row, **public**; required with `exposure`.",
    )
    per: float = Field(
        default=1.0, gt=0, description="Rates are told per so much exposure, such as 100."
    )
    exposure_unit: str = Field(default="", description='Unit of the exposure, such as `"days"`.')
    unit: str = Field(default="", description='What is counted, such as `"admissions"`.')
    dispersion: Literal["poisson", "negative-binomial"] = Field(
        default="poisson",
        description='`"poisson"`: counts vary about their mean μ by μ. `"negative-binomial"`: by '
        "μ + μ²/θ, as most counts in medicine; θ is learnt from sums, and public with the model.",
    )
    label: str = Field(default="", description=_LABEL)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.exposure is not None and self.max_exposure is None:
            raise ValueError("'exposure' needs 'max_exposure': its largest value, public")
        if self.exposure is None and self.max_exposure is not None:
            raise ValueError("'max_exposure' is the bound of 'exposure', which is not given")
        check_size("'max_exposure'", self.max_exposure or 1.0)
        check_size("'per'", self.per)
        return self

    @property
    def counts_events(self) -> bool:
        """Patients have several events, or none."""
        return False

    @property
    def columns(self) -> dict[str, str]:
        """The counts, and the exposure if there is one."""
        more = {} if self.exposure is None else {"exposure": self.exposure}
        return {"outcome": self.column, **more}

    @property
    def numeric(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(self.columns.values())

    @property
    def definition(self) -> str:
        """The column of counts, and that of their exposure."""
        over = f" over “{self.exposure}” ({self.exposure_unit})" if self.exposure else ""
        return f"column “{self.column}”, a count{over.replace(' ()', '')}, at most {self.most}"

    def family(self) -> Family:
        """Return the family of counts up to this bound."""
        return _make(
            "count",
            self.most,
            max_exposure=1.0 if self.max_exposure is None else self.max_exposure,
            per=self.per,
            unit=self.unit,
            exposure_unit=self.exposure_unit,
            negative_binomial=self.dispersion == "negative-binomial",
        )


class TimeOutcome(_Outcome):
    """The time to an event, which may come after the follow-up of a patient has ended."""

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
    label: str = Field(default="", description=_LABEL)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_two_values(self.positive, self.negative)
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
        return (
            f"time “{self.time}”{late}, event “{self.event}” {self.positive!r}, otherwise "
            f"{self.negative!r}; followed to {end} at most"
        )

    def family(self) -> Family:
        """Return the family of times with these intervals and horizons."""
        return _make("time", self.inner_cuts, self.horizons, unit=self.unit)


class _LevelledOutcome(_Outcome):
    """One of three levels or more."""

    column: str = Field(min_length=1, description=_COLUMN)
    levels: tuple[Level, ...] = Field(
        min_length=3,
        max_length=MAX_CODES,
        description="All levels that any site may have; where they have an order, the lowest "
        "first.",
    )
    label: str = Field(default="", description=_LABEL)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(map(level_key, self.levels))) != len(self.levels):
            raise ValueError("'levels' names one level twice (1, 1.0 and \"1\" are the same)")
        return self

    @property
    def definition(self) -> str:
        """The column and its levels."""
        return f"column “{self.column}”, {', '.join(str(level) for level in self.levels)}"

    def family(self) -> Family:
        """Return the family of these levels."""
        return _make(self.kind, tuple(str(level) for level in self.levels))


class OrderedOutcome(_LevelledOutcome):
    """One of a few levels in an order, such as the modified Rankin scale."""

    kind: Literal["ordered"] = Field(
        default="ordered", description="Says that the outcome has levels in an order."
    )


class ClassesOutcome(_LevelledOutcome):
    """One of a few levels in no order, such as where a patient is discharged to."""

    kind: Literal["classes"] = Field(
        default="classes", description="Says that the outcome has levels in no order."
    )


def _tell_kind(outcome: object) -> str:
    """Return by which class an outcome is read; of an unknown kind, yes/no says what is wrong."""
    told = outcome.get("kind") if isinstance(outcome, Mapping) else getattr(outcome, "kind", None)
    return told if isinstance(told, str) and told in KINDS else "yes/no"


AnyOutcome: TypeAlias = Annotated[
    Annotated[YesNoOutcome, Tag("yes/no")]
    | Annotated[NumberOutcome, Tag("number")]
    | Annotated[CountOutcome, Tag("count")]
    | Annotated[TimeOutcome, Tag("time")]
    | Annotated[OrderedOutcome, Tag("ordered")]
    | Annotated[ClassesOutcome, Tag("classes")],
    Discriminator(_tell_kind),
]
"""An outcome of any kind."""

Outcome = YesNoOutcome
"""The name that yes/no outcomes had while there was no other kind."""


def _check_two_values(positive: Level, negative: Level) -> None:
    if level_key(positive) == level_key(negative):
        raise ValueError(
            "'positive' and 'negative' are the same value: give the value of "
            "patients with the event as 'positive' and the other as 'negative'"
        )


def _make(kind: str, *args: Any, **facts: Any) -> Family:
    """Return the family of a kind; it is loaded when a study first asks for it."""
    return make_family(kind, *args, **facts)
