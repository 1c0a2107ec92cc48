"""Writes the tables of the documentation from the code.

``python docs/make_tables.py`` rewrites every part of a page that stands between
``<!-- NAME:start -->`` and ``<!-- NAME:end -->``. ``tests/docs/test_tables.py``
fails where a page is not current.

What a setting or a key of the study file means is told here, in :data:`MEANINGS`;
types, defaults and bounds are read off the code, and so is what a key of the policy
means (the docstring of ``Policy``).
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import fedrulefit
from fedrulefit import study
from fedrulefit.core.grid import Grid
from fedrulefit.experiments.markdown import fill_parts, make_table
from fedrulefit.model import file as modelfile
from fedrulefit.privacy import ledger, policy
from fedrulefit.protocol import messages
from fedrulefit.table import check as table
from fedrulefit.table import columns

HERE: Final = Path(__file__).resolve().parent

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "Study": {
        "format": "Version of the study file's format.",
        "name": "Name of the study, shown with every result.",
        "description": "For people.",
        "synthetic": "True for made-up patients; results are then marked as such.",
        "ranges_from_data": "True where ranges were read off the data, as the estimators do "
        "without a study. Leave it out of a study between hospitals.",
        "outcome": "The outcome, see below.",
        "covariates": "One table per covariate, see below. The name of the table is the name "
        "of the column; their order counts.",
        "weight": "A column of patient weights, see below. Leave it out where every row is "
        "one patient.",
        "settings": "Numbers of the method, see [below](#settings). `preset` names a set of them; "
        "keys beside it override.",
    },
    "Outcome": {
        "column": "Column of the outcome.",
        "positive": "The value of patients **with** the event.",
        "negative": "The value of patients without it.",
        "label": "The outcome in words, for tables and figures.",
        "expected_rate": "Lowest and highest share of events that a site may plausibly have. "
        "Finds reversed coding.",
    },
    "Number": {
        "label": "For people.",
        "note": "For people.",
        "complete": "True: a missing value is an error. False: it is allowed.",
        "kind": "Says that this is a number.",
        "range": "Lowest and highest value, **public**: agreed on from the literature, never "
        "read off the data. Values beyond count at the nearer end.",
        "unit": "Unit, shown in rules.",
        "spacing": "How histogram bins are spaced. `log` suits skewed laboratory values; its "
        "range must start above 0.",
        "step": "Values are multiples of this, such as 1 for a score. Cut-offs are moved up "
        "to multiples, so that rules read well.",
        "cutoffs": "Fixed cut-offs, such as clinical thresholds. They replace estimated ones.",
    },
    "Category": {
        "label": "For people.",
        "note": "For people.",
        "complete": "True: a missing value is an error. False: it is allowed.",
        "kind": "Says that this is a category.",
        "levels": "All levels that any site may have.",
        "labels": "Words for the levels, in their order.",
    },
    "YesNo": {
        "label": "For people.",
        "note": "For people.",
        "complete": "True: a missing value is an error. False: it is allowed.",
        "kind": "Says that this has two values.",
        "yes": "The value that is coded 1.",
        "no": "The value that is coded 0.",
        "labels": 'Words for no and yes, in this order, such as `["male", "female"]`.',
    },
    "Weight": {
        "column": "Column of the weights.",
        "max": "Largest weight that one patient can have, public. Noise grows with it.",
    },
    "Settings": {
        "noise": "False turns the noise of the histograms off.",
        "epsilon_total": "Most ε of **all** histograms of a run together; smaller is more private. "
        "Every covariate gets the same share of it, and none more than 1.",
        "epsilon": "ε of **one** histogram, however many there are; it wins over `epsilon_total`. "
        "Left out: a share of `epsilon_total`.",
        "n_bins": "B: bins of a number's histogram.",
        "n_cutoffs": "Q: quantile levels, and so the most cut-offs of a covariate.",
        "winsor": "q: share winsorised at either end of a linear term.",
        "repair": "How negative noisy counts are mended after summing.",
        "spreads": "Whether s* is sent exactly, or derived from the noisy histogram.",
        "centre": "Whether linear terms are centred.",
        "n_trees": "C: boosted trees per site.",
        "mean_leaves": "L̄: mean number of terminal nodes of a tree.",
        "learning_rate": "v: shrinkage of the boosting.",
        "subsample": "Share of a site's patients that each tree sees.",
        "min_leaf": "Least (weighted) number of the site's patients in a leaf.",
        "drop_complements": "Keep only one of a one-condition rule and its negation.",
        "linear_terms": "Whether numbers and yes/no covariates enter as linear terms, too.",
        "single_cutoffs": "Whether every single cut-off is a candidate rule; they need no data.",
        "linear_factor": "Penalty factor π of linear terms.",
        "interaction_factor": "Penalty factor π of rules with two or more conditions; rules with "
        "one condition have 1.",
        "solver": "How coefficients are found: exactly, by proximal Newton, or by the paper's "
        "Federated Dual Averaging.",
        "penalty": "λ: larger means fewer rules. `cv` chooses it by federated cross-validation "
        "(exact solver only).",
        "folds": "Folds of the cross-validation.",
        "path_length": "How many λs the cross-validation tries at most.",
        "path_ratio": "Smallest λ of the path, as a share of the largest.",
        "selection": "λ of least held-out deviance, or the largest within one standard error.",
        "max_rules": "Cross-validation chooses among the λs that keep at most so many rules.",
        "tolerance": "KKT residual at which the exact solver stops.",
        "max_rounds": "Most rounds of the exact solver at the final λ.",
        "max_active": "Most terms whose second derivatives are asked for, unless more have a "
        "coefficient.",
        "rounds": "R: rounds of FedDA.",
        "local_steps": "G: local steps in a round.",
        "server_step": "η_s: step of the coordinator.",
        "client_step": "η_c: step of a site.",
        "weighting": "Whether a site counts by its patients, or all sites count equally (not under "
        "masks: [why](protocol.md#fixed-point)).",
        "holdout": "Share of each site's patients that the model is judged on, not learnt from.",
        "per_site": "Whether the model also tells each site's own results: outcome rates inside "
        "and outside rules, and the evaluation. Every site's policy must allow `site-results`.",
        "seed": "Seed of leaf counts, subsamples, folds and held-out patients; never of privacy "
        "noise.",
    },
}

STUDY_PARTS: Final = (
    ("Top level", study.Study),
    ("`[outcome]`", study.Outcome),
    ('`[covariates.NAME]` with `kind = "number"`', study.Number),
    ('`[covariates.NAME]` with `kind = "category"`', study.Category),
    ('`[covariates.NAME]` with `kind = "yes/no"`', study.YesNo),
    ("`[weight]`", study.Weight),
)

API: Final[Sequence[tuple[str, Sequence[str]]]] = (
    (
        "Estimators",
        (
            "fedrulefit.FederatedRuleFitClassifier",
            "fedrulefit.FederatedRuleFitClassifier.fit",
            "fedrulefit.FederatedRuleFitClassifier.predict",
            "fedrulefit.FederatedRuleFitClassifier.predict_proba",
            "fedrulefit.FederatedRuleFitClassifier.decision_function",
            "fedrulefit.FederatedRuleFitClassifier.rules_",
            "fedrulefit.FederatedRuleFitClassifier.variable_importance_",
            "fedrulefit.RuleFitClassifier",
            "fedrulefit.RuleFitClassifier.fit",
        ),
    ),
    (
        "Methods to compare with",
        (
            "fedrulefit.baselines.bfi.BFIClassifier",
            "fedrulefit.baselines.bfi.BFIClassifier.fit",
            "fedrulefit.baselines.bfi.Estimate",
            "fedrulefit.baselines.forest.FederatedForestClassifier",
            "fedrulefit.baselines.forest.FederatedForestClassifier.fit",
            "fedrulefit.baselines.rulefit.conventional_rulefit",
            "fedrulefit.baselines.rulefit.fit_each_site",
        ),
    ),
    (
        "Model",
        (
            "fedrulefit.Model",
            "fedrulefit.Model.load",
            "fedrulefit.Model.rounded",
            "fedrulefit.Model.save",
            "fedrulefit.Model.predict_proba",
            "fedrulefit.Model.decision_function",
            "fedrulefit.Model.explain",
            "fedrulefit.Model.rules_frame",
            "fedrulefit.Model.subgroups_frame",
            "fedrulefit.Model.importance_frame",
            "fedrulefit.Model.history_frame",
            "fedrulefit.Model.path_frame",
            "fedrulefit.Model.coefficients_frame",
            "fedrulefit.Model.variable_importance",
            "fedrulefit.Model.partial_dependence",
            "fedrulefit.Model.to_sql",
            "fedrulefit.Model.to_onnx",
            "fedrulefit.Model.describe",
            "fedrulefit.Model.odds_ratio",
            "fedrulefit.Model.support",
            "fedrulefit.Model.rule_terms",
            "fedrulefit.Model.linear_terms",
            "fedrulefit.Model.read_values",
            "fedrulefit.model.Counts",
            "fedrulefit.model.RuleTerm",
            "fedrulefit.model.LinearTerm",
            "fedrulefit.model.Explanation",
            "fedrulefit.model.Contribution",
            "fedrulefit.model.Provenance",
            "fedrulefit.model.PathPoint",
            "fedrulefit.core.certificate.Certificate",
            "fedrulefit.privacy.bill.PrivacyBill",
            "fedrulefit.privacy.bill.PrivacyBill.epsilon_histograms",
            "fedrulefit.privacy.bill.PrivacyBill.words",
        ),
    ),
    (
        "Study",
        (
            "fedrulefit.Study",
            "fedrulefit.Study.load",
            "fedrulefit.Study.from_mapping",
            "fedrulefit.Study.with_settings",
            "fedrulefit.Study.digest",
            "fedrulefit.Study.names",
            "fedrulefit.Study.epsilon_per_histogram",
            "fedrulefit.Study.epsilon_run",
            "fedrulefit.study.Settings",
            "fedrulefit.study.Outcome",
            "fedrulefit.study.Number",
            "fedrulefit.study.Category",
            "fedrulefit.study.YesNo",
            "fedrulefit.study.Weight",
            "fedrulefit.study.resolve_settings",
            "fedrulefit.table.draft.draft_study",
        ),
    ),
    (
        "Tables",
        (
            "fedrulefit.table.check.load_table",
            "fedrulefit.table.check.inspect_table",
            "fedrulefit.table.patients.Table",
            "fedrulefit.table.check.Inspection",
            "fedrulefit.table.check.Finding",
        ),
    ),
    (
        "Engine",
        (
            "fedrulefit.engines.inprocess.fit",
            "fedrulefit.engines.leaveout.leave_one_site_out",
            "fedrulefit.engines.base.Fitted",
            "fedrulefit.engines.base.Engine",
            "fedrulefit.engines.base.Engine.open",
            "fedrulefit.engines.base.Reached",
            "fedrulefit.engines.base.SitePlan",
            "fedrulefit.engines.base.SitePlan.make_sites",
            "fedrulefit.engines.ENGINES",
            "fedrulefit.registry.Registry.add",
            "fedrulefit.registry.Choice",
            "fedrulefit.testing.engines.EngineSuite",
            "fedrulefit.privacy.policy.Policy",
            "fedrulefit.privacy.policy.Policy.load",
            "fedrulefit.privacy.policy.Policy.words",
            "fedrulefit.privacy.ledger.Ledger",
            "fedrulefit.privacy.ledger.Release",
            "fedrulefit.privacy.mechanisms.OpenDPLaplace",
            "fedrulefit.privacy.mechanisms.UnsafeSeededLaplace",
        ),
    ),
    (
        "Evaluation",
        (
            "fedrulefit.model.evaluation.Evaluation",
            "fedrulefit.model.evaluation.Evaluation.metrics_frame",
            "fedrulefit.model.evaluation.Evaluation.calibration_frame",
            "fedrulefit.model.evaluation.Evaluation.decision_frame",
            "fedrulefit.model.evaluation.Evaluation.heterogeneity",
            "fedrulefit.core.scores.Measures",
        ),
    ),
    (
        "Figures and report",
        (
            "fedrulefit.plot",
            "fedrulefit.plot.rules",
            "fedrulefit.plot.importance",
            "fedrulefit.plot.subgroups",
            "fedrulefit.plot.history",
            "fedrulefit.plot.path",
            "fedrulefit.plot.coefficients",
            "fedrulefit.plot.partial_dependence",
            "fedrulefit.plot.calibration",
            "fedrulefit.plot.decision",
            "fedrulefit.plot.overview",
            "fedrulefit.report.render_report",
            "fedrulefit.report.write_report",
        ),
    ),
    (
        "Errors",
        (
            "fedrulefit.errors.FedRuleFitError",
            "fedrulefit.errors.StudyError",
            "fedrulefit.errors.DataError",
            "fedrulefit.errors.ProtocolError",
            "fedrulefit.errors.PolicyError",
            "fedrulefit.errors.LedgerError",
            "fedrulefit.errors.FederationError",
            "fedrulefit.errors.FitError",
            "fedrulefit.errors.ModelFileError",
        ),
    ),
    (
        "Synthetic patients",
        (
            "fedrulefit.demo",
            "fedrulefit.demo.draw_registry",
            "fedrulefit.demo.draw_fresh",
            "fedrulefit.demo.pool",
            "fedrulefit.demo.demo_study",
            "fedrulefit.demo.match_planted",
        ),
    ),
    ("Version", ("fedrulefit.__version__",)),
)


# --- Markdown -----------------------------------------------------------------------------


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _first_line(obj: object) -> str:
    return (inspect.getdoc(obj) or "").split("\n\n")[0].replace("``", "`")


def _plain(text: str) -> str:
    """Turn reStructuredText roles into Markdown code."""
    return re.sub(r":[a-z]+:`([^`]+)`", r"`\1`", text)


# --- types and defaults -------------------------------------------------------------------


def describe_type(hint: Any) -> str:
    """Return a type in short words."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint == study.Level:
        return "value"
    if origin is typing.Annotated:
        return _with_bounds(describe_type(args[0]), args[1])
    if origin is Literal:
        return " or ".join(_literal(a) for a in args)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(a) for a in args if a is not type(None))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return f"list of {describe_type(args[0])}s"
        return f"{len(args)} {describe_type(args[0])}s"
    if origin is dict or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        return "table"
    names = {float: "number", int: "whole number", bool: "true/false", str: "text"}
    return names[hint]


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        return "defaults"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value == {}:
        return "none"
    return _literal(value)


def describe_bounds(field: FieldInfo) -> str:
    """Return the bounds of a field: ``> 0, ≤ 1``."""
    parts = []
    for rule in field.metadata:
        match rule:
            case annotated_types.Gt(gt):
                parts.append(f"> {gt:g}")  # type: ignore[str-format]
            case annotated_types.Ge(ge):
                parts.append(f"≥ {ge:g}")  # type: ignore[str-format]
            case annotated_types.Lt(lt):
                parts.append("< 2⁶³" if lt == 2**63 else f"< {lt:g}")  # type: ignore[str-format]
            case annotated_types.Le(le):
                parts.append(f"≤ {le:,}".replace(",", " "))
            case annotated_types.MinLen(n) if n > 1:
                parts.append(f"at least {n}")
            case annotated_types.MaxLen(n):
                parts.append(f"at most {n}")
    return ", ".join(parts)


def _type_and_bounds(field: FieldInfo) -> str:
    return _with_bounds(describe_type(field.annotation), field)


def _with_bounds(words: str, field: FieldInfo) -> str:
    bounds = describe_bounds(field)
    return f"{words}, {bounds}" if bounds else words


# --- the parts ----------------------------------------------------------------------------


def make_study_keys() -> str:
    """Return one table per part of the study file."""
    parts = []
    for title, cls in STUDY_PARTS:
        rows = [
            (
                _code(name),
                _type_and_bounds(field),
                "required" if field.is_required() else _code(_value(field.default)),
                MEANINGS[cls.__name__][name],
            )
            for name, field in cls.model_fields.items()
            if not (title == "Top level" and name == "settings")
        ]
        if cls is study.Study:
            rows.append(
                ("`settings`", "table", '`preset = "default"`', MEANINGS["Study"]["settings"])
            )
        parts.append(f"**{title}**\n\n{make_table(['key', 'holds', 'default', 'meaning'], rows)}")
    return "\n\n".join(parts)


def make_settings() -> str:
    """Return the settings with the values of both presets."""
    presets = study.resolve_settings("default"), study.resolve_settings("paper")
    rows = []
    for name, field in study.Settings.model_fields.items():
        default, stated = (_value(getattr(preset, name)) for preset in presets)
        shown = _code(stated) if stated == default else f"**{_code(stated)}**"
        rows.append(
            (
                _code(name),
                _code(default),
                shown,
                _type_and_bounds(field),
                MEANINGS["Settings"][name],
            )
        )
    return make_table(["setting", "`default`", "`paper`", "holds", "meaning"], rows)


def make_presets() -> str:
    """Return the settings in which the presets differ."""
    presets = study.resolve_settings("default"), study.resolve_settings("paper")
    rows = [
        (_code(name), *(_code(_value(getattr(preset, name))) for preset in presets))
        for name in study.Settings.model_fields
        if len({getattr(preset, name) for preset in presets}) > 1
    ]
    return make_table(["setting", "`default`", "`paper`"], rows)


def make_messages() -> str:
    """Return every message with every field that it carries."""
    rows = []
    for cls in typing.get_args(messages.Message):
        kind = "request" if cls.__name__.endswith("Request") else "reply"
        if cls in typing.get_args(messages.Sum):
            kind = "reply, a sum"
        fields = [f for f in dataclasses.fields(cls) if f.name != "header"]
        hints = typing.get_type_hints(cls)
        if not fields:
            rows.append((_code(cls.__name__), kind, "–", "", _first_line(cls), ""))
        for position, field in enumerate(fields):
            rows.append(
                (
                    _code(cls.__name__) if position == 0 else "",
                    kind if position == 0 else "",
                    _code(field.name),
                    field.metadata.get("shape", "") or _shape(hints[field.name]),
                    field.metadata.get("formula", _first_line(cls) if position == 0 else ""),
                    field.metadata.get("mechanism", "public to all sites"),
                )
            )
    head = ["message", "", "field", "shape", "what it is", "protection"]
    return make_table(head, rows)


def make_sums() -> str:
    """Return every number that is summed over patients: what one of them adds, at most."""
    rows = []
    for cls in typing.get_args(messages.Sum):
        fields = [f for f in dataclasses.fields(cls) if "unit" in f.metadata]
        for position, field in enumerate(fields):
            facts = field.metadata
            name = _code(cls.__name__) if position == 0 else ""
            rows.append((name, _code(field.name), facts["formula"], facts["unit"], facts["most"]))
    return make_table(["sum", "field", "what it is", "unit", "most of one patient"], rows)


def _shape(hint: Any) -> str:
    if hint in (bool, int, float, str) or typing.get_origin(hint) is Literal:
        return "one"
    if hint is bytes:
        return "bytes"
    return "whole grid" if hint is Grid else "list"


def make_header() -> str:
    """Return the fields of the header."""
    words = {
        "version": f"Version of the protocol, now {messages.PROTOCOL_VERSION}.",
        "run": "Name of the run: 16 hexadecimal digits of a hash of the study and the sites' "
        "names, unless the coordinator gives another.",
        "step": "Number of the exchange, from 0. A site answers each number once.",
        "site": "Name of the site that is asked, or answers.",
        "study": "SHA-256 of the study in canonical form.",
    }
    rows = [
        (_code(f.name), f.type if isinstance(f.type, str) else f.type.__name__, words[f.name])
        for f in dataclasses.fields(messages.Header)
    ]
    return make_table(["field", "type", "meaning"], rows)


def make_ledger_fields() -> str:
    """Return the fields of a line in a site's ledger."""
    words = {
        "message": "Type of the message, as in the [table of messages](protocol.md#messages).",
        "quantity": "Field of the message; for histograms, one line per covariate.",
        "shape": "How many numbers (or rules; for `fold_rules`, of all folds) left; empty for a "
        "single number.",
        "mechanism": "Name of the noise, with the version of its library, and the run that it is "
        "repeated from; `exact` without noise.",
        "epsilon": "ε of this line as the noise library states it; 0 where it repeats noise that "
        "was paid for; `null` = no bound.",
        "digest": "SHA-256 of the bytes of the message.",
        "sensitivity": "The most that one patient can change a noisy count; `null` otherwise.",
        "scale": "Scale of the noise; `null` without noise.",
        "sum_of": "How many sites were in the secure sum inside which it left; `null` if it left "
        "openly.",
        "study": "Name of the study.",
        "run": "Name of the run.",
        "step": "Number of the exchange, from 0.",
        "round": "Round of FedDA, or step of a round of the exact solver; `null` otherwise.",
        "recipient": "Who received it.",
        "time": "UTC time by the site's clock.",
    }
    rows = [(_code(f.name), words[f.name]) for f in dataclasses.fields(ledger.Release)]
    rows += [
        (
            "`epsilon_so_far`",
            "ε of all noisy lines up to here, for adding or removing one patient "
            "and for replacing one.",
        ),
        ("`previous`", "`hash` of the line before; zeros on the first."),
        ("`hash`", "SHA-256 of all the above as JSON, keys sorted and without spaces."),
    ]
    return make_table(["field", "meaning"], rows)


def make_policy_keys() -> str:
    """Return the keys of a site's policy, as the docstring of its class explains them."""
    meanings = read_parameters(policy.Policy)
    rows = [
        (_code(name), _code(_value(field.get_default(call_default_factory=True))), meanings[name])
        for name, field in policy.Policy.model_fields.items()
    ]
    return make_table(["key", "default", "meaning"], rows)


def make_policy_kinds() -> str:
    """Return every kind of release, and whether a policy allows it by default."""
    allowed = policy.Policy().allow
    rows = [
        (_code(kind), words, "yes" if kind in allowed else "**no**")
        for kind, words in policy.KINDS.items()
    ]
    return make_table(["kind", "what leaves", "allowed by default"], rows)


def read_parameters(cls: type) -> dict[str, str]:
    """Return what the docstring of a class says of each of its parameters."""
    text = (inspect.getdoc(cls) or "").partition("Parameters\n----------\n")[2]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            names = [name.strip() for name in line.partition(" : ")[0].split(",")]
            continue
        for name in names:
            found[name] = f"{found.get(name, '')} {line.strip()}".strip()
    kinds = "[kinds of release](#kinds-of-release)"
    return {
        name: _plain(words.replace(":data:`KINDS`", kinds)).replace("``", "`")
        for name, words in found.items()
    }


def find(name: str) -> Any:
    """Return the object of a dotted name, or raise AttributeError."""
    obj: Any = fedrulefit
    path = name.split(".")[1:]
    for k, part in enumerate(path):
        try:
            obj = getattr(obj, part)
        except AttributeError:
            module = ".".join(["fedrulefit", *path[: k + 1]])
            try:
                obj = __import__(module, fromlist=["_"])
            except ImportError:
                raise AttributeError(name) from None
    return obj


def make_api() -> str:
    """Return the public names with signature and first line of their docstring."""
    parts = []
    for title, names in API:
        rows = [(_code(_signature(name)), _meaning(name)) for name in names]
        parts.append(f"## {title}\n\n{make_table(['name', 'meaning'], rows)}")
    return "\n\n".join(parts)


def _meaning(name: str) -> str:
    if name == "fedrulefit.__version__":
        return "The version of the package."
    return _plain(_first_line(find(name)))


def _signature(name: str) -> str:
    obj = find(name)
    if isinstance(obj, type) and issubclass(obj, (BaseModel, Exception)):
        return name
    if not callable(obj):
        return name
    parameters = [
        p.replace(annotation=inspect.Parameter.empty, default=_Default.of(p))
        for p in inspect.signature(obj).parameters.values()
        if p.name not in ("self", "cls")
    ]
    return f"{name}{inspect.Signature(parameters)}"


class _Default:
    """A default that shows itself briefly."""

    def __init__(self, value: object) -> None:
        self.value = value

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> object:
        """Return the default of a parameter, wrapped, or no default."""
        if parameter.default is inspect.Parameter.empty:
            return inspect.Parameter.empty
        return cls(parameter.default)

    def __repr__(self) -> str:
        """Return the value, or dots for a function and whatever is long."""
        short = repr(self.value)
        long = callable(self.value) or "factory" in short or len(short) > 40
        return "…" if long else short


def find_codes() -> Iterator[tuple[str, str]]:
    """Yield (code, severity) of every finding that ``check`` can make."""
    severities = {
        "error_finding": "error",
        "_error": "error",
        "_warning": "warning",
        "_unreadable": "error",
    }
    trees = [ast.parse(inspect.getsource(module)) for module in (columns, table)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            severity = severities.get(node.func.id)
            first = node.args[0] if node.args else None
            if severity and isinstance(first, ast.Constant):
                yield str(first.value), severity
        # _check_weights lists its errors as tuples that start with the code.
        if isinstance(node, ast.FunctionDef) and node.name == "_check_weights":
            for part in ast.walk(node):
                if isinstance(part, ast.Tuple) and len(part.elts) == 4:
                    first = part.elts[0]
                    if isinstance(first, ast.Constant):
                        yield str(first.value), "error"


def find_refusals() -> Iterator[str]:
    """Yield every code of a refusal or protocol error that the source can give."""
    yield "bad-request"  # where none is named
    for path in sorted(Path(fedrulefit.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in ("ProtocolError", "Refusal"):
                continue
            given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "code")]
            for part in (part for code in given for part in _outcomes(code)):
                if isinstance(part, ast.Constant):
                    yield str(part.value)


def _outcomes(code: ast.expr) -> list[ast.expr]:
    """What an expression can be: both ends of a conditional one."""
    return [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]


def make_model_fields() -> str:
    """Return the fields of a model file below the top level, with their types."""
    parts = {
        "top level": modelfile._File,
        "`grid[]`": modelfile._AxisPart,
        '`terms[]` of `kind = "rule"`': modelfile._RulePart,
        "`terms[].conditions[]`": modelfile._ConditionPart,
        '`terms[]` of `kind = "linear"`': modelfile._LinearPart,
        "`rounding`": modelfile._RoundingPart,
        "`privacy`": modelfile._PrivacyPart,
        "`provenance`": modelfile._ProvenancePart,
        "`provenance.certificate`": modelfile._CertificatePart,
        "`provenance.path[]`": modelfile._PathPart,
        "`evaluation`, `validation`": modelfile._EvaluationPart,
        "their `overall` and `sites.*`": modelfile._MeasuresPart,
        "their `groups[]`": modelfile._GroupPart,
    }
    tables = []
    for title, cls in parts.items():
        rows = [(_code(name), MODEL_FILE[cls.__name__][name]) for name in cls.model_fields]
        tables.append(f"**{title}**\n\n{make_table(['field', 'meaning'], rows)}")
    return "\n\n".join(tables)


MODEL_FILE: Final[Mapping[str, Mapping[str, str]]] = {
    "_File": {
        "format": f'Always `"{modelfile.FORMAT}"`.',
        "version": f"Version of this format, now {modelfile.VERSION}.",
        "study": "The study, with every default written out; keys as in the "
        "[study file](howto-consortium.md#the-study-file-key-by-key).",
        "grid": "One entry per covariate, in the study's order.",
        "intercept": "β₀.",
        "terms": "Terms with a coefficient other than 0, most important first.",
        "rounding": "How coarse its [counts](#what-a-published-model-still-tells) are; null in a "
        "file that was made before they were rounded.",
        "privacy": "The privacy bill.",
        "provenance": "What the model rests on.",
        "evaluation": "How well it predicts held-out patients; null where none were held out, or "
        "too few (the study's `holdout` tells which).",
        "validation": "How well models of all sites but one predict the patients of that one; null "
        "where that was not tried.",
    },
    "_AxisPart": {
        "covariate": "Name of the covariate.",
        "kind": '`"number"`, `"category"` or `"yes/no"`.',
        "cutoffs": "Cut-offs, increasing, exact. Empty for a category.",
        "codes": "How many codes a known value can have: cut-offs + 1, or levels.",
        "limits": "Winsor limits δ⁻ and δ⁺ of the linear term.",
        "spread": "s*; 0 where there is no linear term.",
        "centre": "Subtracted from the winsorised value.",
        "fill": "What a missing value counts as in the linear term.",
    },
    "_RulePart": {
        "kind": '`"rule"`.',
        "rule": "The rule in words. It must agree with the conditions, or the file is refused.",
        "conditions": "All must hold; at most one per covariate, in the study's order.",
        "coefficient": "β_k on the scale of the log-odds.",
        "importance": "|β_k|·std, see [method](method.md#5-interpretation).",
        "inside": "Patients who satisfy the rule, over all sites (with weights); null where too "
        "few do, or do not.",
        "events_inside": "Those of them with the event; null where too few inside or outside have "
        "it, or have it not.",
        "path": "Its coefficient at each λ of the path; empty where λ was given, and in a rounded "
        "model.",
        "by_site": "`[inside, events_inside]` of each site, rounded; empty where the study does not"
        " ask for it (`per_site`), or where a site has too few.",
    },
    "_ConditionPart": {
        "covariate": "Name of the covariate.",
        "interval": "Number or yes/no: codes `[lo, hi)`. Code c means that c cut-offs are ≤ the "
        "value. `[0, 0]` means that only a missing value satisfies.",
        "levels": "Category: positions of the levels that satisfy, from 0.",
        "missing": "Whether a missing value satisfies the condition.",
    },
    "_LinearPart": {
        "kind": '`"linear"`.',
        "covariate": "Name of the covariate.",
        "coefficient": "β*_j, for 0.4·(winsorised value − centre)/spread.",
        "importance": "|β*_j|·std.",
        "path": "Its coefficient at each λ of the path; empty where λ was given, and in a rounded "
        "model.",
    },
    "_PrivacyPart": {
        "mechanism": "Noise of the histograms, as the sites named it; `none` without histograms.",
        "epsilon_per_histogram": "ε of one histogram; `null` without noise.",
        "n_histograms": "Histograms that each patient stands in.",
        "ranges_from_data": "Whether ranges were read off the data.",
        "exact": "What left the sites without noise, in words.",
        "sums": "What was summed over sites without noise, in words. Empty in older files, which "
        "tell it under `exact`.",
        "sum_of": "How many sites were in the secure sums; `null` if the coordinator saw each "
        "site's own numbers.",
    },
    "_EvaluationPart": {
        "overall": "Measures over all sites.",
        "groups": "Calibration and decisions: patients by predicted probability, from 0 to 1. "
        "Neighbours are merged until each holds enough with and without the event, never fewer "
        "than five.",
        "sites": "Measures of each site, rounded; empty without `per_site` (of `evaluation`), or "
        "where a site has too few patients.",
        "judged": "How coarse the model was when it was judged, as in `rounding`. Where that is "
        "finer than the model's own, it was judged before it was rounded.",
    },
    "_MeasuresPart": {
        "patients": "Patients judged (with weights).",
        "events": "Those of them with the event.",
        "auc": "Area under the ROC curve; like all below, null where it is not defined.",
        "auc_low": "Lower end of its 95 % interval.",
        "auc_high": "Upper end.",
        "auc_bound": "Most that the bins can shift it.",
        "brier": "Brier score.",
        "log_loss": "Log-loss.",
        "slope": "Calibration slope; 1 is right.",
        "slope_low": "Lower end of its 95 % interval.",
        "slope_high": "Upper end.",
        "intercept": "Calibration in the large; 0 is right.",
        "intercept_low": "Lower end of its 95 % interval.",
        "intercept_high": "Upper end.",
        "observed": "Share with the event.",
        "expected": "Mean predicted probability.",
    },
    "_GroupPart": {
        "above": "The group's probabilities are at least this.",
        "below": "And below this.",
        "events": "Patients with the event.",
        "others": "Patients without it.",
        "predicted": "Estimated mean of its probabilities; null in files that do not tell it.",
    },
    "_RoundingPart": {
        "multiple": "Counts are multiples of this (times the largest weight); 1: exact.",
        "smallest": "Smaller counts are null, and those whose complement is smaller; 0: all are "
        "told.",
    },
    "_ProvenancePart": {
        "sites": "Names of the sites.",
        "patients": "Patients over all sites (with weights).",
        "events": "Those of them with the event; null where too few have it, or have it not.",
        "candidates": "Rules that the fit could choose from.",
        "solver": 'Name of the solver: `"exact"` or `"fedda"`.',
        "penalty": "λ, as given or as chosen by cross-validation.",
        "rounds": "Rounds of the fit, cross-validation included.",
        "objective": "Penalised mean loss at the end of the fit: in a rounded model, before its "
        "coefficients were rounded.",
        "certificate": "How far that is from the optimum of the pooled problem: of a rounded "
        "model, before rounding.",
        "history": "Penalised mean loss of the fit to all patients, round by round; during "
        "cross-validation at the λ of that round. Empty in a rounded model.",
        "path": "The λs of the cross-validation, falling; empty where λ was given.",
        "software": "Versions of fedrulefit and the libraries of the coordinator.",
        "by_site": "`[patients, events]` of each site, rounded; empty without `per_site`, or where "
        "a site has too few with or without the outcome.",
    },
    "_CertificatePart": {
        "residual": "KKT residual: the largest entry of the least subgradient.",
        "gap": "Duality gap: the objective lies at most so much above its minimum. `null` where a "
        "term other than the intercept has no penalty.",
    },
    "_PathPart": {
        "penalty": "λ.",
        "deviance": "Mean deviance of held-out patients over the folds.",
        "error": "Its standard error.",
        "terms": "Terms that the fit to all patients keeps at this λ. At the chosen λ a rounded "
        "model may have fewer: those whose coefficients round to 0 leave.",
        "rules": "Rules among them.",
    },
}

PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "method.md": {"presets": make_presets},
    "howto-consortium.md": {"study-keys": make_study_keys, "settings": make_settings},
    "howto-data-protection.md": {
        "policy-keys": make_policy_keys,
        "policy-kinds": make_policy_kinds,
        "ledger": make_ledger_fields,
    },
    "protocol.md": {"header": make_header, "messages": make_messages, "sums": make_sums},
    "api.md": {"api": make_api},
    "model-file.md": {"model-file": make_model_fields},
}


def fill(page: str, text: str) -> str:
    """Return the page with every generated part made anew."""
    return fill_parts(page, text, {name: make() for name, make in PARTS[page].items()})


def main() -> None:
    """Rewrite the generated parts of all pages."""
    for page in PARTS:
        path = HERE / page
        path.write_text(fill(page, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
