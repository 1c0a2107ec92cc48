"""The fitted model, its file, and what may be published of it.

``terms`` → ``model`` (``matrix``: its terms as columns) → ``prediction`` (``unforeseen``: values
that the study does not foresee) → ``wording``, ``display`` and ``frames`` (what people read) →
``evaluation`` and ``validation`` (how well it predicts) → ``publish`` (no finer than may be
told) → ``file`` and ``export`` (for other programs); ``dependence`` follows from the terms alone.
"""

from fedrulefit.model.explanation import Contribution, Explanation
from fedrulefit.model.model import Model
from fedrulefit.model.terms import (
    Counts,
    LinearTerm,
    PathPoint,
    Provenance,
    RuleTerm,
    Term,
)
from fedrulefit.model.wording import describe_rule, unit_change

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
    "unit_change",
]
