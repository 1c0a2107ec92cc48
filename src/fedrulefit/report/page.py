"""Rows, drawings and the calculator's facts → one HTML text.

Everything is inside the page: style, program, data. Its content security policy
names the program by its hash and allows no connection, so that nothing typed into
the calculator can leave, and no name in a study can run.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedrulefit.dependence import strongest_pairs
from fedrulefit.errors import FedRuleFitError
from fedrulefit.evaluation import Evaluation
from fedrulefit.files import write_whole
from fedrulefit.model import Model
from fedrulefit.modelfile import model_text
from fedrulefit.publish import check_rounding
from fedrulefit.report import charts, curves, facts
from fedrulefit.report.island import dump_island
from fedrulefit.report.tripod import list_checklist, list_cluster_items

if TYPE_CHECKING:
    import pandas as pd

FIRST: Final = 50
"""Rows that a long table shows at first."""
_PAIRS: Final = 3

_MEASURES: Final = {
    "patients": "Patients",
    "events": "With the outcome",
    "auc": "AUC",
    "auc_range": "AUC, 95 % interval",
    "auc_bound": "AUC, most that counting in bins can shift it",
    "brier": "Brier score",
    "log_loss": "Log-loss",
    "slope": "Calibration slope (1 is right)",
    "slope_range": "Calibration slope, 95 % interval",
    "intercept": "Calibration intercept (0 is right)",
    "intercept_range": "Calibration intercept, 95 % interval",
    "observed": "Observed share with the outcome",
    "expected": "Predicted share",
}
"""The measures that the table shows, in words."""
_GROUPS: Final = {
    "predicted": "Predicted risk",
    "observed": "Observed share",
    "low": "95 % interval from",
    "high": "to",
    "patients": "Patients",
    "events": "With the outcome",
}
_DECISIONS: Final = {
    "threshold": "Treat from a risk of",
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "ppv": "Positive predictive value",
    "npv": "Negative predictive value",
    "net_benefit": "Net benefit",
    "treat_all": "of treating all",
}


def render_report(model: Model) -> str:
    """Return the page of `model` as HTML.

    Raises
    ------
    FedRuleFitError
        If its file was made before published numbers were rounded.
    """
    check_rounding(model)
    from jinja2 import Environment, StrictUndefined

    style, program = _read("page.css"), _read("page.js")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = lambda value, digits=0: f"{value:.{digits}f}"
    variables = facts.list_variables(model)
    places = {name: j for j, name in enumerate(model.study.names)}
    shown = [places[row.name] for row in variables if row.terms]
    return environment.from_string(_read("page.html")).render(
        style=_Markup(style),
        program=_Markup(program),
        policy=_content_policy(style, program),
        island=_Markup(dump_island(model)),
        study=model.study,
        outcome=facts.tell_outcome(model),
        hidden=model.hidden,
        rounded=facts.tell_rounding(model),
        unjudged=model.unjudged,
        paragraph=facts.tell_model(model),
        terms=facts.list_terms(model),
        subgroups=facts.list_subgroups(model),
        site_subgroups=facts.list_subgroups(model, by_site=True),
        variables=variables,
        effects=charts.draw_effects(model, shown),
        pairs=[charts.tabulate_pair(model, pair) for pair in strongest_pairs(model, _PAIRS)],
        fields=facts.list_fields(model),
        performance=_list_judged(model),
        origin=facts.list_origin(model),
        bill=model.privacy,
        certificate=facts.list_certificate(model),
        path=model.provenance.path,
        specification=_Table(*facts.list_specification(model)),
        settings=facts.list_settings(model),
        versions=facts.list_versions(model),
        digest=hashlib.sha256(model_text(model).encode("utf-8", "replace")).hexdigest(),
        checklist=list_checklist(model),
        cluster=list_cluster_items(model),
        first=FIRST,
        width=charts.WIDTH,
        height=charts.HEIGHT,
        paper=curves,
    )


def write_report(model: Model, path: str | Path) -> None:
    """Write the page of `model` to `path`, whole or not at all."""
    path = Path(path)
    page = render_report(model).encode("utf-8", "replace")
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
    ways = (
        ("Held-out patients", model.evaluation, Evaluation.words),
        ("Sites left out", model.validation, facts.tell_validation),
    )
    return [
        _judge(title, [tell(found), facts.tell_heterogeneity(found)], found)
        for title, found, tell in ways
        if found is not None
    ]


def _judge(title: str, words: Sequence[str], evaluation: Evaluation) -> _Judged:
    drawn = [curves.draw_calibration(evaluation)]
    tables = {
        "Discrimination and calibration": _tabulate_metrics(evaluation.metrics_frame()),
        "Calibration by groups of the predicted risk": _tabulate(
            evaluation.calibration_frame(), _GROUPS
        ),
    }
    decisions = evaluation.decision_frame()
    if len(decisions):  # none where few patients stand in one group
        drawn.append(curves.draw_decision(evaluation))
        tables["Decision curve"] = _tabulate(decisions, _DECISIONS)
    return _Judged(title, [line for line in words if line], drawn, tables)


def _tabulate_metrics(frame: pd.DataFrame) -> _Table:
    """Return a row per measure, so that many sites stay readable on a narrow screen."""
    rows: dict[str, list[str]] = {}
    for site in frame.to_dict("records"):
        cells = {name: _cell(value) for name, value in site.items()}
        for name in ("auc", "slope", "intercept"):
            cells[f"{name}_range"] = f"{cells[f'{name}_low']} to {cells[f'{name}_high']}"
        for name, words in _MEASURES.items():
            rows.setdefault(words, []).append(cells[name])
    return _Table(["", *frame["site"]], [[words, *cells] for words, cells in rows.items()])


def _tabulate(frame: pd.DataFrame, words: Mapping[str, str]) -> _Table:
    """Return the columns that `words` names, under these words."""
    rows = frame[list(words)].itertuples(index=False)
    return _Table(list(words.values()), [[_cell(value) for value in row] for row in rows])


def _cell(value: object) -> str:
    if not isinstance(value, float):
        return str(value).replace("_", " ")
    if math.isnan(value):
        return "–"
    return facts.format_count(value) if value.is_integer() else f"{value:.3f}"


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
