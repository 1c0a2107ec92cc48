"""``make dist`` asks whether wheel and source distribution are whole, and the wheel works alone.

In: a folder with one wheel and one source distribution. The wheel must hold the files of
``src`` and nothing else. It is installed into a new environment, in a folder of its own, where
neither the checkout nor its environment can be seen; there the demo runs, and its model
predicts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from email.parser import BytesParser
from pathlib import Path
from typing import Final

import fedrulefit

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "src" / "fedrulefit"
NAME: Final = f"fedrulefit-{fedrulefit.__version__}"

IN_SDIST: Final = (
    "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md",
    "SECURITY.md", "docs/index.md", "pyproject.toml", "requirements.lock", "tests/conftest.py",
)  # fmt: skip
"""What a source distribution holds beside the package, among others."""

DATA: Final = (".csv", ".toml", ".parquet", ".sqlite", ".jsonl", ".pem")
"""Endings of what a hospital has: none may be in a wheel."""

PROGRAM: Final = """
import sys
from pathlib import Path
import fedrulefit
here, demo = map(Path, sys.argv[1:])
assert Path(fedrulefit.__file__).is_relative_to(here), "not the wheel's package"
model = fedrulefit.Model.load(demo / "model.json")
assert len(model.predict_proba(demo / "rural.csv")) > 0
"""


def find_one(folder: Path, pattern: str) -> Path:
    """Return the only file in `folder` that fits `pattern`."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{folder} holds {len(found)} files {pattern}, not one: make dist")
    return found[0]


def list_package() -> set[str]:
    """Return the files of the package, as a wheel names them."""
    files = (path for path in SOURCE.rglob("*") if path.is_file())
    names = {path.relative_to(SOURCE.parent).as_posix() for path in files}
    return {name for name in names if "__pycache__" not in name}


def check_wheel(names: Iterable[str], metadata: bytes) -> list[str]:
    """Return what is wrong with a wheel of these files."""
    inside = {name for name in names if not name.startswith(f"{NAME}.dist-info/")}
    expected = list_package()
    faults = [f"the wheel lacks {name}" for name in sorted(expected - inside)]
    faults += [f"the wheel holds {name}" for name in sorted(inside - expected)]
    faults += [f"the wheel holds data: {name}" for name in sorted(inside) if name.endswith(DATA)]
    told = BytesParser().parsebytes(metadata)["Version"]
    if told != fedrulefit.__version__:
        faults.append(f"the wheel is of version {told}, the package of {fedrulefit.__version__}")
    return faults


def check_sdist(names: Iterable[str]) -> list[str]:
    """Return what is wrong with a source distribution of these files."""
    inside = set(names)
    expected = {f"src/{name}" for name in list_package()} | set(IN_SDIST)
    missing = sorted(name for name in expected if f"{NAME}/{name}" not in inside)
    return [f"the source distribution lacks {name}" for name in missing]


def check_contents(wheel: Path, sdist: Path) -> list[str]:
    """Return what is wrong with the contents of both."""
    with zipfile.ZipFile(wheel) as file:
        faults = check_wheel(file.namelist(), file.read(f"{NAME}.dist-info/METADATA"))
    with tarfile.open(sdist) as file:
        return faults + check_sdist(file.getnames())


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel in an environment in `folder`, and use it from there."""
    home, demo = folder / "environment", folder / "demo"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    program = python.with_name("fedrulefit")
    uv = (sys.executable, "-m", "uv")
    lock = ROOT / "requirements.lock"
    run([*uv, "venv", "--quiet", "--python", sys.executable, home], folder)
    run([*uv, "pip", "install", "--quiet", "--python", python, "-c", lock, wheel], folder)
    shown = run([program, "--version"], folder).strip()
    if shown != f"fedrulefit {fedrulefit.__version__}":
        raise SystemExit(f"the wheel's program says {shown!r}")
    run([program, "demo", "--output", demo], folder)
    run([python, "-c", PROGRAM, home, demo], folder)


def run(command: list[str | Path], folder: Path) -> str:
    """Run a command in `folder`, without what this environment tells Python; return its words."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    print("$", *(str(part).strip().partition("\n")[0] for part in command), flush=True)
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nfailed with {done.returncode}")
    return done.stdout


def main() -> None:
    """Check the distributions in the folder that is named."""
    folder = Path(sys.argv[1])
    wheel, sdist = find_one(folder, "*.whl"), find_one(folder, "*.tar.gz")
    faults = check_contents(wheel, sdist)
    if faults:
        raise SystemExit("\n".join(faults))
    with tempfile.TemporaryDirectory(prefix="fedrulefit-wheel-") as place:
        try_wheel(wheel.resolve(), Path(place))
    print(f"{wheel.name} and {sdist.name} are whole; the demo runs from the wheel alone.")


if __name__ == "__main__":
    main()
