"""Databases for tests of SQL: DuckDB and SQLite in memory, PostgreSQL as a server of its own.

PostgreSQL is started from the programs on this machine (Debian: ``apt install
postgresql``) in a temporary folder, without a network port. It is spoken to
through ``psql``, so no driver is needed.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

TYPES = {
    "duckdb": {"text": "VARCHAR", "number": "DOUBLE", "whole": "BIGINT", "boolean": "BOOLEAN"},
    "sqlite": {"text": "TEXT", "number": "REAL", "whole": "INTEGER", "boolean": "BOOLEAN"},
    "postgresql": {
        "text": "text",
        "number": "float8",
        "whole": "bigint",
        "boolean": "boolean",
    },
}


@dataclass(frozen=True)
class Column:
    """A column of a test's table: its kind (a key of ``TYPES``, or a type) and its cells."""

    kind: str
    cells: Sequence[Any]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def create_table(dialect: str, columns: Mapping[str, Column], table: str) -> str:
    types = TYPES[dialect]
    listed = ", ".join(f"{quoted(n)} {types.get(c.kind, c.kind)}" for n, c in columns.items())
    return f"CREATE TABLE {quoted(table)} ({listed})"


class InMemory:
    """DuckDB or SQLite."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect

    def run(
        self, query: str, columns: Mapping[str, Column], table: str = "patients"
    ) -> list[dict[str, Any]]:
        """Make the table, run the query, return its rows."""
        connection: Any = (
            duckdb.connect() if self.dialect == "duckdb" else sqlite3.connect(":memory:")
        )
        try:
            connection.execute(create_table(self.dialect, columns, table))
            marks = ", ".join("?" * len(columns))
            rows = list(zip(*(column.cells for column in columns.values()), strict=True))
            connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({marks})", rows)  # noqa: S608
            cursor = connection.execute(query)
            names = [entry[0] for entry in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        finally:
            connection.close()


@dataclass(frozen=True)
class PostgreSQL:
    """A running server."""

    psql: str
    folder: Path
    user: str | None
    dialect: str = "postgresql"

    def run(
        self, query: str, columns: Mapping[str, Column], table: str = "patients"
    ) -> list[dict[str, Any]]:
        """Make the table, run the query, return its rows (numbers as floats)."""
        script = "\n".join(
            [
                create_table(self.dialect, columns, table).replace("CREATE", "CREATE TEMP") + ";",
                f"COPY {quoted(table)} FROM STDIN WITH (FORMAT csv, NULL '\\N');",
                *self._lines(columns),
                "\\.",
                f"COPY (\n{query}\n) TO STDOUT WITH (FORMAT csv, HEADER, NULL '\\N');",
                "",
            ]
        )
        rows = csv.DictReader(io.StringIO(self.execute(script), newline=""))
        return [{name: _from_text(cell) for name, cell in row.items()} for row in rows]

    def execute(self, script: str) -> str:
        command = [self.psql, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder)]
        done = subprocess.run(  # noqa: S603
            [*command, "-U", "tester", "postgres"],
            input=script.encode(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return done.stdout.decode()

    def _lines(self, columns: Mapping[str, Column]) -> Iterator[str]:
        for row in zip(*(column.cells for column in columns.values()), strict=True):
            yield ",".join(_to_csv(cell) for cell in row)


def _to_csv(cell: Any) -> str:
    if cell is None:
        return "\\N"
    text = repr(cell) if isinstance(cell, float) else str(cell)
    return '"' + text.replace('"', '""') + '"'


def _from_text(cell: str) -> Any:
    if cell == "\\N":
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _find(program: str) -> str | None:
    """Debian keeps the server's programs off the path."""
    newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), reverse=True)
    return shutil.which(program) or next((str(path) for path in newest), None)


def why_no_postgresql() -> str | None:
    """Return why PostgreSQL cannot be tested here, or None."""
    lacking = [name for name in ("initdb", "postgres", "psql") if _find(name) is None]
    if lacking:
        return f"PostgreSQL is not installed: no {', '.join(lacking)} found"
    if os.name == "posix" and os.geteuid() == 0 and _plain_user() is None:
        return "PostgreSQL does not run as root, and there is no user 'postgres' or 'nobody'"
    return None


def _plain_user() -> str | None:
    import pwd

    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


@contextmanager
def start_postgresql() -> Iterator[PostgreSQL]:
    """Run a server in a temporary folder; it ends with the block."""
    initdb, postgres, psql = (_find(name) for name in ("initdb", "postgres", "psql"))
    assert initdb and postgres and psql  # noqa: PT018
    user = _plain_user() if os.geteuid() == 0 else None
    # Not pytest's folder: the path of a socket must be short.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    if user is not None:
        shutil.chown(folder, user)
    options: dict[str, Any] = {} if user is None else {"user": user}
    data = folder / "data"
    subprocess.run(  # noqa: S603
        [initdb, "-D", str(data), "-U", "tester", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"],
        check=True,
        capture_output=True,
        cwd=folder,
        **options,
    )
    server = subprocess.Popen(  # noqa: S603
        [postgres, "-D", str(data), "-k", str(folder), "-h", "", "-F"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        **options,
    )
    try:
        database = PostgreSQL(psql, folder, user)
        _wait(database, server)
        yield database
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(database: PostgreSQL, server: subprocess.Popen[bytes]) -> None:
    import time

    for _ in range(300):
        try:
            database.execute("SELECT 1;")
        except RuntimeError:
            if server.poll() is not None:
                raise
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the PostgreSQL server does not answer")
