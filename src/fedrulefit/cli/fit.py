"""``fedrulefit fit``: learn one model over several tables, one per site."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import check_writable, friendly_errors, printable, stderr, stdout
from fedrulefit.cli.options import JsonOption, ModelOption, TopOption
from fedrulefit.cli.plan import print_blur, print_plan
from fedrulefit.cli.report import (
    NoReportOption,
    ReportOption,
    choose_page,
    write_page,
)
from fedrulefit.engines import DEFAULT, ENGINES
from fedrulefit.engines.base import Engine, Fitted
from fedrulefit.engines.halves import check_halves, find_in_halves
from fedrulefit.engines.leaveout import leave_one_site_out as leave_out
from fedrulefit.engines.pricing import check_priceable
from fedrulefit.engines.pricing import price_wishes as find_prices
from fedrulefit.errors import DataError, StudyError, did_you_mean
from fedrulefit.model import Model
from fedrulefit.privacy.ledger import Ledger, now
from fedrulefit.study import Settings, Study
from fedrulefit.table.check import inspect_table
from fedrulefit.table.excel_file import split_sheet
from fedrulefit.table.patients import Table
from fedrulefit.table.sources import Source, read_columns

if TYPE_CHECKING:
    import pandas as pd

EPILOG = "Example: fedrulefit fit --study study.toml --site a.csv --site b.csv -o model.json"

SiteOption = Annotated[
    list[str], typer.Option("--site", help="A site's table, PATH or NAME=PATH; once per site.")
]
SiteColumnOption = Annotated[
    str | None, typer.Option(help="One --site holds all patients; this column names their site.")
]
PresetOption = Annotated[
    str | None, typer.Option(help="Named settings instead of the study's: paper, default.")
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="One setting, e.g. penalty=0.01; 'fedrulefit study settings' tells them all.",
    ),
]
LedgersOption = Annotated[
    Path | None, typer.Option(help="Folder for each site's ledger of what left it.")
]
BaselinesOption = Annotated[
    Path | None,
    typer.Option(help="Folder for each site's own baseline, where the study has such."),
]
LeaveOutOption = Annotated[
    bool,
    typer.Option("--leave-one-site-out", help="Also learn without each site, and judge on it."),
]
PriceOption = Annotated[
    bool,
    typer.Option("--price-wishes", help="Also learn without each wish, and tell what it costs."),
]
HalvesOption = Annotated[
    int | None,
    typer.Option(help="Also learn from so many random halves; tell which terms come again."),
]


@friendly_errors()
def fit(
    study: Annotated[Path, typer.Option("--study", "-s", help="The study file.")],
    site: SiteOption,
    output: ModelOption,
    site_column: SiteColumnOption = None,
    preset: PresetOption = None,
    setting: SettingOption = None,
    ledgers: LedgersOption = None,
    baselines: BaselinesOption = None,
    leave_one_site_out: LeaveOutOption = False,
    price_wishes: PriceOption = False,
    halves: HalvesOption = None,
    report: ReportOption = None,
    no_report: NoReportOption = False,
    engine: Annotated[str, typer.Option(help="What carries the messages.")] = DEFAULT,
    jobs: Annotated[int, typer.Option(help="Sites that work at the same time.", min=1)] = 2,
    top: TopOption = 10,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Learn one model over several sites, all on this machine.

    Every table is checked against the study first; nothing starts before all fit.

    Example: fedrulefit fit --study study.toml --site a.csv --site b.csv -o model.json
    """
    agreed = Study.load(study).with_settings(preset, **_parse_settings(setting or []))
    chosen = ENGINES.load(engine)()
    check_writable(output)
    if halves is not None:
        check_halves(halves)
    page = choose_page(output, report, no_report=no_report)
    if agreed.plan.problem:
        raise StudyError(agreed.plan.problem)
    if price_wishes:
        check_priceable(agreed)
    tables = load_sites(name_sources(site, site_column), agreed, quiet=quiet)
    if not quiet:
        print_plan(stderr(), agreed)
        n_patients = sum(float(table.weights.sum()) for table in tables.values())
        print_blur(stderr(), agreed, n_patients, len(tables))
    _make_folders(ledgers, baselines, agreed)
    with show.progress_bar(stderr(), quiet=quiet or as_json) as tell:
        fitted = chosen.fit(
            agreed,
            tables,
            make_ledger=lambda name: _ledger(ledgers, name),
            n_threads=jobs,
            on_progress=tell,
        )
        model = fitted.model
        if price_wishes:
            model = find_prices(model, tables, engine=chosen, n_threads=jobs, on_progress=tell)
        if leave_one_site_out:
            model = _validate(model, fitted, chosen, agreed, tables, n_threads=jobs)
        if halves is not None:
            model = find_in_halves(model, tables, n_halves=halves, engine=chosen, n_threads=jobs)
    model.save(output)
    _save_baselines(fitted, baselines)
    written = write_page(model, output, page)
    if as_json:
        typer.echo(json.dumps(tell_facts(model, output), indent=2))
    elif not quiet:
        show.print_model(stdout(), model, output, top=top, written=written)


def _validate(
    model: Model,
    fitted: Fitted,
    engine: Engine,
    study: Study,
    tables: dict[str, Table],
    *,
    n_threads: int,
) -> Model:
    """Learn without each site, too; return the model with what came of it, and its cost."""
    found = leave_out(
        study,
        tables,
        engine=engine,
        make_ledger=fitted.ledgers.__getitem__,
        n_threads=n_threads,
    )
    bill = model.privacy.with_validation(len(tables))
    return replace(model, validation=found, privacy=bill)


def tell_facts(model: Model, path: Path) -> dict[str, Any]:
    """Return what ``--json`` prints of a model."""
    facts = {
        "model": str(path),
        "sites": list(model.provenance.sites),
        "patients": model.provenance.patients,
        "rules": len(model.rule_terms),
        "linear_terms": len(model.linear_terms),
        "penalty": model.provenance.penalty,
        "rounds": model.provenance.rounds,
        "objective": model.provenance.objective,
        "certificate": asdict(model.provenance.certificate),
        "privacy": model.privacy.words(),
    }
    if model.dispersion is not None:
        facts["dispersion"] = model.dispersion
        facts["theta"] = None if math.isinf(model.theta) else model.theta
    if model.wishes:
        facts["wishes"] = [asdict(wish) for wish in model.wishes]
    if model.edits:
        facts["edits"] = [asdict(edit) for edit in model.edits]
    if model.evaluation is not None:
        facts["evaluation"] = _rows(model.evaluation.metrics_frame())
    if model.validation is not None:
        facts["validation"] = _rows(model.validation.metrics_frame())
        facts["validation_summary"] = _rows(model.validation.summary_frame())
    return facts


def _rows(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows; None where a number is not told, since JSON knows no NaN."""
    rows: list[dict[Any, Any]] = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return rows


def _parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; values are written as in TOML, ``none`` for None."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        name = name.strip()
        if not separator:
            raise StudyError(f"--set takes NAME=VALUE, not {pair!r}: for instance n_trees=100")
        if name not in Settings.model_fields:
            raise StudyError(
                f"--set: there is no setting {did_you_mean(name, Settings.model_fields)}\n"
                "  'fedrulefit study settings' lists them all, and what each means"
            )
        if text.strip().lower() == "none":
            settings[name] = None
            continue
        try:
            settings[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            settings[name] = text.strip()
    return settings


def name_sources(sites: list[str], site_column: str | None) -> dict[str, Source]:
    """Return the tables by the names of their sites."""
    if site_column is not None:
        if len(sites) != 1:
            raise DataError("--site-column needs exactly one --site with all patients")
        return _split_by_column(Path(sites[0]), site_column)
    named = [_name_site(site) for site in sites]
    twins = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    if twins:
        raise DataError(
            f"two tables are named {twins[0]!r}: give names, e.g. --site north=a/data.csv"
        )
    return dict(named)


def _name_site(site: str) -> tuple[str, Path]:
    name, separator, path = site.partition("=")
    if separator and name and not Path(site).exists():
        return name, Path(path)
    file, _ = split_sheet(Path(site))
    return Path(file.name.removesuffix(".gz")).stem, Path(site)


def _split_by_column(path: Path, site_column: str) -> dict[str, Source]:
    columns = read_columns(path, where=str(path))
    if columns.duplicates:
        names = ", ".join(columns.duplicates)
        raise DataError(f"{path} has several columns named {names}: rename or drop all but one")
    if site_column not in columns.arrays:
        raise DataError(f"{path} has no column {site_column!r}: check --site-column")
    raw = columns.arrays[site_column]
    labels = np.array([_site_name(value) for value in raw])
    if (labels == "").any():
        raise DataError(f"{path}: some patients have no {site_column!r}: fill it in")
    others = {name: raw for name, raw in columns.arrays.items() if name != site_column}
    return {
        label: {name: raw[labels == label] for name, raw in others.items()}
        for label in np.unique(labels).tolist()
    }


def _site_name(value: Any) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def load_sites(sources: dict[str, Source], study: Study, *, quiet: bool) -> dict[str, Table]:
    """Check all tables before anything starts; tell every error of every site."""
    tables: dict[str, Table] = {}
    lines: list[str] = []
    warnings: dict[str, list[str]] = {}
    for name, source in sources.items():
        inspection = inspect_table(source, study, where=f"site {name}")
        lines += [f"  site {name}: {finding}" for finding in inspection.errors]
        for finding in inspection.warnings:
            warnings.setdefault(str(finding), []).append(name)
        if inspection.table is not None:
            tables[name] = inspection.table
    if lines:
        raise DataError("\n".join(["these tables do not fit the study:", *lines]))
    for warning, names in warnings.items() if not quiet else ():
        told = f"site{'s' * (len(names) > 1)} {', '.join(names)}: {warning}"
        stderr().print(Text.assemble(("Warning: ", "yellow"), printable(told)))
    return tables


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"cannot make the folder {folder}: {error.strerror}") from None


def _make_folders(ledgers: Path | None, baselines: Path | None, study: Study) -> None:
    """Make the folders that were named; refuse one for baselines that there will not be."""
    if baselines is not None and study.settings.own_spread is None:
        raise StudyError(
            "--baselines: all sites of this study share one baseline; with baseline = "
            "'afterwards' each has one of its own"
        )
    for folder in (ledgers, baselines):
        if folder is not None:
            _make_folder(folder)


def _save_baselines(fitted: Fitted, folder: Path | None) -> None:
    """Write each site's own baseline, where a folder is named for them."""
    for name, own in fitted.own_baselines.items():
        if folder is not None:
            own.save(folder / f"{_name_file(name)}.toml")


def _ledger(folder: Path | None, site: str) -> Ledger:
    if folder is None:
        return Ledger()
    return Ledger(path=folder / f"{_name_file(site)}.jsonl", clock=now)


def _name_file(site: str) -> str:
    """Return a site's name as that of a file; no two sites share one."""
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in site)
    if safe != site:
        # Two names must not share a file because a file name cannot hold them.
        safe += "-" + hashlib.sha256(site.encode()).hexdigest()[:8]
    return safe
