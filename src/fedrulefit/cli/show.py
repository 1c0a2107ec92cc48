"""Tables and progress that several commands show."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from fedrulefit.cli.console import line, printable, stderr
from fedrulefit.core.between import MOSTLY
from fedrulefit.core.certificate import FINEST, tell_distance
from fedrulefit.model import Model
from fedrulefit.model.display import fold_little, is_pruned, tell_little
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.evidence import (
    ELSEWHERE,
    TOO_FEW,
    WEIGHT,
    tell_again,
    tell_effects,
    tell_folds,
    tells_adjusted,
    tells_again,
    tells_effects,
    tells_elsewhere,
    write_range,
)
from fedrulefit.model.frames import name_adjusted_columns, name_held_out
from fedrulefit.model.ideas import MARK, tell_variants
from fedrulefit.model.publish import BEFORE_ROUNDING, judged_before, warn_exact
from fedrulefit.model.subgroups import (
    NAMES,
    Among,
    tell_gap,
    tell_level,
    tell_patients,
    tells_levels,
)
from fedrulefit.model.validation import SiteValidation
from fedrulefit.model.wishes import PRICE, PRICE_NOTE, UNPRICED, tell_price
from fedrulefit.model.wording import STANDS_FOR_SITE, name_rows, tell_rows, tell_stand_ins
from fedrulefit.numerals import name_count
from fedrulefit.protocol.coordinator import STEPS, Progress

if TYPE_CHECKING:
    import pandas as pd

_LEAST_RULE = 16
"""Width that a rule's words always have."""

_NAMED = 50
"""Covariates that a line names, the most important first."""

_NO_TERMS = (
    "No rule and no linear term was kept: the model gives every patient the same prediction. "
    "Nothing in these patients tells more than chance would, or they are too few, or the noise is "
    "too strong (a smaller penalty keeps terms, but they need not mean anything)."
)


@contextmanager
def progress_bar(console: Console, *, quiet: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show step, round and objective while a run goes on."""
    if quiet:
        yield None
        return
    columns = (
        TextColumn("{task.description:<31}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[objective]}"),
        TimeRemainingColumn(compact=True),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(STEPS["join"], total=None, objective="")

        def tell(progress: Progress) -> None:
            objective = "" if progress.objective is None else f"objective {progress.objective:.5f}"
            bar.update(
                task,
                description=STEPS[progress.step],
                completed=progress.round,
                total=progress.rounds or None,
                objective=objective,
            )

        yield tell


def print_rules(console: Console, model: Model, frame: pd.DataFrame) -> None:
    """Print the rule table, and of terms that count for little only how many they are."""
    if frame.empty:
        print_no_rules(console, model)
        return
    family = model.study.family
    folded = fold_little(family, frame[family.words.effect_column])
    shown = frame[~folded].sort_values("idea", kind="stable")
    console.print(rules_table(model, shown))
    if folded.any():
        told = tell_little(model, frame.loc[folded, "importance"].to_numpy())
        console.print(line(f"{told} (rules --json lists them)"))
    variants = tell_variants(bool(shown["idea"].duplicated().any()))
    notes = [words for words in (variants, tell_effects(model), tell_folds(model)) if words]
    if notes:
        console.print()
    for words in notes:
        console.print(line(words))


def print_no_rules(console: Console, model: Model) -> None:
    """Say why there is no rule to print."""
    console.print(line("No rule meets these bounds." if model.terms else _NO_TERMS))


def rules_table(model: Model, frame: pd.DataFrame) -> Table:
    """Return the rule table; importance is scaled so that the largest is 100.

    Support is the share of training patients who satisfy a rule.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", overflow="fold", ratio=1, min_width=_LEAST_RULE)
    family, words = model.study.family, model.study.family.words
    between = ["between sites"] if model.tells_between else []
    again = ["found again"] if tells_again(model) else []
    effects = [f"held-out\n{words.effect}\n(95 %)"] if tells_effects(model) else []
    others = [ELSEWHERE] if tells_elsewhere(model) else []
    adjusted = [f"adjusted\n{words.effect}\n(95 %)"] if tells_adjusted(model) else []
    for name in (*effects, *others, *adjusted, WEIGHT, "importance", "support", *again, *between):
        whole = name in (*effects, *adjusted)
        stacked = name.replace(" ", "\n") if effects and not whole else name
        table.add_column(stacked, justify="right", no_wrap=True)
    largest = max((term.importance for term in model.terms), default=1.0) or 1.0
    variants = frame["idea"].duplicated().tolist()
    for row, is_variant in zip(frame.to_dict("records"), variants, strict=True):
        style = "red" if row["coefficient"] > 0 else "blue"
        support = "linear" if row["kind"] == "linear" else _tell(100 * row["support"], ".0f", " %")
        table.add_row(
            MARK * is_variant + printable(row["rule"]),
            *[_write_effect(model, row) for _ in effects],
            *[_write_elsewhere(model, row) for _ in others],
            *[_write_range(model, row, name_adjusted_columns(model)) for _ in adjusted],
            Text(family.tell_effect(row[words.effect_column]), style=style),
            f"{100 * row['importance'] / largest:.0f}",
            support,
            *[_write_found_again(model, row) for _ in again],
            *[_tell(100 * row["between_sites"], ".0f", " %") for _ in between],
        )
    return table


def _write_effect(model: Model, row: Mapping[Hashable, Any]) -> str:
    """Return a rule's effect on held-out patients, and its interval on a line of its own."""
    return "" if row["kind"] == "linear" else _write_range(model, row, name_held_out(model))


def _write_range(model: Model, row: Mapping[Hashable, Any], columns: tuple[str, str, str]) -> str:
    effect, low, high = (float(row[name]) for name in columns)
    if math.isnan(effect):
        return TOO_FEW
    return _stack(model.study.family.tell_effect(effect), write_range(model, low, high))


def _write_elsewhere(model: Model, row: Mapping[Hashable, Any]) -> str:
    """Return where a rule's effect may lie in a further hospital."""
    low, high = float(row["low_elsewhere"]), float(row["high_elsewhere"])
    return "" if row["kind"] == "linear" else write_range(model, low, high)


def _write_found_again(model: Model, row: Mapping[Hashable, Any]) -> str:
    """Return in how many folds, and which share of halves, a term is found again."""
    found, halves = float(row["found_again"]), float(row["in_halves"])
    return tell_again(found, halves, model.study.settings.folds)


def print_subgroups(console: Console, model: Model, frame: pd.DataFrame, among: Among) -> None:
    """Print levels inside and outside each rule, and of whom they are."""
    if not tells_levels(model):
        console.print(line(tell_patients(model, among)))
        return
    label = model.study.outcome.title
    console.print(Text(f"{printable(label)} inside and outside rules: {NAMES[among]}", "bold"))
    console.print(line(tell_patients(model, among)))
    console.print()
    console.print(_subgroups_table(model, frame))


def _subgroups_table(model: Model, frame: pd.DataFrame) -> Table:
    """Return levels inside and outside each rule."""
    levels, coarse = model.study.family.levels, model.is_rounded
    words = levels.words
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rule", overflow="fold", ratio=1)
    interval = "\n95 % interval" * bool(frame["low_inside"].notna().any())
    gap = words.gap.replace("_", " ")
    for name in ("inside", words.heading, "outside", words.heading, gap):
        counts = name in ("inside", "outside")
        table.add_column(name if counts else name + interval, justify="right", no_wrap=True)
    for row in frame.to_dict("records"):
        cells = [printable(row["rule"])]
        for side in ("inside", "outside"):
            told, ends = tell_level(row, side, levels, coarse=coarse)
            cells += [_tell(row[side], ",.0f"), _stack(told and told + words.unit, ends)]
        cells.append(_stack(*tell_gap(row, levels, coarse=coarse)))
        table.add_row(*cells)
    return table


def _stack(told: str, ends: str) -> str:
    """Return a number and the ends of its interval, on a line of their own if there are any."""
    return f"{told or TOO_FEW}\n{ends}".rstrip()


def _tell(value: float, form: str, unit: str = "") -> str:
    """Return a number, or that too few patients stand behind it."""
    return TOO_FEW if math.isnan(value) else f"{value:{form}}{unit}"


def importance_line(model: Model) -> str:
    """Return the covariates by importance, in one line; of many, the first."""
    value = model.variable_importance()
    largest = value.max() or 1.0
    order = sorted(np.flatnonzero(value).tolist(), key=lambda j: -value[j])
    names, between = model.study.names, model.variable_between()
    told = [
        f"{printable(names[j])} {100 * value[j] / largest:.0f}"
        f"{f' ({STANDS_FOR_SITE})' * bool(between[j] > MOSTLY)}"
        for j in order[:_NAMED]
    ]
    if len(order) > _NAMED:
        told.append(f"and {len(order) - _NAMED:,} less important")
    n_unused = len(value) - len(order)
    rest = "other" if n_unused == 1 else "others"
    unused = [f"{n_unused:,} {rest if told else 'of them'} in no term"] * bool(n_unused)
    return "; ".join([", ".join(told)] * bool(told) + unused)


def print_summary(console: Console, model: Model, file: Path) -> None:
    """Print what a model rests on, in a few lines."""
    for words in _summary_lines(model, file):
        console.print(line(words))


def _summary_lines(model: Model, file: Path) -> list[str]:
    origin = model.provenance
    digits = 0 if model.is_rounded else 1
    rate = "too few to tell" if origin.events is None else f"{100 * model.rate:.{digits}f} %"
    seen = "" if model.timeline is None else " seen"  # who was lost may have had it, too
    rate = f"{seen} in {rate}" if model.study.family.counts_events else ""
    warning = warn_exact(model, str(file))
    stand_ins = tell_stand_ins([f"“{model.describe(term)}”" for term in model.stand_ins])
    label = model.study.outcome.label or model.study.outcome.column
    kind = "SYNTHETIC data, " if model.study.synthetic else ""
    linear = name_count(len(model.linear_terms), "linear term")
    by = ", of few terms by cross-validation" if is_pruned(model) else " by cross-validation"
    return [
        f"{model.study.name}: {kind}{name_count(len(origin.sites), 'site')}, "
        f"{origin.patients:,.0f} {name_rows(model.study)}, {label}{rate}.",
        f"{name_count(len(model.rule_terms), 'rule')} and {linear} "
        f"of {origin.candidates} candidate rules, after {origin.rounds} rounds "
        f"({origin.solver}, λ = {origin.penalty:.3g}{by * bool(origin.path)}).",
        _certificate_line(model),
        *([model.of_dispersion] if model.of_dispersion else []),
        *([f"Note: {warning}."] if warning else []),
        *([f"Note: {stand_ins}"] if stand_ins else []),
        *([f"Note: {tell_rows(model.study)}"] if tell_rows(model.study) else []),
        *([f"Note: {model.of_hospital}"] if model.of_hospital else []),
    ]


def _certificate_line(model: Model) -> str:
    origin = model.provenance
    gap = origin.certificate.gap
    if gap is None:
        before = "Before rounding: objective" if model.is_rounded else "Objective"
        residual = tell_distance(origin.certificate.residual)
        return f"{before} {origin.objective:.5g}, KKT residual {residual}."
    share = max(gap, FINEST) / max(origin.objective, 1e-300)
    above = f"at most {share:.1e} of it above the optimum of the pooled data (duality gap)"
    if model.is_rounded:
        return f"Before rounding, the objective was {origin.objective:.5g}, {above}."
    return f"Objective {origin.objective:.5g}, {above}."


def print_model(console: Console, model: Model, file: Path, *, top: int, written: str) -> None:
    """Print a fitted model as its user first sees it."""
    print_summary(console, model, file)
    if top:
        console.print()
        print_rules(console, model, model.rules_frame(top=top))
    console.print()
    print_wishes(console, model)
    print_evaluation(console, model)
    console.print(Text(f"Covariates by importance: {importance_line(model)}"))
    console.print(line(f"Privacy: {model.privacy.words()}"))
    console.print(line(f"Wrote {written}."))


def print_hospital(console: Console, model: Model, *, in_file: bool = False) -> None:
    """Say whose own baseline predictions have, or that they lack one.

    `in_file`: of what is written, which then is the hospital's own.
    """
    told = model.of_hospital_file if in_file else model.of_hospital
    if told:
        console.print(line(told, style="yellow" if model.lacks_baseline or in_file else ""))


def print_numbered(console: Console, model: Model) -> None:
    """Print the terms with the numbers by which they can be dropped."""
    table = Table("term", "", WEIGHT, box=None, header_style="bold")
    for k, term in enumerate(model.terms, start=1):
        table.add_row(str(k), printable(model.describe(term)), f"{term.coefficient:+.3g}")
    console.print(table)


def print_wishes(console: Console, model: Model) -> None:
    """Print what became of each wish, and what it costs; of edits, what was changed."""
    priced = any(wish.price is not None for wish in model.wishes)
    if model.wishes:
        names = ("wish", "", "what became of it", *[PRICE] * priced)
        table = Table(*names, title="Wishes", title_justify="left", box=None)
        for wish in model.wishes:
            price = [tell_price(wish)] * priced
            table.add_row(wish.kind, printable(wish.text), wish.fate, *price)
        console.print(table)
        console.print(line(PRICE_NOTE) if priced else line(UNPRICED))
        console.print()
    for edit in model.edits:
        console.print(line(edit.words()))
    if model.edits:
        console.print()


def print_warning(model: Model, file: Path) -> None:
    """Say on the side where a model of several sites has exact counts."""
    warning = warn_exact(model, str(file))
    if warning:
        stderr().print(Text.assemble(("Warning: ", "yellow"), warning))


def print_evaluation(console: Console, model: Model) -> None:
    """Print how well the model predicts, where that was tried."""
    if model.evaluation is None and model.study.settings.holdout > 0:
        console.print(Text(f"{model.unjudged}."))
        console.print()
    if model.evaluation is not None:
        console.print(line(model.evaluation.words()))
        if judged_before(model):
            console.print(Text(BEFORE_ROUNDING))
        if model.evaluation.sites:
            console.print(_metrics_table(model.evaluation, "Held-out patients by site", "site"))
        elif model.evaluation.own is not None:
            console.print(_metrics_table(model.evaluation, "Held-out patients", "judged"))
        _print_unknown(console, model.evaluation)
        console.print()
    if model.validation is not None:
        if model.validation.sites:
            title = "Learnt without each site, judged on it"
            console.print(_metrics_table(model.validation, title, "left out"))
            _print_unknown(console, model.validation)
        console.print(line(model.validation.words()))
        console.print()


def _print_unknown(console: Console, evaluation: Evaluation | SiteValidation) -> None:
    """Say which measures of whom are not told, and why."""
    unknown = evaluation.family.judge.tell_unknown(evaluation.all_measures)
    if unknown:
        console.print(line(unknown))


def _metrics_table(evaluation: Evaluation | SiteValidation, title: str, first: str) -> Table:
    """Return how the patients of each site are predicted."""
    told = {
        site: evaluation.family.judge.tell_briefly(found)
        for site, found in evaluation.all_measures.items()
    }
    headings = [heading for heading, _ in next(iter(told.values()))]
    table = Table(first, *headings, title=title, title_justify="left", box=None)
    for site, row in told.items():
        table.add_row(printable(site), *(number for _, number in row))
    return table
