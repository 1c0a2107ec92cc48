"""All that a run over bins and quantiles writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedrulefit.experiments.claims import Claim
from fedrulefit.experiments.cutoffs.claims import check_claims
from fedrulefit.experiments.cutoffs.figures import draw_summary
from fedrulefit.experiments.cutoffs.tables import results_table, summarise
from fedrulefit.experiments.markdown import write_texts

if TYPE_CHECKING:
    import pandas as pd


def write_results(rows: pd.DataFrame, folder: Path) -> list[Claim]:
    """Write table and figure into `folder`; return the claims."""
    summary = summarise(rows)
    claims = check_claims(rows)
    summary.to_csv(folder / "summary.csv", index=False)
    write_texts(folder, {"tables.md": results_table(summary)})
    draw_summary(summary).savefig(folder / "appendix2.png")
    return claims
