"""The checked parts of a model file → a model, if they fit each other and the study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.certificate import Certificate
from fedrulefit.core.families import Family
from fedrulefit.core.families.elsewhere import Elsewhere
from fedrulefit.core.families.evidence import Effect
from fedrulefit.core.families.judge import Judge
from fedrulefit.core.families.sides import MeasuredLevels, Moment, Side, Sides
from fedrulefit.core.families.time_horizons import Scores
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.rules import Condition, Rule, check_rules, interval
from fedrulefit.errors import ModelFileError
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.file.parts import (
    AxisPart,
    EditPart,
    EvaluationPart,
    FilePart,
    OverTimePart,
    RoundingPart,
    ValidationPart,
)
from fedrulefit.model.file.term_parts import (
    ConditionPart,
    EffectPart,
    ElsewherePart,
    LinearPart,
    RulePart,
    SidePart,
    SidesPart,
)
from fedrulefit.model.model import Model
from fedrulefit.model.terms import Counts, LinearTerm, PathPoint, Provenance, RuleTerm, Term
from fedrulefit.model.validation import SiteValidation
from fedrulefit.model.wishes import Edit, Wish
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.study import Study


def assemble(file: FilePart, study: Study) -> Model:
    """Build the model of a file, of whose study it is."""
    if [axis.covariate for axis in file.grid] != list(study.names):
        raise ModelFileError("the grid does not name the study's covariates")
    grid = Grid(
        tuple(
            _axis(part, b.kind, b.complete) for part, b in zip(file.grid, study.bins, strict=True)
        )
    )
    study.check_grid(grid)
    places = {name: j for j, name in enumerate(study.names)}
    terms = tuple(_term(part, places, grid) for part in file.terms)
    if any(len(term.path) not in (0, len(file.provenance.path)) for term in terms):
        raise ModelFileError("a term's path does not fit the path of the model")
    _check_terms(terms, study.family, grid)
    bill, origin = file.privacy, file.provenance
    family = _family(file.dispersion, study)
    model = Model(
        study=study,
        grid=grid,
        intercept=file.intercept,
        baseline=_baseline(file.baseline, study.family),
        terms=terms,
        privacy=PrivacyBill(
            **{**bill.model_dump(), "exact": tuple(bill.exact), "sums": tuple(bill.sums)},
            max_rows=study.max_rows,
        ),
        provenance=Provenance(
            **{
                **origin.model_dump(),
                "sites": tuple(origin.sites),
                "certificate": Certificate(**origin.certificate.model_dump()),
                "history": tuple(origin.history),
                "path": tuple(PathPoint(**point.model_dump()) for point in origin.path),
                "software": tuple(origin.software.items()),
                "by_site": tuple(Counts(*counts) for counts in origin.by_site),
            }
        ),
        dispersion=file.dispersion,
        evaluation=_evaluation(file.evaluation, file.rounding, family, study.most_weight),
        validation=_validation(file.validation, study.family),
        rounding=None if file.rounding is None else _rounding(file.rounding),
        distribution=_distribution(file.grid, grid),
        wishes=tuple(Wish(**part.model_dump()) for part in file.wishes),
        edits=tuple(_edit(part) for part in file.edits),
    )
    _check_counts(file, model)
    _check_evidence(model)
    _check_effects(model)
    return model


def _edit(part: EditPart) -> Edit:
    facts = part.model_dump()
    return Edit(**facts | {name: tuple(facts[name]) for name in ("dropped", "added")})


def _check_terms(terms: Sequence[Term], family: Family, grid: Grid) -> None:
    """Refuse rules that are none, and terms of levels that the outcome does not have."""
    levels: tuple[str | None, ...] = family.names if family.own_terms else (None,)
    if any(term.level not in levels for term in terms):
        raise ModelFileError("a term counts for a level that the outcome does not have")
    for level in levels:
        own = [term for term in terms if term.level == level]
        check_rules([term.rule for term in own if isinstance(term, RuleTerm)], grid)


def _family(dispersion: float | None, study: Study) -> Family:
    """Return what F means, with the dispersion of the file where the outcome has one."""
    if (dispersion is not None) != study.family.disperses:
        raise ModelFileError("a dispersion belongs to negative binomial counts, and to no others")
    return study.family.with_dispersion(dispersion)


def _baseline(baseline: Sequence[float], family: Family) -> tuple[float, ...]:
    expected = family.n_baseline if family.n_baseline > 1 else 0
    if len(baseline) != expected:
        raise ModelFileError(f"a baseline of {len(baseline)} numbers, where {expected} belong")
    return tuple(baseline)


def _rounding(part: RoundingPart) -> Rounding:
    return Rounding(**part.model_dump())


def _evaluation(
    part: EvaluationPart | None, rounding: RoundingPart | None, family: Family, most_weight: float
) -> Evaluation | None:
    if part is None:
        return None
    judge = family.judge
    measures = read_measures(part.overall, judge, "evaluation.overall")
    sums = judge.read(part.model_dump(include={"groups", "sums"}), measures)
    if not measures.patients > 0:
        raise ModelFileError("the evaluation judges nobody")
    judged = part.judged or rounding  # older files do not say
    return Evaluation(
        sums,
        _read_sites(part.sites, judge, "evaluation"),
        measures,
        None if part.within is None else _read_within(part.within, judge),
        EXACT if judged is None else _rounding(judged),
        family,
        _read_over_time(part.over_time, family),
        EXACT if rounding is None else _rounding(rounding),
        most_weight,
        _evaluation(part.own, rounding, family, most_weight),
    )


def _read_over_time(part: OverTimePart | None, family: Family) -> Scores | None:
    """Return scores by each horizon, of the horizons that the study has."""
    if part is None:
        return None
    times, brier, bounds = map(tuple, (part.times, part.brier, part.bounds))
    if times != getattr(family, "horizons", ()):
        raise ModelFileError("evaluation.over_time: times that are not the study's horizons")
    try:
        whole, risks = (part.integrated, part.integrated_bound), (part.observed, part.expected)
        return Scores(times, brier, bounds, *whole, *map(tuple, risks))
    except ValueError as error:
        raise ModelFileError(f"evaluation.over_time: {error}") from None


def read_measures(facts: Mapping[str, float | None], judge: Judge[Any, Any], where: str) -> Any:
    """Return the measures of a file, NaN for null; `where` is for who reads the error."""
    _check_names(facts, judge.measures, where)
    return judge.measures(**{name: math.nan if x is None else x for name, x in facts.items()})


def _read_sites(
    sites: Mapping[str, Mapping[str, float | None]], judge: Judge[Any, Any], where: str
) -> dict[str, Any]:
    return {
        site: read_measures(found, judge, f"{where}.sites.{site}") for site, found in sites.items()
    }


def _read_within(facts: Mapping[str, float], judge: Judge[Any, Any]) -> Any:
    """Return what is known of patients of one and the same site."""
    _check_names(facts, judge.within, "evaluation.within")
    if type(facts["sites"]) is not int:
        raise ModelFileError("evaluation.within.sites: a whole number")
    return judge.within(**facts)


def _check_names(facts: Mapping[str, object], of: type[Any], where: str) -> None:
    names = [field.name for field in fields(of)]
    if facts.keys() != set(names):
        raise ModelFileError(f"{where}: the numbers are {', '.join(names)}")


def _validation(part: ValidationPart | None, family: Family) -> SiteValidation | None:
    if part is None:
        return None
    if len({*part.sites, *part.too_few}) < len(part.sites) + len(part.too_few):
        raise ModelFileError("a site was left out twice")
    sites = _read_sites(part.sites, family.judge, "validation")
    return SiteValidation(sites, family, tuple(part.too_few))


def _check_counts(file: FilePart, model: Model) -> None:
    """No rule holds more patients than there are; a hair is left for rounding."""
    origin = file.provenance
    pairs: list[tuple[float | None, float | None]] = [(origin.events, origin.patients)]
    pairs += [(events, patients) for patients, events in origin.by_site]
    for part in file.terms:
        if not isinstance(part, RulePart):
            continue
        pairs += [(part.inside, origin.patients), (part.events_inside, part.inside)]
        if part.by_site and len(part.by_site) != len(origin.by_site):
            raise ModelFileError("a rule counts other sites than the model")
        for inside, whole in zip(part.by_site, origin.by_site, strict=False):
            pairs += [(inside[1], inside[0]), (inside[0], whole[0]), (inside[1], whole[1])]
        pairs += _held_out_pairs(part, model.evaluation)
    if origin.by_site and len(origin.by_site) != len(origin.sites):
        raise ModelFileError("the counts per site do not fit the sites")
    judged = set(file.evaluation.sites) if file.evaluation else set()
    if file.validation:
        judged |= {*file.validation.sites, *file.validation.too_few}
    if not judged <= set(origin.sites):
        raise ModelFileError("a site was judged that the model does not name")
    told = [(few, many) for few, many in pairs if few is not None and many is not None]
    if any(few > many * (1 + 1e-9) for few, many in told):
        raise ModelFileError("a part has more patients than the whole")


def _held_out_pairs(part: RulePart, judged: Evaluation | None) -> Iterator[tuple[float, float]]:
    """Yield what of a rule's held-out patients cannot be more than what."""
    yield from _side_pairs(part.held_out_sides, judged)
    counts = [*([] if part.held_out is None else [part.held_out]), *part.held_out_by_site]
    if not counts:
        return
    if judged is None:
        raise ModelFileError("a rule counts held-out patients, and none were judged")
    if part.held_out_by_site and len(part.held_out_by_site) != len(judged.sites):
        raise ModelFileError("a rule counts held-out patients of other sites than were judged")
    wholes = [*([] if part.held_out is None else [judged.total]), *judged.sites.values()]
    for (inside, events), whole in zip(counts, wholes, strict=False):
        yield from ((events, inside), (inside, whole.patients), (events, whole.with_outcome))


def _side_pairs(part: SidesPart | None, judged: Evaluation | None) -> Iterator[tuple[float, float]]:
    if part is None:
        return
    if judged is None or not isinstance(judged.family.levels, MeasuredLevels):
        raise ModelFileError("a rule tells of held-out patients what its outcome does not have")
    for side in (part.inside, part.outside):
        yield side.patients, judged.total.patients
        if side.at_levels and len(side.at_levels) != len(judged.family.names):
            raise ModelFileError("a rule counts patients at other levels than the outcome has")
        for patients in side.at_levels:
            yield patients, judged.total.patients


def _distribution(parts: Sequence[AxisPart], grid: Grid) -> tuple[Floats, ...] | None:
    """Return the shares of all codes; None where the file does not tell them."""
    told = [part.shares for part in parts if part.shares is not None]
    if not told:
        return None
    lengths = [axis.every_code.bit_count() for axis in grid.axes]
    if [len(shares) for shares in told] != lengths or not all(map(sum, told)):
        raise ModelFileError("the shares of codes do not fit the grid")
    return tuple(np.asarray(shares, dtype=np.float64) for shares in told)


def _axis(part: AxisPart, kind: str, complete: bool) -> Axis:
    if part.kind != kind:
        raise ModelFileError(f"covariate {part.covariate!r} is not of the study's kind")
    return Axis(
        kind=part.kind,
        cutoffs=np.asarray(part.cutoffs, dtype=np.float64),
        n_codes=part.codes,
        complete=complete,
        limits=(part.limits[0], part.limits[1]),
        spread=part.spread,
        centre=part.centre,
        fill=part.fill,
    )


def _check_evidence(model: Model) -> None:
    """Refuse effects on nobody, of more sites than there are, and more folds than there are."""
    origin, folds = model.provenance, model.study.settings.folds
    own = model.evaluation and model.evaluation.own
    if own is not None and (model.own_baselines is None or own.own or own.sites or own.within):
        raise ModelFileError("evaluation.own: patients are judged again only with own baselines")
    within = [term.within for term in model.rule_terms if term.within is not None]
    effects = [*within, *(term.adjusted for term in model.terms if term.adjusted is not None)]
    if (effects and model.evaluation is None) or (within and model.study.family.evidence is None):
        raise ModelFileError("a rule has an effect on held-out patients, and none were judged")
    if any(effect.sites > len(origin.sites) for effect in effects):
        raise ModelFileError("an effect within more sites than the model names")
    pairs = [(term.elsewhere, term.within) for term in model.rule_terms]
    if any(far and (near is None or far.sites > near.sites) for far, near in pairs):
        raise ModelFileError("more sites tell how sites differ than tell the effect within them")
    if any((term.found_again or 0) > folds for term in model.terms):
        raise ModelFileError("a term is found again in more folds than there are")


def _check_effects(model: Model) -> None:
    """Refuse terms whose effect is no number."""
    with np.errstate(over="ignore"):
        if not all(math.isfinite(model.effect(term)) for term in model.terms):
            words = model.study.family.words
            raise ModelFileError(f"a term's {words.effect} is beyond all numbers")


def _term(part: RulePart | LinearPart, places: dict[str, int], grid: Grid) -> Term:
    if isinstance(part, LinearPart):
        feature = _place(part.covariate, places)
        if not grid.axes[feature].has_linear:
            raise ModelFileError(f"covariate {part.covariate!r} has no linear term")
        return LinearTerm(
            feature,
            part.coefficient,
            part.importance,
            tuple(part.path),
            part.between_sites,
            part.level,
            part.found_again,
            part.in_halves,
            _effect(part.adjusted_effect),
        )
    conditions = (_condition(c, places) for c in part.conditions)
    return RuleTerm(
        Rule(tuple(conditions)),
        part.coefficient,
        part.importance,
        part.inside,
        part.events_inside,
        tuple(part.path),
        tuple(Counts(*counts) for counts in part.by_site),
        None if part.held_out is None else Counts(*part.held_out),
        tuple(Counts(*counts) for counts in part.held_out_by_site),
        part.between_sites,
        None if part.held_out_sides is None else _sides(part.held_out_sides),
        part.level,
        _effect(part.held_out_effect),
        None if part.elsewhere is None else _elsewhere(part.elsewhere),
        part.found_again,
        part.in_halves,
        _effect(part.adjusted_effect),
    )


def _effect(part: EffectPart | None) -> Effect | None:
    return None if part is None else Effect(**part.model_dump())


def _elsewhere(part: ElsewherePart) -> Elsewhere:
    try:
        return Elsewhere(**part.model_dump())
    except ValueError as error:
        raise ModelFileError(f"elsewhere: {error}") from None


def _sides(part: SidesPart) -> Sides:
    inside, outside = (_side(side) for side in (part.inside, part.outside))
    return inside, outside


def _side(part: SidePart) -> Side:
    facts = part.model_dump()
    curve = tuple(Moment(**moment) for moment in facts.pop("curve"))
    return Side(**facts | {"at_levels": tuple(part.at_levels)}, curve=curve)


def _condition(part: ConditionPart, places: dict[str, int]) -> Condition:
    feature = _place(part.covariate, places)
    if (part.interval is None) == (part.levels is None):
        raise ModelFileError("a condition has either an interval or levels")
    if part.interval is not None:
        lo, hi = part.interval
        if not 0 <= lo <= hi <= MISSING:
            raise ModelFileError("a condition's interval is out of range")
        return Condition(feature, interval(lo, hi, missing=part.missing))
    codes = part.missing << MISSING
    for level in part.levels or ():
        if not 0 <= level < MISSING:
            raise ModelFileError("a condition's level is out of range")
        codes |= 1 << level
    return Condition(feature, codes)


def _place(covariate: str, places: dict[str, int]) -> int:
    if covariate not in places:
        raise ModelFileError("a term names a covariate that the study does not have")
    return places[covariate]
