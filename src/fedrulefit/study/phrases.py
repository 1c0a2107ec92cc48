"""Rules in words: ``age >= 65 years & GCS < 9``, as a study writes them.

In: a text and the study's covariates. Out: :class:`Phrase` objects: the values that satisfy each
condition, checked against public ranges and levels; and from these, once cut-offs are shared, a
:class:`~fedrulefit.core.rules.Rule`.

Conditions are joined by ``&``. Of a number: ``<``, ``<=``, ``>``, ``>=``, or ``18 <= age < 65``; of
levels ``=``, ``!=``, ``is a or b``, and of levels in an order the signs of numbers, too. ``age is
missing``, ``age is not missing``, and ``(or missing)`` at the end of a condition, for a covariate
that may be. The words in which the package shows rules are read, too.

Oracle: each condition asked of every value (``tests/unit/study/test_phrases.py``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition, Rule, conjoin, interval
from fedrulefit.errors import did_you_mean, one_line
from fedrulefit.study.covariates import Category, Covariate, Number, Ordered, YesNo
from fedrulefit.study.levels import level_key

_SIGNS: Final = {"≤": "<=", "≥": ">=", "≠": "!=", "==": "="}
_SIGN: Final = r"<=|>=|==|!=|≤|≥|≠|=|<|>"
_FLIPPED: Final = {"<": ">", "<=": ">=", "=": "=", "!=": "!="}


@dataclass(frozen=True)
class Phrase:
    """One condition: the values of a covariate that satisfy it.

    Parameters
    ----------
    covariate : str
    low, high : float or None
        A number's limits: low ≤ value < high.
    levels : frozenset of int or None
        The codes of anything else; None where it is a number, or all are meant.
    known : bool
        Whether any known value satisfies it.
    missing : bool
        Whether a missing one does.
    """

    covariate: str
    low: float | None = None
    high: float | None = None
    levels: frozenset[int] | None = None
    known: bool = True
    missing: bool = False

    @property
    def cutoffs(self) -> tuple[float, ...]:
        """The cut-offs that a rule needs."""
        return tuple(cut for cut in (self.low, self.high) if cut is not None)


Said = tuple[Phrase, ...]
"""A rule in words."""


def read_rule(text: str, covariates: Mapping[str, Covariate]) -> Said:
    """Return the conditions of a rule in words.

    Raises
    ------
    ValueError
        If the text is no rule, or names what the study does not.
    """
    try:
        said = tuple(_read_condition(part.strip(), covariates) for part in text.split("&"))
        for phrase in said:
            if phrase.missing and covariates[phrase.covariate].complete:
                raise ValueError(
                    f"{phrase.covariate!r} is declared 'complete': it is never missing"
                )
    except ValueError as error:
        raise ValueError(f"rule {one_line(text, 100)!r}: {error}") from None
    return said


def place_rule(said: Said, names: tuple[str, ...], grid: Grid) -> Rule | None:
    """Return the rule on a grid.

    None if no value satisfies it, or every one, or the grid lacks one of its cut-offs.
    """
    conditions = []
    for phrase in said:
        feature = names.index(phrase.covariate)
        codes = _place(phrase, feature, grid)
        if codes is None:
            return None
        conditions.append(Condition(feature, codes))
    rule = conjoin(conditions, grid)
    return rule if rule is not None and len(rule) else None


def _place(phrase: Phrase, feature: int, grid: Grid) -> int | None:
    """Return the codes that satisfy a condition; None if a cut-off is lacking."""
    axis, missing = grid.axes[feature], phrase.missing << MISSING
    if not phrase.known:
        return missing
    if phrase.levels is not None:
        return sum(1 << level for level in phrase.levels) | missing
    limits: dict[float | None, int | None] = {None: None}
    for cut in phrase.cutoffs:
        place = int(np.searchsorted(axis.cutoffs, cut))
        if place == len(axis.cutoffs) or axis.cutoffs[place] != cut:
            return None
        limits[cut] = place + 1
    low = limits[phrase.low] or 0
    high = limits[phrase.high] or axis.n_codes
    return interval(low, high) | missing


# --- Reading one condition ----------------------------------------------------------------------


def _read_condition(text: str, covariates: Mapping[str, Covariate]) -> Phrase:
    if not text:
        raise ValueError("a condition is empty: conditions are joined by '&'")
    body, missing = _split_missing(text)
    name, left, rest = _find_name(body, covariates)
    covariate = covariates[name]
    if rest in ("is missing", "is not missing"):
        absent = rest == "is missing"
        return Phrase(name, known=not absent, missing=absent)
    bounds = [(_FLIPPED[left[1]], left[0])] if left else []
    bounds += _read_bounds(name, rest)
    parts = [_limit(name, covariate, sign, value) for sign, value in bounds]
    phrase = parts[0] if len(parts) == 1 else _meet(name, *parts)
    return replace(phrase, missing=missing)


def _split_missing(text: str) -> tuple[str, bool]:
    """Return what is said of known values, and whether a missing one satisfies it, too."""
    for words, missing in ((r"is missing \(or", True), (r"is not missing \(and", False)):
        found = re.fullmatch(rf".+? {words} (.+)\)", text)
        if found:
            return found[1].strip(), missing
    body = re.sub(r"\s*(\(or missing\)|\bor missing)$", "", text)
    return body, body != text


def _find_name(
    body: str, covariates: Mapping[str, Covariate]
) -> tuple[str, tuple[str, str] | None, str]:
    """Return the covariate, what stands before it (value and sign), and what behind."""
    for name in sorted(covariates, key=len, reverse=True):
        found = re.fullmatch(
            rf"(?:(.+?)\s*(<=|≤|<)\s*)?{re.escape(name)}\s*((?:{_SIGN}|is\b|in\b).*)?", body
        )
        if found and (found[1] or found[3]):
            left = (found[1], _SIGNS.get(found[2], found[2])) if found[1] else None
            return name, left, found[3] or ""
    named = re.split(rf"\s*(?:{_SIGN}|\bis\b|\bin\b)", body)[0].strip()
    if named in covariates:
        raise ValueError(
            f"{one_line(body, 60)!r} is no condition: write {named!r}, a sign, a value"
        )
    known = did_you_mean(named, covariates)
    raise ValueError(f"the study has no covariate {known}")


def _read_bounds(name: str, rest: str) -> list[tuple[str, str]]:
    """Return signs and values behind a covariate."""
    if not rest:
        return []
    found = re.fullmatch(rf"({_SIGN})\s*(.+)", rest)
    if found:
        return [(_SIGNS.get(found[1], found[1]), found[2].strip())]
    found = re.fullmatch(r"(?:is|in)\s+(.+)", rest)
    if not found:
        raise ValueError(f"{one_line(rest, 60)!r} of {name!r} cannot be read")
    return [("=", found[1].strip())]


def _limit(name: str, covariate: Covariate, sign: str, value: str) -> Phrase:
    """Return the condition that one sign and value make."""
    if isinstance(covariate, Number):
        return _limit_number(name, covariate, sign, value)
    if sign in ("=", "!="):
        codes = _read_levels(name, covariate, value)
        chosen = codes if sign == "=" else frozenset(range(len(covariate.coded))) - codes
    elif isinstance(covariate, Category):
        raise ValueError(f"the levels of {name!r} have no order: use '=' or '!='")
    else:
        (code,) = _read_levels(name, covariate, value, only=True)
        below = frozenset(range(code + (sign in ("<=", ">"))))
        chosen = below if sign in ("<", "<=") else frozenset(range(len(covariate.coded))) - below
    if not chosen:
        raise ValueError(f"no level of {name!r} satisfies '{sign} {value}'")
    return Phrase(name, levels=chosen)


def _limit_number(name: str, covariate: Number, sign: str, value: str) -> Phrase:
    text = value.removesuffix(covariate.unit).strip() if covariate.unit else value
    try:
        cut = float(text)
    except ValueError:
        raise ValueError(f"{one_line(value, 60)!r} is no number, as {name!r} needs") from None
    if sign not in ("<", "<=", ">", ">="):
        raise ValueError(f"{name!r} is a number: use '<', '<=', '>' or '>='")
    cut = _as_cutoff(name, covariate, sign, cut)
    low, high = covariate.range
    if not (math.isfinite(cut) and low < cut <= high):
        raise ValueError(
            f"{sign} {value} parts no values of {name!r}: its public range is {low:g} to {high:g}"
        )
    return Phrase(name, high=cut) if sign in ("<", "<=") else Phrase(name, low=cut)


def _as_cutoff(name: str, covariate: Number, sign: str, cut: float) -> float:
    """Return the cut-off c of ``< c`` and ``>= c``: the next value that occurs."""
    step = covariate.step
    if step is None:
        if sign in ("<=", ">"):
            raise ValueError(
                f"{name!r} has no 'step', so write '<' or '>=' in place of '{sign}': cut-offs "
                "themselves are above"
            )
        return cut
    if not math.isfinite(cut):
        return cut
    places = math.ceil(cut / step - 1e-9)
    if sign in ("<=", ">"):
        places = math.floor(cut / step + 1e-9) + 1
    return float(f"{places * step:.12g}") + 0.0


def _read_levels(
    name: str, covariate: Category | Ordered | YesNo, value: str, *, only: bool = False
) -> frozenset[int]:
    """Return the codes of some levels in words: ``a, b or c``."""
    known = {level_key(level): k for k, level in enumerate(covariate.coded)}
    words = {word: k for k, word in enumerate(covariate.words)}

    def find(text: str) -> int | None:
        text = text.strip()
        return words.get(text, known.get(level_key(text)))

    whole = find(value)
    if whole is not None:
        return frozenset([whole])
    parts = [value] if only else re.split(r",\s*|\s+or\s+", value)
    found = [find(part) for part in parts]
    for part, code in zip(parts, found, strict=True):
        if code is None:
            hint = did_you_mean(part.strip(), covariate.words)
            raise ValueError(
                f"{name!r} has no level {hint} (it has {', '.join(covariate.words[:12])})"
            )
    return frozenset(code for code in found if code is not None)


def _meet(name: str, *parts: Phrase) -> Phrase:
    """Return the values that satisfy both of two conditions on one covariate."""
    first, second = parts
    if first.levels is not None and second.levels is not None:
        both = first.levels & second.levels
        if both:
            return Phrase(name, levels=both)
    low = second.low if first.low is None else first.low
    high = second.high if first.high is None else first.high
    if low is None or high is None or low >= high:
        raise ValueError(f"no value of {name!r} satisfies both limits")
    return Phrase(name, low, high)
