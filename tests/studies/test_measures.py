"""Measures, comparisons and verdicts of the studies, against oracles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from benchmarks.compare import by_method, compare, compare_all, is_clear, sum_up, verdict
from benchmarks.defaults import draws
from benchmarks.real import splits
from scipy import stats
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from fedrulefit.experiments.claims import Mean


def test_calibration_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    eta = rng.normal(size=2000)
    outcome = (rng.random(2000) < expit(0.3 + 0.6 * eta)).astype(int)
    found = splits.judge(outcome, expit(eta), np.arange(2000) % 3)
    binomial = sm.families.Binomial()
    slope = sm.GLM(outcome, sm.add_constant(eta), family=binomial).fit().params[1]
    level = sm.GLM(outcome, np.ones(2000), family=binomial, offset=eta).fit().params[0]
    assert found["slope"] == pytest.approx(slope, abs=1e-6)
    assert found["intercept"] == pytest.approx(level, abs=1e-6)
    assert found["loss"] == pytest.approx(
        -np.log(np.where(outcome, expit(eta), expit(-eta))).mean()
    )
    assert found["brier"] == pytest.approx(((expit(eta) - outcome) ** 2).mean())


def test_the_area_within_hospitals_counts_pairs_of_one_hospital() -> None:
    """Weighted by cases; hospitals with fewer than five of either outcome are left out."""
    rng = np.random.default_rng(1)
    sites = np.repeat(["a", "b", "c"], [100, 60, 30])
    chance = rng.random(190)
    outcome = (rng.random(190) < chance).astype(int)
    outcome[sites == "c"] = 0
    outcome[np.flatnonzero(sites == "c")[:4]] = 1
    found = splits.judge(outcome, chance, sites)
    areas, cases = [], []
    for site in ("a", "b"):
        sick, well = (chance[(sites == site) & (outcome == k)] for k in (1, 0))
        areas.append(np.mean(sick[:, None] > well))
        cases.append(len(sick))
    assert found["within_sites"] == 2
    assert found["within_auc"] == pytest.approx(np.dot(areas, cases) / sum(cases))
    assert found["auc"] == pytest.approx(roc_auc_score(outcome, chance))


def test_a_sure_prediction_that_is_wrong_has_a_finite_loss() -> None:
    outcome, chance = np.tile([0, 1], 30), np.tile([0.0, 1.0], 30)
    chance[:2] = [1.0, 0.0]
    found = splits.judge(outcome, chance, np.zeros(60))
    assert found["loss"] == pytest.approx(-logit(splits.SURE) * 2 / 60, rel=1e-3)


def rows_of(values: dict[str, list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        {"split": k, "method": name, "auc": value, "loss": -value}
        for name, column in values.items()
        for k, value in enumerate(column)
    )


def test_differences_are_paired_and_their_errors_corrected() -> None:
    rng = np.random.default_rng(2)
    base = rng.normal(size=20)
    gap = rng.normal(0.5, 0.1, 20)
    table = by_method(rows_of({"ours": [*(base + gap)], "other": [*base]}), "auc", over="split")
    independent = compare(table, "ours", "other")
    assert independent.error == pytest.approx(stats.sem(gap))
    overlapping = compare(table, "ours", "other", shared=0.3)
    assert overlapping.error == pytest.approx(gap.std(ddof=1) * np.sqrt(1 / 20 + 3 / 7))


def test_a_method_that_lacks_a_split_is_not_compared() -> None:
    rows = rows_of({"ours": [1, 2, 3], "other": [1, 2]})
    with pytest.raises(ValueError, match="not all methods have every split: other"):
        by_method(rows, "auc", over="split")


def test_a_verdict_is_the_two_sided_test_of_scipy() -> None:
    rng = np.random.default_rng(3)
    seen = set()
    for shift in (-0.06, 0.0, 0.06):
        for _ in range(30):
            gap = rng.normal(shift, 0.1, 20)
            table = pd.DataFrame({"ours": gap, "other": np.zeros(20)})
            found = compare(table, "ours", "other")
            assert is_clear(found) == (stats.ttest_1samp(gap, 0).pvalue < 0.05)
            seen.add(verdict("auc", found))
            opposite = {"better": "worse", "worse": "better"}
            words = verdict("auc", found)
            assert verdict("loss", found) == opposite.get(words, words)
    assert len(seen) == 3


def test_a_sentence_says_what_the_numbers_say() -> None:
    rng = np.random.default_rng(4)
    noise = rng.normal(0, 0.1, 20)
    rows = rows_of({"ours": [*noise], "weak": [*(noise - 1)], "like": [*(-noise)]})
    found = compare_all(rows, "ours", ["weak", "like"], over="split")
    line = sum_up("Here", found)
    assert line == (
        "- **Here:** the defaults are better than weak (AUC and log-loss); in 2 of 4 comparisons "
        "not told apart."
    )
    worse = {("weak", "auc"): Mean(-1.0, 0.1, 0.1, 19)}
    assert sum_up("Here", worse) == ("- **Here:** the defaults are worse than weak (AUC).")


def test_no_seed_is_used_to_choose_and_to_confirm() -> None:
    assert not set(draws.CHOOSING) & set(draws.CONFIRMING)
    assert (len(draws.CHOOSING), len(draws.CONFIRMING)) == (6, 20)
    units = draws.make_units()
    assert len({unit.key for unit in units}) == len(units)


def test_units_have_names_of_their_own() -> None:
    units = splits.make_units(Path("data"), 20)
    assert len({unit.key for unit in units}) == len(units) == 3 * 20 * len(splits.METHODS)
