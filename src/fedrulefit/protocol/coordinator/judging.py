"""How well the model predicts held-out patients, and what single sites tell of themselves.

What is judged is what is published: the model as its coefficients are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.rounding import Rounding
from fedrulefit.core.rules import Rule
from fedrulefit.errors import ProtocolError
from fedrulefit.model import Counts, Model, RuleTerm
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.protocol import messages as m
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
    if m.EvaluateRequest.asked_in(asker.settings):
        asker.progress = replace(asker.progress, step="evaluation")
        question = partial(m.EvaluateRequest, terms=terms, coef=coef)
        scores, placed = yield from asker.sum(question, public)
        within = public.family.judge.measure_within(placed)
        evaluation = Evaluation(scores, within=within, judged=rounding, family=public.family)
        model = replace(model, evaluation=evaluation)
    if m.ResultsRequest.asked_in(asker.settings):
        model = yield from _add_results(asker, model, terms, coef, public)
    return model


def told_coef(told: Model, terms: Ints, public: Public) -> Floats:
    """Return the coefficients of a model that was rounded, in the order of `terms`.

    0 for a term that rounding left out.
    """
    rules = {term.rule: term.coefficient for term in told.rule_terms}
    linear = {term.feature: term.coefficient for term in told.linear_terms}
    coef = [rules.get(rule, 0.0) for rule in public.rules_of(terms)]
    coef += [linear.get(feature, 0.0) for feature in public.linear_of(terms)]
    return np.array([told.intercept, *coef])


def _add_results(
    asker: Asker, model: Model, terms: Ints, coef: Floats, public: Public
) -> Talk[Model]:
    """Add the sites' own results: those that no site keeps back."""
    asker.progress = replace(asker.progress, step="results")
    rules = public.rules_of(terms)
    (kept_back,) = yield from asker.sum(partial(m.OfferRequest, terms=terms), public)
    # Sums of zeros and ones, in fixed point.
    totals, judged = kept_back.totals < 0.5, kept_back.evaluation < 0.5
    told = np.flatnonzero(kept_back.rules < 0.5) if totals else np.empty(0, dtype=np.int64)
    question = partial(
        m.ResultsRequest, terms=terms, coef=coef, rules=told, totals=totals, evaluation=judged
    )
    replies = yield from asker.ask(m.ResultsReply, question)
    names = [field.name for field in fields(public.family.judge.measures)]
    for reply in replies:
        _check_results(reply, told, names, totals=totals, evaluation=judged)
    by_site = tuple(Counts(*reply.totals.tolist()) for reply in replies) if totals else ()
    counts = {rules[k]: _inside(replies, place) for place, k in enumerate(told.tolist())}
    evaluation = model.evaluation
    if judged and evaluation is not None:
        measures = {
            reply.header.site: _read_measures(reply, public.family.judge.measures)
            for reply in replies
        }
        evaluation = replace(evaluation, sites=measures)
    return replace(
        _with_counts(model, counts),
        provenance=replace(model.provenance, by_site=by_site),
        evaluation=evaluation,
    )


def _inside(replies: Sequence[m.ResultsReply], place: int) -> tuple[Counts, ...]:
    """Return who satisfies a rule at each site."""
    return tuple(Counts(float(r.inside[place]), float(r.events_inside[place])) for r in replies)


def _with_counts(model: Model, counts: Mapping[Rule, tuple[Counts, ...]]) -> Model:
    """Return the model with the sites' own counts at its rules."""
    terms = tuple(
        replace(term, by_site=counts.get(term.rule, ())) if isinstance(term, RuleTerm) else term
        for term in model.terms
    )
    return replace(model, terms=terms)


def _check_results(
    reply: m.ResultsReply, rules: Ints, names: Sequence[str], *, totals: bool, evaluation: bool
) -> None:
    """Refuse results that are not those asked for."""
    site, n_known = reply.header.site, len(reply.known)
    lengths = (
        (reply.totals, 2 if totals else 0),
        (reply.inside, len(rules)),
        (reply.events_inside, len(rules)),
        (reply.measures, n_known),
    )
    places = set(reply.known.tolist())
    wanted = {0, 1} if evaluation else set()
    if any(array.shape != (length,) for array, length in lengths) or len(places) < n_known:
        raise ProtocolError(f"site {site!r} sent other results than were asked for")
    if not wanted <= places or (places and not evaluation):
        raise ProtocolError(f"site {site!r} sent other results than were asked for")
    if not places <= set(range(len(names))):
        raise ProtocolError(f"site {site!r} sent a measure that does not exist")
    parts = [(reply.events_inside, reply.inside)]
    if totals:
        parts.append((reply.totals[1:], reply.totals[:1]))
        parts.append((reply.inside, np.full(len(rules), reply.totals[0])))
        parts.append((reply.events_inside, np.full(len(rules), reply.totals[1])))
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
