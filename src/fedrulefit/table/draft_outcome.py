"""The ``[outcome]`` of a drafted study: one way of writing for each kind.

Nothing public is read off the data: ranges, bounds and horizons are round numbers well beyond
what the table holds, or within it, and every one is marked ``CHECK``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.errors import StudyError
from fedrulefit.privacy.policy import MIN_COUNT
from fedrulefit.study import level_order
from fedrulefit.table.columns import Columns
from fedrulefit.table.guess import Seen, count_values, look_at, range_lines, yes_and_no
from fedrulefit.table.measures import round_down, widen
from fedrulefit.table.names import may_name_censoring, names_censoring, names_survival
from fedrulefit.table.outcome_kinds import Chosen, find_rivals
from fedrulefit.table.toml_text import toml_level, toml_number, toml_string
from fedrulefit.table.words import find_order

LABEL: Final = 'label = ""  # in words, for tables and figures'

HORIZONS: Final[Mapping[str, Sequence[float]]] = {
    "hours": (6, 12, 24, 48, 72, 168),
    "days": (7, 30, 90, 180, 365, 730, 1825, 3650),
    "weeks": (4, 12, 26, 52, 104, 260, 520),
    "months": (1, 3, 6, 12, 24, 36, 60, 120),
    "years": (1, 2, 3, 5, 10, 20),
}
"""Usual horizons, by unit."""

_UNITS: Final = (
    ("hours", r"hours?|hrs?|stunden?|heures?|horas?"),
    ("days", r"days?|tage?n?|jours?|d[ií]as?|giorni|dagen"),
    ("weeks", r"weeks?|wks?|wochen?|semaines?|semanas?"),
    ("months", r"months?|mos?|mths?|monate?n?|mois|meses|mesi|maanden"),
    ("years", r"years?|yrs?|jahre?n?|ans|ann[ée]es?|años?|anni|jaren"),
)

MOST_DAYS: Final = 150
"""Times beyond it, of no named unit, are days."""

_OFTEN: Final = 0.8
"""Share of patients whose follow-up ends before the last horizon that is proposed, or more."""

_NAMES: Final = {
    "yes/no": "two values",
    "number": "many different numbers",
    "count": "whole numbers that look like counts",
    "time": "a time and an event, by their names",
    "ordered": "a few levels that look ordered",
    "classes": "a few levels",
}


@dataclass(frozen=True)
class OutcomeDraft:
    """The lines of ``[outcome]``, and what was guessed of which column."""

    lines: tuple[str, ...]
    said: tuple[tuple[str, str], ...]


Said: TypeAlias = list[tuple[str, str]]


def draft_outcome(columns: Columns, chosen: Chosen) -> OutcomeDraft:
    """Return the outcome as TOML."""
    said: Said = []
    lines = ["[outcome]"]
    if chosen.kind != "yes/no":
        lines.append(f"kind = {toml_string(chosen.kind)}{_doubt(chosen, said)}")
    lines += [*_WRITERS[chosen.kind](columns, chosen.columns, said), ""]
    for column in chosen.others:
        if chosen.kind == "yes/no":
            said.append((column, "the time to the outcome? then draft again with --kind time"))
    return OutcomeDraft(tuple(lines), tuple(said))


def _doubt(chosen: Chosen, said: Said) -> str:
    if not chosen.guessed:
        return ""
    words = f"{_NAMES[chosen.kind]}, taken for an outcome of the kind {chosen.kind!r}"
    said.append((chosen.columns["outcome"], words))
    return f"  # CHECK: a guess: {_NAMES[chosen.kind]}; another kind: draft again with --kind"


def _write_yes_no(columns: Columns, roles: Mapping[str, str], said: Said) -> Iterator[str]:
    column = roles["outcome"]
    yield f"column = {toml_string(column)}"
    yield from _event_lines(columns, column, said)
    yield LABEL.replace("for tables and figures", 'such as "death within 30 days"')
    yield "# expected_rate = [0.05, 0.40]  # share of events you expect: finds reversed coding"


def _event_lines(
    columns: Columns, column: str, said: Said, *, of_time: bool = False
) -> Iterator[str]:
    """Yield which value is taken as the event, and why that is in doubt, if it is."""
    values = count_values(columns.arrays[column])
    positive, negative, told = yes_and_no(values)
    doubt = "" if told else "which value is the event?"
    if of_time and set(values) == {"1", "2"}:
        positive, negative = "2", "1"
        doubt = "many tables have 1 for the end of follow-up and 2 for the event, is it so here?"
    if of_time and may_name_censoring(column):
        doubt = "the name may speak of the end of follow-up, is this the value of the event?"
    if of_time and names_censoring(column):
        positive, negative = negative, positive
        doubt = "the name speaks of the end of follow-up, is this the value of the event?"
    if names_survival(column):
        doubt = "the name speaks of survival, is the other value the event?"
    if doubt:
        said.append((column, f"{toml_level(positive)} taken as the event: {doubt}"))
    check = f"a guess: {doubt}" if doubt else "the value of patients with the event"
    yield f"positive = {toml_level(positive)}  # CHECK: {check}"
    yield f"negative = {toml_level(negative)}"


def _rival_lines(column: str, n_rivals: int, said: Said) -> Iterator[str]:
    """Yield which event is that of interest, and which compete with it."""
    codes = " and ".join(str(code) for code in range(2, 2 + n_rivals))
    words = f"taken for events that compete with 1: name them, or take {codes} for no event"
    said.append((column, f"{codes} {words}"))
    yield "positive = 1  # CHECK: a guess: is 1 the event of interest?"
    yield "negative = 0"
    rivals = ", ".join(f"other_event_{code} = {code}" for code in range(2, 2 + n_rivals))
    yield f"competing = {{ {rivals} }}  # CHECK: events that forestall it; name them"


def _write_number(columns: Columns, roles: Mapping[str, str], said: Said) -> Iterator[str]:
    seen = look_at(roles["outcome"], columns.arrays[roles["outcome"]])
    yield f"column = {toml_string(seen.name)}"
    yield from range_lines(seen)
    if seen.is_whole:
        yield "step = 1  # whole numbers only"
    yield "# robust = true  # for outcomes with outliers: a far value counts less"
    yield from _missing_lines(seen, said)
    yield LABEL


def _write_count(columns: Columns, roles: Mapping[str, str], said: Said) -> Iterator[str]:
    seen = look_at(roles["outcome"], columns.arrays[roles["outcome"]])
    exposure = roles.get("exposure")
    yield f"column = {toml_string(seen.name)}"
    most = max(5.0, widen(0.0, float(seen.x.max()))[1]) if seen.x.max() > 0 else 5.0
    yield f"most = {most:.0f}  # CHECK: largest count, public: agreed on, larger ones count as this"
    yield 'unit = ""  # what is counted, such as "admissions"'
    yield '# dispersion = "negative-binomial"  # for counts that vary more than their mean: most do'
    if exposure is None:
        yield '# exposure = "days"  # a column, where patients were counted over different times'
    else:
        x = look_at(exposure, columns.arrays[exposure]).x
        said.append((exposure, "by its name taken for the time over which was counted"))
        yield f"exposure = {toml_string(exposure)}  # CHECK: a guess from the name"
        yield f"max_exposure = {toml_number(widen(0.0, float(x.max()))[1])}  # CHECK: the largest"
        yield f"exposure_unit = {toml_string(_find_unit(exposure, x)[0])}  # CHECK: which unit?"
        yield "# per = 100  # rates are told per so much exposure"
    yield from _missing_lines(seen, said)
    yield LABEL


def _write_time(columns: Columns, roles: Mapping[str, str], said: Said) -> Iterator[str]:
    seen = look_at(roles["outcome"], columns.arrays[roles["outcome"]])
    unit, sure = _find_unit(seen.name, seen.x)
    horizons = propose_horizons(seen.x, unit)
    told = ", ".join(f"{horizon:g}" for horizon in horizons)
    said.append((seen.name, f"horizons {told}{f' {unit}' if unit else ''}: choose your own"))
    yield f"time = {toml_string(seen.name)}"
    yield f"event = {toml_string(roles['event'])}"
    n_rivals = find_rivals(columns.arrays[roles["event"]])
    if n_rivals:
        yield from _rival_lines(roles["event"], n_rivals, said)
    else:
        yield from _event_lines(columns, roles["event"], said, of_time=True)
    yield f"unit = {toml_string(unit)}" + ("" if sure else "  # CHECK: a guess; which unit?")
    yield f"horizons = [{told}]  # CHECK: by when is a risk told? the last is the main one"
    if "entry" in roles:
        said.append((roles["entry"], "by its name taken for the time of coming under observation"))
        yield f"entry = {toml_string(roles['entry'])}  # CHECK: a guess from the name"
    else:
        yield '# entry = "entry"  # a column, where patients came under observation after the start'
    yield from _missing_lines(seen, said)
    yield LABEL


def _write_levels(columns: Columns, roles: Mapping[str, str], said: Said) -> Iterator[str]:
    seen = look_at(roles["outcome"], columns.arrays[roles["outcome"]])
    order = find_order(seen.counts) or sorted(seen.counts, key=level_order)
    shown = [level for level in order if level in seen.shown]
    if len(shown) < 3:
        raise StudyError(
            f"outcome {seen.name!r} has fewer than three levels of {MIN_COUNT} patients or more "
            "here: choose a yes/no outcome, or draft from a larger table"
        )
    yield f"column = {toml_string(seen.name)}"
    yield "levels = [  # CHECK: all levels that any site may have; if ordered, the lowest first"
    yield from (f"  {toml_level(level)}," for level in shown)
    yield "]"
    if len(shown) < len(order):
        few = f"levels of fewer than {MIN_COUNT} patients"
        said.append((seen.name, f"{few} are not shown: add or merge them"))
        yield f"# CHECK: {few} here are not shown: add or merge them"
    yield from _missing_lines(seen, said)
    yield LABEL


_Writer: TypeAlias = Callable[[Columns, Mapping[str, str], Said], Iterator[str]]

_WRITERS: Final[Mapping[str, _Writer]] = {
    "yes/no": _write_yes_no,
    "number": _write_number,
    "count": _write_count,
    "time": _write_time,
    "ordered": _write_levels,
    "classes": _write_levels,
}


def _missing_lines(seen: Seen, said: Said) -> Iterator[str]:
    """Point out codes: of an outcome none may stand for a missing value."""
    if seen.missing:
        codes = ", ".join(map(toml_level, sorted(seen.missing, key=level_order)))
        said.append((seen.name, f"{codes}: no outcome? then leave these patients out"))
        yield f"# CHECK: {codes}: no outcome? then leave these patients out of the table"


def _find_unit(name: str, x: Floats) -> tuple[str, bool]:
    """Return the unit of times, by the column's name or their size, and whether it is told."""
    for unit, words in _UNITS:
        if re.search(rf"(?:^|[_\W])(?:{words})(?:$|[_\W])", name, re.IGNORECASE):
            return unit, True
    return ("days" if x.size and x.max() > MOST_DAYS else ""), False


def propose_horizons(x: Floats, unit: str) -> tuple[float, ...]:
    """Return one or two usual horizons that many patients are followed to; never a patient's time.

    Parameters
    ----------
    x : (n_rows,) float64
        Times.
    unit : str
        One of :data:`HORIZONS`, or empty.
    """
    reached = float(np.quantile(x, _OFTEN))
    usual = [horizon for horizon in HORIZONS.get(unit, ()) if horizon <= reached]
    if usual:
        return tuple(usual[-1:] if len(usual) == 1 else (usual[-2], usual[-1]))
    return (round_down(reached) if reached > 0 else 1.0,)
