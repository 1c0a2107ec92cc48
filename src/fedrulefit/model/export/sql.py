"""A model → one SELECT that scores a table in the hospital's own database.

In: a model. Out: SQL text. No patient and no connection is needed.

The query reads top to bottom:

===========  ==============================================================
``cells``    the study's raw columns, as text without blanks around them
``spelt``    of numbers, that text with a decimal point and nothing else
``read``     each covariate's value: a number, 1/0 for yes/no, a category's
             level; NULL where there is none. ``absent1`` is 1 where the cell
             of ``x1`` says that the value is missing
``counted``  the value as it counts, and in ``unusual1`` which kind of
             :class:`~fedrulefit.table.reading.Cell` it is that the study does
             not foresee, else 0 (:mod:`fedrulefit.model.unforeseen`)
``scores``   the linear predictor F: intercept + rules + linear terms, NULL
             for a patient who gets no prediction; the flags in words
===========  ==============================================================

Only covariates that the model's terms name are read.

Oracle: :meth:`fedrulefit.Model.predict_frame` (``tests/unit/model/export/test_sql.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.families import Family
from fedrulefit.core.families.recipes import Language
from fedrulefit.core.grid import RULE_SPREAD, Axis
from fedrulefit.core.rules import Condition, as_interval
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import LinearTerm, Model, Term
from fedrulefit.model.export.dialects import Dialect, find_dialect, quote_name
from fedrulefit.model.prediction import BETWEEN_FLAGS, FLAGS_COLUMN, list_results
from fedrulefit.model.publish import check_rounding
from fedrulefit.model.unforeseen import list_flags
from fedrulefit.study import Category, Covariate, Level, Number, level_key
from fedrulefit.table.cells import MISSING_WORDS, boolean_aliases
from fedrulefit.table.reading import Cell

if TYPE_CHECKING:
    from fedrulefit.model import RuleTerm

_STEEPEST: Final = 700.0
"""The exponential of it, times as many levels as there can be, still is a number."""

_NAN_WORDS: Final = frozenset({"-nan", "+nan"})
"""DuckDB writes a NaN so, and Python reads it as one."""


def write_sql(
    model: Model,
    dialect: str,
    *,
    table: str | Sequence[str] = "patients",
    key: str | Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    linear_predictor: bool = False,
) -> str:
    """Return the query; see :meth:`fedrulefit.Model.to_sql`."""
    check_rounding(model)
    sql = find_dialect(dialect)
    keys = [key] if isinstance(key, str) else list(key)
    place = [table] if isinstance(table, str) else list(table)
    _check_names(model, keys, place, columns or {})
    names = {name: (columns or {}).get(name, name) for name in model.study.names}
    return "\n".join(
        [
            *_heading(model, sql),
            "WITH",
            _write_step("fedrulefit_cells", _cells(model, sql, names, keys), place),
            _write_step("fedrulefit_spelt", _spelt(model, sql, keys), ["fedrulefit_cells"]),
            _write_step("fedrulefit_read", _read(model, sql, keys), ["fedrulefit_spelt"]),
            _write_step("fedrulefit_counted", _counted(model, sql, keys), ["fedrulefit_read"]),
            _write_step(
                "fedrulefit_scores",
                [
                    *_key_names(keys),
                    *(
                        f"{_predictor(model, sql, part)} AS {name}"
                        for part, name in enumerate(_name_predictors(model))
                    ),
                    f"{_flags(model, sql)} AS {FLAGS_COLUMN}",
                ],
                ["fedrulefit_counted"],
            ).removesuffix(","),
            "SELECT",
            _listed(_results(model, sql, keys, linear_predictor=linear_predictor)),
            "FROM fedrulefit_scores",
            "",
        ]
    )


def _check_names(
    model: Model, keys: Sequence[str], place: Sequence[str], columns: Mapping[str, str]
) -> None:
    predictions, predictors = list_results(model)
    results = (*predictions, *predictors, FLAGS_COLUMN)
    taken = [name.casefold() for name in (*results, *keys)]
    if len(set(taken)) < len(taken):
        raise FedRuleFitError(
            f"a key column is named twice, or as one of the results ({', '.join(results)}): "
            "rename the column, for instance in a view"
        )
    if not place or not all((*place, *keys, *columns.values())):
        raise FedRuleFitError("a name of a table or column is empty: give its name")
    if place[-1].casefold().startswith("fedrulefit_"):
        raise FedRuleFitError(f"table {place[-1]!r} may clash with names of the query: rename it")
    unknown = [name for name in columns if name not in model.study.covariates]
    if unknown:
        raise FedRuleFitError(
            f"the study has no covariate {unknown[0]!r}: it has {', '.join(model.study.names)}"
        )


# --- the steps of the query ---------------------------------------------------------------


def _heading(model: Model, sql: Dialect) -> list[str]:
    outcome = model.study.outcome.label or model.study.outcome.column
    words = model.study.family.words
    return [
        f"-- {_comment(model.study.name)}: {words.prediction} of {_comment(outcome)}"
        f"{_comment(words.by)}",
        f"-- fedrulefit, for {sql.name}. What is unusual about a patient is in {FLAGS_COLUMN}.",
        *([f"-- {_comment(model.of_hospital_file)}"] if model.of_hospital else []),
    ]


def _write_step(name: str, columns: Sequence[str], source: Sequence[str]) -> str:
    """MATERIALIZED, or a database would read the cells anew for every rule."""
    where = ".".join(quote_name(part) for part in source)
    return f"{name} AS MATERIALIZED (\n  SELECT\n{_listed(columns)}\n  FROM {where} AS t\n),"


def _listed(columns: Sequence[str]) -> str:
    """One column a line; a comment stands behind the comma."""
    lines = []
    for k, column in enumerate(columns):
        code, mark, comment = column.partition(_REMARK)
        comma = "," if k + 1 < len(columns) else ""
        lines.append(f"    {code}{comma}" + (f"  -- {comment}" if mark else ""))
    return "\n".join(lines)


_REMARK: Final = "\0"
"""Parts a column from its comment; no name in a query holds it."""


def _cells(model: Model, sql: Dialect, names: Mapping[str, str], keys: Sequence[str]) -> list[str]:
    # Only a name behind "t." is never taken for a text, as SQLite does.
    chosen = [f"t.{quote_name(key)} AS {k}" for k, key in zip(_key_names(keys), keys, strict=True)]
    for feature in _features(model):
        name = model.study.names[feature]
        cell = sql.cell(f"t.{quote_name(names[name])}")
        chosen.append(f"{cell} AS {_x(feature)}{_REMARK}{_comment(name)}")
    return chosen or ["1 AS one"]


def _spelt(model: Model, sql: Dialect, keys: Sequence[str]) -> list[str]:
    chosen = _key_names(keys)
    for feature in _features(model):
        name, x = model.study.names[feature], _x(feature)
        number = isinstance(model.study.covariates[name], Number)
        chosen.append(f"{sql.spell(x) if number else x} AS {x}{_REMARK}{_comment(name)}")
    return chosen or ["1 AS one"]


def _read(model: Model, sql: Dialect, keys: Sequence[str]) -> list[str]:
    chosen = _key_names(keys)
    for feature in _features(model):
        name, x = model.study.names[feature], _x(feature)
        covariate = model.study.covariates[name]
        chosen.append(f"{_read_cell(covariate, sql, x)} AS {x}{_REMARK}{_comment(name)}")
        absent = _write_absent(covariate, sql, x)
        chosen.append(f"CASE WHEN {absent} THEN 1 ELSE 0 END AS {_absent(feature)}")
    return chosen or ["1 AS one"]


def _counted(model: Model, sql: Dialect, keys: Sequence[str]) -> list[str]:
    chosen, words = _key_names(keys), list_flags(model)
    for feature in _features(model):
        name, x, absent = model.study.names[feature], _x(feature), f"{_absent(feature)} = 1"
        covariate, flags = model.study.covariates[name], words[feature]
        missing = int(Cell.MISSING in flags)
        if isinstance(covariate, Number):
            low, high = (sql.exact(end) for end in covariate.range)
            below, above = (
                sql.exact(flags[cell].value) if flags[cell].fate == "clip" else "NULL"
                for cell in (Cell.BELOW, Cell.ABOVE)
            )
            value = (
                f"CASE WHEN {absent} THEN NULL WHEN {x} < {low} THEN {below} "
                f"WHEN {x} > {high} THEN {above} ELSE {x} END"
            )
            unusual = (
                f"WHEN {absent} THEN {missing} WHEN {x} IS NULL THEN {Cell.UNREADABLE:d} "
                f"WHEN {x} < {low} THEN {Cell.BELOW:d} WHEN {x} > {high} THEN {Cell.ABOVE:d} ELSE 0"
            )
        else:
            value = x
            unusual = (
                f"WHEN {x} IS NOT NULL THEN 0 WHEN {absent} THEN {missing} ELSE {Cell.UNSEEN:d}"
            )
        chosen.append(f"{value} AS {x}{_REMARK}{_comment(name)}")
        chosen.append(f"CASE {unusual} END AS {_unusual(feature)}")
    return chosen or ["1 AS one"]


def _name_predictors(model: Model) -> list[str]:
    """Return the columns of F, as SQL writes them: names of levels may be any text."""
    _, names = list_results(model)
    return [quote_name(name) for name in names] if model.study.family.own_terms else names


def _predictor(model: Model, sql: Dialect, part: int) -> str:
    family, start = model.study.family, model.intercept
    level = family.names[part] if family.own_terms else None
    if level is not None:
        start = float(family.starts(model.intercept, model.baseline)[part])
    terms = [sql.real(start) + f"{_REMARK}intercept"]
    terms += [_write_term(term, model, sql) for term in model.terms if term.level == level]
    refused = []
    for feature, flags in enumerate(list_flags(model)):
        kinds = [f"{cell:d}" for cell, flag in flags.items() if flag.fate == "refuse"]
        refused += [f"{_unusual(feature)} IN ({', '.join(kinds)})"] if kinds else []
    total = _write_chain(terms, "+")
    return f"CASE WHEN {_any(refused)} THEN NULL ELSE\n{total}\n    END"


def _any(tests: Sequence[str]) -> str:
    return " OR ".join(tests) or "1 = 0"


def _flags(model: Model, sql: Dialect) -> str:
    """Return what is unusual about a patient, in words, one after another."""
    told = []
    for feature, flags in enumerate(list_flags(model)):
        cases = " ".join(
            f"WHEN {cell:d} THEN {sql.text(BETWEEN_FLAGS + flag.text)}"
            for cell, flag in flags.items()
        )
        told += [f"CASE {_unusual(feature)} {cases} ELSE '' END{_REMARK}"] if cases else []
    if not told:
        return "''"
    return f"substr(\n{_write_chain(told, '||')}\n    , {len(BETWEEN_FLAGS) + 1})"


def _results(
    model: Model, sql: Dialect, keys: Sequence[str], *, linear_predictor: bool
) -> list[str]:
    family = model.study.family
    shown = [f"{k} AS {quote_name(key)}" for k, key in zip(_key_names(keys), keys, strict=True)]
    predictors, (names, _) = _name_predictors(model), list_results(model)
    if not family.own_terms:
        shown.append(f"{family.link.sql(predictors[0], sql.real)} AS {names[0]}")
    for horizon in model.further:
        shifted = f"({predictors[0]} + {sql.real(horizon.shift)})"
        shown.append(f"{family.link.sql(shifted, sql.real)} AS {horizon.column}")
    written = family.write_levels(_InSql(family, sql), predictors, model.baseline)
    levels = zip(written, names[len(names) - len(written) :], strict=True)
    shown += [f"{chance} AS {quote_name(name)}" for chance, name in levels]
    return [*shown, *(predictors if linear_predictor else []), FLAGS_COLUMN]


class _InSql(Language):
    """Writes numbers as SQL; every expression is in brackets."""

    def __init__(self, family: Family, sql: Dialect) -> None:
        self.family, self.sql = family, sql

    def number(self, value: float) -> str:
        return f"({self.sql.real(value)})"

    def add(self, first: str, second: str) -> str:
        return f"({first} + {second})"

    def multiply(self, first: str, second: str) -> str:
        return f"({first} * {second})"

    def negate(self, value: str) -> str:
        return f"(-{value})"

    def invert(self, value: str) -> str:
        return f"({self.sql.real(1.0)} / {value})"

    def exp(self, value: str) -> str:
        # Databases refuse what is too large, some what is too small.
        end = self.sql.real(_STEEPEST)
        return (
            f"exp(CASE WHEN {value} > {end} THEN {end} WHEN {value} < -{end} THEN -{end} "
            f"ELSE {value} END)"
        )

    def link(self, value: str) -> str:
        return f"({self.family.link.sql(value, self.sql.real)})"


# --- cells --------------------------------------------------------------------------------


def _read_cell(covariate: Covariate, sql: Dialect, x: str) -> str:
    """Return the value of a cell."""
    if isinstance(covariate, Number):
        return sql.number(x)
    if isinstance(covariate, Category):
        keys = [level_key(level) for level in covariate.levels]
        return _match(covariate.levels, [sql.text(key) for key in keys], sql, x)
    codes = [sql.real(float(code)) for code in range(len(covariate.coded))]
    return _match(covariate.coded, codes, sql, x)


def _write_absent(covariate: Covariate, sql: Dialect, x: str) -> str:
    """Return whether a cell says that the value is missing, as ``cells.py`` finds it.

    A word that the study declares as a level is not missing.
    """
    levels = () if isinstance(covariate, Number) else covariate.coded
    words = (MISSING_WORDS | _NAN_WORDS) - {level_key(level).casefold() for level in levels}
    found: dict[str, set[str]] = {f"lower({x})": {sql.text(word) for word in words}}
    for key in map(level_key, covariate.missing):
        subject, literal = _compare(key, sql, x)
        found.setdefault(subject, set()).add(literal)
        if subject == x:
            found[f"lower({x})"].add(sql.text(key.casefold()))
    tests = [f"{subject} IN ({', '.join(sorted(known))})" for subject, known in found.items()]
    return _any([f"{x} IS NULL", *tests])


def _match(levels: Sequence[Level], codes: Sequence[str], sql: Dialect, x: str) -> str:
    """Return the code of the level that a cell spells, as ``match_levels`` finds it.

    A level that is a number meets any spelling of that number, and true and
    false any case; beyond 15 digits the digits count. All others must be
    spelt as the study does.
    """
    places = {level_key(level): code for level, code in zip(levels, codes, strict=True)}
    spelt = {str(level).strip(): code for level, code in zip(levels, codes, strict=True)}
    lookups: dict[str, dict[str, str]] = {x: {}, sql.number(x): {}, sql.digits(x): {}}
    lookups[f"lower({x})"] = {}
    for key, code in {**places, **boolean_aliases(places)}.items():
        subject, literal = _compare(key, sql, x)
        lookups[subject][literal] = code
    for text, code in spelt.items():
        if level_key(text) not in ("true", "false") and not _is_plain(text):
            lookups[x].setdefault(sql.text(text), code)
    cases = [
        f"CASE {subject} "
        + " ".join(f"WHEN {literal} THEN {code}" for literal, code in found.items())
        + " END"
        for subject, found in lookups.items()
        if found
    ]
    return cases[0] if len(cases) == 1 else f"COALESCE({', '.join(cases)})"


def _compare(key: str, sql: Dialect, x: str) -> tuple[str, str]:
    """Return what of a cell is compared with the key of a level, and with which literal."""
    if key in ("true", "false"):
        return f"lower({x})", sql.text(key)
    if key.isascii() and key.isdecimal() and len(key) > 15:
        return sql.digits(x), sql.text(key)
    if _is_finite(key):
        return sql.number(x), sql.exact(float(key))
    return x, sql.text(key)


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_plain(text: str) -> bool:
    """Whether a database reads it as the number that Python does."""
    return _is_finite(text) and text.isascii() and "_" not in text


# --- terms --------------------------------------------------------------------------------


def _write_chain(terms: Sequence[str], sign: str) -> str:
    """Chain in blocks: databases bound how deep a chain of + or || may nest."""
    size = max(8, math.isqrt(len(terms)))
    blocks = [terms[k : k + size] for k in range(0, len(terms), size)]
    lines = []
    for k, block in enumerate(blocks):
        lines.append("      (" if k == 0 else f"      {sign} (")
        for i, term in enumerate(block):
            code, _, comment = term.partition(_REMARK)
            remark = f"  -- {comment}" if comment else ""
            lines.append(f"        {f'{sign} ' if i else ''}{code}{remark}")
        lines.append("      )")
    return "\n".join(lines)


def _write_term(term: Term, model: Model, sql: Dialect) -> str:
    remark = _REMARK + _comment(model.describe(term))
    if isinstance(term, LinearTerm):
        return _write_linear(term, model.grid.axes[term.feature], sql) + remark
    return _write_rule(term, model, sql) + remark


def _write_linear(term: LinearTerm, axis: Axis, sql: Dialect) -> str:
    x, (low, high) = _x(term.feature), axis.limits
    fill, *ends = (sql.real(v) for v in (float(np.clip(axis.fill, low, high)), low, high))
    kept = (
        f"CASE WHEN {x} IS NULL THEN {fill} WHEN {x} < {ends[0]} THEN {ends[0]} "
        f"WHEN {x} > {ends[1]} THEN {ends[1]} ELSE {x} END"
    )
    scaled = f"{sql.real(RULE_SPREAD)} * ({kept} - {sql.real(axis.centre)})"
    return f"{sql.real(term.coefficient)} * ({scaled} / {sql.real(axis.spread)})"


def _write_rule(term: RuleTerm, model: Model, sql: Dialect) -> str:
    conditions = [_write_condition(c, model, sql) for c in term.rule] or ["1 = 1"]
    return f"CASE WHEN {' AND '.join(conditions)} THEN {sql.real(term.coefficient)} ELSE 0 END"


def _write_condition(condition: Condition, model: Model, sql: Dialect) -> str:
    axis, x = model.grid.axes[condition.feature], _x(condition.feature)
    present = condition.codes & ((1 << axis.n_codes) - 1)
    if present == 0:
        return f"{x} IS NULL" if condition.missing else "1 = 0"
    if present == (1 << axis.n_codes) - 1:
        return "1 = 1" if condition.missing else f"{x} IS NOT NULL"
    bounds = as_interval(present) if axis.ordered else None
    if bounds is not None:
        test = _write_interval(bounds, axis, sql, x)
    else:
        test = _write_levels(present, condition.feature, model, sql)
    return f"({test} OR {x} IS NULL)" if condition.missing else test


def _write_interval(bounds: tuple[int, int], axis: Axis, sql: Dialect, x: str) -> str:
    lo, hi = bounds
    parts = [f"{x} >= {sql.exact(float(axis.cutoffs[lo - 1]))}"] if lo > 0 else []
    if hi < axis.n_codes:
        parts.append(f"{x} < {sql.exact(float(axis.cutoffs[hi - 1]))}")
    return " AND ".join(parts)


def _write_levels(present: int, feature: int, model: Model, sql: Dialect) -> str:
    covariate = model.study.covariates[model.study.names[feature]]
    if not isinstance(covariate, Category):
        raise FedRuleFitError("a condition on a number must be an interval")
    keys = [level_key(v) for code, v in enumerate(covariate.levels) if present >> code & 1]
    listed = ", ".join(sql.text(key) for key in keys)
    return f"{_x(feature)} = {listed}" if len(keys) == 1 else f"{_x(feature)} IN ({listed})"


# --- names --------------------------------------------------------------------------------


def _features(model: Model) -> list[int]:
    return sorted(model.features)


def _x(feature: int) -> str:
    return f"x{feature + 1}"


def _absent(feature: int) -> str:
    return f"absent{feature + 1}"


def _unusual(feature: int) -> str:
    return f"unusual{feature + 1}"


def _key_names(keys: Sequence[str]) -> list[str]:
    return [f"key{k}" for k in range(1, len(keys) + 1)]


def _comment(text: str) -> str:
    """Return a text that cannot end a comment."""
    return "".join(c if c.isprintable() else " " for c in text)
