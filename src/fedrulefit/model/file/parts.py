"""The parts of a model file, as they stand in it: names, types and bounds.

What they mean is in the documentation (``docs/model-file.md``); that they fit each other is
checked in :mod:`fedrulefit.model.file.building`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedrulefit.core.families.yesno_scores import Measures

FORMAT: Final = "fedrulefit-model"
VERSION: Final = 2


class Part(BaseModel):
    """Facts that stand together in a file: no others beside them, no number that is none."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class AxisPart(Part):
    """How the values of a covariate become codes, and its linear term."""

    covariate: str
    kind: Literal["number", "category", "yes/no"]
    cutoffs: list[float]
    codes: int
    limits: list[float] = Field(min_length=2, max_length=2)
    spread: float
    centre: float
    fill: float


class ConditionPart(Part):
    """What a rule asks of one covariate."""

    covariate: str
    interval: list[int] | None = Field(default=None, min_length=2, max_length=2)
    levels: list[int] | None = None
    missing: bool


CountsPart = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)]


class RulePart(Part):
    """A rule, its coefficient, and who satisfies it."""

    kind: Literal["rule"]
    rule: str
    conditions: list[ConditionPart]
    coefficient: float
    importance: float = Field(ge=0)
    inside: Annotated[float, Field(ge=0)] | None
    events_inside: Annotated[float, Field(ge=0)] | None
    path: list[float]
    by_site: list[CountsPart] = []


class LinearPart(Part):
    """A linear term and its coefficient."""

    kind: Literal["linear"]
    covariate: str
    coefficient: float
    importance: float = Field(ge=0)
    path: list[float]


class PrivacyPart(Part):
    """What left the sites, and what it cost."""

    mechanism: str
    epsilon_per_histogram: float | None
    n_histograms: int = Field(ge=0)
    ranges_from_data: bool
    exact: list[str]
    sums: list[str] = []
    sum_of: Annotated[int, Field(ge=1)] | None = None


class CertificatePart(Part):
    """How far the fit is from the optimum."""

    residual: float = Field(ge=0)
    gap: Annotated[float, Field(ge=0)] | None


class PathPart(Part):
    """One λ of the cross-validation."""

    penalty: float = Field(ge=0)
    deviance: float
    error: float
    terms: int = Field(ge=0)
    rules: int = Field(ge=0)


class ProvenancePart(Part):
    """What the model rests on."""

    sites: list[str]
    patients: float = Field(gt=0)
    events: Annotated[float, Field(ge=0)] | None
    candidates: int = Field(ge=0)
    solver: str
    penalty: float = Field(ge=0)
    rounds: int = Field(ge=0)
    objective: float
    certificate: CertificatePart
    history: list[float]
    path: list[PathPart]
    software: dict[str, str]
    by_site: list[CountsPart] = []


class GroupPart(Part):
    """Held-out patients of similar predictions."""

    above: float = Field(ge=0, le=1)
    below: float = Field(ge=0, le=1)
    events: float = Field(ge=-1e-6)
    others: float = Field(ge=-1e-6)
    predicted: Annotated[float, Field(ge=0, le=1)] | None = None


class MeasuresPart(Part):
    """Measures on some held-out patients; null where one is not defined."""

    patients: float = Field(ge=0)
    events: float = Field(ge=0)
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    auc_bound: float | None
    brier: float | None
    log_loss: float | None
    slope: float | None
    slope_low: float | None
    slope_high: float | None
    intercept: float | None
    intercept_low: float | None
    intercept_high: float | None
    observed: float | None
    expected: float | None

    def read(self) -> Measures:
        """Return the measures, NaN for null."""
        facts = self.model_dump()
        return Measures(**{name: math.nan if x is None else x for name, x in facts.items()})


class RoundingPart(Part):
    """How coarse counts are."""

    multiple: int = Field(ge=1)
    smallest: int = Field(ge=0)


class EvaluationPart(Part):
    """How well held-out patients are predicted."""

    overall: MeasuresPart
    groups: list[GroupPart] = Field(min_length=1)
    sites: dict[str, MeasuresPart]
    judged: RoundingPart | None = None


class FilePart(Part):
    """The whole file."""

    format: Literal["fedrulefit-model"]
    version: int
    study: dict[str, Any]
    grid: list[AxisPart]
    intercept: float
    terms: list[Annotated[RulePart | LinearPart, Field(discriminator="kind")]]
    rounding: RoundingPart | None
    privacy: PrivacyPart
    provenance: ProvenancePart
    evaluation: EvaluationPart | None
    validation: EvaluationPart | None
