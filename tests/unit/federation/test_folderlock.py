"""A folder is one process's, as long as it lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedrulefit.errors import FederationError
from fedrulefit.federation.folderlock import is_held, lock_folder

HOLD = """
import subprocess, sys
from pathlib import Path
from fedrulefit.federation.folderlock import lock_folder
lock = lock_folder(Path(sys.argv[1]))
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
print("held", flush=True)
input()
"""


def test_a_folder_is_held_until_its_process_is_killed(tmp_path: Path) -> None:
    """A program that it started, such as a carrier, goes on: it holds nothing."""
    holder = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline()
    with pytest.raises(FederationError, match="another process uses"):
        lock_folder(tmp_path)
    assert is_held(tmp_path)
    assert int((tmp_path / "lock").read_text()) == holder.pid, "who tried in vain changes nothing"
    holder.kill()
    holder.wait(10)
    assert not is_held(tmp_path)
    lock_folder(tmp_path).close()


def test_a_folder_is_free_again_when_it_is_let_go_of(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        with pytest.raises(FederationError, match="another process uses"):
            lock_folder(tmp_path)
        assert is_held(tmp_path)
    lock_folder(tmp_path).close()
