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
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

from marked_parts import fill_parts
from public_names import first_line, make_api

import fedrulefit
from fedrulefit import study
from fedrulefit.core.families import FAMILIES
from fedrulefit.core.families.count_spread import SPREAD_WORDS
from fedrulefit.core.grid import Grid
from fedrulefit.experiments.markdown import make_table
from fedrulefit.model.file import parts as modelfile
from fedrulefit.model.file import term_parts
from fedrulefit.privacy import ledger, policy
from fedrulefit.protocol import messages
from fedrulefit.study.fields import Key, describe_keys
from fedrulefit.study.presets import Setting
from fedrulefit.table import (
    check,
    covariates,
    csv_file,
    excel_file,
    frames,
    header,
    numbers,
    outcome_count,
    outcome_levels,
    outcome_number,
    outcome_time,
    outcome_yes_no,
    parquet_file,
    patient_column,
    repeats,
    size_limit,
    sources,
    text_file,
    weights,
)
from fedrulefit.table.findings import FindingKind

HERE: Final = Path(__file__).resolve().parent

STUDY_PARTS: Final = (
    ("Top level", study.Study),
    ('`[outcome]` with `kind = "yes/no"`, or without a kind', study.YesNoOutcome),
    ('`[outcome]` with `kind = "number"`', study.NumberOutcome),
    ('`[outcome]` with `kind = "count"`', study.CountOutcome),
    ('`[outcome]` with `kind = "time"`', study.TimeOutcome),
    ('`[outcome]` with `kind = "ordered"`', study.OrderedOutcome),
    ('`[outcome]` with `kind = "classes"`', study.ClassesOutcome),
    ('`[covariates.NAME]` with `kind = "number"`', study.Number),
    ('`[covariates.NAME]` with `kind = "category"`', study.Category),
    ('`[covariates.NAME]` with `kind = "ordered"`', study.Ordered),
    ('`[covariates.NAME]` with `kind = "yes/no"`', study.YesNo),
    ("`[unusual]`", study.Unusual),
    ("`[weight]`", study.Weight),
    ("`[wishes]`", study.Wishes),
    ("`[patient]`", study.Patient),
)

FINDING_ROOMS: Final = (
    sources, size_limit, text_file, csv_file, excel_file, parquet_file, frames,
    header, check, numbers, covariates, outcome_yes_no, outcome_number, outcome_count,
    outcome_time, outcome_levels, weights, patient_column, repeats,
)  # fmt: skip
"""The modules that declare findings, in the order in which a table walks through them."""


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
    for cls in messages.MESSAGES:
        kind = "request" if issubclass(cls, messages.Request) else "reply"
        if issubclass(cls, messages.SumRequest):
            kind = "request of a sum"
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
    for question in messages.SUM_REQUESTS:
        for cls in question.sums:
            for position, (name, told) in enumerate(cls.quantities().items()):
                first = position == 0
                rows.append(
                    (
                        _code(question.__name__) if first and cls is question.sums[0] else "",
                        _code(cls.__name__) if first else "",
                        _code(name),
                        told.formula,
                        told.shape or "one",
                        told.unit,
                        told.most,
                    )
                )
    head = ["question", "sum", "quantity", "what it is", "numbers", "unit", "most of one patient"]
    return make_table(head, rows)


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
        "message": "Type of the message, as in the [table of messages](protocol.md#messages), or "
        "of the sum, as in the [table of sums](protocol.md#fixed-point).",
        "quantity": "Its field; for histograms, one line per covariate.",
        "shape": "How many numbers (or rules; for `fold_rules`, of all folds) left; empty for a "
        "single number. An answer of several points holds the numbers of each.",
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


def find_kinds() -> Iterator[FindingKind]:
    """Yield every kind of finding, in the order in which a table is read and checked."""
    seen = set()
    for module in FINDING_ROOMS:
        for kind in vars(module).values():
            if isinstance(kind, FindingKind) and kind.code not in seen:
                seen.add(kind.code)
                yield kind


def make_findings() -> str:
    """Return what ``check`` can find: code, severity, words and advice."""
    rows = [
        (
            _code(kind.code),
            kind.severity,
            _template(kind.message + (f" ({kind.when})" if kind.when else "")),
            _template(kind.advice),
        )
        for kind in find_kinds()
    ]
    return make_table(["code", "severity", "what it says", "what to do"], rows)


def _template(text: str) -> str:
    """Return a template as a sentence, with the names of what is filled in in italics."""
    return re.sub(r"{(\w+)}", r"*\1*", text[:1].upper() + text[1:]) + "."


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
        "top level": modelfile.FilePart,
        "`grid[]`": modelfile.AxisPart,
        '`terms[]` of `kind = "rule"`': term_parts.RulePart,
        "`terms[].conditions[]`": term_parts.ConditionPart,
        "`terms[].held_out_sides`": term_parts.SidesPart,
        "`terms[].held_out_sides.inside`, `….outside`": term_parts.SidePart,
        "`terms[].held_out_effect`": term_parts.EffectPart,
        "`terms[].elsewhere`": term_parts.ElsewherePart,
        '`terms[]` of `kind = "linear"`': term_parts.LinearPart,
        "`wishes[]`": modelfile.WishPart,
        "`edits[]`": modelfile.EditPart,
        "`rounding`": modelfile.RoundingPart,
        "`privacy`": modelfile.PrivacyPart,
        "`provenance`": modelfile.ProvenancePart,
        "`provenance.certificate`": modelfile.CertificatePart,
        "`provenance.path[]`": modelfile.PathPart,
        "`evaluation`": modelfile.EvaluationPart,
        "`evaluation.over_time`": modelfile.OverTimePart,
        "`validation`": modelfile.ValidationPart,
    }
    tables = []
    for title, cls in parts.items():
        rows = [(_code(name), field.description or "") for name, field in cls.model_fields.items()]
        tables.append(f"**{title}**\n\n{make_table(['field', 'meaning'], rows)}")
    titles = {
        "overall": "`evaluation.overall` and each of `sites`",
        "groups": "`evaluation.groups[]`",
        "sums": "`evaluation.sums`",
        "within": "`evaluation.within`",
    }
    for kind, family in FAMILIES.items():
        words = family.judge_type.file_words
        for name, title in titles.items():
            if name in words:
                rows = [(_code(number), meaning) for number, meaning in words[name].items()]
                tables.append(
                    f'**{title}, of an outcome of the kind "{kind}"**\n\n'
                    f"{make_table(['field', 'meaning'], rows)}"
                )
    rows = [(_code(number), meaning) for number, meaning in SPREAD_WORDS.items()]
    tables.append(
        f"**{titles['overall']}, of negative binomial counts, after those of a count**\n\n"
        f"{make_table(['field', 'meaning'], rows)}"
    )
    return "\n\n".join(tables)


PARTS: Final[Mapping[str, Mapping[str, Callable[[], str]]]] = {
    "method.md": {"presets": make_presets},
    "howto-consortium.md": {
        "study-keys": make_study_keys,
        "findings": make_findings,
        "settings": make_settings,
    },
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
