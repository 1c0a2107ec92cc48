"""A table → the text of a first ``study.toml``, for a person to complete.

In: one site's table and which column is the outcome. Out: TOML that
:meth:`fedrulefit.study.Study.load` takes as it is, with a ``CHECK`` comment
wherever a person has to decide.

Leaves the site: whatever its owner does with the file. Ranges are public ones
(:mod:`fedrulefit.table.measures`). Levels are shown as they are, but not those of fewer
than :data:`~fedrulefit.privacy.policy.MIN_COUNT` patients (:mod:`fedrulefit.table.guess`).
Identifiers, dates and free text are left out by their looks, and their contents are not shown.

The text is written line by line: half of it is comments, for which a writer of TOML has no
shorter words.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.errors import DataError, StudyError
from fedrulefit.study import describe_settings
from fedrulefit.table.cells import factorise, parse_numbers
from fedrulefit.table.columns import Columns, Raw
from fedrulefit.table.draft_outcome import draft_outcome
from fedrulefit.table.excel_file import split_sheet
from fedrulefit.table.findings import Finding
from fedrulefit.table.guess import Guess, guess_column
from fedrulefit.table.header import find_second_header
from fedrulefit.table.names import left_out_by_name, names_patient
from fedrulefit.table.numbers import look_at_spelling
from fedrulefit.table.outcome_kinds import Asked, Chosen, choose_outcome, not_there
from fedrulefit.table.repeats import REPEATED_ROWS, count_repeats, find_twins
from fedrulefit.table.sources import Source, read_columns
from fedrulefit.table.toml_text import toml_key, toml_string

_SHOWN: Final = {"epsilon_total": "10.0", "penalty": "0.01", "max_rules": "10", "holdout": "0.2"}
"""Settings that a draft shows, with a value to start from."""


@dataclass(frozen=True)
class Draft:
    """A first study, and what a person should know of it.

    Parameters
    ----------
    text : str
        TOML.
    n_covariates : int
    left_out : tuple of (column, reason)
    guesses : tuple of (column, what was guessed)
    warnings : tuple of str
        What is odd in the table as a whole.
    """

    text: str
    n_covariates: int
    left_out: tuple[tuple[str, str], ...]
    guesses: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]


def draft_study(
    source: Source,
    *,
    outcome: str | None,
    name: str | None,
    site_column: str | None = None,
    kind: str | None = None,
    time: str | None = None,
    event: str | None = None,
) -> Draft:
    """Return a first study.

    Parameters
    ----------
    source : path, data frame, or mapping
        One site's table.
    outcome : str or None
        The outcome column, or ``"time,event"``; None to guess it by its name.
    name : str or None
        The study's name; None to take the file's.
    site_column : str or None
        A column that says which site a patient is from; it is no covariate.
    kind : str or None
        What the outcome is, as in the study file; None to guess it.
    time, event : str or None
        The columns of a time to an event.

    Raises
    ------
    StudyError
        Where there is no outcome, or no covariate is left.
    DataError
        Where the table cannot be read.
    """
    columns = read_columns(source)
    _check_names(columns)
    if site_column is not None and site_column not in columns.names:
        raise StudyError(f"site column {site_column!r} {not_there(site_column, columns)}")
    chosen = choose_outcome(columns, Asked(outcome, kind, time, event))
    drafted = draft_outcome(columns, chosen)
    patient = _find_patient(columns)
    guesses = _guess_covariates(columns, chosen, site_column)
    kept = [column for column, guess in guesses.items() if guess.lines]
    if not kept:
        raise StudyError(
            "no column can be a covariate: numbers, yes/no columns and text with few distinct "
            "values can"
        )
    parts = [
        *_draft_head(name or _title(source)),
        *drafted.lines,
        *_draft_patient(patient),
        *(line for column, guess in guesses.items() for line in _join(column, guess)),
        *_draft_settings(),
    ]
    return Draft(
        text="\n".join(parts) + "\n",
        n_covariates=len(kept),
        left_out=tuple((c, g.left_out) for c, g in guesses.items() if g.left_out),
        guesses=(
            *drafted.said,
            *((column, "stands in several rows: does it say whose each is?") for column in patient),
            *((column, words) for column, guess in guesses.items() for words in guess.said),
        ),
        warnings=tuple(map(str, _odd(columns, [*kept, *chosen.columns.values()]))),
    )


def _title(source: Source) -> str:
    if not isinstance(source, (str, Path)):
        return "my study"
    return split_sheet(Path(source))[0].name.partition(".")[0] or "my study"


def _guess_covariates(
    columns: Columns, outcome: Chosen, site_column: str | None
) -> dict[str, Guess]:
    """Return what each column may be; one that says the same as an earlier one is left out."""
    guesses: dict[str, Guess] = {}
    own = list(outcome.columns.values())
    commas = any(map(_has_commas, columns.arrays.values()))
    for column, raw in columns.arrays.items():
        if column not in own:
            reason = left_out_by_name(column, site_column)
            if column in outcome.others:
                reason = "looks like the time to an event, which is not known beforehand"
            guesses[column] = (
                Guess(left_out=reason) if reason else guess_column(column, raw, commas=commas)
            )
    kept = [column for column, guess in guesses.items() if guess.lines]
    for first, later in find_twins(_as_codes(columns, [*own, *kept])):
        if later < len(own):
            continue
        told = repr(kept[first - len(own)]) if first >= len(own) else "the outcome"
        words = f"tells patients apart exactly as {told} does"
        guesses[kept[later - len(own)]] = Guess(left_out=words)
    return guesses


def _has_commas(raw: Raw) -> bool:
    return look_at_spelling(raw, parse_numbers(raw).values).n_commas > 0


def _odd(columns: Columns, chosen: Sequence[str]) -> Iterator[Finding]:
    """Yield what is odd in the table as a whole."""
    yield from columns.findings
    yield from find_second_header(columns)
    n = count_repeats(_as_codes(columns, chosen))
    if n:
        yield REPEATED_ROWS.of(n=n, all=columns.n_rows)


def _as_codes(columns: Columns, chosen: Sequence[str]) -> Floats:
    """Return columns as codes of their values, shape (n_rows, n_chosen); NaN where missing."""
    return np.array([_as_code(columns.arrays[column]) for column in chosen]).T


def _as_code(raw: Raw) -> Floats:
    numbers = parse_numbers(raw)
    if not numbers.n_not_number:
        return numbers.values
    codes = factorise(raw)[0]
    return np.where(codes < 0, np.nan, codes)


def _check_names(columns: Columns) -> None:
    if columns.duplicates:
        raise DataError("column names occur more than once: give every column its own name")
    numeric = sum(
        parse_numbers(np.array([n], object)).n_not_number == 0 for n in columns.names if n
    )
    if numeric * 2 > len(columns.names):
        raise DataError(
            "the first line does not look like column names (most are numbers): "
            "the first line must hold the column names"
        )
    if columns.n_rows == 0:
        raise DataError("the table has no patients: draft a study from a table that has some")


def _find_patient(columns: Columns) -> tuple[str, ...]:
    """Return the column that may say whose a row is, if one stands in several rows."""
    for column, raw in columns.arrays.items():
        n_distinct = len(set(raw.tolist()))
        if names_patient(column) and 2 < n_distinct < columns.n_rows:
            return (column,)
    return ()


def _draft_patient(patient: tuple[str, ...]) -> Iterator[str]:
    for column in patient:
        yield f"# CHECK: {toml_string(column)} stands in several rows. If it says whose a row is:"
        yield "# [patient]"
        yield f"# column = {toml_string(column)}"
        yield "# max_rows = 10  # the most rows of one patient, public: agreed on, not counted"
        yield ""


def _join(column: str, guess: Guess) -> Iterator[str]:
    if guess.lines:
        yield f"[covariates.{toml_key(column)}]"
        yield from guess.lines
        yield 'label = ""'
    else:
        yield f"# Left out: {toml_string(column)} {guess.left_out}."
    yield ""


def _draft_head(title: str) -> Iterator[str]:
    yield "# A first draft, written by 'fedrulefit study draft' from one site's table."
    yield "# Before you send it to the other sites:"
    yield "#   1. Settle every line marked CHECK, with all sites."
    yield "#   2. Take out covariates that are known only after the outcome."
    yield "#   3. Levels are as in the table: make sure that none points to a person."
    yield "#   4. Values may be missing; 'complete = true' under a covariate forbids it everywhere."
    yield ""
    yield "format = 1"
    yield f"name = {toml_string(title)}"
    yield 'description = ""'
    yield ""


def _draft_settings() -> Iterator[str]:
    yield "[settings]"
    yield 'preset = "default"  # or "paper", the numbers of the published method'
    yield "# Any setting can be changed below; 'fedrulefit study settings' tells them all. Such as:"
    for setting in describe_settings():
        if setting.name in _SHOWN:
            yield f"# {setting.name} = {_SHOWN[setting.name]}"
            yield from textwrap.wrap(
                setting.meaning, 96, initial_indent="#   ", subsequent_indent="#   "
            )
