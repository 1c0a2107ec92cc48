"""Models that no one fitted: any study, grid and rules, and patients with odd cells.

:func:`expected` is the naive twin of every predictor: a loop over cells that knows by heart what
a cell means, what the study's policy makes of it, and what is said.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.predictor import predict
from fedrulefit.core.rules import Condition, conjoin, interval
from fedrulefit.model import LinearTerm, Model, RuleTerm, Term
from fedrulefit.study import Category, Covariate, Number, Ordered, Study, Unusual, YesNo, level_key
from fedrulefit.table.spelling import read_number
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
MISSING_WORDS = {"", "na", "nan", "n/a", "null", "."}
MISSING_CODES: list[list[Any]] = [[], [], [-9], [-9, "unknown"], ["not asked", 999], ["?"]]
NO_LEVELS = [4, -9, 99, 2.5]
BAD_CELLS = [
    "abc", "1,5", "inf", "-Infinity", "1e400", "-1e400", "1_000_000", "0x10", "--", "icuu", "5 mg",
    "1,234", "1.234,5", "1 234", "1'234,5", "1,234.5", "1,234,567", "1.234.567", "0,125", "-12,75",
    "12 34", "1 234'567", "01,5", ",5", "1,2,3", "1 ,5", "1,5.5", "-1\u00a0234", "+7,5", "0,5,",
    "'", '"', "1e", "e5", "+", "1.2.3", "TRUE!", "²",
]  # fmt: skip


def random_model(rng: np.random.Generator, *, n_rules: int = 12) -> Model:
    """Return a model with every kind of covariate, and names and levels that need care."""
    n_features = int(rng.integers(1, len(NAMES) + 1))
    names = [str(name) for name in rng.permutation(NAMES)[:n_features]]
    covariates = {name: _covariate(rng) for name in names}
    study = Study.from_mapping(
        {
            "name": "any\n; study",
            "outcome": {"column": "died"},
            "covariates": covariates,
            "unusual": {
                "beyond": str(rng.choice(["clip", "clip", "missing", "refuse"])),
                "unseen": str(rng.choice(["missing", "missing", "refuse"])),
            },
        }
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
    kind = rng.choice(["number", "category", "ordered", "yes/no"])
    facts = {"kind": str(kind), "complete": bool(rng.random() < 0.3)}
    codes = MISSING_CODES[int(rng.integers(len(MISSING_CODES)))]
    if kind == "number":
        return {
            **facts,
            "range": [-50, 200],
            "unit": str(rng.choice(["", "µ'g"])),
            "missing": codes,
        }
    levels = LEVELS[int(rng.integers(len(LEVELS)))]
    facts["missing"] = codes
    if kind == "yes/no":
        return {**facts, "no": levels[0], "yes": levels[1]}
    return {**facts, "levels": levels}


def _axis(rng: np.random.Generator, covariate: Covariate) -> Axis:
    if isinstance(covariate, Category):
        return Axis("category", np.empty(0), len(covariate.levels), covariate.complete)
    if isinstance(covariate, Ordered):
        cuts = np.arange(len(covariate.levels) - 1) + 0.5
        ends = (0.0, float(len(cuts)))
        return Axis("ordered", cuts, len(cuts) + 1, covariate.complete, ends, 0.7, 0.4, 0.6)
    if isinstance(covariate, YesNo):
        return Axis("yes/no", np.array([0.5]), 2, covariate.complete, (0.0, 1.0), 0.45, 0.3, 0.3)
    digits = int(rng.choice([0, 1, 2, 17]))
    cutoffs = np.unique(rng.uniform(-50, 200, int(rng.integers(1, 12))).round(digits))
    low, high = sorted(rng.uniform(-50, 200, 2).tolist())
    fill = float(rng.uniform(low, high))
    centre = float(rng.choice([0.0, fill]))
    spread = float(rng.uniform(2, 40))
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


def plain_columns(
    rng: np.random.Generator, model: Model, n_rows: int, *, bad: float = 0.0
) -> dict[str, Column]:
    """Return columns that a graph can be given: numbers, and texts in the study's spelling."""
    return {
        name: _plain_column(rng, covariate, axis, n_rows, bad)
        for (name, covariate), axis in zip(
            model.study.covariates.items(), model.grid.axes, strict=True
        )
    }


def _plain_column(
    rng: np.random.Generator, covariate: Any, axis: Axis, n_rows: int, bad: float
) -> Column:
    gap = 0.0 if covariate.complete and not bad else 0.2
    codes = [code for code in covariate.missing if not covariate.complete or bad]
    if isinstance(covariate, Number):
        codes = [code for code in codes if isinstance(code, int)]
        x = rng.uniform(-90, 260, n_rows)
        at = rng.random(n_rows) < 0.4
        x[at] = rng.choice([*axis.cutoffs, *covariate.range], at.sum())
        if bad:
            x[rng.random(n_rows) < bad] = rng.choice([-np.inf, np.inf])
        return Column("number", [_plain_cell(rng, float(v), gap, codes) for v in x])
    spell = str if rng.random() < 0.5 else level_key
    levels = [spell(covariate.coded[int(k)]) for k in rng.integers(axis.n_codes, size=n_rows)]
    odd = [str(rng.choice(["icuu", "4", "-1"])) if rng.random() < bad else v for v in levels]
    return Column("text", [_plain_cell(rng, v, gap, codes) for v in odd])


def _column(
    rng: np.random.Generator, covariate: Any, axis: Axis, n_rows: int, bad: float
) -> Column:
    gap = 0.0 if covariate.complete and not bad else 0.2
    codes = [code for code in covariate.missing if not covariate.complete or bad]
    numeric = [code for code in codes if isinstance(code, int)]
    if isinstance(covariate, Number):
        exact = rng.uniform(-90, 260, n_rows).round(int(rng.choice([0, 1, 17])))
        at = rng.random(n_rows) < 0.4
        exact[at] = rng.choice([*axis.cutoffs, *covariate.range], at.sum())  # right on a cut-off
        if bad:
            exact[rng.random(n_rows) < bad] = rng.choice([-np.inf, np.inf])
        if rng.random() < 0.5:
            cells = [_plain_cell(rng, float(x), gap, numeric) for x in exact]
            return Column("number", cells)
        texts = [_odd(rng, float(x.round(3))) for x in exact]
        return Column("text", [_text_cell(rng, text, gap, bad, codes) for text in texts])
    levels = covariate.coded
    picked = [levels[int(k)] for k in rng.integers(len(levels), size=n_rows)]
    if all(isinstance(v, bool) for v in levels) and rng.random() < 0.5:
        return Column("boolean", [None if rng.random() < gap else v for v in picked])
    if all(type(v) is int for v in levels) and rng.random() < 0.6:
        odd = [rng.choice(NO_LEVELS) if rng.random() < bad else v for v in picked]
        kind = "number" if any(v != int(v) for v in odd) else str(rng.choice(["number", "whole"]))
        cast = float if kind == "number" else int
        return Column(kind, [_plain_cell(rng, cast(v), gap, numeric) for v in odd])
    if set(levels) == {0, 1} and rng.random() < 0.5:
        return Column("boolean", [None if rng.random() < gap else bool(v) for v in picked])
    spelt = [_spell(rng, level) for level in picked]
    return Column("text", [_text_cell(rng, text, gap, bad, codes) for text in spelt])


def _plain_cell(rng: np.random.Generator, cell: Any, gap: float, codes: list[Any]) -> Any:
    if rng.random() < gap:
        return type(cell)(rng.choice(codes)) if codes and rng.random() < 0.5 else None
    return cell


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


def _text_cell(
    rng: np.random.Generator, text: str, gap: float, bad: float, codes: list[Any]
) -> str | None:
    if rng.random() < bad:
        return str(rng.choice(BAD_CELLS))
    if rng.random() < gap:
        if codes and rng.random() < 0.5:
            code = str(codes[int(rng.integers(len(codes)))])
            return str(rng.choice([code, code.upper(), f" {code}"]))
        return None if rng.random() < 0.5 else str(rng.choice(MISSING_CELLS))
    return text


# --- the naive twin of all predictors -----------------------------------------------------


def expected(model: Model, columns: dict[str, Column]) -> tuple[list[float | None], list[str]]:
    """Return each patient's probability (None where there is none) and flags, cell by cell."""
    study, n_rows = model.study, len(next(iter(columns.values())).cells)
    values = np.full((n_rows, study.n_features), np.nan)
    flags: list[list[str]] = [[] for _ in range(n_rows)]
    refused = [False] * n_rows
    for j in sorted({feature for term in model.terms for feature in term.features}):
        name = study.names[j]
        for i, cell in enumerate(columns[name].cells):
            kind, value = look_at(cell, study.covariates[name])
            values[i, j], flag = judge(kind, value, name, study.covariates[name], study.unusual)
            flags[i] += [flag] * bool(flag)
            refused[i] |= flag.endswith("no prediction")
    terms: list[Any] = [*model.rule_terms, *model.linear_terms]
    predictor = predict(
        values,
        model.grid,
        [term.rule for term in model.rule_terms],
        [term.feature for term in model.linear_terms],
        np.array([model.intercept, *(term.coefficient for term in terms)]),
    )
    chances = (1 / (1 + np.exp(-predictor))).tolist()
    told = [None if no else p for p, no in zip(chances, refused, strict=True)]
    return told, ["; ".join(words) for words in flags]


def look_at(cell: Any, covariate: Covariate) -> tuple[str, float]:
    """Return what kind of cell it is, and its value in the study's coding."""
    if cell is None or cell != cell:
        return "missing", np.nan
    if isinstance(cell, bool):
        cell = int(cell)
    text = str(cell).strip()
    codes = {level_key(code).casefold() for code in covariate.missing}
    if isinstance(covariate, Number):
        if text.casefold() in MISSING_WORDS or level_key(text).casefold() in codes:
            return "missing", np.nan
        number = read_number(text)  # its own oracle is a table of spellings
        if number is None:
            return "unreadable", np.nan
        if level_key(number) in codes:
            return "missing", np.nan
        value = number
        low, high = covariate.range
        return "below" if value < low else "above" if value > high else "known", value
    keys = [level_key(level) for level in covariate.coded]
    key = level_key(text)
    if sorted(keys) == ["false", "true"]:
        key = {"0": "false", "1": "true"}.get(key, key)
    if sorted(keys) == ["0", "1"]:
        key = {"false": "0", "true": "1"}.get(key, key)
    if key in keys:
        return "known", float(keys.index(key))
    absent = (MISSING_WORDS - {k.casefold() for k in keys}) | codes
    return "missing" if key.casefold() in absent else "unseen", np.nan


def judge(
    kind: str, value: float, name: str, covariate: Covariate, policy: Unusual
) -> tuple[float, str]:
    """Return what the cell counts as, and what is said of it."""
    if kind == "known":
        return value, ""
    if kind == "missing":
        return np.nan, f"{name} missing: no prediction" if covariate.complete else ""
    fate = policy.beyond if kind in ("below", "above") else policy.unseen
    what = {
        "below": "below the range",
        "above": "above the range",
        "unseen": "not a level of the study",
        "unreadable": "not a number",
    }[kind]
    if fate == "clip":
        assert isinstance(covariate, Number)
        end = covariate.range[kind == "above"]
        return end, f"{name} {what}: counted as {end:g} {covariate.unit}".rstrip()
    refuse = fate == "refuse" or covariate.complete
    return np.nan, f"{name} {what}: {'no prediction' if refuse else 'counted as missing'}"


def over_time(rng: np.random.Generator, model: Model, *, horizons: Any = (0.5, 90, 365)) -> Model:
    """Return a model of a time to an event, with the terms of another model."""
    facts = model.study.model_dump()
    facts["outcome"] = {
        "kind": "time", "time": "days", "event": "gone", "unit": "days",
        "horizons": list(horizons), "intervals": 5,
    }  # fmt: skip
    baseline = np.log(rng.dirichlet(np.ones(5)) + 1e-6) + 0.01  # as rounded: not quite the whole
    return dataclasses.replace(
        model,
        study=Study.from_mapping(facts),
        baseline=tuple(baseline.tolist()),
        evaluation=None,
        validation=None,
    )
