"""A finished model, changed by hand: terms dropped, rules in words added, the rest fitted anew.

In: a model and the tables that it was learnt from, all on this machine. Out: the changed model.

What stays is fitted at the model's own λ with its own penalty factors: so what changes is the edit
alone, and an edit of nothing is the same model. Nothing is chosen again, and a term can still
come to stand at 0. Rules that are added are unpenalised: whoever adds one wants to see its
effect, not a shrunk one. The new study names them as kept rules, and the fit ends with its
certificate.

The price of the edit is the difference of two cross-validations, of the terms before and after,
each at its own best λ and both on the same folds. The terms themselves were chosen on all patients;
so both deviances are a little too low, and their difference is what can be read.

Oracle: an edit of nothing, and the fit of a study with the same rules
(``tests/unit/engines/test_editing.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedrulefit.core.arrays import Floats
from fedrulefit.core.refining import Refined, refine
from fedrulefit.core.rules import Rule
from fedrulefit.engines.base import Engine, Fitted
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.engines.pricing import compare_folds, fix_cutoffs
from fedrulefit.errors import FitError, StudyError
from fedrulefit.model import LinearTerm, Model, RuleTerm, Term
from fedrulefit.model.file import model_text
from fedrulefit.model.terms import TermKey
from fedrulefit.model.wishes import Edit
from fedrulefit.protocol.coordinator import Progress
from fedrulefit.study import Study
from fedrulefit.study.phrases import place_rule
from fedrulefit.table.patients import Table


def edit_model(
    model: Model,
    tables: Mapping[str, Table],
    *,
    drop: Iterable[int] = (),
    add: Sequence[str] = (),
    parent: str = "",
    engine: Engine = EMBEDDED,
    n_threads: int = 1,
    on_progress: Callable[[Progress], None] | None = None,
) -> Model:
    """Return the model without some of its terms, and with rules of one's own.

    Parameters
    ----------
    model : Model
    tables : mapping of site name to Table
        Those that it was learnt from.
    drop : iterable of int
        Terms by their number, from 1, as :attr:`Model.terms` and its rule table list them.
    add : sequence of str
        Rules in words.
    parent : str
        SHA-256 of the model's file; by default of the file that it would be saved to.
    engine : Engine
    n_threads : int
        Sites that work at the same time.
    on_progress : callable, optional
        Told where each fit is.

    Raises
    ------
    StudyError
        If a number names no term, or a rule is none, or against the study's wishes.
    FitError
        If the model was not fitted exactly, or the tables are others than those of the fit.
    """
    chosen = sorted(set(drop))
    study = check_edit(model, chosen, add)
    left = [term for k, term in enumerate(model.terms, start=1) if k not in chosen]
    dropped = [model.terms[k - 1] for k in chosen]
    plan = _Plan(engine, tables, n_threads, on_progress)
    before, after = _Terms.of(model, model.terms, model.study), _Terms.of(model, left, study)
    penalty = model.provenance.penalty
    fitted = plan.fit(after, penalty=penalty)
    _check_patients(model, fitted.model)
    price, error = compare_folds(plan.cross_validate(after), plan.cross_validate(before))
    own, gone = parent or hash_model(model), tuple(map(model.describe, dropped))
    edit = Edit(own, gone, tuple(add), price, error)
    shares = model.distribution
    return replace(
        fitted.model,
        study=study.with_settings(penalty=penalty),
        distribution=shares and after.refined.spread(shares),
        privacy=model.privacy.with_further(3, "to edit the model"),
        edits=(*model.edits, edit),
    )


def check_edit(model: Model, drop: Iterable[int], add: Sequence[str]) -> Study:
    """Return the study of the edited model, or say why it cannot be edited so.

    Raises
    ------
    StudyError, FitError
        As :func:`edit_model`, before any table is read.
    """
    chosen = sorted(set(drop))
    for k in chosen:
        if not 1 <= k <= len(model.terms):
            raise StudyError(
                f"there is no term {k} to drop: the model has terms 1 to {len(model.terms)}, as "
                "'fedrulefit edit MODEL' lists them"
            )
    if not chosen and not add:
        raise StudyError("nothing to change: name terms to drop, or a rule to add")
    if model.study.settings.solver != "exact":
        raise FitError("only models of the exact solver can be edited: it fits the rest anew")
    return _wish(model, [model.terms[k - 1] for k in chosen], add)


def hash_model(model: Model) -> str:
    """Return the SHA-256 of a model's file."""
    return hashlib.sha256(model_text(model).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class _Terms:
    """Terms that are to be fitted, and the study for it."""

    study: Study
    refined: Refined
    rules: tuple[Rule, ...]
    only: frozenset[TermKey]

    @classmethod
    def of(cls, model: Model, terms: Sequence[Term], study: Study) -> _Terms:
        names = range(study.n_features)
        refined = refine(model.grid, {j: study.wished.find_cutoffs(j) for j in names})
        carried = [
            replace(term, rule=refined.carry(term.rule)) if isinstance(term, RuleTerm) else term
            for term in terms
        ]
        own = study.wished.on_grid(refined.grid).own if study.wished.any else ()
        rules = {term.rule for term in carried if isinstance(term, RuleTerm)} | set(own)
        ordered = tuple(sorted(rules, key=lambda rule: (len(rule), rule)))
        return cls(study, refined, ordered, frozenset(term.key for term in carried))


@dataclass(frozen=True, eq=False)
class _Plan:
    """How fits are made."""

    engine: Engine
    tables: Mapping[str, Table]
    n_threads: int
    on_progress: Callable[[Progress], None] | None

    def fit(self, terms: _Terms, **settings: Any) -> Fitted:
        """Fit these terms, and no others."""
        freed: dict[str, Any] = {
            "n_trees": 0,
            "selection": "min",
            "max_terms": None,
            "max_rules": None,
        }
        study = terms.study.with_settings(**freed, **settings)
        return self.engine.fit(
            study,
            self.tables,
            grid=fix_cutoffs(terms.refined.grid, study),
            rules=terms.rules,
            only=terms.only,
            n_threads=self.n_threads,
            on_progress=self.on_progress,
        )

    def cross_validate(self, terms: _Terms) -> Floats:
        """Return the held-out losses of each fold, at the best λ."""
        held = self.fit(terms, penalty="cv", per_site=False, between_sites=False).held
        if held is None:
            raise FitError("the fit has no cross-validation to price the edit by")
        return held


def _wish(model: Model, dropped: Sequence[Term], add: Sequence[str]) -> Study:
    """Return the study with the added rules as kept ones, and without wishes for what goes."""
    study = model.study
    facts, wishes = study.model_dump(), study.wishes
    gone = {term.rule for term in dropped if isinstance(term, RuleTerm)}
    alone = {rule.features[0] for rule in gone if len(rule) == 1}
    alone &= {j for j, name in enumerate(study.names) if study.covariates[name].kind == "category"}
    alone |= {term.feature for term in dropped if isinstance(term, LinearTerm)}
    for feature in alone:
        facts["covariates"][study.names[feature]].pop("keep", None)
    n_free = len(wishes.rules)
    stays = [place_rule(said, study.names, model.grid) not in gone for said in study.wished.own]
    kept = [text for text, stay in zip(wishes.kept_rules, stays[n_free:], strict=True) if stay]
    named = {**wishes.model_dump(), "kept_rules": [*kept, *add]}
    return Study.from_mapping({**facts, "wishes": named}, source="the edited study")


def _check_patients(before: Model, after: Model) -> None:
    """Refuse other patients, as far as their number tells."""
    old, new = before.provenance, after.provenance
    rounding = before.rounding
    step = 0.5 if rounding is None else max(rounding.multiple, 1)
    if set(old.sites) != set(new.sites) or abs(old.patients - new.patients) > step:
        raise FitError(
            f"these are not the tables of the model: it was learnt from {old.patients:g} patients "
            f"of {', '.join(old.sites)}, and these are {new.patients:g} of {', '.join(new.sites)}"
        )
