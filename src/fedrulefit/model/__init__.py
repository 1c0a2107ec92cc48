"""The fitted model, its file, and what may be published of it."""

from fedrulefit.model.model import (
    Contribution,
    Counts,
    Explanation,
    LinearTerm,
    Model,
    PathPoint,
    Provenance,
    RuleTerm,
    Term,
    describe_rule,
    level_words,
    unit_change,
)

__all__ = [
    "Contribution",
    "Counts",
    "Explanation",
    "LinearTerm",
    "Model",
    "PathPoint",
    "Provenance",
    "RuleTerm",
    "Term",
    "describe_rule",
    "level_words",
    "unit_change",
]
