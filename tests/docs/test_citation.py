"""CITATION.cff is what its readers (GitHub, Zenodo) take, and says what the project says."""

from __future__ import annotations

from typing import Any

import pytest

import fedrulefit
from tests.docs.pages import ROOT
from tests.docs.test_versions import PROJECT

yaml = pytest.importorskip("yaml")

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

# Of the Citation File Format 1.2.0: https://citation-file-format.github.io
REQUIRED = {"authors", "cff-version", "message", "title"}
ALLOWED = REQUIRED | {
    "abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords", "license",
    "license-url", "preferred-citation", "references", "repository", "repository-artifact",
    "repository-code", "type", "url", "version",
}  # fmt: skip
PERSON = {
    "address", "affiliation", "alias", "city", "country", "email", "family-names", "fax",
    "given-names", "name-particle", "name-suffix", "orcid", "post-code", "region", "tel", "website",
}  # fmt: skip


def test_the_file_has_the_keys_of_the_format() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert REQUIRED <= set(CITATION) <= ALLOWED
    assert CITATION["type"] in ("software", "dataset")
    texts = ("abstract", "license", "message", "title", "version")
    assert all(isinstance(CITATION[key], str) for key in texts)
    assert len(set(CITATION["keywords"])) == len(CITATION["keywords"])
    for reference in CITATION["references"]:
        assert {"authors", "title", "type"} <= set(reference)


@pytest.mark.parametrize("work", [CITATION, *CITATION["references"]], ids=lambda work: work["type"])
def test_every_work_has_authors(work: dict[str, Any]) -> None:
    """Either a group with a name, or a person."""
    assert work["authors"]
    for author in work["authors"]:
        assert set(author) == {"name"} or {"family-names"} <= set(author) <= PERSON


def test_it_says_what_the_project_says() -> None:
    facts = PROJECT["project"]
    assert CITATION["version"] == fedrulefit.__version__
    assert CITATION["title"] == facts["name"]
    assert CITATION["license"] == facts["license"]
    assert CITATION["abstract"] == facts["description"]
    assert CITATION["authors"] == facts["authors"]
    assert CITATION["keywords"] == facts["keywords"]


def test_it_names_the_paper_as_the_readme_does() -> None:
    (paper,) = CITATION["references"]
    names = ", ".join(author["family-names"] for author in paper["authors"])
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{names}: *{paper['title']}*" in readme
