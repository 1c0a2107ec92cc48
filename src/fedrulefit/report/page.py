"""Rows, drawings and the calculator's facts → one HTML text.

Everything is inside the page: style, program, data. Its content security policy
names the program by its hash and allows no connection, so that nothing typed into
the calculator can leave, and no name in a study can run.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fedrulefit.dependence import strongest_pairs
from fedrulefit.errors import FedRuleFitError
from fedrulefit.files import write_whole
from fedrulefit.model import Model
from fedrulefit.modelfile import model_text
from fedrulefit.report import charts, facts
from fedrulefit.report.island import dump_island
from fedrulefit.report.tripod import list_checklist

if TYPE_CHECKING:
    import pandas as pd

FIRST: Final = 50
"""Rows that a long table shows at first."""
_PAIRS: Final = 3
_THRESHOLDS: Final = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def render_report(model: Model) -> str:
    """Return the page of `model` as HTML."""
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
        paragraph=facts.tell_model(model),
        terms=facts.list_terms(model),
        subgroups=facts.list_subgroups(model),
        variables=variables,
        effects=charts.draw_effects(model, shown),
        pairs=[charts.tabulate_pair(model, pair) for pair in strongest_pairs(model, _PAIRS)],
        fields=facts.list_fields(model),
        evaluation=evaluation_section(model),
        evaluation_words=model.evaluation.words() if model.evaluation else "",
        origin=facts.list_origin(model),
        bill=model.privacy,
        certificate=facts.list_certificate(model),
        path=model.provenance.path,
        settings=facts.list_settings(model),
        versions=facts.list_versions(model),
        digest=hashlib.sha256(model_text(model).encode("utf-8", "replace")).hexdigest(),
        checklist=list_checklist(model),
        first=FIRST,
        width=charts.WIDTH,
        height=charts.HEIGHT,
    )


def write_report(model: Model, path: str | Path) -> None:
    """Write the page of `model` to `path`, whole or not at all."""
    path = Path(path)
    page = render_report(model).encode("utf-8", "replace")
    try:
        write_whole(path, page)
    except OSError as error:
        raise FedRuleFitError(f"cannot write {path}: {error.strerror}") from None


def evaluation_section(model: Model) -> Mapping[str, Any] | None:
    """Return discrimination, calibration and decision curve, as tables by title.

    None where the model was not evaluated: the page then has no such section.
    """
    if model.evaluation is None:
        return None
    metrics = model.evaluation.metrics_frame().rename(columns={"site": "measure"})
    frames: Mapping[str, pd.DataFrame] = {
        # A row per measure, so that many sites stay readable on a narrow screen.
        "Discrimination and calibration": metrics.set_index("measure").T.reset_index(
            names="measure"
        ),
        "Calibration by groups of the predicted risk": model.evaluation.calibration_frame(),
        "Decision curve": model.evaluation.decision_frame(_THRESHOLDS),
    }
    return {
        title: {
            "columns": [_cell(column) for column in frame.columns],
            "rows": [[_cell(value) for value in row] for row in frame.itertuples(index=False)],
        }
        for title, frame in frames.items()
    }


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
