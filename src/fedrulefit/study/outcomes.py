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
time           outcome (the time), event,      (n_rows, 3): entry, time, event: 1, 2 and
               entry                           so on with competing ones, in their order
ordered        outcome                         (n_rows,): position of the level
classes        outcome                         (n_rows,): position of the level
=============  ==============================  =====================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.study.levels import Level, level_key
from fedrulefit.study.outcome_base import (
    COLUMN,
    KINDS,
    LABEL,
    OutcomeBase,
    check_two_values,
    make_of_kind,
)
from fedrulefit.study.outcome_time import TimeOutcome
from fedrulefit.study.sizes import MOST_COUNT, check_range, check_size

if TYPE_CHECKING:
    from fedrulefit.core.families import Family


class YesNoOutcome(OutcomeBase):
    """A patient has the outcome, or has not; and which of its values is the event."""

    kind: Literal["yes/no"] = Field(
        default="yes/no", description="Says that a patient has the outcome, or has not."
    )
    column: str = Field(min_length=1, description=COLUMN)
    positive: Level = Field(default=1, description="The value of patients **with** the event.")
    negative: Level = Field(default=0, description="The value of patients without it.")
    label: str = Field(default="", description=LABEL)
    expected_rate: tuple[float, float] | None = Field(
        default=None,
        description="Lowest and highest share of events that a site may plausibly have. Finds "
        "reversed coding.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_two_values(self.positive, self.negative)
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
        return make_of_kind(self.kind)


class NumberOutcome(OutcomeBase):
    """A measured number with a public range, such as a length or a score."""

    kind: Literal["number"] = Field(
        default="number", description="Says that the outcome is a number."
    )
    column: str = Field(min_length=1, description=COLUMN)
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
    label: str = Field(default="", description=LABEL)

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
        return make_of_kind(
            "number",
            low,
            high,
            robust=self.robust,
            outlier=self.outlier,
            unit=self.unit,
            step=self.step,
        )


class CountOutcome(OutcomeBase):
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
    label: str = Field(default="", description=LABEL)

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
        return make_of_kind(
            "count",
            self.most,
            max_exposure=1.0 if self.max_exposure is None else self.max_exposure,
            per=self.per,
            unit=self.unit,
            exposure_unit=self.exposure_unit,
            negative_binomial=self.dispersion == "negative-binomial",
        )


class _LevelledOutcome(OutcomeBase):
    """One of three levels or more."""

    column: str = Field(min_length=1, description=COLUMN)
    levels: tuple[Level, ...] = Field(
        min_length=3,
        max_length=MAX_CODES,
        description="All levels that any site may have; where they have an order, the lowest "
        "first.",
    )
    label: str = Field(default="", description=LABEL)

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
        return make_of_kind(self.kind, tuple(str(level) for level in self.levels))


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

    @property
    def has_direction(self) -> bool:
        """What makes one class more probable makes others less."""
        return False


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
