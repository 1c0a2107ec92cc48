"""The model file: readable, versioned JSON.

``load`` goes parse → check → build: nothing is built before the whole file is
checked, and no code in a file is ever run. The words of every rule stand in
the file for people; they must agree with its conditions.

Files of version 1 told counts to the last patient. They still load, with no
:attr:`Model.rounding`; scores that they count in 514 bins are put into today's 25, each
bin at its mean probability.

Oracle: saving, loading and saving again gives the same bytes
(``tests/unit/test_modelfile.py``); older files stay in ``tests/golden``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.certificate import Certificate
from fedrulefit.core.families.yesno_scores import EDGES, N_BINS, Measures, ScoreSums, bin_means
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.core.rules import Condition, Rule, as_interval, check_rules, interval
from fedrulefit.errors import ModelFileError
from fedrulefit.files import write_whole
from fedrulefit.model import Counts, LinearTerm, Model, PathPoint, Provenance, RuleTerm, Term
from fedrulefit.model.evaluation import Evaluation, restore_sums
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.study import Study

FORMAT: Final = "fedrulefit-model"
VERSION: Final = 2
_OLD_BINS: Final = 514
MAX_BYTES: Final = 32 * 2**20
MAX_PARTS: Final = 500_000
"""Most values in a model file: many small ones take much memory."""

MAX_LENGTHS: Final = {
    "terms": 10_000, "path": 1_000, "grid": 10_000, "conditions": 1_000, "bins": _OLD_BINS,
    "cutoffs": 255, "levels": 255, "by_site": 10_000, "history": 100_000, "sites": 10_000,
}  # fmt: skip
"""Most entries of the lists of a model file, by their names."""

MAX_TEXT: Final = 100_000
MAX_COEFFICIENT: Final = 300.0
"""Most log-odds that a term can add: far more than data can show, and exp() still holds them."""

MAX_NUMBER: Final = 1e30
"""Largest number in a model file: products of a few are still numbers."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _AxisPart(_Part):
    covariate: str
    kind: Literal["number", "category", "yes/no"]
    cutoffs: list[float]
    codes: int
    limits: list[float] = Field(min_length=2, max_length=2)
    spread: float
    centre: float
    fill: float


class _ConditionPart(_Part):
    covariate: str
    interval: list[int] | None = Field(default=None, min_length=2, max_length=2)
    levels: list[int] | None = None
    missing: bool


_CountsPart = Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=2, max_length=2)]


class _RulePart(_Part):
    kind: Literal["rule"]
    rule: str
    conditions: list[_ConditionPart]
    coefficient: float
    importance: float = Field(ge=0)
    inside: Annotated[float, Field(ge=0)] | None
    events_inside: Annotated[float, Field(ge=0)] | None
    path: list[float]
    by_site: list[_CountsPart] = []


class _LinearPart(_Part):
    kind: Literal["linear"]
    covariate: str
    coefficient: float
    importance: float = Field(ge=0)
    path: list[float]


class _PrivacyPart(_Part):
    mechanism: str
    epsilon_per_histogram: float | None
    n_histograms: int = Field(ge=0)
    ranges_from_data: bool
    exact: list[str]
    sums: list[str] = []
    sum_of: Annotated[int, Field(ge=1)] | None = None


class _CertificatePart(_Part):
    residual: float = Field(ge=0)
    gap: Annotated[float, Field(ge=0)] | None


class _PathPart(_Part):
    penalty: float = Field(ge=0)
    deviance: float
    error: float
    terms: int = Field(ge=0)
    rules: int = Field(ge=0)


class _ProvenancePart(_Part):
    sites: list[str]
    patients: float = Field(gt=0)
    events: Annotated[float, Field(ge=0)] | None
    candidates: int = Field(ge=0)
    solver: str
    penalty: float = Field(ge=0)
    rounds: int = Field(ge=0)
    objective: float
    certificate: _CertificatePart
    history: list[float]
    path: list[_PathPart]
    software: dict[str, str]
    by_site: list[_CountsPart] = []


class _GroupPart(_Part):
    above: float = Field(ge=0, le=1)
    below: float = Field(ge=0, le=1)
    events: float = Field(ge=-1e-6)
    others: float = Field(ge=-1e-6)
    predicted: Annotated[float, Field(ge=0, le=1)] | None = None


class _OldScoresPart(_Part):
    bins: list[
        Annotated[list[Annotated[float, Field(ge=-1e-6)]], Field(min_length=4, max_length=4)]
    ]
    squares: float = Field(ge=0)
    loss: float = Field(ge=0)


class _MeasuresPart(_Part):
    patients: float = Field(ge=0)
    events: float = Field(ge=0)
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    auc_bound: float | None
    brier: float | None
    log_loss: float | None
    slope: float | None
    slope_low: float | None
    slope_high: float | None
    intercept: float | None
    intercept_low: float | None
    intercept_high: float | None
    observed: float | None
    expected: float | None


class _RoundingPart(_Part):
    multiple: int = Field(ge=1)
    smallest: int = Field(ge=0)


class _EvaluationPart(_Part):
    overall: _MeasuresPart
    groups: list[_GroupPart] = Field(min_length=1)
    sites: dict[str, _MeasuresPart]
    judged: _RoundingPart | None = None


class _OldEvaluationPart(_Part):
    overall: _OldScoresPart
    sites: dict[str, _MeasuresPart]


class _File(_Part):
    format: Literal["fedrulefit-model"]
    version: int
    study: dict[str, Any]
    grid: list[_AxisPart]
    intercept: float
    terms: list[Annotated[_RulePart | _LinearPart, Field(discriminator="kind")]]
    rounding: _RoundingPart | None
    privacy: _PrivacyPart
    provenance: _ProvenancePart
    evaluation: _EvaluationPart | None
    validation: _EvaluationPart | None


def save_model(model: Model, path: Path) -> None:
    """Write `model` to `path`, whole or not at all."""
    try:
        write_whole(path, model_text(model).encode())
    except OSError as error:
        raise ModelFileError(f"cannot write {path}: {error.strerror}") from None


def model_text(model: Model) -> str:
    """Return the text of the model file: equal models give equal text."""
    return json.dumps(model_facts(model), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def load_model(path: Path) -> Model:
    """Read and check a model file.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, of another version or contradicts
        itself.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ModelFileError(f"over {MAX_BYTES} bytes: not a model of fedrulefit")
        text = data.decode("utf-8")
        if sum(map(text.count, ",[{")) > MAX_PARTS:
            raise ModelFileError(f"over {MAX_PARTS} values: not a model of fedrulefit")
        facts = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_twins,
        )
    except OSError as error:
        raise ModelFileError(f"cannot read model file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{path} is not UTF-8 text: not a model file") from None
    except json.JSONDecodeError as error:
        raise ModelFileError(
            f"{path} is not complete JSON (line {error.lineno}): the file is damaged or cut off; "
            "fetch it again"
        ) from None
    except RecursionError:
        raise ModelFileError(f"{path} is nested too deeply: not a model file") from None
    except ValueError as error:
        raise ModelFileError(f"{path}: {error}") from None
    return build_model(facts, source=str(path))


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
            }
            for name, axis in zip(model.study.names, model.grid.axes, strict=True)
        ],
        "intercept": model.intercept,
        "terms": [_term_facts(term, model) for term in model.terms],
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
        "evaluation": _evaluation_facts(model.evaluation),
        "validation": _evaluation_facts(model.validation),
    }


def _evaluation_facts(evaluation: Evaluation | None) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    sums = evaluation.overall
    columns = (sums.ends[:-1], sums.ends[1:], sums.cases, sums.others, bin_means(sums))
    rows = np.column_stack(columns).tolist()
    return {
        "overall": _measure_facts(evaluation.total),
        "groups": [dict(zip(_GroupPart.model_fields, row, strict=True)) for row in rows],
        "sites": {site: _measure_facts(found) for site, found in evaluation.sites.items()},
        "judged": asdict(evaluation.judged),
    }


def _measure_facts(found: Measures) -> dict[str, Any]:
    return {name: value if math.isfinite(value) else None for name, value in vars(found).items()}


def _upgrade(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a file of version 1 as of today's."""
    new = {**facts, "version": VERSION, "rounding": None}
    for name in ("evaluation", "validation"):
        old = facts.get(name)
        new[name] = None if old is None else _upgrade_evaluation(old)
    return new


def _upgrade_evaluation(facts: Any) -> dict[str, Any] | None:
    old = _OldEvaluationPart.model_validate(facts)
    cases, others, chances = np.zeros((3, N_BINS))
    places = [row[0] for row in old.overall.bins]
    if not set(places) <= set(range(_OLD_BINS)) or len(set(places)) < len(places):
        raise ModelFileError("a bin of the evaluation does not exist, or stands twice")
    for _, sick, healthy, chance in old.overall.bins:
        total = sick + healthy
        place = int(np.searchsorted(EDGES, chance / total, side="right")) if total > 0 else 0
        cases[place] += sick
        others[place] += healthy
        chances[place] += chance
    squares, loss = old.overall.squares, old.overall.loss
    sums = ScoreSums(cases, others, float(chances.sum()), squares, loss)
    sites = {site: _measures(found) for site, found in old.sites.items()}
    return _evaluation_facts(Evaluation(sums, sites)) if sums.total > 0 else None


def build_model(facts: Any, *, source: str = "model") -> Model:
    """Check `facts` and build the model."""
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ModelFileError(f"{source} is not a model of fedrulefit")
    version = facts.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ModelFileError(
            f"{source} has file version {version!r}, this program reads 1 to {VERSION}: "
            "use the version of fedrulefit that wrote it, or a newer one"
        )
    try:
        _check_limits(facts)
        file = _File.model_validate(_upgrade(facts) if version == 1 else facts)
        study = Study.from_mapping(_update_study(file.study), source=source)
        model = _assemble(file, study)
        _check_ratios(model)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ModelFileError(f"{source} is not a valid model: {where}: {first['msg']}") from None
    except ModelFileError as error:
        raise ModelFileError(f"{source}: {error}") from None
    except ValueError as error:
        raise ModelFileError(f"{source} is not a valid model: {error}") from None
    for part, term in zip(file.terms, model.terms, strict=True):
        if isinstance(part, _RulePart) and part.rule != model.describe(term):
            raise ModelFileError(f"{source}: the words of a rule do not fit its conditions")
    return model


def _update_study(facts: dict[str, Any]) -> dict[str, Any]:
    """Say "no noise" as we do now; older files say it by no ε."""
    settings = facts.get("settings")
    if not isinstance(settings, dict) or settings.get("epsilon", 1.0) is not None:
        return facts
    return {**facts, "settings": {"noise": False, **settings}}


def _check_limits(facts: dict[str, Any]) -> None:
    """Refuse lists and numbers that no model has, before anything is built from them."""
    left: list[tuple[str, Any]] = list(facts.items())
    while left:
        name, value = left.pop()
        _check_text(name)
        if isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            if len(value) > MAX_LENGTHS.get(name, 10_000):
                raise ModelFileError(f"{name!r} has {len(value)} entries: no model has so many")
            left += [(name, item) for item in value]
        elif isinstance(value, str):
            _check_text(value)
        elif isinstance(value, (int, float)) and name not in ("levels", "interval"):
            most = MAX_COEFFICIENT if name in ("coefficient", "intercept") else MAX_NUMBER
            if not abs(value) <= most:
                raise ModelFileError(f"{name!r} holds a number beyond {most:g}: no model has that")


def _check_text(text: str) -> None:
    if len(text) > MAX_TEXT:
        raise ModelFileError(f"a text of {len(text)} characters: no model has that")
    if not text.isascii():
        text.encode()  # half a character, as JSON can hold, is no text


def _check_ratios(model: Model) -> None:
    """Refuse terms whose odds ratio is no number."""
    with np.errstate(over="ignore"):
        if not all(math.isfinite(model.odds_ratio(term)) for term in model.terms):
            raise ModelFileError("a term's odds ratio is beyond all numbers")


def _assemble(file: _File, study: Study) -> Model:
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
    check_rules([term.rule for term in terms if isinstance(term, RuleTerm)], grid)
    bill, origin = file.privacy, file.provenance
    _check_counts(file)
    return Model(
        study=study,
        grid=grid,
        intercept=file.intercept,
        terms=terms,
        privacy=PrivacyBill(
            **{**bill.model_dump(), "exact": tuple(bill.exact), "sums": tuple(bill.sums)}
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
        evaluation=_evaluation(file.evaluation, file.rounding),
        validation=_evaluation(file.validation, file.rounding),
        rounding=None if file.rounding is None else _rounding(file.rounding),
    )


def _rounding(part: _RoundingPart) -> Rounding:
    return Rounding(**part.model_dump())


def _evaluation(part: _EvaluationPart | None, rounding: _RoundingPart | None) -> Evaluation | None:
    if part is None:
        return None
    ends = [group.above for group in part.groups] + [part.groups[-1].below]
    fits = [group.below for group in part.groups[:-1]] == ends[1:-1]
    if not fits or (ends[0], ends[-1]) != (0, 1) or (np.diff(ends) <= 0).any():
        raise ModelFileError("the groups of the evaluation do not cover 0 to 1 without gaps")
    cases, others = (
        np.array([getattr(group, name) for group in part.groups]) for name in ("events", "others")
    )
    measures = _measures(part.overall)
    sums = restore_sums(cases, others, measures, np.array(ends[1:-1]), _means(part.groups))
    if not sums.total > 0:
        raise ModelFileError("the evaluation judges nobody")
    judged = part.judged or rounding  # older files do not say
    return Evaluation(
        sums,
        {site: _measures(found) for site, found in part.sites.items()},
        measures,
        EXACT if judged is None else _rounding(judged),
    )


def _means(groups: Sequence[_GroupPart]) -> Floats | None:
    """Return the groups' mean predictions; None where an older file does not tell them."""
    told = [group.predicted for group in groups]
    means = [mean for mean in told if mean is not None]
    if len(means) < len(groups):
        return None
    if any(not g.above <= mean <= g.below for g, mean in zip(groups, means, strict=True)):
        raise ModelFileError("the mean prediction of a group lies outside of the group")
    return np.array(means)


def _measures(part: _MeasuresPart) -> Measures:
    facts = part.model_dump()
    return Measures(**{name: math.nan if x is None else x for name, x in facts.items()})


def _check_counts(file: _File) -> None:
    """No rule holds more patients than there are; a hair is left for rounding."""
    origin = file.provenance
    pairs: list[tuple[float | None, float | None]] = [(origin.events, origin.patients)]
    pairs += [(events, patients) for patients, events in origin.by_site]
    for part in file.terms:
        if not isinstance(part, _RulePart):
            continue
        pairs += [(part.inside, origin.patients), (part.events_inside, part.inside)]
        if part.by_site and len(part.by_site) != len(origin.by_site):
            raise ModelFileError("a rule counts other sites than the model")
        for inside, whole in zip(part.by_site, origin.by_site, strict=False):
            pairs += [(inside[1], inside[0]), (inside[0], whole[0]), (inside[1], whole[1])]
    if origin.by_site and len(origin.by_site) != len(origin.sites):
        raise ModelFileError("the counts per site do not fit the sites")
    for judged in (file.evaluation, file.validation):
        if judged is not None and not set(judged.sites) <= set(origin.sites):
            raise ModelFileError("a site was judged that the model does not name")
    told = [(few, many) for few, many in pairs if few is not None and many is not None]
    if any(few > many * (1 + 1e-9) for few, many in told):
        raise ModelFileError("a part has more patients than the whole")


def _axis(part: _AxisPart, kind: str, complete: bool) -> Axis:
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


def _term_facts(term: Term, model: Model) -> dict[str, Any]:
    if isinstance(term, LinearTerm):
        return {
            "kind": "linear",
            "covariate": model.study.names[term.feature],
            "coefficient": term.coefficient,
            "importance": term.importance,
            "path": list(term.path),
        }
    return {
        "kind": "rule",
        "rule": model.describe(term),
        "conditions": [_condition_facts(c, model) for c in term.rule],
        "coefficient": term.coefficient,
        "importance": term.importance,
        "inside": term.inside,
        "events_inside": term.events_inside,
        "by_site": [list(counts) for counts in term.by_site],
        "path": list(term.path),
    }


def _condition_facts(condition: Condition, model: Model) -> dict[str, Any]:
    axis = model.grid.axes[condition.feature]
    facts: dict[str, Any] = {"covariate": model.study.names[condition.feature]}
    bounds = as_interval(condition.codes)
    if axis.ordered and bounds is not None:
        facts["interval"] = list(bounds)
    else:
        facts["levels"] = [c for c in range(axis.n_codes) if condition.codes >> c & 1]
    return {**facts, "missing": condition.missing}


def _term(part: _RulePart | _LinearPart, places: dict[str, int], grid: Grid) -> Term:
    if isinstance(part, _LinearPart):
        feature = _place(part.covariate, places)
        if not grid.axes[feature].has_linear:
            raise ModelFileError(f"covariate {part.covariate!r} has no linear term")
        return LinearTerm(feature, part.coefficient, part.importance, tuple(part.path))
    conditions = (_condition(c, places) for c in part.conditions)
    return RuleTerm(
        Rule(tuple(conditions)),
        part.coefficient,
        part.importance,
        part.inside,
        part.events_inside,
        tuple(part.path),
        tuple(Counts(*counts) for counts in part.by_site),
    )


def _condition(part: _ConditionPart, places: dict[str, int]) -> Condition:
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


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number a model can hold")


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    facts = dict(pairs)
    if len(facts) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return facts
