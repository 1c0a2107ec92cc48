"""``fedrulefit demo``: three synthetic hospitals learn a model."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedrulefit.cli import show
from fedrulefit.cli.console import friendly_errors, stderr, stdout
from fedrulefit.engines import inprocess
from fedrulefit.errors import DataError
from fedrulefit.privacy.policy import Policy
from fedrulefit.table.check import load_table

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.demo import Match

# As between real hospitals, but for their own results: made-up ones have nothing to hide.
POLICY = Policy(allow=(*Policy().allow, "site-results"))

EPILOG = "Example: fedrulefit demo --outcome time --output demo"


@friendly_errors()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path(
        "fedrulefit-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the synthetic patients.", min=0)] = 2026,
    outcome: Annotated[
        str,
        typer.Option(help="What is predicted: yes/no, number, count, time, ordered or classes."),
    ] = "yes/no",
) -> None:
    """Learn a model over three synthetic hospitals, print its rules, draw it, write a report.

    The outcome is whether patients die (yes/no), how long they stay (number), how often they are
    readmitted (count), how long they live (time), how disabled they leave (ordered), or where
    they go (classes).

    Example: fedrulefit demo --outcome time --output demo
    """
    from fedrulefit import demo as registry
    from fedrulefit import plot
    from fedrulefit.report import write_report

    console, kind = stdout(), registry.find_kind(outcome)
    study = registry.demo_study(kind).with_settings(holdout=0.2, per_site=True)
    frames = registry.draw_registry(seed, kind=kind)
    _write_inputs(output, frames, registry.study_toml(kind))
    console.print(Text("Three made-up hospitals (synthetic data, no real patient):"))
    for name, frame in frames.items():
        told = registry.OUTCOMES[kind].tell(frame)
        console.print(Text(f"  {name:<9} {len(frame):>5} patients, {told}"))
    console.print()
    tables = {name: load_table(frame, study, where=name) for name, frame in frames.items()}
    with show.progress_bar(stderr(), quiet=False) as tell:
        fitted = inprocess.fit(
            study, tables, policy=POLICY, secure=True, n_threads=2, on_progress=tell
        )
    model = fitted.model
    model.save(output / "model.json")
    plot.overview(model).savefig(output / "model.png", dpi=120)
    write_report(model, output / "report.html", file="model.json")
    show.print_summary(console, model, output / "model.json")
    console.print()
    show.print_rules(console, model, model.rules_frame(top=10))
    console.print()
    _show_planted(console, registry.match_planted(model, registry.draw_fresh(seed, kind=kind)))
    console.print()
    show.print_evaluation(console, model)
    console.print(Text(f"Covariates by importance: {show.importance_line(model)}"))
    console.print(Text(f"Privacy: {model.privacy.words()}"))
    console.print()
    console.print(
        Text(f"In {output}/: model.json, model.png, report.html, study.toml, three tables.")
    )
    console.print(
        Text(f"Next: {_command()} explain {output}/model.json {output}/rural.csv --row 1")
    )


def _command() -> str:
    """Return how to call this program again: by its path, where it is not on the PATH."""
    called = Path(sys.argv[0])
    if which("fedrulefit") or called.name != "fedrulefit":
        return "fedrulefit"
    return os.path.relpath(called)


def _write_inputs(output: Path, frames: Mapping[str, pd.DataFrame], study_toml: str) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "study.toml").write_text(study_toml, encoding="utf-8")
        for name, frame in frames.items():
            frame.to_csv(output / f"{name}.csv", index=False)
    except OSError as error:
        raise DataError(f"cannot write to {output}: {error.strerror}") from None


def name_planted(match: Match) -> str:
    """Return a planted rule, behind the class that alone follows it."""
    planted = match.planted
    return f"{planted.level}: {planted.words}" if planted.level else planted.words


def _show_planted(console: Console, matches: Sequence[Match]) -> None:
    console.print(Text("The rules we planted, and the model's nearest rule:", style="bold"))
    for match in matches:
        verdict = "found" if match.found else "not found"
        console.print(
            Text(
                f"  {name_planted(match):<20} {verdict}: {match.rule} "
                f"(correlation {match.correlation:.2f} on new patients)"
            )
        )
