"""What all sites agree on before any table is opened: ``study.toml``."""

from fedrulefit.study.covariates import (
    Category,
    Covariate,
    Number,
    Ordered,
    Outcome,
    Patient,
    Unusual,
    Weight,
    YesNo,
)
from fedrulefit.study.levels import Level, as_level, first_spellings, level_key, level_order
from fedrulefit.study.settings import (
    PRESETS,
    Settings,
    check_settings,
    describe_settings,
    override_settings,
    resolve_settings,
)
from fedrulefit.study.study import Study

__all__ = [
    "PRESETS",
    "Category",
    "Covariate",
    "Level",
    "Number",
    "Ordered",
    "Outcome",
    "Patient",
    "Settings",
    "Study",
    "Unusual",
    "Weight",
    "YesNo",
    "as_level",
    "check_settings",
    "describe_settings",
    "first_spellings",
    "level_key",
    "level_order",
    "override_settings",
    "resolve_settings",
]
