"""The text of a model file → a model; anything odd is refused.

parse → check → build: nothing is built before the whole file is checked.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from fedrulefit.errors import ModelFileError
from fedrulefit.model.file.building import assemble
from fedrulefit.model.file.parts import FORMAT, VERSION, FilePart
from fedrulefit.model.file.term_parts import RulePart
from fedrulefit.model.file.upgrading import OLD_BINS, unpool, upgrade, upgrade_study
from fedrulefit.model.model import Model
from fedrulefit.study import Study

MAX_BYTES: Final = 32 * 2**20
MAX_PARTS: Final = 500_000
"""Most values in a model file: many small ones take much memory."""

MAX_LENGTHS: Final = {
    "terms": 10_000, "path": 1_000, "grid": 10_000, "conditions": 1_000, "bins": OLD_BINS,
    "cutoffs": 255, "shares": 256, "levels": 255, "by_site": 10_000, "history": 100_000,
    "sites": 10_000,
}  # fmt: skip
"""Most entries of the lists of a model file, by their names."""

MAX_TEXT: Final = 100_000
MAX_COEFFICIENT: Final = 300.0
"""Most that a term can add to F: far more than data can show, and exp() still holds it."""

MAX_NUMBER: Final = 1e30
"""Largest number in a model file: products of a few are still numbers."""


def load_model(path: Path) -> Model:
    """Read and check a model file.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, of another version or contradicts
        itself.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ModelFileError(f"over {MAX_BYTES} bytes: not a model of fedrulefit")
        text = data.decode("utf-8")
        if sum(map(text.count, ",[{")) > MAX_PARTS:
            raise ModelFileError(f"over {MAX_PARTS} values: not a model of fedrulefit")
        facts = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_twins,
        )
    except OSError as error:
        raise ModelFileError(f"cannot read model file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{path} is not UTF-8 text: not a model file") from None
    except json.JSONDecodeError as error:
        raise ModelFileError(
            f"{path} is not complete JSON (line {error.lineno}): the file is damaged or cut off; "
            "fetch it again"
        ) from None
    except RecursionError:
        raise ModelFileError(f"{path} is nested too deeply: not a model file") from None
    except ValueError as error:
        raise ModelFileError(f"{path}: {error}") from None
    return build_model(facts, source=str(path))


def build_model(facts: Any, *, source: str = "model") -> Model:
    """Check `facts` and build the model."""
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ModelFileError(f"{source} is not a model of fedrulefit")
    version = facts.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ModelFileError(
            f"{source} has file version {version!r}, this program reads 1 to {VERSION}: "
            "use the version of fedrulefit that wrote it, or a newer one"
        )
    try:
        _check_limits(facts)
        file = FilePart.model_validate(upgrade(facts) if version == 1 else unpool(facts))
        study = Study.from_mapping(upgrade_study(file.study), source=source)
        model = assemble(file, study)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelFileError(f"{source} is not a valid model: {where}: {first['msg']}") from None
    except ModelFileError as error:
        raise ModelFileError(f"{source}: {error}") from None
    except ValueError as error:
        raise ModelFileError(f"{source} is not a valid model: {error}") from None
    for part, term in zip(file.terms, model.terms, strict=True):
        if isinstance(part, RulePart) and part.rule != model.describe(term):
            raise ModelFileError(f"{source}: the words of a rule do not fit its conditions")
    return model


def _check_limits(facts: dict[str, Any]) -> None:
    """Refuse lists and numbers that no model has, before anything is built from them."""
    left: list[tuple[str, Any]] = list(facts.items())
    while left:
        name, value = left.pop()
        _check_text(name)
        if isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            if len(value) > MAX_LENGTHS.get(name, 10_000):
                raise ModelFileError(f"{name!r} has {len(value)} entries: no model has so many")
            left += [(name, item) for item in value]
        elif isinstance(value, str):
            _check_text(value)
        elif isinstance(value, (int, float)) and name not in ("levels", "interval"):
            most = MAX_COEFFICIENT if name in ("coefficient", "intercept") else MAX_NUMBER
            if not abs(value) <= most:
                raise ModelFileError(f"{name!r} holds a number beyond {most:g}: no model has that")


def _check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ModelFileError(f"a text of {len(text)} characters: no model has that")
    if not text.isascii():
        text.encode()  # half a character, as JSON can hold, is no text


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number a model can hold")


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    facts = dict(pairs)
    if len(facts) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return facts
