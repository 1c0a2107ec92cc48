"""Everything imports without what only POSIX systems have; a hospital's processes say so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.carrier import sandbox

POSIX = ["fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog", "readline"]

PROGRAM = f"""
import sys
for name in {POSIX}:
    sys.modules[name] = None  # importing it fails, as on Windows
import pkgutil, importlib, fedrulefit
found = pkgutil.walk_packages(fedrulefit.__path__, "fedrulefit.")
for module in found:
    skipped = ("fedrulefit.__main__", "fedrulefit.federation.carrier.__main__")
    if module.name not in skipped and not module.name.startswith("fedrulefit.federation.flare."):
        importlib.import_module(module.name)
for name in fedrulefit.__all__:
    getattr(fedrulefit, name)
from fedrulefit.cli.app import app
from fedrulefit.cli.console import whoami
whoami()
"""


def test_every_module_imports_without_what_only_posix_has() -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_command_line_says_its_help_without_them() -> None:
    code = f"import sys\nfor name in {POSIX}: sys.modules[name] = None\n"
    code += "from fedrulefit.cli.app import app\napp(['site', 'start', '--help'])"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "hospital" in done.stdout


def test_a_hospital_s_process_says_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "os", type("Windows", (), {"name": "nt"}))
    with pytest.raises(FederationError, match="hospitals' processes run on Linux or macOS"):
        sandbox.need_posix()
