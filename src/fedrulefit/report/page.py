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
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fedrulefit.core.families import Column
from fedrulefit.errors import FedRuleFitError
from fedrulefit.files import write_whole
from fedrulefit.model import Model
from fedrulefit.model.dependence import strongest_pairs
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.file import model_text
from fedrulefit.model.publish import BEFORE_ROUNDING, check_rounding, judged_before
from fedrulefit.report import charts, curves
from fedrulefit.report import contents as facts
from fedrulefit.report.embedded import dump_island, write_family
from fedrulefit.report.tripod import list_checklist, list_cluster_items

if TYPE_CHECKING:
    import pandas as pd

FIRST: Final = 50
"""Rows that a long table shows at first."""
_PAIRS: Final = 3


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
    page = environment.from_string(_read("page.html"))
    return page.render(_frame(model) | _told(model, file) | _drawn(model))


def _frame(model: Model) -> dict[str, Any]:
    """Return what holds the page together: style, program, the calculator's facts."""
    style, program = _read("page.css"), write_family(model.study.family) + _read("page.js")
    return {
        "style": _Markup(style),
        "program": _Markup(program),
        "policy": _content_policy(style, program),
        "island": _Markup(dump_island(model)),
        "first": FIRST,
        "width": charts.WIDTH,
        "height": charts.HEIGHT,
        "paper": curves,
    }


def _told(model: Model, file: str) -> dict[str, Any]:
    """Return what the page says of the model, from a file of the name `file`."""
    return {
        "study": model.study,
        "outcome": facts.tell_outcome(model),
        "words": model.study.family.words,
        "hidden": model.hidden,
        "is_rounded": model.is_rounded,
        "digits": facts.rate_digits(model),
        "groups": facts.tell_groups(model),
        "rounded": facts.tell_rounding(model),
        "unjudged": model.unjudged,
        "paragraph": facts.tell_model(model),
        "terms": facts.list_terms(model),
        "subgroups": facts.list_subgroups(model),
        "site_subgroups": facts.list_subgroups(model, by_site=True),
        "fields": facts.list_fields(model),
        "performance": _list_judged(model),
        "origin": facts.list_origin(model, file),
        "bill": model.privacy,
        "certificate": facts.list_certificate(model),
        "path": model.provenance.path,
        "specification": _Table(*facts.list_specification(model)),
        "settings": facts.list_settings(model),
        "versions": facts.list_versions(model),
        "digest": hashlib.sha256(model_text(model).encode("utf-8", "replace")).hexdigest(),
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
        "pairs": [charts.tabulate_pair(model, pair) for pair in strongest_pairs(model, _PAIRS)],
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
    curves: Sequence[curves.Curve]
    tables: Mapping[str, _Table]


@dataclass(frozen=True)
class _Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def _list_judged(model: Model) -> list[_Judged]:
    """Return every way in which the model was judged."""
    before = BEFORE_ROUNDING if judged_before(model) else ""
    ways = (
        ("Held-out patients", model.evaluation, Evaluation.words, before),
        ("Sites left out", model.validation, facts.tell_validation, ""),
    )
    digits = facts.rate_digits(model)
    return [
        _judge(
            title,
            [tell(found), facts.tell_heterogeneity(found), facts.tell_unknown(found), note],
            found,
            digits,
        )
        for title, found, tell, note in ways
        if found is not None
    ]


def _judge(title: str, words: Sequence[str], evaluation: Evaluation, digits: int) -> _Judged:
    judge = evaluation.family.judge
    drawn = [curves.draw_calibration(evaluation, digits)]
    tables = {
        "Discrimination and calibration": _turn(
            _tabulate(evaluation.metrics_frame(), judge.measure_columns, digits),
            list(evaluation.all_measures),
        ),
        f"Calibration by groups of the predicted {evaluation.family.words.level}": _tabulate(
            evaluation.calibration_frame(), judge.group_columns, digits
        ),
    }
    decisions = evaluation.decision_frame()
    if len(decisions):  # none where few patients stand in one group
        drawn.append(curves.draw_decision(evaluation))
        tables["Decision curve"] = _tabulate(decisions, judge.decision_columns, digits)
    return _Judged(title, [line for line in words if line], drawn, tables)


def _tabulate(frame: pd.DataFrame, columns: Sequence[Column], digits: int) -> _Table:
    """Return the columns under their headings; `digits` are a rate's decimals in percent."""
    rows = [[_cell(row, column, digits) for column in columns] for row in frame.to_dict("records")]
    return _Table([column.heading for column in columns], rows)


def _turn(table: _Table, names: Sequence[str]) -> _Table:
    """Return a row per column, so that many sites stay readable on a narrow screen."""
    rows = [list(row) for row in zip(table.columns, *table.rows, strict=True)]
    return _Table(["", *names], rows)


def _cell(row: Mapping[Hashable, Any], column: Column, digits: int) -> str:
    """Return a number, or an interval, as text."""
    names = [column.name, column.upto] if column.upto else [column.name]
    if column.holds == "edge":
        return " to ".join(f"{row[name]:g}" for name in names)
    decimals = 2 + digits if column.holds == "rate" else 3
    if all(math.isnan(row[name]) for name in names):
        return "–"
    return " to ".join(_number(row[name], decimals) for name in names)


def _number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "–"
    if value.is_integer():
        return facts.format_count(value)
    return facts.write_minus(f"{value:.{digits}f}")


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
