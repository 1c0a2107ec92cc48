"""What each term of the finished model does given all others: rounds over held-out patients."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fedrulefit.core.adjusting import MOST_TERMS, Adjustment
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.families.evidence import MOST_ERROR, Effect
from fedrulefit.model import Model
from fedrulefit.model.terms import Term
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.asking import Asker, Talk
from fedrulefit.protocol.public import Public


def adjust(asker: Asker, model: Model, terms: Ints, coef: Floats, public: Public) -> Talk[Model]:
    """Return the model with adjusted effects, where the study asks for them.

    None is told where the refit does not come to its end, or of a term whose patients tell
    next to nothing.
    """
    layout = public.layout.among(terms)
    if not m.AdjustRequest.asked_in(asker.settings) or len(terms) > MOST_TERMS:
        return model
    asker.progress = replace(asker.progress, step="adjusted")
    refit = Adjustment(layout, coef)
    while not refit.done:
        query = refit.query()
        asked = partial(m.AdjustRequest, terms=terms, start=query.start, end=query.end)
        (sums,) = yield from asker.sum(asked, public)
        refit.update(sums)
    estimates, errors = refit.finish(public.family)
    told = {
        key: Effect(len(asker.sites), estimate, error)
        for key, estimate, error in zip(
            public.keys_of(terms),
            estimates[layout.effects].tolist(),
            errors[layout.effects].tolist(),
            strict=True,
        )
        if refit.converged and np.isfinite(error) and 0 < error <= MOST_ERROR
    }

    def change(term: Term) -> Term:
        return replace(term, adjusted=told.get(term.key))

    return replace(model, terms=tuple(map(change, model.terms)))
