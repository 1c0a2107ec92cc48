"""Fixtures that several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# The same examples in every run, however busy the machine is: no test fails by chance.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Two workers on two cores: threads of BLAS would wait for one another."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def study_path(tmp_path: Path) -> Path:
    """The file of a study for the exact solver."""
    from tests.federations import write_study
    from tests.samples import SOLVERS, study_facts

    path = tmp_path / "study.toml"
    write_study(study_facts(epsilon=1.0, **SOLVERS["exact"]), path)
    return path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real multi-hospital tables, which the repository does not contain."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FEDRULEFIT_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no real tables: set FEDRULEFIT_DATA to their folder (looked in {folder})")
    return folder
