"""The presets: named sets of settings; and settings in words.

In: what each field of :class:`~fedrulefit.study.settings.Settings` declares. Out: settings that
were checked, or what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from fedrulefit.errors import StudyError, did_you_mean, explain
from fedrulefit.study.fields import Key, describe_key, describe_value
from fedrulefit.study.settings import Settings


@dataclass(frozen=True)
class Setting(Key):
    """One setting, as its field declares it.

    Parameters
    ----------
    paper : str
        Its value in the preset ``paper``, as written in the file.
    group : str
    """

    paper: str
    group: str


def describe_settings(settings: type[Settings] = Settings) -> tuple[Setting, ...]:
    """Return every setting, in their order."""
    return tuple(_describe(name, settings) for name in settings.model_fields)


def _describe(name: str, settings: type[Settings]) -> Setting:
    field, extra = settings.model_fields[name], _extra(settings, name)
    paper = describe_value(extra.get("paper", field.default))
    return Setting(**vars(describe_key(name, field)), paper=paper, group=extra["group"])


def _extra(settings: type[Settings], name: str) -> dict[str, Any]:
    """Return what a setting declares beyond a field of pydantic."""
    extra = settings.model_fields[name].json_schema_extra
    if not isinstance(extra, dict):
        raise TypeError(f"the setting {name!r} must be declared by 'setting'")
    return extra


PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "paper": {
        name: extra["paper"]
        for name in Settings.model_fields
        if "paper" in (extra := _extra(Settings, name))
    },
}
"""Named settings."""


def resolve_settings(preset: str | None = None, **overrides: Any) -> Settings:
    """Return the settings of `preset` with `overrides` on top."""
    return check_settings(expand_preset(preset or "default", overrides))


def expand_preset(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a preset, not yet checked, with `overrides` on top."""
    if name not in PRESETS:
        known = ", ".join(sorted(PRESETS))
        raise StudyError(f"preset {name!r} is not known: choose one of {known}")
    return _override(PRESETS[name], overrides)


def check_settings(facts: Mapping[str, Any]) -> Settings:
    """Check `facts` and build the settings, or say what is wrong with them."""
    try:
        return Settings.model_validate(facts)
    except ValidationError as error:
        lines = [explain(error, "these settings are not valid:")]
        faulty = dict.fromkeys(str(fault["loc"][0]) for fault in error.errors() if fault["loc"])
        raise StudyError("\n".join([*lines, *map(_tell_meaning, faulty)])) from None


def _tell_meaning(name: str) -> str:
    """Return a line on what a setting holds, or on which may be meant."""
    for known in describe_settings():
        if known.name == name:
            return f"  {name} holds {known.holds}. {known.meaning}"
    return f"  there is no setting {did_you_mean(name, Settings.model_fields)}"


def override_settings(settings: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return `settings` with `overrides` on top."""
    return check_settings(_override(settings.model_dump(), overrides))


def _override(facts: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Put `overrides` on `facts`; an ε given here beats a total or "no noise" given there."""
    implied: dict[str, Any] = {}
    if overrides.get("epsilon_total") is not None:
        implied = {"noise": True, "epsilon": None}
    if overrides.get("epsilon") is not None:
        implied = {"noise": True}
    return {**facts, **implied, **overrides}
