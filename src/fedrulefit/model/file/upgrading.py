"""Files of older versions, in the words of today's.

Files of version 1 told counts to the last patient. They have no :attr:`Model.rounding`; scores
that they count in 514 bins are put into today's 25, each bin at its mean probability. All their
outcomes are yes/no.

Files up to version 2 added the scores of left-out sites up, each by a model of its own. That
means nothing and is dropped; the sites' own measures stay.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from fedrulefit.core.families import make_family
from fedrulefit.core.families.yesno_sums import EDGES, N_BINS, ScoreSums, sum_log_odds
from fedrulefit.errors import ModelFileError
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.file.building import read_measures
from fedrulefit.model.file.part import Numbers, Part
from fedrulefit.model.file.parts import VERSION, EvaluationPart
from fedrulefit.model.file.writing import evaluation_facts

OLD_BINS: Final = 514


class OldScoresPart(Part):
    """Scores in the bins of version 1: place, events, others, summed probability."""

    bins: list[
        Annotated[list[Annotated[float, Field(ge=-1e-6)]], Field(min_length=4, max_length=4)]
    ]
    squares: float = Field(ge=0)
    loss: float = Field(ge=0)


class OldEvaluationPart(Part):
    """An evaluation of version 1."""

    overall: OldScoresPart
    sites: dict[str, Numbers]


def upgrade(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a file of version 1 as of today's."""
    new = {**facts, "version": VERSION, "rounding": None}
    for name in ("evaluation", "validation"):
        old = facts.get(name)
        new[name] = None if old is None else _upgrade_evaluation(old)
    return unpool(new)


def unpool(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a file of version 2 with the validation of single sites alone."""
    old = facts.get("validation")
    if not isinstance(old, dict) or "overall" not in old:
        return facts
    sites = EvaluationPart.model_validate(old).model_dump()["sites"]
    return {**facts, "validation": {"sites": sites, "too_few": []} if sites else None}


def _upgrade_evaluation(facts: Any) -> dict[str, Any] | None:
    old = OldEvaluationPart.model_validate(facts)
    cases, others, chances = np.zeros((3, N_BINS))
    places = [row[0] for row in old.overall.bins]
    if not set(places) <= set(range(OLD_BINS)) or len(set(places)) < len(places):
        raise ModelFileError("a bin of the evaluation does not exist, or stands twice")
    for _, sick, healthy, chance in old.overall.bins:
        total = sick + healthy
        place = int(np.searchsorted(EDGES, chance / total, side="right")) if total > 0 else 0
        cases[place] += sick
        others[place] += healthy
        chances[place] += chance
    squares, loss = old.overall.squares, old.overall.loss
    held = [row[1:] for row in old.overall.bins if row[1] + row[2] > 0]
    with_it, without_it, summed = np.array(held).reshape(-1, 3).T
    means = np.clip(summed / (with_it + without_it), 0, 1)
    log_odds, odds_squares = sum_log_odds(means, with_it, without_it, means < 0.5)
    sums = ScoreSums(cases, others, float(chances.sum()), squares, loss, log_odds, odds_squares)
    judge = make_family("yes/no").judge
    sites = {site: read_measures(found, judge, site) for site, found in old.sites.items()}
    return evaluation_facts(Evaluation(sums, sites)) if sums.total > 0 else None


def upgrade_study(facts: dict[str, Any]) -> dict[str, Any]:
    """Say what older files leave out: no noise by no ε, quantiles, lasso, no sums between sites."""
    settings = facts.get("settings")
    if not isinstance(settings, dict):
        return facts
    before = {"between_sites": False, "cutoff_style": "quantile", "selection": "min"}
    if settings.get("epsilon", 1.0) is None:
        before["noise"] = False
    return {**facts, "settings": {**before, **settings}}
