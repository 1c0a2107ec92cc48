"""What all sites agree on before any table is opened: ``study.toml``."""

from fedrulefit.study.study import (
    PRESETS,
    Category,
    Covariate,
    Level,
    Number,
    Outcome,
    Settings,
    Study,
    Weight,
    YesNo,
    check_settings,
    level_key,
    override_settings,
    resolve_settings,
)

__all__ = [
    "PRESETS",
    "Category",
    "Covariate",
    "Level",
    "Number",
    "Outcome",
    "Settings",
    "Study",
    "Weight",
    "YesNo",
    "check_settings",
    "level_key",
    "override_settings",
    "resolve_settings",
]
