"""What the page's calculator computes with: the model as JSON, the outcome's family as functions.

In: a model. Out: text for a ``<script type="application/json">`` element, which a
browser never runs. No name can close that element: ``<``, ``>`` and ``&`` are written
as escapes. The family's functions are ours, and hold nothing of a study: they stand in front
of the page's program (``page.js``).

Numbers are written as Python's ``repr`` does; JavaScript reads back the same doubles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.families import Family
from fedrulefit.core.families.incidence import Incidence
from fedrulefit.core.families.scripts import quote_javascript
from fedrulefit.core.families.survival import Timeline, tell_time
from fedrulefit.core.grid import RULE_SPREAD
from fedrulefit.model import LinearTerm, Model, Term
from fedrulefit.model.unforeseen import Flag, list_flags
from fedrulefit.study import Number, level_key
from fedrulefit.table.cells import MISSING_WORDS
from fedrulefit.table.reading import Cell

NONE_OF_THEM: Final = "none of them"
"""Where events compete, what else may be of a patient."""


def island_facts(model: Model) -> dict[str, Any]:
    """Return all that a prediction needs, as plain lists, dicts and numbers."""
    flags = list_flags(model)
    reaches = model.range_facts
    return {
        "outcome": model.study.outcome.label or model.study.outcome.column,
        "intercept": model.intercept,
        "ruleSpread": RULE_SPREAD,
        "axes": [_axis_facts(model, j) | _flag_facts(found) for j, found in enumerate(flags)],
        "terms": [_term_facts(model, term) for term in model.terms],
        **({"reaches": reaches} if reaches else {}),
        **_levels_facts(model),
        **({} if model.timeline is None else {"timeline": _timeline_facts(model.timeline)}),
    }


def _levels_facts(model: Model) -> dict[str, Any]:
    """Return the outcome's levels, and what of the start is each one's (or each step's) own."""
    family = model.study.family
    if not family.names:
        return {}
    if model.incidence is not None:
        starts = family.starts(0.0, model.baseline).tolist()
        own = {"baseline": starts, "apart": True, "incidence": _incidence_facts(model.incidence)}
        return {"levels": [*family.names, NONE_OF_THEM], **own}
    own = {"baseline": list(model.baseline), "apart": family.own_terms}
    return {"levels": list(family.names), **own}


def _incidence_facts(incidence: Incidence) -> dict[str, Any]:
    unit, horizons = incidence.unit, incidence.horizons
    return {
        "ends": incidence.ends.tolist(),
        "shares": incidence.shares.tolist(),
        "unit": unit,
        "horizons": [[time, tell_time(time, unit)] for time in horizons],
    }


def _timeline_facts(timeline: Timeline) -> dict[str, Any]:
    return {
        "ends": timeline.ends.tolist(),
        "shares": timeline.shares.tolist(),
        "unit": timeline.unit,
        "horizons": [[h.time, h.by, h.shift] for h in timeline.horizons],
    }


def dump_island(model: Model) -> str:
    """Return the facts as JSON that is safe inside HTML."""
    text = json.dumps(island_facts(model), separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def write_family(family: Family) -> str:
    """Return the family as the page's program needs it: a constant of functions and words."""
    sign, level = (
        json.dumps(word, ensure_ascii=False)
        for word in (family.words.effect_sign, family.words.level)
    )
    return (
        "const family = {\n"
        f"  inverse: {family.link.javascript},\n"
        f"  effect: {family.effect_javascript},\n"
        f"  start: {family.start_javascript or family.effect_javascript},\n"
        f"  fromZero: {json.dumps(family.levels.from_zero)},\n"
        f"  tellEffect: {family.tell_effect_javascript},\n"
        f"  share: {family.share_javascript},\n"
        f"  levels: {family.levels_javascript},\n"
        f"  shares: {json.dumps(family.predicts_shares)},\n"
        f"  additive: {json.dumps(family.additive)},\n"
        f"  tell: {family.tell_javascript},\n"
        f"  sign: {sign},\n"
        f"  level: {level},\n"
        f"  ranges: {family.judge.range_javascript},\n"
        f"  rangeWords: {quote_javascript(family.judge.range_words)},\n"
        "};\n"
    )


def _axis_facts(model: Model, feature: int) -> dict[str, Any]:
    name = model.study.names[feature]
    covariate, axis = model.study.covariates[name], model.grid.axes[feature]
    facts: dict[str, Any] = {
        "name": name,
        "kind": axis.kind,
        "complete": axis.complete,
        "cutoffs": axis.cutoffs.tolist(),
        "limits": list(axis.limits),
        "spread": axis.spread,
        "centre": axis.centre,
        "fill": axis.fill,
    }
    if isinstance(covariate, Number):
        facts |= {
            "range": list(covariate.range),
            "unit": covariate.unit,
            "log": covariate.spacing == "log",
            "step": covariate.step,
            "missing": sorted(
                MISSING_WORDS | {level_key(code).casefold() for code in covariate.missing}
            ),
        }
    else:
        facts["words"] = list(covariate.words)
    return facts


def _flag_facts(flags: Mapping[Cell, Flag]) -> dict[str, Any]:
    """Return what a kind of cell counts as (null for missing), unless it is refused, and words."""
    return {
        "flags": {
            cell.name.lower(): {
                "refused": flag.fate == "refuse",
                "value": flag.value if flag.fate == "clip" else None,
                "text": flag.text,
            }
            for cell, flag in flags.items()
        }
    }


def _term_facts(model: Model, term: Term) -> dict[str, Any]:
    words = model.describe(replace(term, level=None))
    facts: dict[str, Any] = {"words": words, "coefficient": term.coefficient}
    if term.level is not None:
        facts["level"] = model.study.family.names.index(term.level)
    if isinstance(term, LinearTerm):
        return {**facts, "linear": term.feature}
    return {
        **facts,
        "conditions": [[c.feature, _codes(c.codes), int(c.missing)] for c in term.rule],
    }


def _codes(codes: int) -> list[int]:
    """Return the codes as runs [first, last, first, last, …], both included."""
    runs: list[int] = []
    for code in (c for c in range(MISSING) if codes >> c & 1):
        if runs and runs[-1] == code - 1:
            runs[-1] = code
        else:
            runs += [code, code]
    return runs
