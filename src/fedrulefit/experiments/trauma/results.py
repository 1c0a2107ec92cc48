"""All that a run on the trauma patients writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fedrulefit.experiments.claims import Claim
from fedrulefit.experiments.markdown import write_texts
from fedrulefit.experiments.methods import METHODS
from fedrulefit.experiments.trauma.claims import check_claims
from fedrulefit.experiments.trauma.figures import draw_splits, draw_subgroups
from fedrulefit.experiments.trauma.tables import rules_table, splits_table, subgroups_table
from fedrulefit.model import Model

if TYPE_CHECKING:
    import pandas as pd


def write_results(rows: pd.DataFrame, models: Mapping[str, Model], folder: Path) -> list[Claim]:
    """Write models, tables and figures into `folder`; return the claims."""
    claims = check_claims(rows, models)
    for name, model in models.items():
        model.save(folder / f"model-{name}.json")
        draw_subgroups(model).savefig(folder / f"figure3-{name}.png")
    tables = [("Splits", splits_table(rows))]
    for name, model in models.items():
        tables.append((f"Table 1, {METHODS[name].label}", rules_table(model)))
        tables.append((f"Figure 3, {METHODS[name].label}", subgroups_table(model)))
    text = "\n\n".join(f"**{title}**\n\n{table}" for title, table in tables)
    write_texts(folder, {"tables.md": text})
    draw_splits(rows).savefig(folder / "figure4.png")
    return claims
