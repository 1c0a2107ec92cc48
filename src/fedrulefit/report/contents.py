"""What the page says, as rows and sentences: data first, looks later.

In: a model. Out: frozen rows, already in words and rounded for reading. Each
number follows from the model file alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fedrulefit.core.between import MOSTLY
from fedrulefit.core.certificate import tell_distance
from fedrulefit.core.families.judge import Summary
from fedrulefit.model import Model, RuleTerm, Term
from fedrulefit.model.display import is_pruned, tell_choice
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.evidence import (
    find_effect,
    write_adjusted,
    write_effect,
    write_elsewhere,
    write_found_again,
)
from fedrulefit.model.ideas import group_ideas
from fedrulefit.model.publish import warn_exact
from fedrulefit.model.validation import SiteValidation
from fedrulefit.model.wording import name_rows, tell_rows, tell_stand_ins
from fedrulefit.numerals import format_count, format_number, write_minus
from fedrulefit.study import Covariate, Number


@dataclass(frozen=True)
class TermRow:
    """A rule or linear term in the table.

    Parameters
    ----------
    words : str
    variant_of : str
        The rule that says nearly the same and is more important; empty for most.
    kind : str
        ``rule`` or ``linear``.
    raises : bool
        Whether it raises the prediction.
    effect : str
    size : float
        The same as a number, to sort by.
    importance : float
        Scaled so that the largest is 100.
    support : float
        In percent; −1 for a linear term, which has none, and where too few are inside or
        outside the rule to tell.
    between : float
        Share of its variance between sites, in percent; −1 where that is not told.
    stands_for_site : bool
        Whether that is more than half.
    held_out, interval : str
        Effect on held-out patients within hospitals, and its 95 % interval; of a linear term
        empty.
    held_out_size : float
        The same as a number, to sort by; −1 where it is not told.
    adjusted : str
        Effect given all other terms, and its interval.
    elsewhere : str
        Where that effect may lie in a further hospital.
    found_again : str
    level : str
        The class for which it counts, where each has terms of its own; else empty.
    """

    words: str
    variant_of: str
    kind: str
    raises: bool
    effect: str
    size: float
    importance: float
    support: float
    between: float
    stands_for_site: bool
    held_out: str
    interval: str
    held_out_size: float
    adjusted: str
    elsewhere: str
    found_again: str
    level: str = ""


@dataclass(frozen=True)
class VariableRow:
    """A covariate, and how much the model relies on it (largest = 100).

    `between` is the share of its terms' variance between sites, in percent; −1 where that is
    not told.
    """

    name: str
    label: str
    importance: float
    terms: int
    between: float
    stands_for_site: bool


@dataclass(frozen=True)
class Field:
    """A covariate as the calculator asks for it.

    Parameters
    ----------
    key : str
        Name of its control in the page.
    name, label, unit, note : str
    kind : str
        ``number`` or ``choice``.
    low, high : str
        The study's range; empty for a choice.
    options : tuple of str
        Words for the codes, in their order; empty for a number.
    complete : bool
        Whether it must be given: never if the model does not use it.
    used : bool
        Whether the model uses it at all.
    """

    key: str
    name: str
    label: str
    unit: str
    note: str
    kind: str
    low: str
    high: str
    options: tuple[str, ...]
    complete: bool
    used: bool


Fact = tuple[str, str]
_BESIDE: Final = 3
"""Rules whose evidence stands beside a curve of partial dependence."""

NOT_TOLD: Final = "not told"
"""What stands for a count of too few."""


def list_terms(model: Model) -> list[TermRow]:
    """Return all terms, most important first, variants below the rule that they are variants of."""
    largest = max((term.importance for term in model.terms), default=0.0) or 1.0
    rows = []
    for idea in group_ideas(model):
        rows.append(_list_term(model, idea.leader, "", largest))
        leader = name_term(model, idea.leader)
        rows += [_list_term(model, term, leader, largest) for term in idea.variants]
    return rows


def _list_term(model: Model, term: Term, variant_of: str, largest: float) -> TermRow:
    effect, ends = write_effect(model, term, write_minus)
    size = find_effect(model, term)[0]
    return TermRow(
        words=name_term(model, term),
        variant_of=variant_of,
        kind="rule" if isinstance(term, RuleTerm) else "linear",
        raises=term.coefficient > 0,
        effect=write_minus(model.study.family.tell_effect(model.effect(term))),
        size=model.effect(term),
        importance=100 * term.importance / largest,
        support=_told(model.support(term)),
        between=_told(model.between_sites(term)),
        stands_for_site=model.stands_for_site(term),
        held_out=effect,
        interval=ends,
        held_out_size=-1.0 if math.isnan(size) else size,
        adjusted=_join(*write_adjusted(model, term, write_minus)),
        elsewhere=write_elsewhere(model, term, write_minus),
        found_again=write_found_again(model, term),
        level=term.level or "",
    )


def list_beside(model: Model, feature: int) -> list[tuple[str, str]]:
    """Return the most important rules that name a covariate, and what held-out patients say."""
    rules = [term for term in model.rule_terms if feature in term.features]
    told = [(name_term(model, term), write_effect(model, term, write_minus)) for term in rules]
    return [(words, _join(*found)) for words, found in told[:_BESIDE] if found[0]]


def _join(effect: str, ends: str) -> str:
    return f"{effect} ({ends})" if ends else effect


def name_term(model: Model, term: Term) -> str:
    """Return a term in words, without the class for which it counts."""
    return model.describe(replace(term, level=None))


def _told(share: float) -> float:
    """Return a share in percent; −1 where it is not told."""
    return -1.0 if math.isnan(share) else 100 * share


def list_variables(model: Model) -> list[VariableRow]:
    """Return the covariates, most important first."""
    value, between = model.variable_importance().tolist(), model.variable_between().tolist()
    largest = max(value) or 1.0
    counts = [0] * model.study.n_features
    for term in model.terms:
        for j in term.features:
            counts[j] += 1
    rows = [
        VariableRow(
            name,
            model.study.covariates[name].label,
            100 * value[j] / largest,
            counts[j],
            _told(between[j]),
            between[j] > MOSTLY,
        )
        for j, name in enumerate(model.study.names)
    ]
    return sorted(rows, key=lambda row: -row.importance)


def list_fields(model: Model) -> list[Field]:
    """Return the calculator's questions, in the study's order."""
    used = {j for term in model.terms for j in term.features}
    return [
        _field(j, name, model.study.covariates[name], used=j in used)
        for j, name in enumerate(model.study.names)
    ]


def _field(j: int, name: str, covariate: Covariate, *, used: bool) -> Field:
    unit = low = high = ""
    options: tuple[str, ...] = ()
    if isinstance(covariate, Number):
        unit = covariate.unit
        low, high = (write_minus(format_number(end, covariate.step)) for end in covariate.range)
    else:
        options = covariate.words
    return Field(
        key=f"x{j}",
        name=name,
        label=covariate.label,
        unit=unit,
        note=covariate.note,
        kind="choice" if options else "number",
        low=low,
        high=high,
        options=options,
        complete=covariate.complete and used,
        used=used,
    )


def tell_outcome(model: Model) -> str:
    """Return the outcome's name for people."""
    return model.study.outcome.label or model.study.outcome.column


def tell_model(model: Model) -> list[str]:
    """Return the model in a few plain sentences."""
    words, family = model.study.family.words, model.study.family
    baseline, outcome = _tell_baseline(model), _quote(tell_outcome(model))
    what = f"every {words.one_of} of {outcome}" if family.told_levels else f"{outcome}{words.by}"
    lines = [f"This model gives the {words.prediction} of {what}. {_tell_patients(model)}"]
    if not model.terms:
        return [
            *lines,
            "No rule and no linear term earned its place: the model gives every patient the "
            f"same {words.prediction}, {baseline}.",
        ]
    used = {j for term in model.terms for j in term.features}
    first = model.terms[0]
    verb = "raises" if first.coefficient > 0 else "lowers"
    told = write_minus(family.tell_effect(model.effect(first)))
    of = "" if first.level is None else f" of {_quote(first.level)}"
    effect = told if family.additive else f"{words.effect_of} {words.effect_sign}{told}"
    return [
        *lines,
        f"It adds up {_plural(len(model.rule_terms), 'rule')} and "
        f"{_plural(len(model.linear_terms), 'linear term')} over "
        f"{len(used)} of {_plural(model.study.n_features, 'covariate')}. It starts from "
        f"{baseline}; each rule that holds for a patient, and each linear term, then "
        f"{words.acts}.",
        f"What counts most is {_quote(name_term(model, first))}, which {verb} the "
        f"predicted {words.level}{of} ({effect}).",
        *_warn_stand_ins(model),
        words.effect_caveat,
        *filter(None, [model.of_dispersion]),
    ]


def _tell_baseline(model: Model) -> str:
    """Return what is predicted where no term counts."""
    family = model.study.family
    if not family.names:
        return family.tell(float(family.link.inverse(np.array([model.intercept]))[0]))
    (chances,) = family.predict(model.intercept + np.array([model.baseline])).tolist()
    parts = [
        f"{_quote(name)} {family.tell(chance)}"
        for name, chance in zip(family.names, chances, strict=True)
    ]
    return ", ".join(parts)


_MOST_NAMED: Final = 3


def _warn_stand_ins(model: Model) -> list[str]:
    """Return which of the first terms stand for the hospital, in a sentence or two."""
    found = model.stand_ins
    if not found:
        return []
    names = [_quote(model.describe(term)) for term in found]
    if found[0] is model.terms[0]:
        names[0] = "It" if len(names) == 1 else f"It ({names[0]})"
    more = len(names) - _MOST_NAMED
    rest = f" So do {more} more of its terms, marked below." if more > 0 else ""
    return [tell_stand_ins(names[:_MOST_NAMED]) + rest]


def _tell_patients(model: Model) -> str:
    """Return how many patients the model rests on, and how many had the outcome."""
    origin, words = model.provenance, model.study.family.words
    learnt = (
        f"It was learnt from {format_count(origin.patients)} {name_rows(model.study)} of "
        f"{_plural(len(origin.sites), 'site')}"
    )
    if not model.study.family.counts_events:
        return f"{learnt}."
    if origin.events is None:
        return f"{learnt}; too few of them {words.had_or_not} to tell how many."
    return f"{learnt}; {tell_events(model)} of them {words.had_outcome}."


def tell_validation(validation: SiteValidation) -> str:
    """Return the internal–external validation in a few sentences."""
    return (
        "Each site was left out once: a model was learnt from all others and judged on it. "
        "Each was judged by a model of its own, so that nothing is added up over sites. "
        f"{validation.words()}"
    )


def tell_heterogeneity(evaluation: Evaluation | SiteValidation) -> str:
    """Return how much the sites differ, in a sentence; empty where that is not known."""
    return evaluation.family.judge.tell_heterogeneity(list(evaluation.sites.values()))


def tell_scales(summary: Sequence[Summary]) -> str:
    """Return where the measures of hospitals were averaged, and what the intervals are."""
    scales = ", ".join(f"{found.heading} {found.scale}" for found in summary)
    return (
        "Random effects: hospitals count by how well they are known and by how much they differ. "
        "The mean's interval says where the mean of many such hospitals lies; the prediction "
        f"interval, where one further hospital may lie. Scales of averaging and of τ: {scales}."
    )


def tell_unknown(evaluation: Evaluation | SiteValidation) -> str:
    """Return which measures of whom are not told, and why; empty where all are."""
    return evaluation.family.judge.tell_unknown(evaluation.all_measures)


def list_origin(model: Model, file: str) -> list[Fact]:
    """Return sites and patients as released; `file` is the model's."""
    origin, words = model.provenance, model.study.family.words
    facts = [
        ("Sites", ", ".join(origin.sites)),
        (
            f"{name_rows(model.study).capitalize()}, all sites together",
            format_count(origin.patients),
        ),
    ]
    counted = model.study.family.counts_events
    if counted:
        facts.append((words.with_outcome.capitalize(), tell_events(model)))
    for site, counts in zip(origin.sites, origin.by_site, strict=False):
        share = 100 * counts.rate if counts.patients else 0.0
        told = f"; {format_count(counts.events)} {words.with_outcome} ({share:.0f} %)"
        facts.append((f"Of {site}", format_count(counts.patients) + told * counted))
    if model.evaluation is not None:
        counted_are = f"{name_rows(model.study)} that the model was learnt from, none held out"
        facts.append(("Counted are", counted_are))
    if model.study.weight is not None:
        facts.append(("Weights", f"patients count by their {model.study.weight.column!r}"))
    if tell_rows(model.study):
        facts.append(("Rows", tell_rows(model.study)))
    if model.rounding is not None:
        facts.append(("Counts", warn_exact(model, file) or model.rounding.words()))
    return facts


def tell_rounding(model: Model) -> str:
    """Return what counts are, for a sentence."""
    multiple = 1 if model.rounding is None else model.rounding.multiple
    return "exact" if multiple == 1 else f"multiples of {multiple}"


def tell_events(model: Model) -> str:
    """Return how many patients had the outcome, as far as that is told."""
    events = model.provenance.events
    if events is None:
        return "too few to tell"
    return f"{format_count(events)} ({100 * model.rate:.{rate_digits(model)}f} %)"


def rate_digits(model: Model) -> int:
    """Return the decimals of a rate in percent: none where it is one of rounded counts."""
    return 0 if model.is_rounded else 1


def tell_groups(model: Model) -> str:
    """Return what the groups of the calibration are, and are not."""
    words, family = model.study.family.words, model.study.family
    apart = f" {words.with_and_without}" if family.counts_events else ""
    mean = "; their mean is an estimate" if family.judge.estimates_means else ""
    dots = " Decisions are known at the ends of groups (dots)."
    rounded = (
        " Their counts are rounded, and need not add up to the totals." if model.is_rounded else ""
    )
    one, many = words.level, f"{words.level}s"
    if family.names:
        one, many = words.prediction, words.predictions
    return (
        f"Groups of the predicted {one} are merged until each holds enough patients"
        f"{apart}.{rounded} Of a group's predicted {many} the range is known{mean}."
        f"{dots if family.judge.decision_columns else ''}"
    )


def list_certificate(model: Model) -> list[Fact]:
    """Return how the fit went, and how far it is from the optimum."""
    origin = model.provenance
    gap = origin.certificate.gap
    before = ", before rounding" if model.is_rounded else ""
    facts = [
        ("Solver", f"{origin.solver}, {_plural(origin.rounds, 'round')}"),
        ("Penalty λ", f"{origin.penalty:.4g} ({tell_choice(model)})"),
        ("Candidate rules", str(origin.candidates)),
        (f"Penalised mean loss{before}", f"{origin.objective:.6g}"),
        (f"KKT residual{before}", write_minus(tell_distance(origin.certificate.residual))),
        (
            f"Duality gap{before}",
            "not available: a term is unpenalised"
            if gap is None
            else f"{write_minus(tell_distance(gap))}: the most that the loss "
            f"{'lay' if before else 'lies'} above the optimum of the pooled data",
        ),
    ]
    if model.dispersion is not None:
        told = f"1/θ = {model.dispersion:.4g}, θ = {model.theta:.4g}"
        facts.append(("Dispersion", told if model.dispersion > 0 else "none beyond Poisson's"))
    if is_pruned(model):
        facts.append(("Residual and gap", "of the terms that were chosen, not of the choice"))
    elif origin.path:
        chosen_point = min(origin.path, key=lambda point: abs(point.penalty - origin.penalty))
        facts.append(
            (
                "Cross-validated deviance at λ",
                f"{chosen_point.deviance:.4g} (standard error {chosen_point.error:.2g})",
            )
        )
    return facts


def list_settings(model: Model) -> list[Fact]:
    """Return every setting of the run."""
    facts = model.study.settings.model_dump(mode="json")
    return [(name, "none" if value is None else str(value)) for name, value in facts.items()]


def list_versions(model: Model) -> Sequence[Fact]:
    """Return the software that made the model."""
    return model.provenance.software


def tell_count(value: float) -> str:
    """Return a number of patients, or that it is not told."""
    return NOT_TOLD if math.isnan(value) else format_count(value)


def _quote(text: str) -> str:
    """Return a name of others in quotes, isolated: it cannot turn the sentence around."""
    return f"“\u2068{text}\u2069”"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
