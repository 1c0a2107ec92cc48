"""Any table → a site's patients as numbers, checked against the study.

``sources`` (and ``csv_file``, ``parquet_file``, ``frames``) → raw ``columns`` → ``cells`` →
``check`` (``header``, ``covariates``, ``outcome``, ``weights``, ``patient_column``, each with its
``findings``) → ``patients``. ``infer`` and ``draft`` go the other way: from a table to a study.

Names load when first used: a process that only computes on a :class:`Table` never loads
what reads files and data frames.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedrulefit.table.check import Inspection, inspect_table, load_table
    from fedrulefit.table.findings import Finding
    from fedrulefit.table.patients import Table

_HOMES = {
    "Finding": "fedrulefit.table.findings",
    "Inspection": "fedrulefit.table.check",
    "Table": "fedrulefit.table.patients",
    "inspect_table": "fedrulefit.table.check",
    "load_table": "fedrulefit.table.check",
}

__all__ = ["Finding", "Inspection", "Table", "inspect_table", "load_table"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fedrulefit.table' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
