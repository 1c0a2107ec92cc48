"""``fedrulefit check``: whether a site's table fits the study.

Prints findings only: column names, counts and the study's own words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedrulefit.cli.budget import budget_of, print_budget
from fedrulefit.cli.console import EXIT_FINDINGS, friendly_errors, printable, stdout
from fedrulefit.cli.options import JsonOption
from fedrulefit.cli.plan import print_blur, print_plan
from fedrulefit.privacy.budget import Budget
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import CountOutcome, NumberOutcome, Study, TimeOutcome, YesNoOutcome
from fedrulefit.table.check import Inspection, inspect_table
from fedrulefit.table.findings import Finding

EPILOG = "Example: fedrulefit check hospital_a.csv --study study.toml"


@friendly_errors()
def check(
    data: Annotated[list[Path], typer.Argument(help="Tables to check (CSV or Parquet).")],
    study: Annotated[Path, typer.Option("--study", "-s", help="The study file.")] = Path(
        "study.toml"
    ),
    policy: Annotated[
        Path | None, typer.Option("--policy", help="The hospital's policy, for its budget.")
    ] = None,
    as_json: JsonOption = False,
    no_outcome: Annotated[
        bool, typer.Option("--no-outcome", help="Check tables for prediction only.")
    ] = False,
) -> None:
    """Check whether tables fit the study, before anything is sent.

    Shows no patient's value. Exit code: 0 ready, 1 errors found, 2 could not run.
    """
    agreed = Study.load(study)
    budget = budget_of(agreed, Policy.load(policy) if policy else None)
    inspections = {
        path: inspect_table(path, agreed, need_outcome=not no_outcome, where=str(path))
        for path in dict.fromkeys(data)
    }
    unpaid = policy is not None and not no_outcome and budget.problem != ""
    stuck = not no_outcome and agreed.plan.problem != ""
    failed = unpaid or stuck or any(inspection.errors for inspection in inspections.values())
    if as_json:
        facts = {"ok": not failed, **_as_object(agreed, inspections)}
        facts["budget"] = _budget_facts(budget)
        facts["candidates"] = _plan_facts(agreed)
        typer.echo(json.dumps(facts, indent=2))
    else:
        _show(stdout(), agreed, inspections)
        if not no_outcome:
            _show_costs(stdout(), agreed, inspections)
            print_budget(stdout(), budget, head="Error" if unpaid else "Warning")
    if failed:
        raise typer.Exit(EXIT_FINDINGS)


def _budget_facts(budget: Budget) -> dict[str, Any]:
    """Return what a run costs and how many the policy pays for; None: no bound."""
    return {
        "epsilon_per_histogram": budget.epsilon,
        "epsilon_run": budget.cost,
        "runs": budget.runs,
        "problem": budget.problem,
    }


def _plan_facts(study: Study) -> dict[str, Any]:
    """Return how many candidate rules need no data, and how many single cut-offs are left out."""
    plan = study.plan
    return {
        "planned": plan.n_candidates,
        "left_out": plan.n_left_out,
        "cutoffs_per_covariate": plan.share if plan.n_left_out else None,
        "problem": plan.problem,
    }


def _show_costs(console: Console, study: Study, inspections: dict[Path, Inspection]) -> None:
    """Say what is thinned, and where noise leaves little of a table's cut-offs."""
    print_plan(console, study, head="Error")
    patients = [i.table.weights.sum() for i in inspections.values() if i.table is not None]
    if patients:
        print_blur(console, study, float(sum(patients)), len(patients))


def _as_object(study: Study, inspections: dict[Path, Inspection]) -> dict[str, Any]:
    """Return the report as plain data."""
    return {
        "errors": sum(len(i.errors) for i in inspections.values()),
        "warnings": sum(len(i.warnings) for i in inspections.values()),
        "study": {"name": study.name, "digest": study.digest},
        "outcome": {"kind": study.outcome.kind, "columns": study.outcome.columns},
        "tables": [
            {
                "path": str(path),
                "ok": not inspection.errors,
                "findings": [
                    {
                        "severity": f.severity,
                        "code": f.code,
                        "column": f.column,
                        "message": f.message,
                        "advice": f.advice,
                    }
                    for f in inspection.findings
                ],
            }
            for path, inspection in inspections.items()
        ],
    }


def _show(console: Console, study: Study, inspections: dict[Path, Inspection]) -> None:
    for path, inspection in inspections.items():
        told = printable(f"  (study: {study.name}{_tell_outcome(study)})")
        console.print(Text.assemble((printable(str(path)), "bold"), told))
        for finding in sorted(inspection.findings, key=lambda f: f.severity):
            _show_finding(console, finding)
        console.print(_verdict(inspection))
        console.print()
    if len(inspections) > 1:
        n_ready = sum(not i.errors for i in inspections.values())
        console.print(Text(f"{n_ready} of {len(inspections)} tables are ready"))


def _tell_outcome(study: Study) -> str:
    """Return what the outcome is, where it is not yes/no."""
    outcome = study.outcome
    told = f"; outcome: {outcome.title}, {outcome.kind}"
    if isinstance(outcome, YesNoOutcome):
        return ""
    if isinstance(outcome, NumberOutcome):
        return f"{told} from {outcome.range[0]:g} to {outcome.range[1]:g} {outcome.unit}".rstrip()
    if isinstance(outcome, CountOutcome):
        return f"{told} up to {outcome.most}"
    if isinstance(outcome, TimeOutcome):
        rivals = f", beside {' and '.join(outcome.competing)}" if outcome.competing else ""
        return f"{told} up to {outcome.horizons[-1]:g} {outcome.unit}".rstrip() + rivals
    return f"{told} of {len(outcome.levels)} levels"


def _show_finding(console: Console, finding: Finding) -> None:
    style = "bold red" if finding.severity == "error" else "bold yellow"
    column = "" if finding.column is None else f"{printable(finding.column)}: "
    head = Text.assemble((f"{finding.severity}: ", style), (column, "bold"))
    head.append(printable(finding.message))
    console.print(Padding(head, (0, 0, 0, 2), expand=False))
    console.print(
        Padding(Text(f"→ {printable(finding.advice)}", style="dim"), (0, 0, 0, 6), expand=False)
    )


def _verdict(inspection: Inspection) -> Text:
    n_errors, n_warnings = len(inspection.errors), len(inspection.warnings)
    counts = []
    if n_errors:
        counts.append(f"{n_errors} error{'s' * (n_errors > 1)}")
    if n_warnings:
        counts.append(f"{n_warnings} warning{'s' * (n_warnings > 1)}")
    text = ", ".join(counts)
    if n_errors:
        return Text(text, style="bold red")
    return Text("OK: ready to take part" + (f" ({text})" if text else ""), style="bold green")
