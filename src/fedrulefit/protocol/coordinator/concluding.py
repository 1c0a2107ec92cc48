"""The sums of the final model → the model: supports, importances, certificate, bill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from fedrulefit import __version__
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.between import Moments, find_tellable, share_between
from fedrulefit.core.certificate import Certificate, SlopeSums, certify, choose_scales
from fedrulefit.core.cutoffs import estimate_shares
from fedrulefit.core.families import Family
from fedrulefit.core.importance import TermSums, squares_of, term_importance
from fedrulefit.core.path import Path
from fedrulefit.core.refinding import Alike, Kept, count_found_again
from fedrulefit.errors import FitError
from fedrulefit.model import LinearTerm, Model, PathPoint, Provenance, RuleTerm, Term
from fedrulefit.model.wishes import Wish, tell_fates
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator.agreeing import Candidates, Counted, Protection
from fedrulefit.protocol.coordinator.asking import Asker, Progress, Talk
from fedrulefit.protocol.coordinator.fitting import Solution, check_converges, last_of, positive
from fedrulefit.protocol.public import Public
from fedrulefit.study import Study


@dataclass(frozen=True, eq=False)
class Found:
    """All that the run has agreed on before the summary.

    Parameters
    ----------
    candidates : Candidates
    solution : Solution
    counted : Counted
        The histograms, and what followed from them.
    min_votes : int
        Sites that had to have enough patients in a rule; 0 without a vote.
    """

    candidates: Candidates
    solution: Solution
    counted: Counted
    min_votes: int

    @property
    def fitted(self) -> Candidates:
        """What was fitted: the candidates, or with variants of their rules."""
        pruning = self.solution.pruning
        return self.candidates if pruning is None else pruning.fitted

    @property
    def public(self) -> Public:
        """What everybody in the run knows by now."""
        return self.fitted.public

    @property
    def terms(self) -> Ints:
        """The terms that stayed, and the baseline."""
        return self.public.layout.with_baseline(np.flatnonzero(self.solution.coef != 0))

    @property
    def penalties(self) -> Floats:
        """λ·π, shape (n_terms,)."""
        return self.solution.penalty * self.fitted.factors[0]


def conclude(asker: Asker, found: Found) -> Talk[Model]:
    """Paper 2.3: support and importance of the terms that stayed; the certificate."""
    solution, public, terms = found.solution, found.public, found.terms
    coef, n_rounds = solution.coef, len(solution.history)
    asker.progress = Progress("summary", n_rounds, n_rounds, last_of(solution.history))
    question = partial(m.SlopesRequest, terms=terms, coef=coef[terms])
    (slopes,) = yield from asker.sum(question, public)
    _check_levels(public, slopes, solution.weight)
    limits: dict[str, Any] = {"signs": public.signs, "kept": public.kept}
    scales = choose_scales(public.layout, slopes, solution.weight, found.penalties, **limits)
    summary = partial(
        m.SummaryRequest,
        terms=terms,
        coef=coef[terms],
        scales=np.array(scales or (0.0, 0.0)),
    )
    sums, gap = yield from asker.sum(summary, public)
    _check_totals(public.family, sums)
    objective = gap.loss / solution.weight + float(found.penalties @ np.abs(coef))
    if asker.settings.solver == "fedda":
        check_converges(objective, solution.history[0], n_rounds, asker.settings)
    asker.progress = Progress("summary", n_rounds, n_rounds, objective)
    certificate = certify(
        public.layout,
        slopes,
        solution.weight,
        coef,
        found.penalties,
        objective=objective,
        conjugate=None if scales is None else gap.conjugate,
        scales=scales,
        **limits,
    )
    between = yield from _find_between(asker, found, sums)
    model = _build_model(asker, found, sums, between, objective, certificate)
    return _with_found_again(model, found)


def _check_levels(public: Public, slopes: SlopeSums, weight: float) -> None:
    """Refuse levels of the outcome that nobody has: no finite baseline predicts them."""
    at = public.layout.baseline
    falling, rising = (part[at] / weight for part in (slopes.falling, slopes.rising))
    why = public.family.tell_unseen(falling, rising)
    if why:
        raise FitError(why)


def _check_totals(family: Family, sums: TermSums) -> None:
    """Refuse totals from which nothing can be learnt."""
    why = family.tell_nothing_to_learn(positive(sums.total), sums.events)
    if why:
        raise FitError(why)


def _find_between(asker: Asker, found: Found, sums: TermSums) -> Talk[Floats]:
    """Return which share of each term's variance lies between sites, (n_kept,); NaN if untold."""
    public, terms = found.public, found.terms
    own, pooled = public.among(terms), Moments.of(sums)
    shares = np.full(own.n_terms, np.nan)
    kind, n_sites = m.BetweenRequest, len(asker.sites)
    if not kind.asked_in(asker.settings) or n_sites < kind.least_sites:
        return shares[public.places_of(terms)]
    asker.progress = replace(asker.progress, step="between")
    bounds = public.bounds_of(terms)
    kept = find_tellable(own, pooled, bounds, asker.study.most_weight)
    places = own.with_baseline(own.effects.start + np.flatnonzero(kept))
    told = pooled.among(kept, own)
    asked = np.isin(public.places_of(terms), places)
    question = partial(
        kind,
        n_sites=n_sites,
        terms=terms[asked],
        total=told.total,
        means=told.means,
        squares=told.squares,
    )
    (levels,) = yield from asker.sum(question, public)
    shares[own.effects][kept] = share_between(levels, n_sites)
    return shares[public.places_of(terms)]


def _build_model(
    asker: Asker,
    found: Found,
    sums: TermSums,
    between: Floats,
    objective: float,
    certificate: Certificate,
) -> Model:
    solution, public = found.solution, found.public
    n_rounds, by_code = len(solution.history), found.counted.by_code(asker.study)
    family, baseline = public.family, solution.coef[public.layout.baseline]
    intercept = family.join_baseline(baseline)
    counts_events = family.counts_events
    return Model(
        study=asker.study,
        grid=public.grid,
        intercept=intercept,
        baseline=tuple((baseline - intercept).tolist()) if len(baseline) > 1 else (),
        terms=_make_terms(found, sums, between),
        privacy=make_bill(
            asker.study,
            found.counted.protection,
            n_rounds,
            n_sites=len(asker.sites),
            sum_of=len(asker.sites) if asker.secure else None,
            votes=found.min_votes > 0,
            refits=0 if solution.pruning is None else solution.pruning.rounds,
        ),
        provenance=Provenance(
            sites=asker.sites,
            patients=sums.total,
            events=sums.events if counts_events else None,
            candidates=found.candidates.n_allowed,
            solver=asker.settings.solver,
            penalty=solution.penalty,
            rounds=n_rounds,
            objective=objective,
            certificate=certificate,
            history=tuple(solution.history),
            path=_path_points(solution.path),
            software=_software(),
        ),
        distribution=None if by_code is None else estimate_shares(by_code),
        dispersion=public.dispersion,
        wishes=_tell_wishes(asker.study, found),
    )


def _tell_wishes(study: Study, found: Found) -> tuple[Wish, ...]:
    """Return what became of the study's wishes."""
    public, terms = found.public, found.terms
    if public.limits is None:
        return ()
    candidates, rules = set(found.candidates.public.fitted_rules), set(public.rules_of(terms))
    return tell_fates(study, public.limits, candidates, rules, public.linear_of(terms))


def _make_terms(found: Found, sums: TermSums, between: Floats) -> tuple[Term, ...]:
    """Return the terms that stayed, most important first."""
    solution, public, terms = found.solution, found.public, found.terms
    own, coef, places = public.layout.among(terms), solution.coef[terms], public.places_of(terms)
    columns = public.among(terms)
    squares = squares_of(columns, sums, public.bounds_of(terms))[places]
    importance = term_importance(own, coef, squares, sums.total - 1)
    points = [point.coef[terms] for point in solution.path.points] if solution.path else []
    ways: list[list[float]] = np.transpose(points).tolist() if points else [[]] * len(coef)
    shares = [None if np.isnan(share) else share for share in between.tolist()]
    levels = public.levels_of(terms)
    facts = list(zip(coef.tolist(), importance.tolist(), ways, shares, levels, strict=True))
    events: list[float] | list[None] = sums.events_inside.tolist()
    if not public.family.counts_events:
        events = [None] * columns.n_rules
    counts = list(zip(public.rules_of(terms), sums.inside.tolist(), events, strict=True))
    features = public.linear_of(terms)
    rules = zip(places[own.rules] - columns.rules.start, facts[own.rules], strict=True)
    linear = zip(places[own.linear] - columns.linear.start, facts[own.linear], strict=True)
    made: list[Term] = [
        *(
            RuleTerm(
                rule=counts[k][0],
                coefficient=beta,
                importance=size,
                inside=counts[k][1],
                events_inside=counts[k][2],
                path=tuple(way),
                between_sites=share,
                level=level,
            )
            for k, (beta, size, way, share, level) in rules
        ),
        *(
            LinearTerm(features[k], beta, size, tuple(way), between_sites=share, level=level)
            for k, (beta, size, way, share, level) in linear
        ),
    ]
    return tuple(sorted(made, key=lambda term: -term.importance))


def _with_found_again(model: Model, found: Found) -> Model:
    """Return the model with the folds in which each of its terms is found again."""
    public = found.public
    folds: list[Kept] = [_list_kept(coef, public) for coef in _fold_coefs(found.solution)]
    if not folds:
        return model
    alike = Alike(public.grid, model.distribution)
    own: Kept = [(*term.key, term.coefficient) for term in model.terms]
    again = count_found_again(own, folds, alike)
    terms = (replace(term, found_again=n) for term, n in zip(model.terms, again, strict=True))
    return replace(model, terms=tuple(terms))


def _fold_coefs(solution: Solution) -> Sequence[Floats]:
    """Return the coefficients of the fits without each fold, where the model's were chosen."""
    if solution.pruning is not None and solution.pruning.few is not None:
        return solution.pruning.few.folds
    path = solution.path
    if path is None:
        return ()
    at = int(np.argmin(np.abs(path.penalties - solution.penalty)))
    return [coefs[at] for coefs in path.folds]


def _list_kept(coef: Floats, public: Public) -> Kept:
    """Return the terms of a fit that have a coefficient."""
    terms = public.layout.with_baseline(np.flatnonzero(coef != 0))
    own = coef[terms][public.layout.among(terms).effects].tolist()
    return [(*key, b) for key, b in zip(public.keys_of(terms), own, strict=True)]


def make_bill(
    study: Study,
    protection: Protection | None,
    rounds: int,
    *,
    n_sites: int,
    sum_of: int | None,
    votes: bool,
    refits: int = 0,
) -> PrivacyBill:
    """Return what the releases of a run cost each patient, and what has no price.

    Parameters
    ----------
    protection : Protection or None
        Of the histograms; None where none left a site.
    rounds : int
        Of the fit.
    n_sites : int
        In the run, at its end.
    sum_of : int or None
        Sites in the masked sums.
    votes : bool
        Whether rules were voted on.
    refits : int
        Rounds in which terms were pruned.
    """
    private = protection is not None and protection.private
    left_out = {
        m.GridRequest: private or protection is None,
        m.SpreadsRequest: protection is None,
        m.VoteRequest: not votes,
        m.VariantVoteRequest: not votes,
    }
    asked = [
        kind
        for kind in m.REQUESTS
        if kind.asked_by(study)
        and kind.least_sites <= n_sites
        and not left_out.get(kind, False)
        and kind.tells(study)
    ]
    return PrivacyBill(
        mechanism="none" if protection is None else protection.mechanism,
        epsilon_per_histogram=study.epsilon_per_histogram if private else None,
        n_histograms=0 if protection is None else study.n_features,
        ranges_from_data=study.ranges_from_data,
        sum_of=sum_of,
        max_rows=study.max_rows,
        exact=tuple(kind.tells(study) for kind in asked if not kind.masked),
        sums=tuple(_in_rounds(kind, study, rounds, refits) for kind in asked if kind.masked),
    )


def _in_rounds(kind: type[m.Request], study: Study, rounds: int, refits: int) -> str:
    """Return what a sum tells, and how often."""
    words, settings = kind.tells(study), study.settings
    if not kind.in_rounds:
        return words
    folds = f", of all patients and without each of {settings.folds} folds"
    often = refits if kind.turn == m.Turn.REFIT else rounds
    return f"{words} in each of {often} rounds" + folds * (settings.penalty == "cv")


def _path_points(path: Path | None) -> tuple[PathPoint, ...]:
    if path is None:
        return ()
    columns = path.penalties, path.deviance, path.error, path.n_terms, path.n_rules
    return tuple(
        PathPoint(float(penalty), float(deviance), float(error), n_terms, n_rules)
        for penalty, deviance, error, n_terms, n_rules in zip(*columns, strict=True)
    )


def _software() -> tuple[tuple[str, str], ...]:
    libraries = ("numpy", "scipy", "lightgbm", "opendp")
    return ("fedrulefit", __version__), *((name, version(name)) for name in libraries)
