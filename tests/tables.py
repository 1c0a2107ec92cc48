"""A small study and tables that fit it or do not, and every kind of finding there is."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import fedrulefit.table
from fedrulefit.study import Study
from fedrulefit.table.check import inspect_table
from fedrulefit.table.findings import FindingKind

N = 40


def make_study(**changes: Any) -> Study:
    facts: dict[str, Any] = {
        "name": "test",
        "outcome": {"column": "died"},
        "covariates": {
            "age": {"kind": "number", "range": [0, 110], "unit": "years"},
            "kind of injury": {"kind": "category", "levels": ["fall", "car", "other"]},
            "female": {"kind": "yes/no"},
        },
    }
    return Study.from_mapping({**facts, **changes})


def make_columns(**changes: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "age": [float(20 + i) for i in range(N)],
        "kind of injury": ["fall", "car"] * (N // 2),
        "female": [0, 1, 1, 0] * (N // 4),
        "died": [0, 0, 0, 1] * (N // 4),
    }
    return {**columns, **changes}


def codes(source: Any, study: Study | None = None, **options: Any) -> dict[str, str]:
    """Return code → severity of every finding."""
    inspection = inspect_table(source, study or make_study(), **options)
    assert (inspection.table is None) == bool(inspection.errors)
    return {finding.code: finding.severity for finding in inspection.findings}


def write_csv(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def find_kinds() -> Iterator[FindingKind]:
    """Yield every kind of finding that any module of the package declares."""
    for module in pkgutil.iter_modules(fedrulefit.table.__path__):
        declared = vars(import_module(f"fedrulefit.table.{module.name}")).values()
        yield from (kind for kind in declared if isinstance(kind, FindingKind))
