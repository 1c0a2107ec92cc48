"""BFI against closed-form algebra, scikit-learn and the R package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from fedrulefit.baselines.bfi import BFIClassifier, Estimate, combine, estimate_site
from fedrulefit.experiments.trauma import load_trauma
from fedrulefit.experiments.trauma.repetitions import COVARIATES

# R package BFI 3.1.0, family "binomial", on its data set `trauma` after scale() of age, ISS and
# GCS over all patients; inv.prior.cov with lambda = 0.01, MAP.estimation and bfi with maxit 1000.
# Order: intercept, sex, age, ISS, GCS.
R_LOCAL = {
    "1": [-2.122573045, -5.279526979, 1.886436409, 2.374118137, -2.452211823],
    "2": [-0.7853531282, -0.7850071107, 1.9601231127, 0.5215959550, -1.8737408503],
    "3": [-2.3143649368, 0.1580408416, 1.3031167420, 0.2967461151, -2.4220587576],
}
R_THETA = [-1.443351944, -0.2473181678, 1.218886206, 0.493871771, -1.737520434]
R_SD = [0.2464996224, 0.4187128255, 0.2189871557, 0.1944974260, 0.2491397490]


def draw(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 3))
    return X, (rng.random(n_rows) < expit(0.5 + X @ [1.0, -2.0, 0.0])).astype(float)


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return *draw(300), np.repeat(["a", "b", "c"], [60, 90, 150])


def with_ones(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(X)), X])


def test_a_site_finds_the_optimum_of_ridge_regression(problem) -> None:
    X, y, _ = problem
    found = estimate_site(with_ones(X), y, precision=0.5)
    peer = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-12, max_iter=10_000)
    np.testing.assert_allclose(found.theta, peer.fit(with_ones(X), y).coef_[0], atol=1e-6)


def test_the_curvature_is_the_derivative_of_the_slope(problem) -> None:
    X, y, _ = problem
    design = with_ones(X)
    found = estimate_site(design, y, precision=0.5)

    def slope(theta: np.ndarray) -> np.ndarray:
        return design.T @ (expit(design @ theta) - y) + 0.5 * theta

    np.testing.assert_allclose(slope(found.theta), 0, atol=1e-6)
    np.testing.assert_allclose(approx_fprime(found.theta, slope), found.curvature, rtol=1e-4)


def test_sites_combine_as_gaussians_do() -> None:
    """The product of the sites' posteriors over their priors, times the combined prior."""
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(4, 2)) for _ in range(3)]
    sites = [Estimate(rng.normal(size=2), f.T @ f + 0.1 * np.eye(2)) for f in factors]
    both = combine(sites, local_precision=0.1, precision=0.7)
    likelihoods = [site.curvature - 0.1 * np.eye(2) for site in sites]
    np.testing.assert_allclose(both.curvature, sum(likelihoods) + 0.7 * np.eye(2))
    pull = sum(site.curvature @ site.theta for site in sites)
    np.testing.assert_allclose(both.curvature @ both.theta, pull)


def test_one_site_is_its_own_estimate(problem) -> None:
    X, y, _ = problem
    model = BFIClassifier().fit(X, y)
    np.testing.assert_allclose(model.theta_, model.local_["site"].theta)


def test_many_patients_give_the_pooled_estimate() -> None:
    X, y = draw(20_000)
    sites = np.arange(len(y)) % 3
    pooled = estimate_site(with_ones(X), y, precision=0.01)
    model = BFIClassifier().fit(X, y, sites=sites)
    np.testing.assert_allclose(model.theta_, pooled.theta, atol=0.02)
    sd = np.sqrt(np.diag(np.linalg.inv(pooled.curvature)))
    np.testing.assert_allclose(model.sd_, sd, rtol=0.02)


def test_probabilities_and_classes_agree(problem) -> None:
    X, y, sites = problem
    model = BFIClassifier().fit(X, np.where(y == 1, "ill", "healthy"), sites=sites)
    assert list(model.classes_) == ["healthy", "ill"]
    chance = model.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X) == "ill", chance > 0.5)
    np.testing.assert_allclose(model.intercept_ + X @ model.coef_[0], model.decision_function(X))


def test_a_prior_needs_a_precision() -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        BFIClassifier(precision=0.0).fit([[0.0], [1.0]], [0, 1])


def test_the_numbers_of_the_r_package(data_dir: Path) -> None:
    patients = load_trauma(data_dir, folder=data_dir)
    X = patients[["sex", "age", "ISS", "GCS"]].astype(float)
    for name in set(COVARIATES) - {"sex"}:
        X[name] = (X[name] - X[name].mean()) / X[name].std()
    model = BFIClassifier().fit(X.to_numpy(), patients["mortality"], sites=patients["site"])
    for site, theta in R_LOCAL.items():
        np.testing.assert_allclose(model.local_[site].theta, theta, atol=2e-4)
    np.testing.assert_allclose(model.theta_, R_THETA, atol=2e-5)
    np.testing.assert_allclose(model.sd_, R_SD, atol=2e-6)
