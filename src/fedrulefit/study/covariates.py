"""The columns that a study names: the outcome, the covariates, and a weight.

Ranges and levels are public: each covariate turns them into the bins of its histogram
(paper 2.2.1).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.grid import Bins
from fedrulefit.study.fields import Frozen
from fedrulefit.study.levels import Level, level_key


class Outcome(Frozen):
    """The yes/no outcome and which of its values is the event."""

    column: str = Field(min_length=1)
    positive: Level = 1
    negative: Level = 0
    label: str = ""
    expected_rate: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check(self) -> Outcome:
        if level_key(self.positive) == level_key(self.negative):
            raise ValueError(
                "'positive' and 'negative' are the same value: give the value of "
                "patients with the event as 'positive' and the other as 'negative'"
            )
        if self.expected_rate is not None:
            low, high = self.expected_rate
            if not 0 <= low < high <= 1:
                raise ValueError("'expected_rate' must be two shares, e.g. [0.05, 0.40]")
        return self


class _Covariate(Frozen):
    label: str = ""
    note: str = ""
    complete: bool = False
    """Whether a missing value is an error."""


class Number(_Covariate):
    """A measured number with a public range."""

    kind: Literal["number"] = "number"
    range: tuple[float, float]
    unit: str = ""
    spacing: Literal["linear", "log"] = "linear"
    step: float | None = Field(default=None, gt=0)
    cutoffs: tuple[float, ...] | None = None

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

    def bins(self, n_bins: int) -> Bins:
        """Return the public histogram bins."""
        low, high = self.range
        spaced = np.geomspace if self.spacing == "log" else np.linspace
        edges = spaced(low, high, n_bins + 1)
        edges[0], edges[-1] = low, high
        fixed = None if self.cutoffs is None else np.asarray(self.cutoffs, np.float64)
        return Bins.numeric(edges, cutoffs=fixed, step=self.step, complete=self.complete)


class Category(_Covariate):
    """One of a few named levels, in no order."""

    kind: Literal["category"] = "category"
    levels: tuple[Level, ...] = Field(min_length=2, max_length=MAX_CODES)
    labels: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> Category:
        if len({level_key(level) for level in self.levels}) != len(self.levels):
            raise ValueError("'levels' names one level twice (1, 1.0 and \"1\" are the same)")
        if self.labels is not None and len(self.labels) != len(self.levels):
            raise ValueError("'labels' must have one entry per level")
        return self

    def bins(self, n_bins: int) -> Bins:
        """Return one bin per level."""
        del n_bins
        return Bins.categorical(len(self.levels), complete=self.complete)


class YesNo(_Covariate):
    """Two values; ``yes`` is coded 1."""

    kind: Literal["yes/no"] = "yes/no"
    yes: Level = 1
    no: Level = 0
    labels: tuple[str, str] | None = None
    """Words for (no, yes), such as ``["male", "female"]``."""

    @model_validator(mode="after")
    def _check(self) -> YesNo:
        if level_key(self.yes) == level_key(self.no):
            raise ValueError("'yes' and 'no' are the same value")
        return self

    def bins(self, n_bins: int) -> Bins:
        """Return the two bins around the only cut-off."""
        del n_bins
        return Bins.binary(complete=self.complete)


Covariate = Annotated[Number | Category | YesNo, Field(discriminator="kind")]


class Weight(Frozen):
    """A column of patient weights and the public bound on one weight."""

    column: str = Field(min_length=1)
    max: float = Field(gt=0)
