"""Table 1, the numbers of figure 3, and the splits, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.experiments.markdown import make_table
from fedrulefit.experiments.methods import METHODS
from fedrulefit.experiments.trauma.repetitions import COMPARED, COVARIATES
from fedrulefit.experiments.trauma.separation import MIN_SUPPORT, TOP
from fedrulefit.model import Model

if TYPE_CHECKING:
    import pandas as pd


def rules_table(model: Model) -> str:
    """Return table 1 as Markdown: exp(coef), importance (first = 100), support."""
    frame = model.rules_frame(top=TOP, min_support=MIN_SUPPORT)
    largest = frame["importance"].max()
    rows = [
        (
            f"Rule {place}",
            row["rule"],
            f"{row['odds_ratio']:.2f}",
            f"{100 * row['importance'] / largest:.0f}",
            f"{row['support']:.2f}",
        )
        for place, row in enumerate(frame.to_dict("records"), start=1)
    ]
    return make_table(("", "rule", "exp(coef)", "importance", "support"), rows)


def subgroups_table(model: Model) -> str:
    """Return the numbers of figure 3 as Markdown."""
    rows = [
        (
            row["rule"],
            f"{row['inside']:.0f}, {100 * row['rate_inside']:.0f} %",
            f"{row['outside']:.0f}, {100 * row['rate_outside']:.0f} %",
        )
        for row in top_subgroups(model).to_dict("records")
    ]
    return make_table(
        ("rule", "training patients inside, mortality", "training patients outside, mortality"),
        rows,
    )


def top_subgroups(model: Model) -> pd.DataFrame:
    """Return patients and mortality inside and outside the rules that are shown."""
    return model.subgroups_frame(top=TOP, min_support=MIN_SUPPORT)


def splits_table(rows: pd.DataFrame) -> str:
    """Return AUC, rules and importances over the splits, as Markdown."""
    lines = []
    for name in COMPARED:
        here = rows[rows["method"] == name]
        auc, n_rules = here["auc"].to_numpy(), here["rules"].mean()
        sd = auc.std(ddof=1)
        lines.append(
            (
                METHODS[name].label,
                f"{np.median(auc):.4f}",
                f"{auc.mean():.4f} ({sd:.4f})",
                "–" if np.isnan(n_rules) else f"{n_rules:.0f}",
                *(f"{here[covariate].mean():.0f}" for covariate in COVARIATES),
            )
        )
    head = ("method", "median AUC", "mean AUC (SD over splits)", "rules", *COVARIATES)
    return make_table(head, lines)
