"""Rows, drawings and the calculator's facts → one HTML text.

Everything is inside the page: style, program, data. Its content security policy
names the program by its hash and allows no connection, so that nothing typed into
the calculator can leave, and no name in a study can run.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fedrulefit.core.families import Column
from fedrulefit.errors import FedRuleFitError
from fedrulefit.files import write_whole
from fedrulefit.model import Model
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.evidence import (
    ELSEWHERE,
    WEIGHT,
    name_adjusted,
    name_effect,
    tell_effects,
    tell_folds,
    tells_adjusted,
    tells_again,
    tells_effects,
    tells_elsewhere,
)
from fedrulefit.model.file import digest_model
from fedrulefit.model.publish import BEFORE_ROUNDING, check_rounding, judged_before
from fedrulefit.model.validation import SiteValidation
from fedrulefit.model.wording import STANDS_FOR_SITE, tell_rows
from fedrulefit.numerals import format_count, write_minus
from fedrulefit.report import charts, curves, forest
from fedrulefit.report import contents as facts
from fedrulefit.report.embedded import NONE_OF_THEM, dump_island, write_family
from fedrulefit.report.side_charts import draw_sides
from fedrulefit.report.specification import DIGITS, list_covariates, list_specification
from fedrulefit.report.subgroups import tabulate_subgroups
from fedrulefit.report.tripod import list_checklist, list_cluster_items
from fedrulefit.report.wishes import list_wishes, tell_prices

if TYPE_CHECKING:
    import pandas as pd

FIRST: Final = 50
"""Rows that a long table shows at first."""
_PAIRS: Final = 3
_ABREAST: Final = 5
"""Sites that stand beside each other in a table."""


def render_report(model: Model, *, file: str = "FILE") -> str:
    """Return the page of `model`, from a file of the name `file`, as HTML.

    Raises
    ------
    FedRuleFitError
        If its file was made before published numbers were rounded.
    """
    check_rounding(model)
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value, digits=0: f"{value:.{digits}f}"
    page = environment.from_string(_read("macros.html") + _read("page.html"))
    return page.render(_frame(model) | _told(model, file) | _drawn(model))


def _frame(model: Model) -> dict[str, Any]:
    """Return what holds the page together: style, program, the calculator's facts."""
    style, family = _read("page.css"), model.family
    parts = ["survival.js"] * (model.timeline is not None) + ["levels.js"] * bool(family.names)
    parts += ["incidence.js"] * (model.incidence is not None)
    program = "".join([write_family(family), *map(_read, [*parts, "page.js", "tables.js"])])
    return {
        "style": _Markup(style),
        "program": _Markup(program),
        "policy": _content_policy(style, program),
        "island": _Markup(dump_island(model)),
        "first": FIRST,
        "significant": DIGITS,
        "width": charts.WIDTH,
        "height": charts.HEIGHT,
        "paper": curves,
        "woods": forest,
    }


def _told(model: Model, file: str) -> dict[str, Any]:
    """Return what the page says of the model, from a file of the name `file`."""
    return {
        "study": model.study,
        "outcome": facts.tell_outcome(model),
        "words": model.study.family.words,
        "levels": model.study.family.levels.words,
        "rules": len(model.rule_terms),
        "additive": model.study.family.additive,
        "has_bar": model.study.family.share_javascript != "null",
        "names": model.study.family.names,
        "alike": bool(model.study.family.told_levels),
        "incidence": model.incidence,
        "stacked": [*model.study.family.names, NONE_OF_THEM],
        "apart": model.study.family.own_terms,
        "reaches": model.range_facts,
        "timeline": model.timeline,
        "hidden": model.hidden,
        "few_held_out": model.few_held_out,
        "of_missing": model.of_missing,
        "averaged": model.averaged,
        "is_rounded": model.is_rounded,
        "digits": facts.rate_digits(model),
        "rounded": facts.tell_rounding(model),
        "unjudged": model.unjudged,
        "paragraph": facts.tell_model(model),
        "terms": facts.list_terms(model),
        "subgroups": tabulate_subgroups(model),
        "side_charts": draw_sides(model),
        "time_unit": getattr(model.study.family, "time_unit", ""),
        "site_subgroups": tabulate_subgroups(model, by_site=True),
        "between": model.tells_between,
        "weight": WEIGHT,
        "held_out_effect": name_effect(model.study.family) if tells_effects(model) else "",
        "adjusted": name_adjusted(model.study.family) if tells_adjusted(model) else "",
        "elsewhere": ELSEWHERE if tells_elsewhere(model) else "",
        "evidence": " ".join(filter(None, (tell_effects(model), tell_folds(model)))),
        "again": tells_again(model),
        "stands_for_site": STANDS_FOR_SITE,
        "fields": facts.list_fields(model),
        "performance": _list_judged(model),
        "origin": facts.list_origin(model, file),
        "bill": model.privacy,
        "certificate": facts.list_certificate(model),
        "path": model.provenance.path,
        "wishes": list_wishes(model),
        "prices": tell_prices(model),
        "covariates": list_covariates(model),
        "specification": list_specification(model),
        "settings": facts.list_settings(model),
        "versions": facts.list_versions(model),
        "digest": digest_model(model),
        "of_hospital": model.of_hospital_file,
        "lacks_baseline": model.lacks_baseline,
        "checklist": list_checklist(model),
        "cluster": list_cluster_items(model),
    }


def _drawn(model: Model) -> dict[str, Any]:
    """Return the covariates by importance, and drawings of those that the model uses."""
    variables = facts.list_variables(model)
    places = {name: j for j, name in enumerate(model.study.names)}
    shown = [places[row.name] for row in variables if row.terms]
    return {
        "variables": variables,
        "effects": charts.draw_effects(model, shown),
        "beside": {model.study.names[j]: facts.list_beside(model, j) for j in shown}
        if tells_effects(model)
        else {},
        "pairs": charts.tabulate_pairs(model, _PAIRS),
    }


def write_report(model: Model, path: str | Path, *, file: str = "FILE") -> None:
    """Write the page of `model`, from a file of the name `file`, to `path`: whole or not at all."""
    path = Path(path)
    page = render_report(model, file=file).encode("utf-8", "replace")
    try:
        write_whole(path, page)
    except OSError as error:
        raise FedRuleFitError(f"cannot write {path}: {error.strerror}") from None


@dataclass(frozen=True)
class _Judged:
    """One way in which the model was judged: words, drawings and tables by title."""

    title: str
    words: Sequence[str]
    tables: Mapping[str, _Table]
    curves: Sequence[curves.Curve] = ()
    forests: Sequence[forest.Forest] = ()
    note: str = ""


@dataclass(frozen=True)
class _Table:
    """A table; the page folds it where it is long, and tells its note below it."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: bool = False
    note: str = ""


_OF_SITES: Final = (
    "What single sites told is rounded: counts to multiples of five or more, measures to three "
    "decimals."
)


def _list_judged(model: Model) -> list[_Judged]:
    """Return every way in which the model was judged."""
    ways = []
    if model.evaluation is not None:
        ways.append(_judge(model, model.evaluation))
    if model.validation is not None:
        ways.append(_compare_sites(model, model.validation))
    return ways


def _judge(model: Model, evaluation: Evaluation) -> _Judged:
    """Return how held-out patients are predicted."""
    judge, digits = evaluation.family.judge, facts.rate_digits(model)
    before = BEFORE_ROUNDING if judged_before(model) else ""
    words = (
        evaluation.words(),
        facts.tell_heterogeneity(evaluation),
        facts.tell_unknown(evaluation),
        tell_rows(model.study),
        before,
    )
    drawn = curves.draw_calibrations(evaluation, digits)
    family = evaluation.family
    what = family.words.prediction if family.names else family.words.level
    measures = _tabulate(evaluation.metrics_frame(), judge.measure_columns, digits)
    note = _OF_SITES if evaluation.sites else ""
    tables = {
        **_turn(judge.measures_title, measures, [*evaluation.all_measures], note),
        **_list_levels(evaluation, digits),
        f"Calibration by groups of the predicted {what}": replace(
            _tabulate(evaluation.calibration_frame(), judge.group_columns, digits), folded=True
        ),
    }
    decisions = evaluation.decision_frame()
    if len(decisions):  # none where few patients stand in one group
        drawn.append(curves.draw_decision(evaluation))
        tables["Decision curve"] = replace(
            _tabulate(decisions, judge.decision_columns, digits), folded=True
        )
    told = [line for line in words if line]
    return _Judged("Held-out patients", told, tables, drawn, note=facts.tell_groups(model))


def _list_levels(evaluation: Evaluation, digits: int) -> dict[str, _Table]:
    """Return how each level is told from the rest, where the outcome has several."""
    family, frame = evaluation.family, evaluation.levels_frame()
    if frame.empty:
        return {}
    against = "the rest" if family.own_terms else "those below it; with those above it"
    names = frame["level"].tolist()
    table = _tabulate(frame.drop(columns="level"), family.judge.level_columns, digits)
    return _turn(f"Each {family.words.one_of} against {against}", table, names, "")


def _compare_sites(model: Model, validation: SiteValidation) -> _Judged:
    """Return how each site's patients are predicted by the model of the others."""
    judge, digits = validation.family.judge, facts.rate_digits(model)
    words = (
        facts.tell_validation(validation),
        facts.tell_heterogeneity(validation),
        facts.tell_unknown(validation),
        tell_rows(model.study),
    )
    frame, summary = validation.metrics_frame(), validation.summary()
    over = _tabulate(validation.summary_frame(), judge.summary_columns, digits)
    each, sites = _tabulate(frame, judge.measure_columns, digits), frame["site"].tolist()
    headings, scales = [found.heading for found in summary], facts.tell_scales(summary)
    tables = {
        **_turn("Hospitals like these", over, headings, scales),
        **_turn(f"{judge.measures_title} by site left out", each, sites, _OF_SITES),
    }
    told = [line for line in words if line]
    return _Judged("Sites left out", told, tables, forests=forest.draw_forests(validation))


def _tabulate(frame: pd.DataFrame, columns: Sequence[Column], digits: int) -> _Table:
    """Return the known columns under their headings; `digits` are a rate's decimals in percent."""
    columns = [column for column in columns if column.name in frame]
    rows = [[_cell(row, column, digits) for column in columns] for row in frame.to_dict("records")]
    return _Table([column.heading for column in columns], rows)


def _turn(title: str, table: _Table, names: Sequence[str], note: str) -> dict[str, _Table]:
    """Return a row per column, in as many tables as fit a page's width; `note` below the last."""
    n_tables = max(math.ceil(len(names) / _ABREAST), 1)
    ends = [round(k * len(names) / n_tables) for k in range(n_tables + 1)]
    found = {}
    for first, last in pairwise(ends):
        rows = [list(row) for row in zip(table.columns, *table.rows[first:last], strict=True)]
        part = f" ({first + 1} to {last} of {len(names)})" if n_tables > 1 else ""
        found[title + part] = _Table(["", *names[first:last]], rows, note=note * (last == ends[-1]))
    return found


def _cell(row: Mapping[Hashable, Any], column: Column, digits: int) -> str:
    """Return a number, or an interval, as text."""
    names = [column.name, column.upto] if column.upto else [column.name]
    if column.holds == "edge":
        return " to ".join(f"{row[name]:g}" for name in names)
    if isinstance(row[column.name], str):
        return str(row[column.name])
    if all(math.isnan(row[name]) for name in names):
        return "–"
    decimals = 2 + digits if column.holds == "rate" else 3
    return " to ".join(_number(row[name], decimals) for name in names)


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "–"
    if float(value).is_integer():
        return write_minus(format_count(value + 0.0))
    return write_minus(f"{value:.{digits}f}")


class _Markup(str):
    """Text of ours that goes into the page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


@cache
def _read(name: str) -> str:
    return files("fedrulefit.report").joinpath(name).read_text(encoding="utf-8")


def _content_policy(style: str, program: str) -> str:
    return (
        f"default-src 'none'; script-src {_hash(program)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
