"""Models that no one fitted: any study, grid and rules, and patients with odd cells."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, conjoin, interval
from fedrulefit.model import LinearTerm, Model, RuleTerm, Term
from fedrulefit.study import Category, Number, Study, YesNo
from fedrulefit.table.cells import match_levels, parse_numbers
from tests.databases import Column

GOLDEN = Path(__file__).parent / "golden" / "model-v2.json"

NAMES = ["age", "Größe (cm)", 'say "hi"', "a'b; DROP TABLE patients; --", "select", "x2", "血圧 $1"]
LEVELS: list[list[Any]] = [
    ["icu", "er", "general"],
    [1, 2, 3, 10],
    [0, 1],
    [True, False],
    ["1.5", 2, "III", -4],
    ["it's", 'a "b"', "back\\slash", "\\' OR 1 = 1 --", "%s :x ?", "ü😀"],
    ["NA", "b"],
    ["404684003", "123456789012345678", "123456789012345679"],
    ["1_000", "x"],
    ["true", "maybe", "Inf"],
    ["ICU", "icu"],
]
MISSING_CELLS = ["", " ", "NA", "nan", "N/A", "null", ".", " na\t"]
ODD_NUMBERS = [
    "{}", " {} ", "+{}", "{}e0", "0{}", "\t{}\n", "{}\u00a0", "{}0", "{}E+00",
]  # fmt: skip
BAD_CELLS = [
    "abc", "1,5", "inf", "-Infinity", "1e400", "1_000_000", "0x10", "--", "icuu", "5 mg",
    "'", '"', "1e", "e5", "+", "1.2.3", "TRUE!", "²",
]  # fmt: skip


def random_model(rng: np.random.Generator, *, n_rules: int = 12) -> Model:
    """Return a model with every kind of covariate, and names and levels that need care."""
    n_features = int(rng.integers(1, len(NAMES) + 1))
    names = [str(name) for name in rng.permutation(NAMES)[:n_features]]
    covariates = {name: _covariate(rng) for name in names}
    study = Study.from_mapping(
        {"name": "any\n; study", "outcome": {"column": "died"}, "covariates": covariates}
    )
    grid = Grid(tuple(_axis(rng, covariate) for covariate in study.covariates.values()))
    terms: list[Term] = []
    for _ in range(n_rules):
        chosen = rng.choice(n_features, min(n_features, int(rng.integers(1, 4))), replace=False)
        rule = conjoin((_condition(rng, int(j), grid.axes[int(j)]) for j in chosen), grid)
        if rule is not None and len(rule):
            terms.append(RuleTerm(rule, float(rng.normal()), 1.0, 1.0, 0.0))
    terms += [LinearTerm(j, float(rng.normal()), 1.0) for j in grid.linear if rng.random() < 0.6]
    return dataclasses.replace(
        Model.load(GOLDEN),
        study=study,
        grid=grid,
        intercept=float(rng.normal()),
        terms=tuple(terms),
    )


def _covariate(rng: np.random.Generator) -> dict[str, Any]:
    complete = bool(rng.random() < 0.3)
    kind = rng.choice(["number", "category", "yes/no"])
    if kind == "number":
        return {"kind": "number", "range": [-50, 200], "complete": complete}
    levels = LEVELS[int(rng.integers(len(LEVELS)))]
    if kind == "yes/no":
        return {"kind": "yes/no", "no": levels[0], "yes": levels[1], "complete": complete}
    return {"kind": "category", "levels": levels, "complete": complete}


def _axis(rng: np.random.Generator, covariate: Number | Category | YesNo) -> Axis:
    if isinstance(covariate, Category):
        return Axis("category", np.empty(0), len(covariate.levels), covariate.complete)
    if isinstance(covariate, YesNo):
        return Axis("yes/no", np.array([0.5]), 2, covariate.complete, (0.0, 1.0), 0.45, 0.3, 0.3)
    digits = int(rng.choice([0, 1, 2, 17]))
    cutoffs = np.unique(rng.uniform(-50, 200, int(rng.integers(1, 12))).round(digits))
    low, high = sorted(rng.uniform(-50, 200, 2).tolist())
    fill = float(rng.uniform(low, high))
    centre = float(rng.choice([0.0, fill]))
    spread = float(rng.uniform(0.1, 40))
    return Axis(
        "number", cutoffs, len(cutoffs) + 1, covariate.complete, (low, high), spread, centre, fill
    )


def _condition(rng: np.random.Generator, feature: int, axis: Axis) -> Condition:
    missing = bool(rng.random() < 0.4)
    if axis.ordered:
        lo, hi = sorted(rng.integers(0, axis.n_codes + 1, 2).tolist())
        return Condition(feature, interval(lo, hi, missing=missing))
    return Condition(feature, int(rng.integers(0, 1 << axis.n_codes)) | missing << 255)


def random_columns(
    rng: np.random.Generator, model: Model, n_rows: int, *, bad: float = 0.0
) -> dict[str, Column]:
    """Return the study's columns with odd but right cells; a share `bad` is wrong."""
    return {
        name: _column(rng, covariate, axis, n_rows, bad)
        for (name, covariate), axis in zip(
            model.study.covariates.items(), model.grid.axes, strict=True
        )
    }


def _column(
    rng: np.random.Generator, covariate: Any, axis: Axis, n_rows: int, bad: float
) -> Column:
    gap = 0.0 if covariate.complete and not bad else 0.2
    if isinstance(covariate, Number):
        exact = rng.uniform(-90, 260, n_rows).round(int(rng.choice([0, 1, 17])))
        at = rng.random(n_rows) < 0.4
        exact[at] = rng.choice(axis.cutoffs, at.sum())  # right on a cut-off
        if rng.random() < 0.5:
            cells = [None if rng.random() < gap else float(x) for x in exact]
            return Column("number", cells)
        texts = [_odd(rng, float(x.round(3))) for x in exact]
        return Column("text", [_text_cell(rng, text, gap, bad) for text in texts])
    levels = covariate.levels if isinstance(covariate, Category) else (covariate.no, covariate.yes)
    picked = [levels[int(k)] for k in rng.integers(len(levels), size=n_rows)]
    if all(isinstance(v, bool) for v in levels) and rng.random() < 0.5:
        return Column("boolean", [None if rng.random() < gap else v for v in picked])
    if all(type(v) is int for v in levels) and rng.random() < 0.6:
        kind = str(rng.choice(["number", "whole"]))
        cast = float if kind == "number" else int
        return Column(kind, [None if rng.random() < gap else cast(v) for v in picked])
    if set(levels) == {0, 1} and rng.random() < 0.5:
        return Column("boolean", [None if rng.random() < gap else bool(v) for v in picked])
    spelt = [_spell(rng, level) for level in picked]
    missing = gap if covariate.complete is False or bad else 0.0
    return Column("text", [_text_cell(rng, text, missing, bad) for text in spelt])


def _odd(rng: np.random.Generator, value: float) -> str:
    spelt = repr(value)
    form = str(rng.choice(ODD_NUMBERS))
    if spelt.startswith("-") and ("+{" in form or form.startswith("0")):
        form = "{}"
    return form.format(spelt)


def _spell(rng: np.random.Generator, level: Any) -> str:
    if isinstance(level, bool):
        return str(rng.choice([str(level), str(level).lower(), str(level).upper()]))
    blanks = str(rng.choice(["{}", "{}", " {}", "{}\t", " {}\n"]))
    if isinstance(level, int):
        ways = [f"{level}", f"{level}.0", f"{level}.", f"{level}e0"]
        ways += [f"0{level}", f"+{level}.00"] if level >= 0 else []
        return blanks.format(str(rng.choice(ways)))
    return blanks.format(level)


def _text_cell(rng: np.random.Generator, text: str, gap: float, bad: float) -> str | None:
    if rng.random() < bad:
        return str(rng.choice(BAD_CELLS))
    if rng.random() < gap:
        return None if rng.random() < 0.5 else str(rng.choice(MISSING_CELLS))
    return text


def expected(model: Model, columns: dict[str, Column]) -> list[float | None]:
    """Return each probability, cell by cell; None where Python would refuse a cell."""
    n_rows = len(next(iter(columns.values())).cells)
    values = np.full((n_rows, model.study.n_features), np.nan)
    fine = np.ones(n_rows, dtype=bool)
    used = {feature for term in model.terms for feature in term.features}
    for j in sorted(used):
        name = model.study.names[j]
        for i, cell in enumerate(columns[name].cells):
            value = _read(cell, model.study.covariates[name])
            values[i, j], fine[i] = (value, fine[i]) if value is not None else (np.nan, False)
    for j in range(model.study.n_features):
        if j not in used and model.grid.axes[j].complete:
            values[:, j] = 0
    chances = np.full(n_rows, np.nan)
    chances[fine] = model.predict_proba(values[fine])
    return [float(p) if ok else None for p, ok in zip(chances, fine, strict=True)]


def _read(cell: Any, covariate: Any) -> float | None:
    """Return what the table reader makes of one cell, None for an error."""
    raw = np.array([cell], dtype=object)
    if isinstance(cell, (bool, int, float)):
        raw = np.array([cell], dtype=np.float64)
    if isinstance(covariate, Number):
        numbers = parse_numbers(raw)
        if numbers.n_not_number or numbers.n_infinite:
            return None
        value = float(numbers.values[0])
    else:
        levels = (
            covariate.levels if isinstance(covariate, Category) else (covariate.no, covariate.yes)
        )
        found, unknown = match_levels(raw, levels)
        if unknown.any():
            return None
        value = float(found[0])
    return None if covariate.complete and np.isnan(value) else value
