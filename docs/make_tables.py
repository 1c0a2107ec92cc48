"""Writes the tables of the documentation from the code.

``python docs/make_tables.py`` rewrites every part of a page that stands between
``<!-- NAME:start -->`` and ``<!-- NAME:end -->``. ``tests/docs/test_tables.py``
fails where a page is not current.

What a setting, or a key of the study or the policy, means stands with its field in the code
(:func:`fedrulefit.study.fields.describe_keys`); what no field tells is told here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

from public_names import first_line, make_api

import fedrulefit
from fedrulefit import study
from fedrulefit.core.grid import Grid
from fedrulefit.experiments.markdown import fill_parts, make_table
from fedrulefit.model import file as modelfile
from fedrulefit.privacy import ledger, policy
from fedrulefit.protocol import messages
from fedrulefit.study.fields import Key, describe_keys
from fedrulefit.study.settings import Setting
from fedrulefit.table import check as table
from fedrulefit.table import columns

HERE: Final = Path(__file__).resolve().parent

STUDY_PARTS: Final = (
    ("Top level", study.Study),
    ("`[outcome]`", study.Outcome),
    ('`[covariates.NAME]` with `kind = "number"`', study.Number),
    ('`[covariates.NAME]` with `kind = "category"`', study.Category),
    ('`[covariates.NAME]` with `kind = "yes/no"`', study.YesNo),
    ("`[weight]`", study.Weight),
)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def make_study_keys() -> str:
    """Return one table per part of the study file."""
    parts = []
    for title, cls in STUDY_PARTS:
        rows = [
            (_code(key.name), key.holds, _default(key), key.meaning) for key in describe_keys(cls)
        ]
        parts.append(f"**{title}**\n\n{make_table(['key', 'holds', 'default', 'meaning'], rows)}")
    return "\n\n".join(parts)


def _default(key: Key) -> str:
    return key.default if key.default == "required" else _code(key.default)


def make_settings() -> str:
    """Return the settings, group by group, with the values of both presets."""
    head = ["setting", "`default`", "`paper`", "holds", "meaning"]
    parts = []
    for group, members in groupby(study.describe_settings(), key=lambda setting: setting.group):
        rows = [
            (_code(s.name), _code(s.default), _differing(s), s.holds, s.meaning) for s in members
        ]
        parts.append(f"**{group}**\n\n{make_table(head, rows)}")
    return "\n\n".join(parts)


def _differing(setting: Setting) -> str:
    """Return the value in the preset ``paper``: bold where it is not the default."""
    shown = _code(setting.paper)
    return shown if setting.paper == setting.default else f"**{shown}**"


def make_presets() -> str:
    """Return the settings in which the presets differ."""
    rows = [
        (_code(s.name), _code(s.default), _code(s.paper))
        for s in study.describe_settings()
        if s.default != s.paper
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
            rows.append((_code(cls.__name__), kind, "–", "", first_line(cls), ""))
        for position, field in enumerate(fields):
            rows.append(
                (
                    _code(cls.__name__) if position == 0 else "",
                    kind if position == 0 else "",
                    _code(field.name),
                    field.metadata.get("shape", "") or _shape(hints[field.name]),
                    field.metadata.get("formula", first_line(cls) if position == 0 else ""),
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
    """Return the keys of a site's policy."""
    rows = [
        (_code(key.name), _code(key.default), key.meaning) for key in describe_keys(policy.Policy)
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
