"""What section 5 says of appendix 2, checked one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.experiments.claims import MARGIN, Claim, Mean, Verdict, judge
from fedrulefit.experiments.cutoffs.repetitions import CHOSEN, NONE, OWN
from fedrulefit.experiments.methods import METRICS
from fedrulefit.experiments.scenarios import MODELS

if TYPE_CHECKING:
    import pandas as pd

SUBSTANTIAL: Final = 0.25
"""What must be saved at least for "substantially"."""


def check_claims(rows: pd.DataFrame) -> list[Claim]:
    """Check what section 5 says of appendix 2, at the paper's own B and Q."""
    points = _Points(rows)
    bins, quantiles = CHOSEN
    least = f"at least {SUBSTANTIAL:.0%}".replace("%", " %")
    return [
        Claim(
            f"About 20 cut-offs perform like no histogram [B = {bins}, Q = {quantiles} against "
            f"pooled values that clients share: mean differences within ± {MARGIN}]",
            _check_alike(points),
        ),
        Claim(
            f"… with substantially fewer rule terms [{least}: rules kept]",
            _check_fewer(points, "rules"),
        ),
        Claim(f"… [{least}: candidate rules]", _check_fewer(points, "candidates")),
        Claim(
            f"… [{least}: candidate rules, against clients that split at values of their own]",
            _check_fewer(points, "candidates", OWN),
        ),
        Claim(
            f"… at a substantially lower computational cost [{least}: seconds]",
            _check_fewer(points, "seconds"),
        ),
    ]


class _Points:
    """The rows by model, B and Q."""

    def __init__(self, rows: pd.DataFrame) -> None:
        ordered = rows.sort_values("repetition", kind="stable")
        self._parts = dict(iter(ordered.groupby(["model", "bins", "quantiles"])))

    def pair(self, model: int, column: str, other: tuple[int, int] = NONE) -> tuple[Floats, Floats]:
        """Return one number per repetition, with the paper's histogram and without."""
        chosen, none = (self._parts[(model, *point)][column] for point in (CHOSEN, other))
        return chosen.to_numpy(np.float64), none.to_numpy(np.float64)


def _check_alike(points: _Points) -> Verdict:
    gaps = {
        f"model {model}, {label}": Mean.of(np.subtract(*points.pair(model, metric)))
        for model in MODELS
        for metric, label in METRICS.items()
    }
    return Verdict(
        judge(gap.room(MARGIN) for gap in gaps.values()),
        "; ".join(f"{place}: {gap.words()}" for place, gap in gaps.items()),
    )


def _check_fewer(points: _Points, column: str, other: tuple[int, int] = NONE) -> Verdict:
    margins, words = [], []
    for model in MODELS:
        chosen, none = points.pair(model, column, other)
        margins.append(Mean.of((1 - SUBSTANTIAL) * none - chosen))
        less = Mean.of(none - chosen)
        share = 100 / none.mean()
        words.append(
            f"model {model}: {chosen.mean():.3g} against {none.mean():.3g}, "
            f"{less.mean * share:.0f} ± {less.error * share:.0f} % less"
        )
    return Verdict(judge(margins), "; ".join(words))
