"""Tables, differences and verdicts from rows whose truth is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.errors import DataError
from fedrulefit.experiments.methods import (
    FIXED,
    FIXED_UNSAMPLED,
    LOCAL,
    LOCAL_UNSAMPLED,
    METHODS,
    METRICS,
    OURS,
    PROPOSED,
    REFERENCE,
    SAMPLED,
    UNSAMPLED,
    Effort,
    Task,
    method_seed,
    parse_methods,
)
from fedrulefit.experiments.scenarios import MODELS, SCENARIOS
from fedrulefit.experiments.simulation import leave_out_known, make_units, repetitions
from fedrulefit.experiments.simulation.cells import Cells, Place
from fedrulefit.experiments.simulation.claims import check_claims
from fedrulefit.experiments.simulation.repetitions import ALL
from fedrulefit.experiments.simulation.tables import (
    costs_table,
    results_tables,
    sampling_table,
    summarise,
)

LEVEL = {
    REFERENCE: 0.95,
    UNSAMPLED: 0.945,
    FIXED: 0.945,
    FIXED_UNSAMPLED: 0.94,
    PROPOSED: 0.945,
    SAMPLED: 0.95,
    OURS: 0.96,
    LOCAL: 0.9,
    LOCAL_UNSAMPLED: 0.9,
    "bfi": 0.8,
    "forest": 0.93,
}


def make_rows(
    changes: dict[tuple[object, ...], float] | None = None, repetitions: int = 4
) -> pd.DataFrame:
    """Rows in which all that the paper claims is true, with `changes` by place."""
    rows = []
    for scenario, model, repetition in itertools.product(SCENARIOS, MODELS, range(repetitions)):
        noise = 0.001 * (repetition % 4)
        for name, method in METHODS.items():
            if scenario not in method.scenarios:
                continue
            settings = [ALL] if method.pooled else [s.name for s in SCENARIOS[scenario]]
            for place, setting in enumerate(settings):
                value = LEVEL[name] + noise
                if name in (LOCAL, LOCAL_UNSAMPLED):
                    value -= 0.01 * model * place
                if name == "bfi" and model == 1:
                    value = 0.962 + noise
                value += (changes or {}).get((scenario, model, setting, name), 0.0)
                rows.append(
                    {
                        "scenario": scenario, "model": model, "setting": setting,
                        "repetition": repetition, "method": name, **dict.fromkeys(METRICS, value),
                        "rules": 10.0, "seconds": 1.0,
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def verdicts(rows: pd.DataFrame) -> dict[str, tuple[str, str]]:
    claims = check_claims(rows)
    return {c.text: (c.paper.word, "" if c.ours is None else c.ours.word) for c in claims}


def find(rows: pd.DataFrame, words: str) -> tuple[str, str]:
    (verdict,) = [v for text, v in verdicts(rows).items() if words in text]
    return verdict


def test_the_summary_is_mean_sd_and_monte_carlo_error() -> None:
    rows = make_rows()
    summary = summarise(rows)
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
    assert len(summary) == len(METRICS) * len(MODELS) * (3 * 4 + 10 * 6 + 4)


def test_what_is_true_holds() -> None:
    assert {paper for paper, _ in verdicts(make_rows()).values()} == {"holds"}


@pytest.mark.parametrize(
    ("place", "change", "words"),
    [
        ((2, 1, "high", PROPOSED), -0.03, "Scenario 2: comparable"),
        ((3, 1, ALL, UNSAMPLED), 0.03, "scenario 3: comparable to centralised RuleFit without"),
        ((3, 1, "high", PROPOSED), 0.03, "the same λ = 0.01"),
        ((1, 2, "M = 5", PROPOSED), 0.03, "M = 5: difference in AUC"),
        ((1, 2, "M = 20", PROPOSED), -0.02, "federated random forest"),
        ((3, 2, "high", "bfi"), 0.2, "Outperforms BFI"),
        ((3, 1, "high", "bfi"), 0.02, "Remains competitive with BFI"),
        ((1, 1, "M = 2", "forest"), 0.1, "BFI performs best"),
        ((1, 2, "M = 2", "bfi"), 0.2, "BFI deteriorates"),
        ((1, 1, "M = 20", LOCAL), 0.1, "monotonically as M grows"),
        ((2, 2, "high", LOCAL), 0.1, "sample sizes become imbalanced"),
        ((3, 2, "high", LOCAL), 0.1, "outcomes become imbalanced"),
        ((3, 1, "high", LOCAL), -0.1, "particularly in nonlinear settings [fall"),
        ((3, 1, "high", LOCAL_UNSAMPLED), -0.1, "nonlinear settings, without sampling"),
        ((1, 1, "M = 2", PROPOSED), 0.021, "Stable over the settings"),
        ((2, 2, ALL, REFERENCE), 0.03, "Centralised RuleFit is stable"),
    ],
)
def test_what_is_false_does_not_hold(place: tuple[object, ...], change: float, words: str) -> None:
    assert find(make_rows(), words)[0] == "holds"
    assert find(make_rows({place: change}), words)[0] == "does not hold"


def alternate(rows: pd.DataFrame, place: tuple[object, ...], size: float) -> pd.DataFrame:
    """Add ± `size` to every other repetition of a cell."""
    here = (rows[["scenario", "model", "setting", "method"]] == list(place)).all(axis=1)
    sign = np.where(rows["repetition"] % 2, size, -size)
    return rows.assign(**{metric: rows[metric] + here * sign for metric in METRICS})


def test_a_difference_that_varies_much_is_told() -> None:
    wild = alternate(make_rows(repetitions=40), (2, 2, "moderate", PROPOSED), 0.2)
    assert find(wild, "vary little")[0] == "does not hold"


def test_what_chance_may_have_done_is_not_decided() -> None:
    place = (1, 2, "M = 20", PROPOSED)
    slightly_below = make_rows({place: -0.016})  # 0.001 below the forest
    assert find(slightly_below, "federated random forest")[0] == "does not hold"
    unsure = alternate(slightly_below, place, 0.01)
    assert find(unsure, "federated random forest")[0] == "not decided"


def test_our_defaults_are_judged_beside() -> None:
    paper, ours = find(make_rows({(1, 1, "M = 2", OURS): 0.05}), "Scenario 1: comparable")
    assert (paper, ours) == ("holds", "does not hold")


def test_every_method_sees_the_same_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a repetition: the training data, the test data, and the division."""
    fitted: list[tuple[str, Task]] = []
    scored: list[Any] = []

    def fit(name: str, task: Task) -> list[Any]:
        fitted.append((name, task))
        return []

    def judge(models: list[Any], values: Any, outcome: Any) -> dict[str, float]:
        scored.append((values, outcome))
        return dict.fromkeys((*METRICS, "rules"), 0.5)

    monkeypatch.setattr(repetitions, "fit_method", fit)
    monkeypatch.setattr(repetitions, "score", judge)
    (unit,) = [
        unit
        for unit in make_units(6, seed=2026, effort=Effort())
        if unit.key == "scenario2-model1-0005"
    ]
    unit.run()
    assert {name for name, _ in fitted} == set(METHODS) - {SAMPLED}
    first = fitted[0][1]
    by_setting: dict[bytes, set[str]] = {}
    for name, task in fitted:
        np.testing.assert_array_equal(task.values, first.values)
        np.testing.assert_array_equal(task.outcome, first.outcome)
        assert task.seed == first.seed
        if not METHODS[name].pooled:
            by_setting.setdefault(task.clients.tobytes(), set()).add(name)
    assert len(by_setting) == len(SCENARIOS[2])
    assert all(
        names == {n for n, m in METHODS.items() if not m.pooled and 2 in m.scenarios}
        for names in by_setting.values()
    )
    for values, outcome in scored:
        np.testing.assert_array_equal(values, scored[0][0])
        np.testing.assert_array_equal(outcome, scored[0][1])


def test_units_are_named_and_ordered_by_repetition() -> None:
    units = make_units(3, seed=1, effort=Effort())
    assert len({unit.key for unit in units}) == len(units) == 18
    assert [unit.repetition for unit in units] == sorted(unit.repetition for unit in units)


def test_a_run_of_some_methods_has_only_these(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetitions, "fit_method", lambda name, task: [])
    monkeypatch.setattr(repetitions, "score", lambda *_: dict.fromkeys((*METRICS, "rules"), 0.5))
    units = make_units(2, seed=1, effort=Effort(), methods=[SAMPLED, REFERENCE])
    assert {row["method"] for row in units[0].run()} == {REFERENCE, SAMPLED}
    assert {
        unit.scenario for unit in make_units(2, seed=1, effort=Effort(), methods=[SAMPLED])
    } == {1}
    assert parse_methods("local, bfi") == ["local", "bfi"]
    with pytest.raises(DataError, match="no method 'lokal'"):
        parse_methods("lokal")


def test_what_an_earlier_run_has_is_not_run_again() -> None:
    rows = make_rows(repetitions=2)
    lost = (rows["method"] == LOCAL) & (rows["repetition"] == 1) & (rows["scenario"] == 3)
    units = make_units(2, seed=1, effort=Effort())
    assert leave_out_known(units, rows) == []
    left = leave_out_known(units, rows[~lost])
    assert [(unit.key, unit.methods) for unit in left] == [
        ("scenario3-model1-0001", (LOCAL,)),
        ("scenario3-model2-0001", (LOCAL,)),
    ]
    assert leave_out_known(units, rows.iloc[:0]) == units


def test_a_method_with_fewer_repetitions_is_compared_on_these() -> None:
    """Differences are of the same patients, whatever the other repetitions of one method are."""
    rows = alternate(make_rows(repetitions=8), (1, 1, ALL, REFERENCE), 0.1)
    few = rows[~((rows["method"] == LOCAL) & (rows["repetition"] >= 3))]
    place = Place(1, 1, "M = 5", "auc")
    cells = Cells(few.sample(frac=1, random_state=0))
    first = rows[(rows["scenario"] == 1) & (rows["model"] == 1) & (rows["repetition"] < 3)]
    own = first[(first["method"] == LOCAL) & (first["setting"] == "M = 5")]["auc"].to_numpy()
    other = first[first["method"] == REFERENCE]["auc"].to_numpy()
    gap = cells.gap(place, LOCAL, REFERENCE)
    assert gap.mean == pytest.approx(np.mean(own - other))
    assert gap.sd == pytest.approx(np.std(own - other, ddof=1))
    assert gap.df == 2
    assert "| Local RuleFit (3 repetitions) |" in results_tables(few)
    assert "| Local RuleFit |" in results_tables(rows)
    assert not cells.has(Place(2, 1, "high", "auc"), SAMPLED)


def test_what_sampling_changes_is_told_in_pairs() -> None:
    table = sampling_table(make_rows())
    assert table.count("+0.0050 ± 0.0000") == 8 * len(METRICS) * 3
    assert table.count("+0.0000 ± 0.0000") == 8 * len(METRICS)


def test_seconds_that_were_not_kept_are_in_no_mean() -> None:
    rows = make_rows()
    table = costs_table(rows)
    kept = rows["repetition"] == rows["repetition"].max()
    constant = rows.assign(seconds=2.0)
    some = constant.assign(seconds=constant["seconds"].where(kept))
    assert costs_table(some) == costs_table(constant)
    assert "nan" not in table + costs_table(some)


def test_seeds_differ_between_repetitions() -> None:
    seeds = {method_seed(1, s, m, r) for s in (1, 2) for m in (1, 2) for r in range(50)}
    assert len(seeds) == 200
    assert np.all(np.array(list(seeds)) < 2**31)
