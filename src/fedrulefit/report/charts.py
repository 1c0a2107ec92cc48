"""Numbers → lines and ticks on paper, for the page's own drawings.

In: a model's effects. Out: frozen geometry in the units of an SVG's viewBox,
which the template draws; no colour, no words but numbers and levels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families import Family
from fedrulefit.core.rules import as_interval, format_cutoff
from fedrulefit.model import Model
from fedrulefit.model.dependence import (
    find_dependence,
    list_codes,
    list_points,
    strongest_pairs,
)
from fedrulefit.numerals import format_number, write_minus
from fedrulefit.study import Covariate, Number

WIDTH: Final = 320
HEIGHT: Final = 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 30
_MAX_BANDS = 7
_WIDEST = 9
_LARGEST = 300.0  # F beyond which a float cannot hold its effect.


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Mark:
    """The effect of one level (or of "missing"): a dot.

    `part` is the place of the class of the outcome whose terms these are; else 0.
    """

    x: float
    y: float
    text: str
    effect: str
    part: int = 0


@dataclass(frozen=True)
class EffectChart:
    """The partial dependence of one covariate, ready to draw.

    Parameters
    ----------
    name, unit : str
    lines : tuple of str
        SVG paths: one, or one for each class of the outcome; none for a covariate of levels.
    marks : tuple of Mark
        Levels, and "missing".
    x_ticks, y_ticks : tuple of Tick
    even : float
        Height of "no change".
    words : str
        The chart in a sentence, for those who cannot see it.
    """

    name: str
    unit: str
    lines: tuple[str, ...]
    marks: tuple[Mark, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    even: float
    words: str


@dataclass(frozen=True)
class PairTable:
    """The effect of two covariates together, as a table of colours and numbers.

    ``cells[row][column]`` is (effect, shade), shade from −4 (lowers) to 4 (raises); `level` is the
    class of the outcome whose terms these are, else empty.
    """

    row_name: str
    column_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[tuple[str, int], ...], ...]
    level: str = ""


@dataclass(frozen=True, eq=False)
class _Points:
    """A covariate's effect at chosen places, centred."""

    x: Floats
    values: Floats
    missing: float | None


def draw_effects(model: Model, features: Sequence[int]) -> list[EffectChart]:
    """Draw the partial dependence of `features` on one common scale."""
    found = [[_evaluate(model, j, level) for level in list_parts(model)] for j in features]
    every = [point for parts in found for points in parts for point in _extremes(points)]
    scale = _Scale.fit(model.study.family, every)
    return [_draw(model, j, parts, scale) for j, parts in zip(features, found, strict=True)]


def list_parts(model: Model) -> tuple[str | None, ...]:
    """Return the levels of the outcome that have terms of their own; None where all share them."""
    family = model.study.family
    return family.names if family.own_terms else (None,)


def _evaluate(model: Model, feature: int, level: str | None) -> _Points:
    rows, codes = (x[:, None] for x in (_places(model, feature), list_codes(model, feature)))
    values = find_dependence(model, [feature], rows, level).predictor
    of_codes = find_dependence(model, [feature], codes, level).predictor
    rows = rows[:, 0]
    values -= model.shares(feature) @ of_codes
    known = ~np.isnan(rows)
    missing = None if known.all() else float(values[-1])
    return _Points(rows[known], values[known], missing)


def _places(model: Model, feature: int) -> Floats:
    """Return where to look at the effect; NaN, for missing, last."""
    covariate = model.study.covariates[model.study.names[feature]]
    places = np.array(list_points(model, feature))
    if isinstance(covariate, Number) and covariate.spacing == "log":
        # What is straight in the value is curved on the paper.
        places = np.concatenate([places, np.geomspace(*covariate.range, 60)])
    return np.unique(places)


def _extremes(points: _Points) -> list[float]:
    ends = [float(points.values.min()), float(points.values.max())]
    return ends if points.missing is None else [*ends, points.missing]


@dataclass(frozen=True)
class _Scale:
    """F → height; ticks at round effects."""

    family: Family
    low: float
    high: float

    @classmethod
    def fit(cls, family: Family, values: Sequence[float]) -> _Scale:
        low = max(min([*values, -family.least_span]), -_LARGEST)
        high = min(max([*values, family.least_span]), _LARGEST)
        return cls(family, low - 0.04 * (high - low), high + 0.04 * (high - low))

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM), 1)

    def ticks(self) -> tuple[Tick, ...]:
        return tuple(
            Tick(self.y(value), self.family.tell_tick(effect))
            for value, effect in self.family.effect_ticks(self.low, self.high)
        )

    def tell(self, value: float) -> str:
        """Return the effect of F, as text."""
        return _tell_effect(self.family, value)


def _draw(model: Model, feature: int, parts: Sequence[_Points], scale: _Scale) -> EffectChart:
    name = model.study.names[feature]
    covariate = model.study.covariates[name]
    may_miss = parts[0].missing is not None
    wide = WIDTH - _LEFT - _RIGHT - (26 if may_miss else 0)
    drawn = [_draw_part(covariate, points, scale, wide, k) for k, points in enumerate(parts)]
    if isinstance(covariate, Number):
        place = _placer(covariate, wide)
        ticks = [Tick(place(x), write_minus(format_number(x))) for x in _round_ticks(covariate)]
    else:
        _, marks, _ = drawn[0]
        known = marks[: len(covariate.words)]
        every = max(1, math.ceil(len(known) / 8))
        ticks = [Tick(m.x, _shorten(m.text)) for m in known[::every]]
    if may_miss:
        ticks.append(Tick(_MISSING_AT, "?"))
    said = [
        words if level is None else f"{level}: {words}"
        for level, (_, _, words) in zip(list_parts(model), drawn, strict=True)
    ]
    return EffectChart(
        name,
        covariate.unit if isinstance(covariate, Number) else "",
        tuple(line for line, _, _ in drawn if line),
        tuple(mark for _, marks, _ in drawn for mark in marks),
        tuple(ticks),
        scale.ticks(),
        scale.y(0.0),
        f"{name}: {'. '.join(said)}",
    )


_MISSING_AT: Final = float(WIDTH - _RIGHT - 8)


def _draw_part(
    covariate: Covariate, points: _Points, scale: _Scale, wide: float, part: int
) -> tuple[str, list[Mark], str]:
    """Return line, dots and words of one class of the outcome, or of all that there is."""
    line, marks = "", []
    if isinstance(covariate, Number):
        xs = map(_placer(covariate, wide), points.x.tolist())
        line = draw_path(zip(xs, map(scale.y, points.values.tolist()), strict=True))
        words = _say_line(points, scale, covariate.step)
    else:
        step = wide / len(covariate.words)
        marks = [
            _mark(_LEFT + (k + 0.5) * step, float(points.values[k]), scale, label, part)
            for k, label in enumerate(covariate.words)
        ]
        words = ", ".join(f"{m.text} {m.effect}" for m in marks[:12])
    if points.missing is not None:
        marks.append(_mark(_MISSING_AT, points.missing, scale, "missing", part))
        words += f"; missing {marks[-1].effect}"
    return line, marks, words


def _mark(x: float, value: float, scale: _Scale, text: str, part: int) -> Mark:
    return Mark(round(x, 1), scale.y(value), text, scale.tell(value), part)


def _tell_effect(family: Family, value: float) -> str:
    effect = family.effect(min(value, _LARGEST))
    told = write_minus(family.tell_effect(effect, unit=False))
    return f"{family.words.effect_sign}{told}"


def _say_line(points: _Points, scale: _Scale, step: float | None) -> str:
    line = points.values.tolist()
    parts = [
        f"{scale.tell(line[k])} at {write_minus(format_number(float(points.x[k]), step))}"
        for k in dict.fromkeys((0, line.index(min(line)), line.index(max(line)), len(line) - 1))
    ]
    return f"{scale.family.words.effect_of} " + ", ".join(parts)


def _placer(covariate: Number, wide: float) -> Callable[[float], float]:
    low, high = covariate.range
    if covariate.spacing == "log":
        return lambda x: round(_LEFT + wide * math.log(x / low) / math.log(high / low), 1)
    return lambda x: round(_LEFT + wide * (x - low) / (high - low), 1)


def _round_ticks(covariate: Number) -> list[float]:
    """Return three to six round numbers inside the range."""
    low, high = covariate.range
    if covariate.spacing == "log" and high / low >= 30:
        every = max(1, math.ceil(math.log10(high / low) / 5))
        first = math.ceil(math.log10(low) - 1e-9)
        return [10.0**k for k in range(first, math.floor(math.log10(high) + 1e-9) + 1, every)]
    return round_steps(low, high)


def round_steps(low: float, high: float) -> list[float]:
    """Return three to six round numbers from `low` to `high`."""
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if (high - low) / (m * size) <= 6)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def draw_path(points: Iterable[tuple[float, float]]) -> str:
    """Return a line through points as an SVG path."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def _shorten(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def tabulate_pairs(model: Model, top: int) -> list[PairTable]:
    """Return the effects of the strongest pairs; of classes, of the strongest one of each."""
    levels = list_parts(model)
    top = top if len(levels) == 1 else 1
    return [
        tabulate_pair(model, pair, level)
        for level in levels
        for pair in strongest_pairs(model, top, level)
    ]


def tabulate_pair(model: Model, pair: tuple[int, int], level: str | None = None) -> PairTable:
    """Return the effect of two covariates together, relative to the average over patients.

    Bands are those that the shared rules tell apart; where these are more than
    a few, the strongest. A band counts as the average over its patients, as if the two
    covariates were independent.
    """
    bands = [_bands(model, j, pair, level) for j in pair]
    rows = np.array(list(product(*(list_codes(model, j).tolist() for j in pair))))
    shares = [model.shares(j) for j in pair]
    by_code = find_dependence(model, pair, rows, level).predictor.reshape(len(shares[0]), -1)
    of_rows, of_columns = (
        np.array([band.weights(own) for band in some])
        for some, own in zip(bands, shares, strict=True)
    )
    total = of_rows @ by_code @ of_columns.T - shares[0] @ by_code @ shares[1]
    most = max(float(np.abs(total).max()), 1e-300)
    family = model.study.family
    cells = tuple(
        tuple((_tell_effect(family, v), round(4 * v / most)) for v in row) for row in total.tolist()
    )
    names = [model.study.names[j] for j in pair]
    return PairTable(
        names[0],
        names[1],
        tuple(band.words for band in bands[0]),
        tuple(band.words for band in bands[1]),
        cells,
        level or "",
    )


@dataclass(frozen=True)
class _Band:
    """Neighbouring codes, first to before last."""

    first: int
    last: int
    words: str

    def weights(self, shares: Floats) -> Floats:
        """Return how much each code counts in the band, of sum 1; all alike if nobody has one."""
        inside = np.zeros(len(shares))
        inside[self.first : self.last] = 1.0
        patients = inside * shares
        chosen = patients if patients.sum() > 0 else inside
        weights: Floats = chosen / chosen.sum()
        return weights


def _bands(model: Model, feature: int, pair: tuple[int, int], level: str | None) -> list[_Band]:
    covariate = model.study.covariates[model.study.names[feature]]
    if not isinstance(covariate, Number):
        labels = covariate.words[: 2 * _MAX_BANDS]
        return [_Band(k, k + 1, label) for k, label in enumerate(labels)]
    axis = model.grid.axes[feature]
    ends = [0, *_strongest_cuts(model, feature, pair, level), axis.n_codes]
    bands = []
    for first, last in pairwise(ends):
        low, high = (
            write_minus(format_cutoff(axis, k - 1, covariate.step)) if 0 < k < axis.n_codes else ""
            for k in (first, last)
        )
        if low and high:
            words = f"{low} to < {high}"
        else:
            words = f"≥ {low}" if low else f"< {high}" if high else "any"
        bands.append(_Band(first, last, words))
    return bands


def _strongest_cuts(
    model: Model, feature: int, pair: tuple[int, int], level: str | None
) -> list[int]:
    """Return the codes at which the rules that name both of `pair` change most."""
    axis = model.grid.axes[feature]
    jumps: dict[int, float] = defaultdict(float)
    for term in model.rule_terms:
        if term.level != level or not set(pair) <= set(term.features):
            continue
        (codes,) = (c.codes for c in term.rule if c.feature == feature)
        for code in as_interval(codes) or ():
            if 0 < code < axis.n_codes:
                jumps[code] += term.importance
    return sorted(sorted(jumps, key=lambda cut: (-jumps[cut], cut))[: _MAX_BANDS - 1])
