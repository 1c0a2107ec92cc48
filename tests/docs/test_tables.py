"""The tables in the docs say what the code says."""

from __future__ import annotations

import dataclasses
import re

import pytest

import fedrulefit
from fedrulefit.privacy.policy import Policy
from fedrulefit.protocol import messages
from fedrulefit.study.fields import describe_keys
from tests.docs.pages import ROOT, load_script
from tests.tables import find_kinds

tables = load_script("make_tables")
names = load_script("public_names")


@pytest.mark.parametrize("page", tables.PARTS)
def test_the_tables_are_current(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert tables.fill(page, text) == text, "run: python docs/make_tables.py"


def test_every_finding_is_explained() -> None:
    """Those of all modules of the package, not only of the modules that the table lists."""
    text = (ROOT / "docs" / "howto-consortium.md").read_text(encoding="utf-8")
    section = text.partition("## What check finds")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| (error|warning) \|", section, flags=re.M)
    found = {(kind.code, kind.severity) for kind in find_kinds()}
    assert len(listed) == len(set(listed))
    assert set(listed) == found
    assert len(found) > 35, "the search for kinds of findings has gone blind"


@pytest.mark.parametrize("dotted", [n for _, listed in names.API for n in listed])
def test_every_listed_name_exists_and_is_explained(dotted: str) -> None:
    assert names.find(dotted) is not None
    assert names.tell_meaning(dotted)


def test_every_public_name_is_listed() -> None:
    listed = {n for _, part in names.API for n in part}
    assert {f"fedrulefit.{n}" for n in fedrulefit.__all__} <= listed


def test_every_key_of_the_policy_is_explained() -> None:
    meanings = {key.name: key.meaning for key in describe_keys(Policy)}
    assert set(meanings) == set(Policy.model_fields)
    assert all(words.endswith(".") for words in meanings.values())
    assert "allowed" in meanings["allow"]


def test_every_refusal_is_explained() -> None:
    """Codes that the source can answer with, against the table of the protocol."""
    text = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    section = text.partition("## Refusals")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = re.findall(r"`([a-z-]+)`", " ".join(rows))
    assert len(listed) == len(set(listed))
    assert set(listed) == set(tables.find_refusals())


def test_every_released_field_has_a_row() -> None:
    """The generator itself leaves nothing out."""
    text = tables.make_messages()
    rows = [row.split(" | ") for row in text.splitlines()]
    named: dict[str, list[str]] = {}
    for first, _, field, *_ in rows[2:]:
        name = first.strip("|` ")
        named.setdefault(name or list(named)[-1], []).append(field.strip("`"))
    assert named == {
        cls.__name__: [f.name for f in dataclasses.fields(cls) if f.name != "header"] or ["–"]
        for cls in messages.MESSAGES
    }
    for field in ("counts", "numbers", "votes", "events_inside", "known", "seed"):
        assert f"`{field}`" in text


def test_every_sum_over_patients_tells_its_unit_and_its_bound() -> None:
    text = tables.make_sums()
    for question in messages.SUM_REQUESTS:
        assert f"`{question.__name__}`" in text
        for kind in question.sums:
            assert f"`{kind.__name__}`" in text
            for name, told in kind.quantities().items():
                assert told.most
                shape, formula = told.shape or "one", told.formula.replace("|", "\\|")
                assert f"| `{name}` | {formula} | {shape} | {told.unit} | {told.most} |" in text
