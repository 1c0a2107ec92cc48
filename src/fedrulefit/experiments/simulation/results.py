"""All that a run of the simulations writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedrulefit.experiments.claims import Claim
from fedrulefit.experiments.markdown import write_texts
from fedrulefit.experiments.methods import METHODS, METRICS
from fedrulefit.experiments.scenarios import SCENARIOS
from fedrulefit.experiments.simulation.claims import check_claims
from fedrulefit.experiments.simulation.figures import draw_differences, draw_metric
from fedrulefit.experiments.simulation.tables import (
    costs_table,
    results_tables,
    sampling_table,
    summarise,
)

if TYPE_CHECKING:
    import pandas as pd


def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
    """Write tables and figures into `folder`; return the claims.

    Rows of some methods only give none of them.
    """
    if not set(METHODS) <= set(rows["method"]):
        return []
    claims = check_claims(rows)
    summarise(rows).to_csv(folder / "summary.csv", index=False)
    texts = {
        "tables.md": results_tables(rows),
        "sampling.md": sampling_table(rows),
        "costs.md": costs_table(rows),
    }
    write_texts(folder, texts)
    for scenario in SCENARIOS:
        draw_differences(rows, scenario).savefig(folder / f"figure2-scenario{scenario}.png")
    for metric in METRICS:
        draw_metric(rows, metric).savefig(folder / f"appendix3-{metric}.png")
    return claims
