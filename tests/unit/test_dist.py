"""What ``make dist`` demands of a wheel and a source distribution."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools import dist

METADATA = f"Metadata-Version: 2.4\nName: fedrulefit\nVersion: {dist.fedrulefit.__version__}\n\n"
WHEEL = {*dist.list_package(), f"{dist.NAME}.dist-info/METADATA", f"{dist.NAME}.dist-info/RECORD"}
SDIST = {f"{dist.NAME}/src/{name}" for name in dist.list_package()} | {
    f"{dist.NAME}/{name}" for name in dist.IN_SDIST
}


def test_the_package_has_more_than_modules() -> None:
    report = {f"fedrulefit/report/page.{kind}" for kind in ("html", "css", "js")}
    assert {"fedrulefit/py.typed", "fedrulefit/__init__.py", *report} <= dist.list_package()


def test_whole_distributions_have_no_faults() -> None:
    assert dist.check_wheel(WHEEL, METADATA.encode()) == []
    assert dist.check_sdist(SDIST) == []


@pytest.mark.parametrize("name", ["fedrulefit/py.typed", "fedrulefit/report/page.js"])
def test_what_is_missing_is_named(name: str) -> None:
    assert dist.check_wheel(WHEEL - {name}, METADATA.encode()) == [f"the wheel lacks {name}"]
    faults = dist.check_sdist(SDIST - {f"{dist.NAME}/src/{name}"})
    assert faults == [f"the source distribution lacks src/{name}"]


@pytest.mark.parametrize("name", ["tests/conftest.py", "benchmarks/run.py", "docs/conf.py"])
def test_what_does_not_belong_in_a_wheel_is_named(name: str) -> None:
    assert dist.check_wheel(WHEEL | {name}, METADATA.encode()) == [f"the wheel holds {name}"]


def test_data_beside_the_code_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    files = dist.list_package() | {"fedrulefit/patients.csv"}
    monkeypatch.setattr(dist, "list_package", lambda: files)
    faults = dist.check_wheel(WHEEL | {"fedrulefit/patients.csv"}, METADATA.encode())
    assert faults == ["the wheel holds data: fedrulefit/patients.csv"]


def test_a_wheel_of_another_version_is_refused() -> None:
    (fault,) = dist.check_wheel(WHEEL, METADATA.replace("\nVersion: ", "\nVersion: 9").encode())
    assert "version 9" in fault


@pytest.mark.parametrize("names", [(), ("a.whl", "b.whl")], ids=["none", "two"])
def test_old_distributions_are_not_mistaken(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(SystemExit, match="make dist"):
        dist.find_one(tmp_path, "*.whl")


def test_a_failing_command_stops_with_its_words(tmp_path: Path) -> None:
    assert dist.run([sys.executable, "-c", "print('fine')"], tmp_path) == "fine\n"
    with pytest.raises(SystemExit, match=r"(?s)not this.*failed with 3"):
        dist.run([sys.executable, "-c", "print('not this'); raise SystemExit(3)"], tmp_path)
