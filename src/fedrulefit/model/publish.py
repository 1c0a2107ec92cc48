r"""What is published is rounded: a model whose numbers tell of no single patient.

In: a model, and how coarse its counts shall be (:class:`~fedrulefit.core.rounding.Rounding`).
Out: the model to publish. Whatever could be worked back into exact counts is rounded with
them:

=====================  ==================================================================
counts                 to multiples; None where they, or their complement, are too small
importance of a rule   follows from the rounded count and coefficient; three digits
other importances      three digits
share between sites    in steps of 0.05; None for a rule of which the count is
coefficients           four digits at most, and no finer than one or two patients' outcomes
λ from the data        its largest to two digits; the others keep their ratio to it
mean losses            no finer than 1/N, of numbers and counts than 1/N of the loss itself; four
                       digits at most
coefficients along λ   not told, nor the losses round by round: each λ is another measurement
                       of the same counts
certificate            two digits
results per site       as counts; none where one site has too few
distribution           shares as counts, of the patients; small ones told together, or as 0
evaluation             merged bins, rounded counts, measures to three decimals
held-out inside rules  as counts, and never fewer than five in a cell of the table rule × outcome;
                       levels as their family publishes them
                       (:class:`~fedrulefit.core.families.sides.MeasuredLevels`)
validation             each site's measures as counts; a site with too few is only named: no
                       total over sites is told that would tell its own
=====================  ==================================================================

Why coefficients: at the optimum the outcomes inside a rule are
:math:`\sum_{i∈r} \hat y_i ± λN`. With all digits that is one equation per term between small
integers, and a model of few rules can be solved for its counts. Four digits still can, up to
some thousand patients. A step of β changes the expected outcomes inside by step·n·v, the
family's information at the outcome's rate there; steps are 1, 2 or 5 times a power of ten,
the least for which that is a patient or more. Rounding then moves a coefficient by less than
:math:`1.3/\sqrt{nv}` of its standard error. A term that rounds to 0 leaves the model: it moved
less than about one outcome.

Oracle: ``tests/unit/model/test_publish.py``; what can be worked back: ``tests/attacks``.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, TypeVar

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.certificate import Certificate
from fedrulefit.core.families import Family
from fedrulefit.core.families.sides import MeasuredLevels, Sides
from fedrulefit.core.grid import RULE_SPREAD
from fedrulefit.core.rounding import (
    EXACT,
    Rounding,
    round_digits,
    round_place,
    round_step,
    round_up_step,
)
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import Counts, LinearTerm, Model, Provenance, RuleTerm, Term
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.wishes import Edit, Wish

AnyTerm = TypeVar("AnyTerm", RuleTerm, LinearTerm)
Priced = TypeVar("Priced", Wish, Edit)

DIGITS: Final = 4
"""Most significant digits of a coefficient, a penalty or a mean loss."""
_IMPORTANCE_DIGITS: Final = 3
_ROUGH_DIGITS: Final = 2
_SHARE_STEP: Final = 0.05

BEFORE_ROUNDING: Final = "The measures on held-out patients are of the model before it was rounded."


def check_rounding(model: Model) -> None:
    """Refuse a model of which nobody said how coarse its counts are.

    Raises
    ------
    FedRuleFitError
        If its file was made before counts were rounded.
    """
    if model.rounding is None:
        raise FedRuleFitError(
            "this model file was made before published numbers were rounded, and may tell of "
            "single patients: round it first, with "
            "'fedrulefit round FILE -o rounded.json', and publish only that"
        )


def warn_exact(model: Model, file: str = "FILE") -> str:
    """Return a warning where a model of several sites has exact counts; else nothing.

    `file` is the model's, as a person would name it.
    """
    if model.rounding != EXACT or len(model.provenance.sites) < 2:
        return ""
    return (
        "counts are exact: before you publish the model, round it with "
        f"'fedrulefit round {shlex.quote(file)} -o rounded.json'"
    )


def tell_changes(before: Model, after: Model) -> list[str]:
    """Return what rounding changed in a model, in sentences."""
    lost = [
        f"{number} {words}{'s' * (number != 1)}"
        for number, words in (
            (len(before.rule_terms) - len(after.rule_terms), "rule"),
            (len(before.linear_terms) - len(after.linear_terms), "linear term"),
        )
        if number
    ]
    move = bound_move(before, after)
    if move == 0:
        return ["No coefficient changed."]
    penalty = " and λ" * (before.provenance.penalty != after.provenance.penalty)
    return [
        f"{' and '.join(lost)} left the model: their coefficients rounded to 0."
        if lost
        else "No term left the model.",
        f"Rounding made coefficients{penalty} coarser: {after.study.family.tell_move(move)}.",
        *([BEFORE_ROUNDING] if judged_before(after) else []),
    ]


def judged_before(model: Model) -> bool:
    """Whether the measures on held-out patients are of the model before it was rounded."""
    found = model.evaluation
    return found is not None and model.is_rounded and found.judged != model.rounding


def bound_move(before: Model, after: Model) -> float:
    """Return the most that a patient's F can differ between two roundings of a model."""
    left = {term.key: term.coefficient for term in after.terms}
    family = before.study.family
    levels = family.names if family.own_terms else (None,)
    most = 0.0
    for k, level in enumerate(levels):
        low = high = _start_of(after, k) - _start_of(before, k)
        for term in before.terms:
            if term.level == level:
                change = left.get(term.key, 0.0) - term.coefficient
                ends = [change * size for size in _sizes(term, before)]
                low, high = low + min(ends), high + max(ends)
        most = max(most, -low, high)
    return most


def _start_of(model: Model, part: int) -> float:
    """Return the intercept of one of a patient's predictors."""
    family = model.study.family
    return float(family.starts(model.intercept, model.baseline or (0.0,))[part])


def _sizes(term: Term, model: Model) -> tuple[float, ...]:
    """Return the least and the largest value that a term can have."""
    if isinstance(term, RuleTerm):
        return 0.0, 1.0
    axis = model.grid.axes[term.feature]
    scale = RULE_SPREAD / axis.spread
    return tuple(scale * (x - axis.centre) for x in (*axis.limits, axis.fill))


def round_model(model: Model, rounding: Rounding) -> Model:
    """Return the model to publish; nothing gets finer than it is.

    :data:`~fedrulefit.core.rounding.EXACT` leaves all as it is, but what is told of held-out
    patients: of fewer than five nothing, in any model.

    Raises
    ------
    FedRuleFitError
        If it has fewer patients than may be told.
    """
    rounding, unit = rounding.join(model.rounding or EXACT), model.study.most_weight
    if rounding == model.rounding != EXACT:
        return model
    judged = model.evaluation
    model = replace(
        _hide_few_held_out(model, rounding, unit),
        evaluation=model.evaluation and model.evaluation.rounded(rounding, unit),
        validation=model.validation and model.validation.rounded(rounding, unit),
        rounding=rounding,
    )
    if rounding == EXACT:
        return model
    origin = model.provenance
    fewest = max(rounding.smallest, rounding.multiple)
    if origin.patients < fewest * unit:
        raise FedRuleFitError(f"a model of fewer than {fewest} patients may not be published")
    cells = _Cells.of(model, rounding, judged)
    whole = 0.5 * cells.information(cells.patients, cells.events)  # scores spread, v is less
    terms = [_round_term(term, cells) for term in model.terms]
    kept = [term for term in terms if term.coefficient != 0]
    by_site = cells.round_sites(origin.by_site)
    return replace(
        model,
        intercept=round_step(model.intercept, find_step(model.intercept, whole)),
        baseline=_round_baseline(model, cells),
        terms=tuple(sorted(kept, key=lambda term: -term.importance)),
        provenance=replace(_round_origin(origin, cells, model), by_site=by_site),
        wishes=tuple(_round_price(wish, cells, model) for wish in model.wishes),
        edits=tuple(_round_price(edit, cells, model) for edit in model.edits),
        distribution=model.distribution and tuple(map(cells.round_shares, model.distribution)),
    )


def _round_baseline(model: Model, cells: _Cells) -> tuple[float, ...]:
    """Return a baseline no finer than the intercept, or than its class tells."""
    family = model.study.family
    levels = family.baseline_levels if model.baseline else ()
    whole = [0.5 * cells.information(cells.patients, cells.events, level) for level in levels]
    return tuple(
        round_step(own, find_step(own, known))
        for own, known in zip(model.baseline, whole, strict=True)
    )


def _baseline_means(model: Model) -> Mapping[str | None, float]:
    """Return what is predicted without any term, of each level that has terms of its own."""
    family, constants = model.study.family, model.intercept + np.array(model.baseline)
    if not family.own_terms:
        return {None: float(family.link.inverse(np.array([model.intercept]))[0])}
    means: Floats = family.predict(constants[None, :])[0]
    return dict(zip((None, *family.names), (float(means.min()), *means.tolist()), strict=True))


def _hide_few_held_out(model: Model, rounding: Rounding, unit: float) -> Model:
    """Return the model without what its rules tell of too few held-out patients."""
    judged = model.evaluation
    told = judged and judged.rounded(rounding, unit)
    least = rounding.least(unit)
    whole = Counts(0, 0) if judged is None else _total(judged.total)

    def hide(term: RuleTerm) -> RuleTerm:
        found = term.held_out
        if told is None or (found is not None and _smallest(*found, whole) < least):
            found = None
        by_site = term.held_out_by_site if told is not None and told.sites else ()
        sides = None if told is None else _publish_sides(term, model.study.family, rounding, unit)
        few = found is None and sides is None
        within = None if few or term.within is None else term.within.rounded(rounding)
        elsewhere = None if within is None else term.elsewhere
        return replace(
            term,
            held_out=found,
            held_out_by_site=by_site,
            sides=sides,
            within=within,
            elsewhere=elsewhere and elsewhere.rounded(rounding),
        )

    def adjust(term: Term) -> Term:
        few = told is None
        if isinstance(term, RuleTerm):
            few = few or (term.held_out is None and term.sides is None)
        adjusted = None if few or term.adjusted is None else term.adjusted.rounded(rounding)
        return replace(term, adjusted=adjusted)

    terms = (adjust(hide(term) if isinstance(term, RuleTerm) else term) for term in model.terms)
    return replace(model, terms=tuple(terms))


def _publish_sides(term: RuleTerm, family: Family, rounding: Rounding, unit: float) -> Sides | None:
    """Return what may be told of held-out patients on both sides of a rule."""
    levels = family.levels
    if term.sides is None or not isinstance(levels, MeasuredLevels):
        return None
    return levels.publish(term.sides, rounding, unit)


def _total(found: Any) -> Counts:
    """Return how many patients were judged."""
    return Counts(found.patients, found.with_outcome)


@dataclass(frozen=True)
class _Cells:
    """The counts of a model, exact (of each site, too, where known) and as told."""

    exact: Counts
    sites: tuple[Counts, ...]
    judged: tuple[Counts, ...]
    patients: float
    events: float | None
    rounding: Rounding
    unit: float
    family: Family
    means: Mapping[str | None, float]

    @classmethod
    def of(cls, model: Model, rounding: Rounding, judged: Evaluation | None) -> _Cells:
        origin, unit = model.provenance, model.study.most_weight
        events, least = origin.events, rounding.smallest * unit
        if events is not None and min(events, origin.patients - events) < least:
            events = None
        return cls(
            Counts(origin.patients, math.nan if origin.events is None else origin.events),
            origin.by_site,
            () if judged is None else tuple(map(_total, judged.sites.values())),
            rounding.count(origin.patients, unit),
            None if events is None else rounding.count(events, unit),
            rounding,
            unit,
            model.family,
            _baseline_means(model),
        )

    @property
    def least(self) -> float:
        """The smallest count that is told."""
        return self.rounding.smallest * self.unit

    def inside(self, term: RuleTerm) -> tuple[float | None, float | None]:
        """Return patients and outcomes inside a rule, each None where that tells of too few."""
        inside, events, whole = term.inside, term.events_inside, self.exact
        if inside is None or min(inside, whole.patients - inside) < self.least:
            return None, None
        rounded = self.rounding.count(inside, self.unit)
        if events is None or self.events is None or _smallest(inside, events, whole) < self.least:
            return rounded, None
        return rounded, self.rounding.count(events, self.unit)

    def held_out(self, term: RuleTerm) -> Counts | None:
        """Return who of the held-out patients is inside a rule, if that is told at all."""
        found = term.held_out
        return found and Counts(*(self.rounding.count(x, self.unit) for x in found))

    def information(self, patients: float, events: float | None, level: str | None = None) -> float:
        """Return roughly what patients, some with the outcome, tell of a coefficient: n·v.

        In patients of the largest weight, and at least one.
        """
        of_events = level is None or (self.family.of_first and level == self.family.names[0])
        if not (self.family.counts_events and of_events):
            mean = self.means[level]
        elif events is None or patients <= 0:
            mean = (self.events or self.least) / self.patients
        else:
            mean = events / patients
        return max(self.family.information(patients, mean) / self.unit, 1.0)

    def round_sites(
        self, counts: Sequence[Counts], whole: Sequence[Counts] | None = None
    ) -> tuple[Counts, ...]:
        """Return the sites' counts, rounded; nothing where a cell of one site is too small."""
        counted, pairs = self.family.counts_events, list(zip(counts, whole or (), strict=False))
        if counted:
            cells = [cell for patients, events in counts for cell in (events, patients - events)]
            cells += [_smallest(*part, all_of) for part, all_of in pairs]
        else:
            cells = [patients for patients, _ in counts]
            cells += [all_of.patients - patients for (patients, _), all_of in pairs]
        if any(cell < self.least for cell in cells):
            return ()
        count, unit = self.rounding.count, self.unit
        return tuple(
            Counts(count(many, unit), count(few, unit) if counted else 0.0) for many, few in counts
        )

    def round_shares(self, shares: Floats) -> Floats:
        """Return the shares of a covariate's codes as those of rounded counts.

        Codes of too few patients tell their mean, or 0 where they are too few together.
        They need not add up to 1: as counts, they are rounded one by one.
        """
        counts = self.exact.patients * shares
        least = self.least * (1 - 1e-9)  # shares are quotients
        small = counts < least
        told = np.array([self.rounding.count(n, self.unit) for n in counts.tolist()])
        rest = float(counts[small].sum())
        together = self.rounding.count(rest, self.unit) if rest >= least else 0.0
        told[small] = together / max(int(small.sum()), 1)
        return told / self.patients

    def round_rule_sites(self, term: RuleTerm) -> tuple[Counts, ...]:
        """Return who satisfies a rule at each site; nothing where the sites are not told."""
        return self.round_sites(term.by_site, self.sites) if self.round_sites(self.sites) else ()


def _smallest(inside: float, events: float, whole: Counts) -> float:
    """Return the smallest cell of the table rule × outcome."""
    missed = whole.events - events
    return min(events, inside - events, missed, whole.patients - inside - missed)


def _round_term(term: Term, cells: _Cells) -> Term:
    if isinstance(term, LinearTerm):
        information = cells.information(cells.patients, cells.events, term.level)
        information *= RULE_SPREAD**2
        size = round_digits(term.importance, _IMPORTANCE_DIGITS)
        told = _round_share(term.between_sites)
        return replace(_round_coefficients(term, information), importance=size, between_sites=told)
    inside, events = cells.inside(term)
    known = cells.least if inside is None else inside
    rounded = _round_coefficients(term, cells.information(known, events, term.level))
    spread = (known - known**2 / cells.patients) / max(cells.patients - 1, 1)
    size = abs(rounded.coefficient) * math.sqrt(max(spread, 0.0))
    return replace(
        rounded,
        importance=round_digits(size, _IMPORTANCE_DIGITS),
        inside=inside,
        events_inside=events,
        by_site=cells.round_rule_sites(term),
        held_out=cells.held_out(term),
        held_out_by_site=cells.round_sites(term.held_out_by_site, cells.judged),
        between_sites=None if inside is None else _round_share(term.between_sites),
    )


def _round_share(share: float | None) -> float | None:
    return None if share is None else round_step(share, _SHARE_STEP)


def _round_coefficients(term: AnyTerm, information: float) -> AnyTerm:
    step = find_step(term.coefficient, information)
    return replace(term, coefficient=round_step(term.coefficient, step), path=())


def find_step(value: float, information: float) -> float:
    """Return what a coefficient is rounded to multiples of.

    1, 2 or 5 times a power of ten: the next above 1/`information`, and above its fourth digit.
    """
    return round_up_step(max(1 / information, abs(value) / 10**DIGITS))


def _round_price(told: Priced, cells: _Cells, model: Model) -> Priced:
    """Return a wish, or an edit, with a price as fine as mean losses are told."""
    if told.price is None:
        return told
    loss = abs(model.provenance.objective) or 1.0
    own = 1.0 if model.study.family.counts_events else min(loss, 1.0)
    place = math.ceil(math.log10(own * cells.unit / cells.patients))
    error = None if told.error is None else round_digits(told.error, _ROUGH_DIGITS)
    return replace(told, price=round_place(told.price, place), error=error)


def _round_origin(origin: Provenance, cells: _Cells, model: Model) -> Provenance:
    whole = model.study.family.counts_events

    def loss(value: float) -> float:
        # A patient's own loss is about 1 where they have an event or none. Of numbers and counts it
        # is a share of the range, and so about the mean itself.
        own = 1.0 if whole else min(abs(value) or 1.0, 1.0)
        place = math.ceil(math.log10(own * cells.unit / cells.patients))
        return round_digits(round_place(value, place), DIGITS)

    given = isinstance(model.study.settings.penalty, float)
    largest = max(chain([origin.penalty], (point.penalty for point in origin.path)))
    scale = 1.0 if given or not largest else round_digits(largest, _ROUGH_DIGITS) / largest

    def penalty(value: float) -> float:
        return value if given else round_digits(scale * value, DIGITS)

    residual, gap = origin.certificate.residual, origin.certificate.gap
    return replace(
        origin,
        patients=cells.patients,
        events=cells.events,
        penalty=penalty(origin.penalty),
        objective=loss(origin.objective),
        certificate=Certificate(
            round_digits(residual, _ROUGH_DIGITS),
            None if gap is None else round_digits(gap, _ROUGH_DIGITS),
        ),
        history=(),
        path=tuple(
            replace(
                point,
                penalty=penalty(point.penalty),
                deviance=loss(point.deviance),
                error=round_digits(point.error, _ROUGH_DIGITS),
            )
            for point in origin.path
        ),
    )
