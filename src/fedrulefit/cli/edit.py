"""``fedrulefit edit``: drop terms of a finished model, add rules, fit the rest anew."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer

from fedrulefit.cli import show
from fedrulefit.cli.console import check_writable, friendly_errors, stderr, stdout
from fedrulefit.cli.fit import SiteColumnOption, load_sites, name_sources, tell_facts
from fedrulefit.cli.options import JsonOption, ModelArgument, TopOption
from fedrulefit.cli.report import NoReportOption, ReportOption, choose_page, write_page
from fedrulefit.engines.editing import check_edit, edit_model
from fedrulefit.errors import StudyError, did_you_mean
from fedrulefit.model import Model
from fedrulefit.study import Study

EPILOG = (
    'Example: fedrulefit edit model.json --site a.csv --site b.csv --drop 3 --add "age >= 65" '
    "-o new.json"
)


@friendly_errors()
def edit(
    model: ModelArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The model file to write.")
    ] = None,
    site: Annotated[
        list[str] | None,
        typer.Option("--site", help="A site's table, PATH or NAME=PATH, as for 'fit'."),
    ] = None,
    site_column: SiteColumnOption = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM", help="A term that goes: its number, or its words."),
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="A rule in words that comes in.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option("--study", "-s", help="The study file, to check that it is the model's."),
    ] = None,
    report: ReportOption = None,
    no_report: NoReportOption = False,
    jobs: Annotated[int, typer.Option(help="Sites that work at the same time.", min=1)] = 2,
    top: TopOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Change a model by hand: the other terms are fitted anew, and the cost is told.

    Without --drop and --add its terms are listed with their numbers.

    Example: fedrulefit edit model.json --site a.csv --drop 3 --add "age >= 65" -o new.json
    """
    loaded = Model.load(model)
    if not drop and not add:
        show.print_numbered(stdout(), loaded)
        return
    if output is None or not site:
        raise StudyError("an edit needs the tables of the fit (--site) and a file to write (-o)")
    if study is not None:
        _check_study(loaded.study, Study.load(study))
    check_writable(output)
    page = choose_page(output, report, no_report=no_report)
    numbers = [_find_term(loaded, text) for text in drop or ()]
    check_edit(loaded, numbers, add or ())
    tables = load_sites(name_sources(site, site_column), loaded.study, quiet=as_json)
    with show.progress_bar(stderr(), quiet=as_json) as tell:
        edited = edit_model(
            loaded,
            tables,
            drop=numbers,
            add=add or (),
            parent=hashlib.sha256(model.read_bytes()).hexdigest(),
            n_threads=jobs,
            on_progress=tell,
        )
    edited.save(output)
    written = write_page(edited, output, page)
    if as_json:
        typer.echo(json.dumps(tell_facts(edited, output), indent=2))
    else:
        show.print_model(stdout(), edited, output, top=top, written=written)


def _find_term(model: Model, text: str) -> int:
    """Return the number of a term, given as it is or in words."""
    if text.strip().isdecimal():
        return int(text)
    words = [model.describe(term) for term in model.terms]
    if words.count(text.strip()) != 1:
        known = did_you_mean(text.strip(), words)
        raise StudyError(f"the model has no term {known}; 'fedrulefit edit MODEL' numbers them")
    return words.index(text.strip()) + 1


def _check_study(own: Study, given: Study) -> None:
    """Refuse a study of other covariates or another outcome than the model's."""
    for name, before, now in (
        ("outcome", own.outcome, given.outcome),
        ("covariates", own.names, given.names),
    ):
        if before != now:
            raise StudyError(f"--study has another {name} than the model: leave it out, or find it")
