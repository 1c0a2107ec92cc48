"""Figure 2 and appendix 3: box plots over repetitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fedrulefit.experiments import boxes
from fedrulefit.experiments.methods import METHODS, METRICS, REFERENCE
from fedrulefit.experiments.scenarios import MODELS, SCENARIOS, TITLES
from fedrulefit.experiments.simulation.cells import reference_values

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_DRAWN: Final = {name: method for name, method in METHODS.items() if method.drawn}


def draw_differences(rows: pd.DataFrame, scenario: int) -> Figure:
    """Draw a panel of figure 2: differences to centralised RuleFit."""
    here = rows[(rows["scenario"] == scenario) & (rows["method"] != REFERENCE)]
    changes = {m: here[m] - reference_values(rows, m)[here.index] for m in METRICS}
    changed = here.assign(**changes).dropna(subset=list(METRICS))
    panels = [
        boxes.Panel(
            f"Model {model} ({kind}): {label}",
            changed[changed["model"] == model],
            metric,
            [s.name for s in SCENARIOS[scenario]],
        )
        for model, kind in MODELS.items()
        for metric, label in METRICS.items()
    ]
    title = f"Scenario {scenario}, {TITLES[scenario]}: difference to centralised RuleFit"
    styles = {name: method for name, method in _DRAWN.items() if name != REFERENCE}
    return boxes.draw(panels, title, styles, columns=len(METRICS), zero=True)


def draw_metric(rows: pd.DataFrame, metric: str) -> Figure:
    """Draw a page of appendix 3: one metric in all scenarios."""
    panels = [
        boxes.Panel(
            f"Scenario {scenario}, model {model} ({kind})",
            rows[(rows["scenario"] == scenario) & (rows["model"] == model)],
            metric,
            [s.name for s in SCENARIOS[scenario]],
        )
        for model, kind in MODELS.items()
        for scenario in SCENARIOS
    ]
    return boxes.draw(panels, METRICS[metric], _DRAWN, columns=len(SCENARIOS))
