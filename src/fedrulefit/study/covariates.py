"""The columns that a study names beside the outcome: covariates, a weight, and the patient.

Ranges and levels are public: each covariate turns them into the bins of its histogram
(paper 2.2.1).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.bins import Bins, Style
from fedrulefit.core.ladder import log_round_edges, round_edges
from fedrulefit.study.fields import Frozen, Lasting
from fedrulefit.study.levels import Level, level_key

DIRECTION = Field(
    default=None,
    description='`"up"`: the prediction (risk, expected value, hazard) never falls as this rises, '
    'all other values the same; `"down"`: it never rises. Speaks of known values only. Not for '
    "classes and competing events, of which none is above the others.",
)
"""Of covariates whose values have an order."""

Direction = Literal["up", "down"]


class _Covariate(Lasting):
    later: ClassVar[tuple[str, ...]] = ("direction", "keep")

    label: str = Field(default="", description="For people.")
    note: str = Field(default="", description="For people.")
    complete: bool = Field(
        default=False,
        description="True: a missing value is an error in a site's table, and leaves a patient "
        "without a prediction. False: it is allowed.",
    )
    missing: tuple[Level, ...] = Field(
        default=(),
        description='Codes that stand for a missing value, such as `[-9, "unknown"]`. Empty '
        "cells always do.",
    )
    keep: bool = Field(
        default=False,
        description="True: always in the model, without a penalty: a number's, or yes/no's, "
        "linear term; of a category, a term for every level but the first.",
    )


class Number(_Covariate):
    """A measured number with a public range."""

    kind: Literal["number"] = Field(default="number", description="Says that this is a number.")
    range: tuple[float, float] = Field(
        description="Lowest and highest value, **public**: agreed on from the literature, never "
        "read off the data. In learning, values beyond count at the nearer end; in a prediction, "
        "as `unusual` says."
    )
    unit: str = Field(default="", description="Unit, shown in rules.")
    spacing: Literal["linear", "log"] = Field(
        default="linear",
        description="How histogram bins are spaced. `log` suits skewed laboratory values: fine "
        "where values are small. Its range must start above 0.",
    )
    step: float | None = Field(
        default=None,
        gt=0,
        description="Values are multiples of this, such as 1 for a score. So are cut-offs, so that "
        "rules read well.",
    )
    cutoffs: tuple[float, ...] | None = Field(
        default=None,
        description="Fixed cut-offs, such as clinical thresholds. They replace estimated ones.",
    )
    direction: Direction | None = DIRECTION

    @model_validator(mode="after")
    def _check(self) -> Number:
        low, high = self.range
        if not low < high:
            raise ValueError("'range' must be [lowest, highest] with lowest < highest")
        if self.spacing == "log" and low <= 0:
            raise ValueError("'spacing = \"log\"' needs a range that starts above 0")
        if self.cutoffs is not None:
            cuts = self.cutoffs
            if not 1 <= len(cuts) <= MAX_CODES - 1:
                raise ValueError(f"'cutoffs' must be 1 to {MAX_CODES - 1} numbers")
            if any(a >= b for a, b in pairwise(cuts)):
                raise ValueError("'cutoffs' must increase")
            if cuts[0] <= low or cuts[-1] > high:
                raise ValueError("'cutoffs' must lie inside 'range'")
        return self

    def bins(self, n_bins: int, style: Style) -> Bins:
        """Return the public histogram bins."""
        low, high = self.range
        if style == "round":
            lay = log_round_edges if self.spacing == "log" else round_edges
            edges = lay(low, high, n_bins, step=self.step)
        else:
            spaced = np.geomspace if self.spacing == "log" else np.linspace
            edges = spaced(low, high, n_bins + 1)
            edges[0], edges[-1] = low, high
        fixed = None if self.cutoffs is None else np.asarray(self.cutoffs, np.float64)
        return Bins.numeric(edges, cutoffs=fixed, step=self.step, complete=self.complete)


class _Levelled(_Covariate):
    """A covariate whose values are a few named levels, coded from 0."""

    labels: tuple[str, ...] | None = Field(
        default=None,
        description="Words for the levels, in their order.",
    )

    @property
    def coded(self) -> tuple[Level, ...]:
        """The levels in the order of their codes."""
        raise NotImplementedError

    @property
    def words(self) -> tuple[str, ...]:
        """What people read for each code."""
        return self.labels or tuple(map(str, self.coded))

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if {*map(level_key, self.coded)} & {*map(level_key, self.missing)}:
            raise ValueError("'missing' names a level: a value is either known or missing")
        if self.labels is not None and len(self.labels) != len(self.coded):
            raise ValueError("'labels' must have one entry per level")
        return self


class _Named(_Levelled):
    """Levels that the study lists."""

    levels: tuple[Level, ...] = Field(
        min_length=2, max_length=MAX_CODES, description="All levels that any site may have."
    )

    @model_validator(mode="after")
    def _check_named(self) -> Self:
        if len(set(map(level_key, self.levels))) != len(self.levels):
            raise ValueError("'levels' names one level twice (1, 1.0 and \"1\" are the same)")
        return self

    @property
    def coded(self) -> tuple[Level, ...]:
        """The levels in the order of their codes."""
        return self.levels


class Category(_Named):
    """One of a few named levels, in no order."""

    kind: Literal["category"] = Field(
        default="category", description="Says that this is a category."
    )

    def bins(self, n_bins: int, style: Style) -> Bins:
        """Return one bin per level."""
        del n_bins, style
        return Bins.categorical(len(self.levels), complete=self.complete)


class Ordered(_Named):
    """One of a few named levels in an order, such as NYHA classes; a rule is a range of them."""

    kind: Literal["ordered"] = Field(
        default="ordered", description="Says that these are levels in an order, the lowest first."
    )
    direction: Direction | None = DIRECTION

    def bins(self, n_bins: int, style: Style) -> Bins:
        """Return one bin per level, with a cut-off between each and the next."""
        del n_bins, style
        return Bins.ranked(len(self.levels), complete=self.complete)


class YesNo(_Levelled):
    """Two values; ``yes`` is coded 1."""

    kind: Literal["yes/no"] = Field(default="yes/no", description="Says that this has two values.")
    yes: Level = Field(default=1, description="The value that is coded 1.")
    no: Level = Field(default=0, description="The value that is coded 0.")
    labels: tuple[str, str] | None = Field(
        default=None,
        description='Words for no and yes, in this order, such as `["male", "female"]`.',
    )
    direction: Direction | None = DIRECTION

    @model_validator(mode="after")
    def _check(self) -> YesNo:
        if level_key(self.yes) == level_key(self.no):
            raise ValueError("'yes' and 'no' are the same value")
        return self

    @property
    def coded(self) -> tuple[Level, ...]:
        """No, then yes."""
        return self.no, self.yes

    def bins(self, n_bins: int, style: Style) -> Bins:
        """Return the two bins around the only cut-off."""
        del n_bins, style
        return Bins.binary(complete=self.complete)


Covariate = Annotated[Number | Category | Ordered | YesNo, Field(discriminator="kind")]


class Unusual(Frozen):
    """What a prediction makes of a value that the study does not foresee; it always says so."""

    beyond: Literal["clip", "missing", "refuse"] = Field(
        default="clip",
        description="A number outside the public range. `clip`: counts at the nearer end. "
        "`missing`: counts as missing. `refuse`: this patient gets no prediction.",
    )
    unseen: Literal["missing", "refuse"] = Field(
        default="missing",
        description="A level that the study does not list, or text where a number should be. "
        "`missing`: counts as missing. `refuse`: this patient gets no prediction.",
    )


class Weight(Frozen):
    """A column of patient weights and the public bound on one weight."""

    column: str = Field(min_length=1, description="Column of the weights.")
    max: float = Field(
        gt=0,
        description="Largest weight that one patient can have, public. Noise grows with it.",
    )


class Patient(Frozen):
    """A column that says whose a row is, and the public bound on the rows of one patient."""

    column: str = Field(
        min_length=1,
        description="Column of the patient's identifier. It is read to tell rows of one patient "
        "from others, and kept nowhere.",
    )
    max_rows: int = Field(
        ge=1,
        description="Most rows that one patient can have at a site, public. Noise, and the "
        "steps to which published counts are rounded, grow with it.",
    )
