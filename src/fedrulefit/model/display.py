"""How a model shows itself: one line, and a table of its rules for a notebook.

In: a model. Out: text, and HTML that stands by itself. The HTML has no script and no colour of its
own, so it reads on light and dark pages; whatever others named (study, covariates, levels) is
escaped.

The terms are listed most important first. Those whose effect is none when rounded count for
little: they are folded away under a line that says how many they are, and how little.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families import Family
from fedrulefit.errors import printable
from fedrulefit.model.evidence import (
    ELSEWHERE,
    WEIGHT,
    name_adjusted,
    name_effect,
    tell_effects,
    tell_folds,
    tells_adjusted,
    tells_again,
    tells_effects,
    tells_elsewhere,
    write_adjusted,
    write_effect,
    write_elsewhere,
    write_found_again,
)
from fedrulefit.model.ideas import MARK, group_ideas, tell_variants
from fedrulefit.model.terms import LinearTerm, Term
from fedrulefit.model.wording import name_rows, tell_rows
from fedrulefit.numerals import name_count

if TYPE_CHECKING:
    from fedrulefit.model.model import Model

MOST_ROWS: Final = 25
"""Most terms of the table that is open; further ones are folded away."""

_LEFT: Final = ' style="text-align: left"'
_RIGHT: Final = ' style="text-align: right; padding-left: 1em"'


class Shown:
    """What a model says of itself where it is printed, or is the last line of a cell."""

    def __repr__(self: Model) -> str:  # type: ignore[misc]
        """Return one line: what it is of, its size, and what it was learnt from."""
        outcome = self.study.outcome.label or self.study.outcome.column
        return f"<Model of {printable(repr(outcome))}: {describe_size(self)}>"

    def _repr_html_(self: Model) -> str:  # type: ignore[misc]
        """Return the table of rules, for a notebook."""
        return write_html(self)


def describe_size(model: Model) -> str:
    """Return how many terms a model has, and what it was learnt from."""
    origin, n_sites = model.provenance, len(model.provenance.sites)
    kind = "synthetic " if model.study.synthetic else ""
    return (
        f"{name_count(len(model.rule_terms), 'rule')} and "
        f"{name_count(len(model.linear_terms), 'linear term')}, from {origin.patients:,.0f} "
        f"{kind}{name_rows(model.study)} of {name_count(n_sites, 'site')}, λ = {origin.penalty:.3g}"
    )


def fold_little(family: Family, effects: Iterable[float]) -> Bools:
    """Return which terms to fold away, shape (n_terms,): not all of them."""
    little = np.array([family.is_little(effect) for effect in effects], dtype=np.bool_)
    return little & ~little.all()


def tell_little(model: Model, importance: Floats) -> str:
    """Return how many terms count for little, and how little.

    `importance` is that of these terms, shape (n_little,).
    """
    share = 100 * float(importance.sum()) / (float(model.importance.sum()) or 1.0)
    told = "less than 0.1 %" if share < 0.1 else f"{share:.1f} %"
    several, words = len(importance) != 1, model.study.family.words
    article = "an " if words.effect[0] in "aeiou" else "a "
    return (
        f"and {name_count(len(importance), 'term')} with {'' if several else article}"
        f"{words.effect}{'s' * several} {words.little}, "
        f"{'together ' * several}{told} of the importance"
    )


def write_html(model: Model) -> str:
    """Return the model as HTML: what it is, and its terms as a table."""
    words, label = model.study.family.words, model.study.outcome
    folded = fold_little(model.study.family, map(model.effect, model.terms)).tolist()
    main, little = (
        [term for term, fold in zip(model.terms, folded, strict=True) if fold is away]
        for away in (False, True)
    )
    ideas = group_ideas(model, main)
    rows = [(term, term is not idea.leader) for idea in ideas for term in idea]
    open_rows, more = rows[:MOST_ROWS], rows[MOST_ROWS:]
    parts = [
        "<div>",
        f"<p><strong>Model of {_safe(label.label or label.column)}</strong>: "
        f"{_safe(describe_size(model))}</p>",
        _table(model, open_rows) if model.terms else "<p>The model has no terms.</p>",
    ]
    if more:
        parts.append(_fold(f"and {name_count(len(more), 'further term')}", _table(model, more)))
    if little:
        summary = tell_little(model, np.array([term.importance for term in little]))
        parts.append(_fold(summary, _table(model, [(term, False) for term in little])))
    parts.append(f"<p>{_safe(words.effect_meaning)}</p>")
    notes = tell_variants(any(idea.variants for idea in ideas)), *_notes(model)
    parts.extend(f"<p>{_safe(note)}</p>" for note in notes if note)
    return "\n".join([*parts, "</div>"])


def _notes(model: Model) -> tuple[str, ...]:
    judged = "" if model.evaluation is None else model.evaluation.words()
    evidence = tell_effects(model), tell_folds(model)
    return model.of_missing, model.of_dispersion, *evidence, judged, tell_rows(model.study)


def _table(model: Model, terms: Sequence[tuple[Term, bool]]) -> str:
    """Return rows of terms, and whether each is a variant of the one above it.

    Importance is scaled so that the largest of the model is 100.
    """
    words, largest = model.study.family.words, model.importance.max(initial=0.0) or 1.0
    between = ["between sites"] if model.tells_between else []
    effects = [name_effect(model.study.family), "95 % interval"] if tells_effects(model) else []
    effects += [ELSEWHERE] if tells_elsewhere(model) else []
    adjusted = [name_adjusted(model.study.family), "95 % interval"] * tells_adjusted(model)
    folds = ["found again"] if tells_again(model) else []
    weight = f"{WEIGHT}, {words.effect}"
    heads = [
        "rule or linear term",
        *effects,
        *adjusted,
        weight,
        "importance",
        "support",
        *folds,
        *between,
    ]
    lines = ["<table>", f"<thead>{_row(heads, 'th')}</thead>", "<tbody>"]
    for term, is_variant in terms:
        cells = [
            MARK * is_variant + model.describe(term),
            *(write_effect(model, term) if effects else ()),
            *([write_elsewhere(model, term)] if ELSEWHERE in effects else ()),
            *(write_adjusted(model, term) if adjusted else ()),
            model.study.family.tell_effect(model.effect(term)),
            f"{100 * term.importance / largest:.0f}",
            "linear" if isinstance(term, LinearTerm) else _percent(model.support(term)),
            *[write_found_again(model, term) for _ in folds],
            *[_percent(model.between_sites(term)) for _ in between],
        ]
        lines.append(_row(cells, "td"))
    return "\n".join([*lines, "</tbody>", "</table>"])


def _row(cells: Sequence[str], tag: str) -> str:
    first, *others = (_safe(cell) for cell in cells)
    numbers = "".join(f"<{tag}{_RIGHT}>{cell}</{tag}>" for cell in others)
    return f"<tr><{tag}{_LEFT}>{first}</{tag}>{numbers}</tr>"


def _fold(summary: str, content: str) -> str:
    return f"<details><summary>{_safe(summary)}</summary>\n{content}\n</details>"


def _safe(text: str) -> str:
    return escape(printable(text))


def _percent(share: float) -> str:
    return "not told" if math.isnan(share) else f"{100 * share:.0f} %"


def tell_choice(model: Model) -> str:
    """Return how λ, and the terms, were chosen, in a few words."""
    origin = model.provenance
    if not origin.path:
        return "given"
    if is_pruned(model):
        return "a share of that chosen by cross-validation, which then chose few terms one by one"
    return "chosen by cross-validation"


def is_pruned(model: Model) -> bool:
    """Whether few terms were chosen one by one: they are fitted with a λ that the path has not."""
    origin = model.provenance
    on_path = any(math.isclose(point.penalty, origin.penalty) for point in origin.path)
    return model.study.settings.prunes and bool(origin.path) and not on_path
