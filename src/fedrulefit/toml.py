"""TOML files that people write: small and plain, whoever wrote them, and explained alike."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fedrulefit.errors import FedRuleFitError, explain

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

MAX_TOML: Final = 10**6
MAX_DEPTH: Final = 16
"""Most tables and lists inside each other in a TOML file; ours have four."""

_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""", re.ASCII
)
"""A key of so many parts that reading it would take for ever."""


class TomlError(ValueError):
    """A file is not plain TOML; the message goes on after the file's name."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a small, plain TOML file, whoever wrote it.

    Raises
    ------
    OSError
        If it cannot be opened.
    TomlError
        If it is too large, too deep, not UTF-8 or not TOML.
    """
    with path.open("rb") as file:
        data = file.read(MAX_TOML + 1)
    if len(data) > MAX_TOML:
        raise TomlError(f"has over {MAX_TOML} bytes: give the file itself")
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
        if _LONG_KEY.search(text):
            raise RecursionError
        facts = tomllib.loads(text)
        _check_depth(facts)
    except UnicodeDecodeError:
        raise TomlError("is not UTF-8 text: save it as UTF-8") from None
    except RecursionError:
        raise TomlError("is not valid: tables, lists or keys are nested too deeply") from None
    except ValueError as error:  # of a number of thousands of digits, too
        raise TomlError(f"is not valid TOML: {error}") from None
    return facts


def _check_depth(facts: dict[str, Any]) -> None:
    level: list[Any] = [facts]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for part in level
            for inner in (part.values() if isinstance(part, dict) else part)
            if isinstance(inner, (dict, list))
        ]
    if level:
        raise RecursionError


def open_toml(
    path: str | Path, what: str, error: type[FedRuleFitError], advice: str = ""
) -> dict[str, Any]:
    """Read a file that a person named.

    Parameters
    ----------
    path : str or Path
    what : str
        What the file is, in a word: ``"policy"``.
    error : type
        What is raised where it cannot be read.
    advice : str
        How to get one, where there is none.
    """
    try:
        return read_toml(Path(path))
    except FileNotFoundError:
        words = f"the {what} {path} does not exist" + (f": {advice}" if advice else "")
    except IsADirectoryError:
        words = f"{path} is a folder: give the {what} itself"
    except OSError as fault:
        words = f"the {what} {path} cannot be read: {fault.strerror}"
    except TomlError as fault:
        words = f"{path} {fault}"
    raise error(words)


def load_toml(
    path: str | Path,
    model: type[Model],
    what: str,
    error: type[FedRuleFitError],
    advice: str = "",
) -> Model:
    """Read a file that a person named into a model, or say which of its keys are wrong.

    Parameters
    ----------
    path, what, error, advice
        As for :func:`open_toml`.
    model : type
        A pydantic model.
    """
    return check_facts(open_toml(path, what, error, advice), model, what, error, str(path))


def check_facts(
    facts: Any, model: type[Model], what: str, error: type[FedRuleFitError], source: str
) -> Model:
    """Bring facts into a model, or say which are wrong; `source` says where they come from."""
    from pydantic import ValidationError

    try:
        return model.model_validate(facts)
    except ValidationError as fault:
        raise error(explain(fault, f"{source} is not a valid {what}:", what)) from None
