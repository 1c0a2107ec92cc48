"""A version is stated in one place of the code, and what the documents say of it is true."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib

import pytest
from typer.testing import CliRunner

import fedrulefit
from fedrulefit.cli.app import app
from fedrulefit.model import file as model_file
from fedrulefit.protocol import messages
from tests.docs.pages import PAGES, ROOT, name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROTOCOL = re.compile(r"protocol(?:\s+is)?(?:\s+version\s+|,\s+now\s+)(\d+)", re.IGNORECASE)
MODEL_FILE = re.compile(
    r"(?:model\s+files\s+have\s+version|this format, now)\s+(\d+)", re.IGNORECASE
)


def read_newest() -> tuple[str, str]:
    """Return the newest version of the CHANGELOG, and what it says of it."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(r"^## \[(?P<version>[^]]+)\]", text, flags=re.MULTILINE)
    assert heading is not None
    return heading["version"], text[heading.end() :].partition("\n## ")[0]


def test_the_package_states_its_version_once() -> None:
    """In the package itself, as plain text: asking the installed metadata takes time."""
    assert "version" not in PROJECT["project"]
    text = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'__version__ = "{fedrulefit.__version__}"\n' in text


def test_all_who_tell_the_version_agree() -> None:
    shown = CliRunner().invoke(app, ["--version"]).output
    assert shown == f"fedrulefit {fedrulefit.__version__}\n"
    installed = importlib.metadata.version("fedrulefit")
    assert installed == fedrulefit.__version__, "installed from another version: make test"
    assert read_newest()[0] == fedrulefit.__version__


@pytest.mark.parametrize(
    ("pattern", "version"),
    [(PROTOCOL, messages.PROTOCOL_VERSION), (MODEL_FILE, model_file.VERSION)],
    ids=["protocol", "model file"],
)
def test_the_documents_name_the_versions_of_the_code(
    pattern: re.Pattern[str], version: int
) -> None:
    """The CHANGELOG said protocol 2 while the code had 3."""
    assert pattern.findall(read_newest()[1]) == [str(version)], "say it once for a release"
    said = {
        name(page): pattern.findall(page.read_text(encoding="utf-8"))
        for page in PAGES
        if page.name != "CHANGELOG.md"
    }
    assert any(said.values()), "the search has gone blind"
    assert {page: found for page, found in said.items() if set(found) - {str(version)}} == {}


def test_the_documents_name_the_version_of_flare() -> None:
    (wanted,) = PROJECT["project"]["optional-dependencies"]["flare"]
    text = (ROOT / "docs" / "howto-consortium.md").read_text(encoding="utf-8")
    (pinned,) = re.findall(r"pinned to ([\d.]+\d)", text)
    assert wanted.startswith(f"nvflare>={pinned},<")


def test_every_dependency_has_its_line_in_the_lock() -> None:
    """What read workbooks, and pages of PDF, was in whatever version came."""
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["project"]["dependencies"],
        *(line for lines in extras.values() for line in lines),
    ]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = {_package(line) for line in lock.splitlines()}
    assert {_package(line) for line in wanted} - locked == {"fedrulefit"}


def _package(requirement: str) -> str:
    """Return the name of a package as indexes spell it."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()
