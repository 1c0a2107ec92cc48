"""What all sites agree on before any table is opened: ``study.toml``."""

from fedrulefit.study.covariates import (
    Category,
    Covariate,
    Number,
    Ordered,
    Patient,
    Unusual,
    Weight,
    YesNo,
)
from fedrulefit.study.levels import Level, as_level, first_spellings, level_key, level_order
from fedrulefit.study.outcome_time import TimeOutcome
from fedrulefit.study.outcomes import (
    AnyOutcome,
    ClassesOutcome,
    CountOutcome,
    NumberOutcome,
    OrderedOutcome,
    Outcome,
    YesNoOutcome,
)
from fedrulefit.study.presets import (
    PRESETS,
    check_settings,
    describe_settings,
    override_settings,
    resolve_settings,
)
from fedrulefit.study.settings import Settings
from fedrulefit.study.study import Study
from fedrulefit.study.wishes import Wishes

__all__ = [
    "PRESETS",
    "AnyOutcome",
    "Category",
    "ClassesOutcome",
    "CountOutcome",
    "Covariate",
    "Level",
    "Number",
    "NumberOutcome",
    "Ordered",
    "OrderedOutcome",
    "Outcome",
    "Patient",
    "Settings",
    "Study",
    "TimeOutcome",
    "Unusual",
    "Weight",
    "Wishes",
    "YesNo",
    "YesNoOutcome",
    "as_level",
    "check_settings",
    "describe_settings",
    "first_spellings",
    "level_key",
    "level_order",
    "override_settings",
    "resolve_settings",
]
