"""How well the model predicts held-out patients, and what single sites tell of themselves.

What is judged is what is published: the model as its coefficients are rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.families.elsewhere import Elsewhere, find_elsewhere
from fedrulefit.core.families.evidence import Effect, find_effects
from fedrulefit.core.families.sides import MeasuredLevels
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.rules import Rule
from fedrulefit.core.subgroups import SubgroupSums, find_sides
from fedrulefit.errors import ProtocolError
from fedrulefit.model import Counts, Model, RuleTerm
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.own_file import list_baseline
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.adjusting import adjust
from fedrulefit.protocol.coordinator.asking import Asker, Talk
from fedrulefit.protocol.public import Public


def judge(
    asker: Asker, model: Model, told: Model, terms: Ints, public: Public, rounding: Rounding
) -> Talk[Model]:
    """Return the model with its evaluation, and the results of single sites, as the study asks.

    Parameters
    ----------
    told : Model
        The model as it will be published.
    terms : (n_kept,) int64
        Places of its terms, the intercept first.
    """
    coef = told_coef(told, terms, public)
    if m.ShareModelRequest.asked_in(asker.settings):
        asker.progress = replace(asker.progress, step="own baselines")
        model_is = partial(m.ShareModelRequest, terms=terms, coef=coef)
        yield from asker.ask(m.ShareModelReply, model_is)
    if m.EvaluateRequest.asked_in(asker.settings):
        asker.progress = replace(asker.progress, step="evaluation")
        question = partial(m.EvaluateRequest, terms=terms, coef=coef)
        told_of = yield from asker.sum(question, public)
        scores, placed, subgroups, apart, elsewhere, *with_own = told_of
        within = public.family.judge.measure_within(placed)
        evaluation = Evaluation(
            scores,
            within=within,
            judged=rounding,
            family=public.family,
            over_time=public.family.judge.score_over_time(scores, told.timeline),
            own=Evaluation(with_own[0], judged=rounding, family=public.family)
            if with_own
            else None,
        )
        rules = public.rules_of(terms)
        model = _with_subgroups(model, rules, subgroups)
        effects = find_effects(public.family.evidence, apart, len(asker.sites))
        model = _with_effects(model, rules, effects, find_elsewhere(elsewhere))
        model = replace(model, evaluation=evaluation)
        model = yield from adjust(asker, model, terms, coef, public)
    if m.ResultsRequest.asked_in(asker.settings):
        model = yield from _add_results(asker, model, terms, coef, public)
    return model


def told_coef(told: Model, terms: Ints, public: Public) -> Floats:
    """Return the coefficients of a model that was rounded, in the order of `terms`.

    0 for a term that rounding left out.
    """
    left = {term.key: term.coefficient for term in told.terms}
    coef = [left.get(key, 0.0) for key in public.keys_of(terms)]
    return np.array([*list_baseline(told), *coef])


def _add_results(
    asker: Asker, model: Model, terms: Ints, coef: Floats, public: Public
) -> Talk[Model]:
    """Add the sites' own results: those that no site keeps back."""
    asker.progress = replace(asker.progress, step="results")
    (kept_back,) = yield from asker.sum(partial(m.OfferRequest, terms=terms), public)
    # Sums of zeros and ones, in fixed point. Without events, measures say it all.
    counts_events, judged = public.family.counts_events, kept_back.evaluation < 0.5
    totals = counts_events and kept_back.totals < 0.5
    told, held_out = (
        np.flatnonzero(kept < 0.5) if among else np.empty(0, dtype=np.int64)
        for kept, among in (
            (kept_back.rules, totals),
            (kept_back.held_out, judged and counts_events),
        )
    )
    question = partial(
        m.ResultsRequest,
        terms=terms,
        coef=coef,
        rules=told,
        totals=totals,
        evaluation=judged,
        held_out=held_out,
    )
    replies = yield from asker.ask(m.ResultsReply, question)
    names = [field.name for field in fields(public.family.judge.measures)]
    for reply in replies:
        _check_results(
            reply, told, held_out, names, totals=totals, evaluation=judged, events=counts_events
        )
    by_site = tuple(Counts(*reply.totals.tolist()) for reply in replies) if totals else ()
    evaluation = model.evaluation
    if judged and evaluation is not None:
        measures = {
            reply.header.site: _read_measures(reply, public.family.judge.measures)
            for reply in replies
        }
        evaluation = replace(evaluation, sites=measures)
    return replace(
        _with_sites(model, public.rules_of(terms), replies, told, held_out),
        provenance=replace(model.provenance, by_site=by_site),
        evaluation=evaluation,
    )


def _with_subgroups(model: Model, rules: Sequence[Rule], subgroups: SubgroupSums) -> Model:
    """Return the model with who of the held-out patients satisfies its rules."""
    levels = model.study.family.levels
    if isinstance(levels, MeasuredLevels):
        sides = dict(zip(rules, find_sides(subgroups, levels), strict=True))
        return _change_rules(model, lambda term: replace(term, sides=sides.get(term.rule)))
    counts = map(Counts, subgroups.inside.tolist(), subgroups.tallies_inside.tolist())
    held_out = dict(zip(rules, counts, strict=True))
    return _change_rules(model, lambda term: replace(term, held_out=held_out.get(term.rule)))


def _with_effects(
    model: Model,
    rules: Sequence[Rule],
    effects: Sequence[Effect | None],
    elsewhere: Sequence[Elsewhere | None],
) -> Model:
    """Return the model with what its rules do within hospitals, and how hospitals differ."""
    # Of some outcomes, and of few hospitals, none is told.
    found = dict(zip(rules, effects, strict=False))
    others = dict(zip(rules, elsewhere, strict=False))

    def change(term: RuleTerm) -> RuleTerm:
        within = found.get(term.rule)
        return replace(term, within=within, elsewhere=others.get(term.rule) if within else None)

    return _change_rules(model, change)


def _with_sites(
    model: Model,
    rules: Sequence[Rule],
    replies: Sequence[m.ResultsReply],
    told: Ints,
    held_out: Ints,
) -> Model:
    """Return the model with the sites' own counts at its rules."""
    learnt = _by_rule(rules, told, [(r.inside, r.events_inside) for r in replies])
    judged = _by_rule(rules, held_out, [(r.held_out, r.held_out_events) for r in replies])
    return _change_rules(
        model,
        lambda term: replace(
            term,
            by_site=learnt.get(term.rule, ()),
            held_out_by_site=judged.get(term.rule, ()),
        ),
    )


def _by_rule(
    rules: Sequence[Rule], told: Ints, counts: Sequence[tuple[Floats, Floats]]
) -> dict[Rule, tuple[Counts, ...]]:
    """Return, for each rule that was told, the sites' patients inside and their outcomes."""
    return {
        rules[k]: tuple(Counts(float(inside[at]), float(events[at])) for inside, events in counts)
        for at, k in enumerate(told.tolist())
    }


def _change_rules(model: Model, change: Callable[[RuleTerm], RuleTerm]) -> Model:
    """Return the model with its rules changed."""
    terms = (change(term) if isinstance(term, RuleTerm) else term for term in model.terms)
    return replace(model, terms=tuple(terms))


def _check_results(
    reply: m.ResultsReply,
    rules: Ints,
    held_out: Ints,
    names: Sequence[str],
    *,
    totals: bool,
    evaluation: bool,
    events: bool,
) -> None:
    """Refuse results that are not those asked for; with `events`, these are the second measure."""
    site, n_known = reply.header.site, len(reply.known)
    lengths = (
        (reply.totals, 2 if totals else 0),
        (reply.inside, len(rules)),
        (reply.events_inside, len(rules)),
        (reply.held_out, len(held_out)),
        (reply.held_out_events, len(held_out)),
        (reply.measures, n_known),
    )
    places = set(reply.known.tolist())
    wanted = set(range(1 + events)) if evaluation else set()
    if any(array.shape != (length,) for array, length in lengths) or len(places) < n_known:
        raise ProtocolError(f"site {site!r} sent other results than were asked for")
    if not wanted <= places or (places and not evaluation):
        raise ProtocolError(f"site {site!r} sent other results than were asked for")
    if not places <= set(range(len(names))):
        raise ProtocolError(f"site {site!r} sent a measure that does not exist")
    parts = [(reply.events_inside, reply.inside), (reply.held_out_events, reply.held_out)]
    if totals:
        parts.append((reply.totals[1:], reply.totals[:1]))
        parts += [(reply.inside, reply.totals[:1]), (reply.events_inside, reply.totals[1:])]
    if evaluation and events:
        patients, cases = (reply.measures[reply.known == place] for place in (0, 1))
        parts += [(reply.held_out, patients), (reply.held_out_events, cases)]
    if any((few < 0).any() or (few > many * (1 + 1e-9)).any() for few, many in parts):
        raise ProtocolError(f"site {site!r} counts more patients in a part than in the whole")


def _read_measures(reply: m.ResultsReply, kind: type[Any]) -> Any:
    """Return a site's own measures, of the kind that the outcome's family judges by."""
    values = np.full(len(fields(kind)), np.nan)
    values[reply.known] = reply.measures
    try:
        return kind(*values.tolist())
    except ValueError as error:
        raise ProtocolError(f"site {reply.header.site!r}: {error}") from None
