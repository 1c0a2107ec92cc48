"""The TRIPOD+AI checklist, filled in as far as a run can, and what TRIPOD-Cluster adds.

Items as numbered by Collins and others, *TRIPOD+AI statement*, BMJ 2024;385:e078378,
in our own short words. What only the authors know is left to them. What Debray and
others, *TRIPOD-Cluster checklist*, BMJ 2023;380:e071018, ask about sites beyond that is
answered by topic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fedrulefit.core.families.sides import MeasuredLevels
from fedrulefit.model import Model
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.subgroups import NAMES, choose_patients
from fedrulefit.model.wording import name_rows
from fedrulefit.numerals import format_count
from fedrulefit.report.contents import (
    Fact,
    tell_events,
    tell_heterogeneity,
    tell_outcome,
    tell_validation,
)

_NOT_TOLD: Final = "Not known: the sites did not tell such results of their own in this run."
AUTHORS: Final = "For the authors."


@dataclass(frozen=True)
class Item:
    """One item: its number and topic, and what this run has to say."""

    number: str
    topic: str
    answer: str

    @property
    def filled(self) -> bool:
        """Whether the run could say something."""
        return self.answer != AUTHORS


_ITEMS: Final = (
    ("1", "Title: development or evaluation, population, outcome"),
    ("2", "Abstract (TRIPOD+AI for abstracts)"),
    ("3a", "Healthcare context and rationale"),
    ("3b", "Target population and intended use"),
    ("3c", "Known health inequalities between groups"),
    ("4", "Objectives"),
    ("5a", "Sources of the data"),
    ("5b", "Dates of the data"),
    ("6a", "Setting, number and place of centres"),
    ("6b", "Eligibility"),
    ("6c", "Treatments received"),
    ("7", "Data preparation"),
    ("8a", "Outcome: definition and time horizon"),
    ("8b", "Outcome: who assessed it"),
    ("8c", "Outcome: blinding"),
    ("9a", "Choice of predictors"),
    ("9b", "Predictors: definition and measurement"),
    ("9c", "Predictors: who assessed them"),
    ("10", "Sample size"),
    ("11", "Missing data"),
    ("12a", "Use of the data in development and evaluation"),
    ("12b", "Handling of predictors"),
    ("12c", "Type of model, building steps, internal validation"),
    ("12d", "Heterogeneity between clusters"),
    ("12e", "Measures of performance"),
    ("12f", "Model updating"),
    ("12g", "How predictions are calculated"),
    ("13", "Class imbalance"),
    ("14", "Fairness"),
    ("15", "Output of the model"),
    ("16", "Differences between development and evaluation data"),
    ("17", "Ethical approval"),
    ("18a", "Funding"),
    ("18b", "Conflicts of interest"),
    ("18c", "Protocol"),
    ("18d", "Registration"),
    ("18e", "Data sharing"),
    ("18f", "Code sharing"),
    ("19", "Patient and public involvement"),
    ("20a", "Flow of participants"),
    ("20b", "Characteristics of participants"),
    ("20c", "Comparison with development data"),
    ("21", "Participants and events in each analysis"),
    ("22", "Full model specification"),
    ("23a", "Performance, with confidence intervals, also of subgroups"),
    ("23b", "Heterogeneity of performance between clusters"),
    ("24", "Results of model updating"),
    ("25", "Interpretation, also for fairness"),
    ("26", "Limitations"),
    ("27a", "Handling of poor or missing input in use"),
    ("27b", "Users' interaction and expertise"),
    ("27c", "Next steps"),
)


def list_checklist(model: Model) -> list[Item]:
    """Return all items in their order."""
    return [
        Item(number, topic, _ANSWERS[number](model) if number in _ANSWERS else AUTHORS)
        for number, topic in _ITEMS
    ]


def list_cluster_items(model: Model) -> list[Fact]:
    """Return what TRIPOD-Cluster asks about sites, by topic."""
    by_site = bool(model.provenance.by_site)
    shown = "See “Sites and patients”." if by_site else "Only the total was released."
    among = NAMES[choose_patients(model, None, by_site=True)]
    effects = (
        f"Outcome rates inside and outside rules by site, of {among}: see “Subgroups”."
        if _tells_sites(model)
        else _NOT_TOLD
    )
    left_out = (
        tell_validation(model.validation)
        if model.validation is not None
        else "Not done in this run."
    )
    return [
        ("How sites were found and chosen", AUTHORS),
        ("Number of sites", str(len(model.provenance.sites))),
        ("Patients and events of each site", shown),
        (
            "Harmonisation of predictors and outcome",
            "One study file with units, ranges and codes; every site's table was checked against "
            "it before the run.",
        ),
        ("Sites in the model", _sites_in_fit(model)),
        ("Differences of effects between sites", effects),
        ("Differences of performance between sites", _heterogeneity(model)),
        ("Internal–external validation", left_out),
        ("Use of the model at a new site", AUTHORS),
    ]


def _tells_sites(model: Model) -> bool:
    """Whether levels inside and outside rules are told of single sites."""
    plain = not isinstance(model.study.family.levels, MeasuredLevels)
    return plain and any(term.by_site or term.held_out_by_site for term in model.rule_terms)


def _title(model: Model) -> str:
    return f"Development of a model: {model.study.name}. Outcome: {tell_outcome(model)}."


def _sources(model: Model) -> str:
    made_up = "Synthetic patients, no real ones. " if model.study.synthetic else ""
    return f"{made_up}Tables of {len(model.provenance.sites)} sites, see “Sites and patients”."


def _outcome(model: Model) -> str:
    return (
        f"{tell_outcome(model)}: {model.study.outcome.definition}. "
        f"{'Definition is' if model.study.family.words.by else 'Definition and time horizon are'} "
        "for the authors."
    )


def _predictors(model: Model) -> str:
    return (
        f"{model.study.n_features} covariates with units, public ranges and levels: see "
        "“What each variable means”."
    )


def _missing(model: Model) -> str:
    complete = sum(c.complete for c in model.study.covariates.values())
    return (
        f"{complete} of {model.study.n_features} covariates had to be complete. In the others "
        "“missing” is a value that rules can name; a linear term counts it as one fixed value, "
        "which the model file states."
    )


def _building(model: Model) -> str:
    origin = model.provenance
    how = (
        f"λ chosen by cross-validation in {model.study.settings.folds} folds"
        if origin.path
        else "λ given"
    )
    return (
        f"Federated RuleFit: {origin.candidates} candidate rules from boosted trees of each site, "
        f"ℓ1-penalised {model.study.family.words.regression} ({origin.solver}), {how}."
        f"{' ' * bool(model.of_dispersion)}{model.of_dispersion}{_internal(model)}"
    )


def _internal(model: Model) -> str:
    tried = [
        (model.provenance.path, "cross-validation of λ"),
        (model.evaluation, "patients held out by each site"),
        (model.validation, "each site left out in turn"),
    ]
    words = [what for found, what in tried if found]
    return f" Internal validation: {', '.join(words)}." if words else " No internal validation."


def _use(model: Model) -> str:
    share = model.study.settings.holdout
    if share == 0:
        return "All patients of the run were used for development."
    return (
        f"Each site set {100 * share:g} % of its patients aside, drawn at random by outcome; the "
        "model was learnt from the others."
    )


def _heterogeneity(model: Model) -> str:
    within = _within(model)
    for judged in (model.validation, model.evaluation):
        if judged is not None and judged.sites:
            return f"{tell_heterogeneity(judged)} By site under “Performance”. {within}".strip()
    return within or _NOT_TOLD


def _within(model: Model) -> str:
    """Return how well patients of one and the same hospital are told apart, if known."""
    found = model.evaluation
    if found is None or found.within is None:
        return ""
    return found.family.judge.tell_within(found.total, found.within)


def _sites_in_fit(model: Model) -> str:
    by_patients = model.study.settings.weighting == "patients"
    weight = "A site counts by its patients." if by_patients else "All sites count equally."
    shared = f"All sites share one intercept and one coefficient per term. {weight}"
    own = {
        "site": " In the fit each had a baseline of its own beside",
        "afterwards": " Each found a baseline of its own beside, of the finished model",
    }.get(model.study.settings.baseline)
    if own is None:
        return shared
    return (
        f"{shared}{own}, with a normal prior of standard deviation "
        f"{model.study.settings.baseline_spread:g}. It is not in this model, and known to the site "
        "alone; without one, predictions are for a new hospital."
    )


def _performance(model: Model) -> str:
    if model.evaluation is not None or model.validation is not None:
        return f"See “Performance”.{_subgroups(model)}"
    if model.provenance.path:
        return "Only the cross-validated deviance is in this model, see “Certificate and settings”."
    return "Not evaluated in this run."


def _subgroups(model: Model) -> str:
    """Return where outcome rates of held-out patients stand, if they do."""
    if choose_patients(model, None) == "training":
        return ""
    many = model.study.family.levels.words.many
    return f" {many.capitalize()} of held-out patients inside and outside rules: see “Subgroups”."


def _numbers(model: Model) -> str:
    family = model.study.family
    events = f", {tell_events(model)} {family.words.with_outcome}" if family.counts_events else ""
    return f"{format_count(model.provenance.patients)} {name_rows(model.study)}{events}."


def _analyses(model: Model) -> str:
    words = f"Development: {_numbers(model)}"
    if model.evaluation is not None:
        total = model.evaluation.total
        words += f" Held out: {format_count(total.patients)} {name_rows(model.study)}"
        counted = model.study.family.counts_events
        words += f", {format_count(total.events)} events" if counted else ""
        words += f"{_tell_at_levels(model.evaluation)}."
    if model.validation is not None:
        words += " Sites left out: by site under “Performance”."
    return words


def _tell_at_levels(evaluation: Evaluation) -> str:
    """Return how many of those held out were at each level, where the outcome has several."""
    frame = evaluation.levels_frame()
    if frame.empty:
        return ""
    above = "" if evaluation.family.own_terms else " (or above)"
    told = [
        f"{name} {format_count(patients)}"
        for name, patients in zip(frame["level"], frame["patients"], strict=True)
    ]
    return f": at each {evaluation.family.words.one_of}{above} {', '.join(told)}"


def _formula(model: Model) -> str:
    link = model.study.family.words.through_link
    return f"β₀ plus the coefficients of the terms that hold, {link}."


def _resampling(model: Model) -> str:
    return f"No resampling: {model.study.family.words.refers_to}"


def _constant(text: str) -> Callable[[Model], str]:
    return lambda _: text


_ANSWERS: Final[dict[str, Callable[[Model], str]]] = {
    "1": _title,
    "5a": _sources,
    "6a": lambda model: ", ".join(model.provenance.sites) + ". Places are for the authors.",
    "7": _constant("Numbers become codes by shared cut-offs; see “Certificate and settings”."),
    "8a": _outcome,
    "9b": _predictors,
    "10": lambda model: _numbers(model) + " Why so many is for the authors.",
    "11": _missing,
    "12a": _use,
    "12b": _constant(
        "Rules on cut-offs; linear terms are winsorised and scaled. See “Partial dependence”."
    ),
    "12c": _building,
    "12d": lambda model: f"{_sites_in_fit(model)} {_heterogeneity(model)}",
    "12e": _performance,
    "12g": _formula,
    "13": _resampling,
    "15": lambda model: model.study.family.words.output,
    "18f": _constant("fedrulefit, Apache-2.0; versions in “Certificate and settings”."),
    "21": _analyses,
    "22": _constant(
        "In full in the model file; under “Certificate and settings” rounded for people to "
        "compute with."
    ),
    "23a": _performance,
    "23b": _heterogeneity,
    "27a": _constant(
        "The calculator allows missing values where the study does, and says when a value is "
        "outside of the study's range."
    ),
}
