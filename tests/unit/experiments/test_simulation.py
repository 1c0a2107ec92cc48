"""Tables, differences and verdicts from rows whose truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from fedrulefit.experiments import simulation
from fedrulefit.experiments.methods import METHODS, METRICS, OURS, PROPOSED, REFERENCE, Effort
from fedrulefit.experiments.scenarios import MODELS, SCENARIOS

LEVEL = {
    REFERENCE: 0.95,
    "centralised-fixed": 0.94,
    PROPOSED: 0.945,
    OURS: 0.96,
    "local": 0.9,
    "bfi": 0.8,
    "forest": 0.93,
}


def make_rows(changes: dict[tuple[object, ...], float] | None = None) -> pd.DataFrame:
    """Rows in which all that the paper claims is true, with `changes` by place."""
    rows = []
    for scenario, model, repetition in itertools.product(SCENARIOS, MODELS, range(4)):
        noise = 0.001 * repetition
        for name, method in METHODS.items():
            settings = [simulation.ALL] if method.pooled else [s.name for s in SCENARIOS[scenario]]
            for place, setting in enumerate(settings):
                value = LEVEL[name] + noise
                if name == "local":
                    value -= 0.01 * model * place
                if name == "bfi" and model == 1:
                    value = 0.98 + noise
                value += (changes or {}).get((scenario, model, setting, name), 0.0)
                rows.append(
                    {
                        "scenario": scenario, "model": model, "setting": setting,
                        "repetition": repetition, "method": name, **dict.fromkeys(METRICS, value),
                        "rules": 10.0, "seconds": 1.0,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def verdicts(rows: pd.DataFrame) -> dict[str, tuple[bool, bool | None]]:
    claims = simulation.check_claims(simulation.summarise(rows))
    return {c.text: (c.paper.holds, None if c.ours is None else c.ours.holds) for c in claims}


def find(rows: pd.DataFrame, words: str) -> tuple[bool, bool | None]:
    (verdict,) = [v for text, v in verdicts(rows).items() if words in text]
    return verdict


def test_the_summary_is_mean_sd_and_monte_carlo_error() -> None:
    rows = make_rows()
    summary = simulation.summarise(rows)
    cell = summary.query(
        "scenario == 1 and model == 2 and setting == 'M = 5' and method == 'forest'"
    ).iloc[0]
    values = rows.query(
        "scenario == 1 and model == 2 and setting == 'M = 5' and method == 'forest'"
    )["auc"]
    assert cell["mean"] == pytest.approx(values.mean())
    assert cell["sd"] == pytest.approx(values.std())
    assert cell["mcse"] == pytest.approx(values.std() / 2)
    assert cell["difference"] == pytest.approx(-0.02)
    assert cell["difference_sd"] == pytest.approx(0, abs=1e-12)
    assert len(summary) == len(METRICS) * len(MODELS) * (3 * 2 + 10 * 5)


def test_what_is_true_holds() -> None:
    assert all(paper for paper, _ in verdicts(make_rows()).values())


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ((2, 1, "high", PROPOSED), -0.03, "Scenario 2: comparable"),
        ((1, 2, "M = 5", PROPOSED), 0.03, "M = 5: difference in AUC"),
        ((1, 2, "M = 20", PROPOSED), -0.02, "federated random forest"),
        ((3, 2, "high", "bfi"), 0.2, "Higher accuracy than BFI"),
        ((1, 1, "M = 2", "forest"), 0.1, "BFI performs best"),
        ((1, 1, "M = 20", "local"), 0.1, "monotonically as M grows"),
        ((2, 2, "high", "local"), 0.1, "sample sizes become imbalanced"),
        ((3, 2, "high", "local"), 0.1, "outcomes become imbalanced"),
        ((3, 1, "high", "local"), -0.1, "particularly in nonlinear"),
        ((1, 1, "M = 2", PROPOSED), 0.021, "Stable over the settings"),
    ],
)
def test_what_is_false_does_not_hold(place: tuple[object, ...], change: float, words: str) -> None:
    assert find(make_rows(), words)[0]
    assert not find(make_rows({place: change}), words)[0]


def test_our_defaults_are_judged_beside() -> None:
    paper, ours = find(make_rows({(1, 1, "M = 2", OURS): 0.05}), "Scenario 1: comparable")
    assert paper
    assert ours is False


def test_units_are_named_and_ordered_by_repetition() -> None:
    units = simulation.make_units(3, seed=1, effort=Effort())
    assert len({unit.key for unit in units}) == len(units) == 18
    assert [unit.repetition for unit in units] == sorted(unit.repetition for unit in units)


def test_seeds_differ_between_repetitions() -> None:
    seeds = {simulation.method_seed(1, s, m, r) for s in (1, 2) for m in (1, 2) for r in range(50)}
    assert len(seeds) == 200
    assert np.all(np.array(list(seeds)) < 2**31)
