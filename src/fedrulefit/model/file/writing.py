"""A model → the text of its file. Equal models give equal text."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedrulefit.core.families.sides import Side
from fedrulefit.core.families.time_horizons import Scores
from fedrulefit.core.rules import Condition, as_interval
from fedrulefit.errors import ModelFileError
from fedrulefit.files import write_whole
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.file.parts import FORMAT, VERSION
from fedrulefit.model.model import Model
from fedrulefit.model.terms import LinearTerm, RuleTerm, Term
from fedrulefit.model.validation import SiteValidation
from fedrulefit.model.wishes import Edit


def save_model(model: Model, path: Path) -> None:
    """Write `model` to `path`, whole or not at all."""
    try:
        write_whole(path, model_text(model).encode())
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror}") from None


def model_text(model: Model) -> str:
    """Return the text of the model file: equal models give equal text.

    Raises
    ------
    ModelFileError
        If the model has a hospital's own baseline: that would leave the hospital with the file.
    """
    if model.hospital is not None and model.hospital.own is not None:
        raise ModelFileError(
            "this model has a hospital's own baseline, which a model file does not hold: save the "
            "model itself, and the baseline in a file of its own (OwnBaseline.save)"
        )
    return json.dumps(model_facts(model), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def digest_model(model: Model) -> str:
    """Return the SHA-256 of the model's file, also of a model that is at a hospital."""
    shared = model if model.hospital is None else model.hospital.shared
    return hashlib.sha256(model_text(shared).encode("utf-8", "replace")).hexdigest()


def model_facts(model: Model) -> dict[str, Any]:
    """Return the model as plain lists, dicts and numbers."""
    bill, origin = model.privacy, model.provenance
    return {
        "format": FORMAT,
        "version": VERSION,
        "study": model.study.model_dump(mode="json"),
        "grid": [
            {
                "covariate": name,
                "kind": axis.kind,
                "cutoffs": axis.cutoffs.tolist(),
                "codes": axis.n_codes,
                "limits": list(axis.limits),
                "spread": axis.spread,
                "centre": axis.centre,
                "fill": axis.fill,
                "shares": None if shares is None else shares.tolist(),
            }
            for name, axis, shares in zip(
                model.study.names,
                model.grid.axes,
                model.distribution or [None] * model.study.n_features,
                strict=True,
            )
        ],
        "intercept": model.intercept,
        **({"baseline": list(model.baseline)} if model.baseline else {}),
        **({} if model.dispersion is None else {"dispersion": model.dispersion}),
        "terms": [_term_facts(term, model) for term in model.terms],
        **({"wishes": [asdict(wish) for wish in model.wishes]} if model.wishes else {}),
        **({"edits": [_edit_facts(edit) for edit in model.edits]} if model.edits else {}),
        "rounding": None if model.rounding is None else asdict(model.rounding),
        "privacy": {
            "mechanism": bill.mechanism,
            "epsilon_per_histogram": bill.epsilon_per_histogram,
            "n_histograms": bill.n_histograms,
            "ranges_from_data": bill.ranges_from_data,
            "exact": list(bill.exact),
            "sums": list(bill.sums),
            "sum_of": bill.sum_of,
        },
        "provenance": {
            "sites": list(origin.sites),
            "patients": origin.patients,
            "events": origin.events,
            "candidates": origin.candidates,
            "solver": origin.solver,
            "penalty": origin.penalty,
            "rounds": origin.rounds,
            "objective": origin.objective,
            "certificate": asdict(origin.certificate),
            "history": list(origin.history),
            "path": [asdict(point) for point in origin.path],
            "software": dict(origin.software),
            "by_site": [list(counts) for counts in origin.by_site],
        },
        "evaluation": evaluation_facts(model.evaluation),
        "validation": _validation_facts(model.validation),
    }


def evaluation_facts(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """Return an evaluation as plain lists, dicts and numbers."""
    if evaluation is None:
        return None
    return {
        "overall": _measure_facts(evaluation.total),
        **evaluation.family.judge.write(evaluation.overall),
        "sites": {site: _measure_facts(found) for site, found in evaluation.sites.items()},
        "within": None if evaluation.within is None else asdict(evaluation.within),
        "judged": asdict(evaluation.judged),
        **({"over_time": _scores_facts(evaluation.over_time)} if evaluation.over_time else {}),
        **({} if evaluation.own is None else {"own": evaluation_facts(evaluation.own)}),
    }


def _scores_facts(scores: Scores) -> dict[str, Any]:
    """Return scores by each horizon, without what is not told of them."""
    return {name: told for name, told in asdict(scores).items() if told not in (None, ())}


def _validation_facts(validation: SiteValidation | None) -> dict[str, Any] | None:
    if validation is None:
        return None
    sites = {site: _measure_facts(found) for site, found in validation.sites.items()}
    return {"sites": sites, "too_few": list(validation.too_few)}


def _measure_facts(found: Any) -> dict[str, Any]:
    return {name: value if math.isfinite(value) else None for name, value in vars(found).items()}


def _term_facts(term: Term, model: Model) -> dict[str, Any]:
    if isinstance(term, LinearTerm):
        return {
            "kind": "linear",
            **_level_facts(term),
            "covariate": model.study.names[term.feature],
            "coefficient": term.coefficient,
            "importance": term.importance,
            "between_sites": term.between_sites,
            **_found_again_facts(term),
            "path": list(term.path),
        }
    return {
        "kind": "rule",
        **_level_facts(term),
        "rule": model.describe(term),
        "conditions": [_condition_facts(c, model) for c in term.rule],
        "coefficient": term.coefficient,
        "importance": term.importance,
        "between_sites": term.between_sites,
        "inside": term.inside,
        "events_inside": term.events_inside,
        "by_site": [list(counts) for counts in term.by_site],
        "held_out": None if term.held_out is None else list(term.held_out),
        "held_out_by_site": [list(counts) for counts in term.held_out_by_site],
        **_sides_facts(term),
        **({} if term.within is None else {"held_out_effect": asdict(term.within)}),
        **({} if term.elsewhere is None else {"elsewhere": asdict(term.elsewhere)}),
        **_found_again_facts(term),
        "path": list(term.path),
    }


def _edit_facts(edit: Edit) -> dict[str, Any]:
    facts = asdict(edit)
    return facts | {name: list(facts[name]) for name in ("dropped", "added")}


def _level_facts(term: Term) -> dict[str, Any]:
    """Return for which level of the outcome a term counts, where each has terms of its own."""
    return {} if term.level is None else {"level": term.level}


def _found_again_facts(term: Term) -> dict[str, Any]:
    """Return in how many folds a term is found again, where that is told."""
    again: dict[str, Any] = {"found_again": term.found_again, "in_halves": term.in_halves}
    again["adjusted_effect"] = None if term.adjusted is None else asdict(term.adjusted)
    return {name: value for name, value in again.items() if value is not None}


def _sides_facts(term: RuleTerm) -> dict[str, Any]:
    """Return the outcome of held-out patients on both sides, where that is told."""
    if term.sides is None:
        return {}
    inside, outside = map(_side_facts, term.sides)
    return {"held_out_sides": {"inside": inside, "outside": outside}}


def _side_facts(side: Side) -> dict[str, Any]:
    """Return one side; its numbers of levels and its curve only where there are some."""
    facts = asdict(side)
    several = {name: list(facts.pop(name)) for name in ("curve", "at_levels")}
    return facts | {name: told for name, told in several.items() if told}


def _condition_facts(condition: Condition, model: Model) -> dict[str, Any]:
    axis = model.grid.axes[condition.feature]
    facts: dict[str, Any] = {"covariate": model.study.names[condition.feature]}
    bounds = as_interval(condition.codes)
    if axis.ordered and bounds is not None:
        facts["interval"] = list(bounds)
    else:
        facts["levels"] = [c for c in range(axis.n_codes) if condition.codes >> c & 1]
    return {**facts, "missing": condition.missing}
