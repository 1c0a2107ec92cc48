"""The databases that the queries must run on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.databases import InMemory, start_postgresql, why_no_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Any]:
    reason = why_no_postgresql()
    if reason is not None:
        pytest.skip(reason)
    with start_postgresql() as database:
        yield database


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    return InMemory(request.param)
