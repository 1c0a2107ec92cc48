"""Keys, texts and levels as TOML has them."""

from __future__ import annotations

import json
import math
import re


def toml_level(key: str) -> str:
    """Return a level, as :func:`~fedrulefit.study.levels.level_key` gives it: 1, true, "text"."""
    if key in ("true", "false"):
        return key
    try:
        number = float(key)
    except ValueError:
        return toml_string(key)
    return key if math.isfinite(number) else toml_string(key)


def toml_number(value: float) -> str:
    """Return a number as people write it: 1000000, not 1e+06."""
    return f"{value:.15g}"


def toml_string(text: str) -> str:
    """Return a text in double quotes."""
    # JSON's escapes are TOML's, but TOML also refuses a bare DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_key(name: str) -> str:
    """Return a key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)
