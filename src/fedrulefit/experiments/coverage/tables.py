"""Coverage by patients and events, for a file and as Markdown."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.experiments.coverage.repetitions import INTERVALS
from fedrulefit.experiments.markdown import make_table

if TYPE_CHECKING:
    import pandas as pd

_COUNTS: Final = ["asked", "told", "held", "width"]

TOLD: Final = 0.5
"""What is told less often than this is too few: who is told of then is not as the others are."""


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, its Monte-Carlo error, mean width and the share that is not told.

    By interval, patients and events, over AUCs and models; ``lowest`` and ``highest`` are the
    coverage of a single AUC and model. Those of which less than half is told count as not told.
    The error is over blocks of draws, as groups of the same patients are not independent.
    """
    import pandas as pd

    found = []
    for name in INTERVALS:
        own = rows[rows["interval"] == name]
        for (patients, events), part in own.groupby(["patients", "events"]):
            asked = part["asked"].sum()
            cells = part.groupby(["area", "model"])[_COUNTS].sum()
            cells = cells[cells["told"] >= TOLD * cells["asked"]]
            known = part.set_index(["area", "model"]).loc[cells.index]
            told, held, width = known[_COUNTS[1:]].sum()
            single = cells["held"] / cells["told"]
            off = known["held"] - known["told"] * (held / told if told else np.nan)
            found.append(
                {
                    "interval": name,
                    "patients": patients,
                    "events": events,
                    "coverage": held / told if told else np.nan,
                    "error": float(np.sqrt((off**2).sum()) / told) if told else np.nan,
                    "lowest": single.min(),
                    "highest": single.max(),
                    "width": width / told if told else np.nan,
                    "too_few": 1 - part["told"].sum() / asked,
                }
            )
    return pd.DataFrame(found)


def coverage_table(summary: pd.DataFrame) -> str:
    """Return the table as Markdown."""
    head = (
        "interval", "patients", "with the outcome", "coverage", "by AUC and model", "mean width",
        "not told",
    )  # fmt: skip
    return make_table(head, [_tell(row) for row in summary.to_dict("records")])


def _tell(row: dict[Hashable, Any]) -> list[str]:
    start = [str(row["interval"]), f"{row['patients']:,.0f}", f"{row['events']:.0f}"]
    silent = f"{100 * row['too_few']:.0f} %"
    if np.isnan(row["lowest"]):
        return [*start, "too few", "–", "–", silent]
    return [
        *start,
        f"{row['coverage']:.3f} ± {row['error']:.3f}",
        f"{row['lowest']:.3f} to {row['highest']:.3f}",
        f"{row['width']:.3f}",
        silent,
    ]
