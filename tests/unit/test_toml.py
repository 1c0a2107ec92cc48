"""TOML files: none ends the program, and all are explained alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedrulefit.errors import FedRuleFitError
from fedrulefit.federation.kits.charter import Charter
from fedrulefit.federation.kits.consortium import Consortium
from fedrulefit.privacy.policy import Policy
from fedrulefit.study import Study
from fedrulefit.toml import MAX_TOML, read_toml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"[" * 40 + b"]" * 40, "nested too deeply"),
        (b"a" + b".a" * 400_000 + b" = 1", "nested too deeply"),
        (b"[a" + b" . 'a'" * 100_000 + b"]", "nested too deeply"),
        (b"a" + b'.""' * 40 + b" = 1", "nested too deeply"),
        (b"a" + b".a" * 20 + b" = 1", "nested too deeply"),
        (b"a = " + b"9" * 100_000, "is not valid TOML"),
        (b"a = '\xff'", "is not UTF-8 text"),
        (b"#" * (MAX_TOML + 1), "has over 1000000 bytes"),
        (b"a" * MAX_TOML, "is not valid TOML"),
    ],
    ids=["lists", "40 lists", "key", "table", "quoted", "20 parts", "digits", "bytes", "long", "a"],
)
@pytest.mark.parametrize("load", [Study.load, Policy.load, Charter.load, Consortium.load])
def test_toml_that_would_end_the_program(
    tmp_path: Path, load: Callable[[Path], object], text: bytes, words: str
) -> None:
    """Nested lists ended it with a traceback; a key of many parts kept it busy for hours."""
    path = tmp_path / "x.toml"
    path.write_bytes(text)
    with pytest.raises(FedRuleFitError, match=words):
        load(path)


def test_plain_toml_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"# a. b. c. " + b"w. " * 20 + b"\r\n[a.b.c]\r\nd = [[0.5, 1.5]]\r\n")
    assert read_toml(path) == {"a": {"b": {"c": {"d": [[0.5, 1.5]]}}}}


def test_thousands_of_faults_are_not_all_told(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("".join(f"{'x' * 900}{k} = 1\n" for k in range(500)))
    with pytest.raises(FedRuleFitError, match="and 450 more") as caught:
        Policy.load(path)
    assert len(str(caught.value)) < 40_000


LOADS = {
    "study": Study.load,
    "policy": Policy.load,
    "charter": Charter.load,
    "consortium": Consortium.load,
}


@pytest.mark.parametrize("what", LOADS)
def test_files_of_all_kinds_are_explained_alike(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.toml"
    with pytest.raises(FedRuleFitError, match=rf"^the {what} {path} does not exist"):
        LOADS[what](path)
    with pytest.raises(FedRuleFitError, match=rf"^{tmp_path} is a folder: give the {what} itself"):
        LOADS[what](tmp_path)
    path.write_text("nonsense = 1")
    with pytest.raises(FedRuleFitError, match=rf"^{path} is not a valid {what}:\n  ") as caught:
        LOADS[what](path)
    assert "\n  nonsense: Extra inputs are not permitted" in str(caught.value)
