"""fedrulefit: hospitals learn one readable model; no patient's record leaves.

Names load when first used, so that ``import fedrulefit`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "FederatedRuleFitClassifier": "fedrulefit.estimators",
    "FederatedRuleFitRegressor": "fedrulefit.estimators",
    "FederatedRuleFitSurvival": "fedrulefit.estimators",
    "RuleFitClassifier": "fedrulefit.estimators",
    "RuleFitRegressor": "fedrulefit.estimators",
    "RuleFitSurvival": "fedrulefit.estimators",
    "Model": "fedrulefit.model",
    "Study": "fedrulefit.study",
    "demo": "fedrulefit.demo",
    "plot": "fedrulefit.plot",
}

__all__ = [
    "FederatedRuleFitClassifier",
    "FederatedRuleFitRegressor",
    "FederatedRuleFitSurvival",
    "Model",
    "RuleFitClassifier",
    "RuleFitRegressor",
    "RuleFitSurvival",
    "Study",
    "__version__",
    "demo",
    "plot",
]

if TYPE_CHECKING:
    from fedrulefit import demo, plot
    from fedrulefit.estimators import (
        FederatedRuleFitClassifier,
        FederatedRuleFitRegressor,
        FederatedRuleFitSurvival,
        RuleFitClassifier,
        RuleFitRegressor,
        RuleFitSurvival,
    )
    from fedrulefit.model import Model
    from fedrulefit.study import Study


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedrulefit' has no attribute {name!r}")
    module = import_module(_HOMES[name])
    return module if module.__name__.endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
