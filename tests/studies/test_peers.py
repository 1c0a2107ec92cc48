"""The peers are what their page says, and as strong as they should be."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from benchmarks import peers
from benchmarks.simulation import draw
from scipy.special import expit
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss


def make_patients(n_rows: int, seed: int) -> tuple[pd.DataFrame, Any]:
    """Numbers, one of them often missing, which tells something; a category; missing levels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 3)) * [1, 10, 100] + [0, 50, -300]
    group = rng.choice(["a", "b", "c"], n_rows)
    absent = rng.random(n_rows) < 0.3
    eta = x[:, 0] + 0.1 * (x[:, 1] - 50) + 1.5 * (group == "b") - absent
    frame = pd.DataFrame(x, columns=["x0", "x1", "x2"]).assign(group=group)
    frame.loc[absent, "x2"] = np.nan
    frame.loc[rng.random(n_rows) < 0.1, "group"] = np.nan
    return frame, (rng.random(n_rows) < expit(eta)).astype(int)


def test_the_unpenalised_regression_is_that_of_statsmodels() -> None:
    """Filled with the mean, flagged, and a column per level: by hand, without any penalty."""
    frame, y = make_patients(1000, 0)
    found = peers.fit_peer(peers.UNPENALISED, frame, y, categories=["group"])
    columns = [frame[name].fillna(frame[name].mean()) for name in ("x0", "x1", "x2")]
    columns.append(frame["x2"].isna())
    columns += [frame["group"] == level for level in ("a", "b", "c")]
    design = sm.add_constant(np.column_stack(columns).astype(float))
    oracle = sm.GLM(y, design, family=sm.families.Binomial()).fit().predict(design)
    np.testing.assert_allclose(found.predict_proba(frame)[:, 1], oracle, atol=1e-4)


def test_ridge_chooses_by_log_loss() -> None:
    """By accuracy, as scikit-learn would choose, the linear truth has a log-loss of .2 and more."""
    rng = np.random.default_rng([0, 3])
    X, y = draw("linear", 1000, rng)
    X_new, y_new = draw("linear", 10_000, rng)
    frame, new = pd.DataFrame(X).add_prefix("x"), pd.DataFrame(X_new).add_prefix("x")
    losses = {
        name: log_loss(y_new, peers.fit_peer(name, frame, y).predict_proba(new)[:, 1])
        for name in peers.LOGISTIC
    }
    by_accuracy = LogisticRegressionCV(scoring="accuracy", solver="newton-cholesky").fit(X, y)
    careless = log_loss(y_new, by_accuracy.predict_proba(X_new)[:, 1])
    assert max(losses.values()) < careless - 0.005
    assert losses[peers.RIDGE] == pytest.approx(losses[peers.UNPENALISED], abs=0.01)


@pytest.mark.parametrize("name", peers.PEERS)
def test_every_peer_takes_missing_values_and_categories(name: str) -> None:
    if name == peers.EBM and not find_spec("interpret"):
        pytest.skip("needs interpret-core, of the extra 'bench'")
    frame, y = make_patients(600, 1)
    new, y_new = make_patients(2000, 2)
    new.loc[:9, "group"] = "never seen"
    found = peers.fit_peer(name, frame, y, categories=["group"], seed=3)
    chance = found.predict_proba(new)[:, 1]
    assert log_loss(y_new, chance) < log_loss(y_new, np.full(len(y_new), y.mean())) - 0.1
    assert peers.count_terms(name, found) > 3
    again = peers.fit_peer(name, frame, y, categories=["group"], seed=3)
    np.testing.assert_array_equal(again.predict_proba(new)[:, 1], chance)


def test_numbers_are_standardised() -> None:
    """Their unit changes nothing, so that the penalty treats them alike."""
    frame, y = make_patients(500, 4)
    other = frame.assign(x0=frame["x0"] * 1000, x1=frame["x1"] / 1000 + 7)
    one, two = (peers.fit_peer(peers.RIDGE, f, y, categories=["group"]) for f in (frame, other))
    np.testing.assert_allclose(one.predict_proba(frame), two.predict_proba(other), atol=1e-6)
