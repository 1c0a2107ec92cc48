"""Fixtures that several folders share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real multi-hospital tables, which the repository does not contain."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FEDRULEFIT_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real tables: set FEDRULEFIT_DATA to their folder (looked in {folder})")
    return folder
