"""How much memory a table may take, and DuckDB held to it.

A small file can hold a large table: a text of 100 kB, repeated, takes a few bytes
in Parquet. So what a table will take is computed before it is read, from its numbers
of rows and columns and the lengths of its texts, and one over :func:`table_limit`
is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedrulefit.errors import DataError
from fedrulefit.table.findings import UnreadableError, error

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LIMIT: Final = "FEDRULEFIT_MAX_TABLE_MB"
"""Name of the environment variable that says how much memory a table may take."""

DEFAULT_LIMIT: Final = 4096

TEXT_CELL: Final = 64
"""Bytes that a cell of text takes beyond its characters."""

TOO_LARGE: Final = error(
    "too-large",
    "{path} {how}, of at most {limit} MB",
    "leave out columns and texts that the study does not need, or raise the limit by "
    f"setting the environment variable {LIMIT}",
    when=f"{DEFAULT_LIMIT} MB, unless set otherwise",
)


def table_limit() -> int:
    """Return how many bytes a table may take in memory."""
    text = os.environ.get(LIMIT, str(DEFAULT_LIMIT))
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise DataError(f"the environment variable {LIMIT} must be a number of megabytes")
    return int(text) * 10**6


def check_memory(path: Path, needed: int) -> None:
    """Refuse a table that would take too much memory, before it is read."""
    if needed > table_limit():
        raise _too_large(path, f"would take about {needed / 1e6:,.0f} MB of memory")


def _too_large(path: Path, how: str) -> UnreadableError:
    return UnreadableError(TOO_LARGE.of(path=path, how=how, limit=f"{table_limit() / 1e6:,.0f}"))


@contextmanager
def open_duckdb(path: Path) -> Iterator[DuckDBPyConnection]:
    """Open DuckDB in memory to read a file: no spill to disk, nothing fetched from the network."""
    import duckdb

    connection = duckdb.connect(
        config={
            "temp_directory": "",
            "memory_limit": f"{max(table_limit() // 10**6, 64)}MB",
            "threads": "2",  # each has buffers of its own
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
    )
    try:
        connection.execute("SET enable_progress_bar = false")
        yield connection
    except duckdb.OutOfMemoryException:
        raise _too_large(path, "takes too much memory") from None
    finally:
        connection.close()
