"""Cumulative incidence: numerical integration, short steps, and recipes cooked with numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from tests.unit.core.test_recipes import Plain

from fedrulefit.core.families.competing import Competing
from fedrulefit.core.families.incidence import Incidence, accumulate

FAMILY = Competing((30.0, 90.0, 120.0), (90.0, 365.0), ("death", "transplant", "loss"), unit="days")
ENDS = np.array([0.0, 30.0, 90.0, 120.0, 365.0])


def draw(seed: int) -> tuple[Any, Incidence, Any]:
    """Return log hazards of the intervals, the incidence of a model with them, and F of some."""
    rng = np.random.default_rng(seed)
    baseline = rng.normal(-1.5, 0.8, 12)
    return baseline, FAMILY.incidence(baseline.tolist()), rng.normal(0, 1.5, (5, 3))


@pytest.mark.parametrize("seed", range(4))
def test_risks_are_the_integral_of_hazard_times_survival(seed: int) -> None:
    baseline, incidence, predictor = draw(seed)
    constants = baseline.reshape(3, 4)
    shift = predictor - np.log(np.exp(constants).sum(axis=1))

    def hazard(row: int, t: float) -> Any:
        k = min(int(np.searchsorted(ENDS, t, side="right")) - 1, 3)
        return np.exp(constants[:, k] + shift[row]) / (ENDS[k + 1] - ENDS[k])

    def gone(row: int, t: float) -> float:
        pieces = np.clip(t - ENDS[:-1], 0, np.diff(ENDS)) / np.diff(ENDS)
        return float((np.exp(constants + shift[row][:, None]) @ pieces).sum())

    times = np.array([0.0, 12.5, 30.0, 100.0, 365.0])
    found = incidence.risks(predictor, times)
    assert found.shape == (5, 3, 5)
    for row in range(5):
        for k, t in enumerate(times.tolist()):
            for c in range(3):
                wanted = quad(
                    lambda s, row=row, c=c: hazard(row, s)[c] * math.exp(-gone(row, s)),
                    0, t, points=ENDS[1:-1], limit=200,
                )[0]  # fmt: skip
                assert found[row, c, k] == pytest.approx(wanted, abs=1e-9)
    alive = incidence.survival(predictor, times)
    np.testing.assert_allclose(found.sum(axis=1) + alive, 1, atol=1e-12)


def test_many_short_steps_come_near() -> None:
    """Aalen and Johansen's sum, S before a step times the hazard in it, without any exponential."""
    rng = np.random.default_rng(0)
    steps = rng.uniform(0, 0.6, (2, 3))
    fine = np.repeat(steps / 20000, 20000, axis=1)
    before = np.concatenate([[1.0], np.cumprod(1 - fine.sum(axis=0))[:-1]])
    wanted = np.cumsum(before * fine, axis=1)[:, [19999, 39999, 59999]]
    np.testing.assert_allclose(accumulate(steps), wanted, atol=1e-4)


def test_one_cause_is_one_minus_survival_and_nothing_overflows() -> None:
    steps = np.array([[0.0, 0.3, 1e304, 0.0]])
    np.testing.assert_allclose(accumulate(steps)[0], -np.expm1(-np.cumsum(steps[0])))
    with np.errstate(all="raise", under="ignore"):
        _, incidence, _ = draw(0)
        huge = incidence.risks(np.array([[900.0, -900.0, 1.0], [-900.0] * 3]), ENDS)
    np.testing.assert_allclose(huge[0, :, -1], [1, 0, 0], atol=1e-12)
    assert (huge[1] < 1e-300).all()


def test_a_model_s_family_predicts_the_same() -> None:
    """From F of each cause and interval, as sites do, and from F of each cause, as models do."""
    baseline, incidence, predictor = draw(3)
    spread = FAMILY.spread(predictor, baseline.tolist())
    assert spread.shape == (5, FAMILY.n_baseline)
    np.testing.assert_allclose(FAMILY.starts(0.0, baseline.tolist()), np.log(
        np.exp(baseline.reshape(3, 4)).sum(axis=1)
    ))  # fmt: skip
    np.testing.assert_allclose(
        FAMILY.predict(spread), incidence.risks(predictor, ENDS[-1:])[:, :, 0], atol=1e-14
    )
    np.testing.assert_allclose(
        FAMILY.judged(spread), incidence.risks(predictor, ENDS[[2, 4]])[:, 0], atol=1e-14
    )


def test_what_is_told_of_a_patient() -> None:
    _, incidence, predictor = draw(1)
    columns = [own.column for own in incidence.told]
    assert columns[:4] == ["risk", "risk_90", "risk_365", "risk_transplant"]
    assert len(set(columns)) == 9
    told = incidence.told_risks(predictor)
    np.testing.assert_array_equal(told[:, 0], told[:, 2])
    np.testing.assert_array_equal(told[:, 4], incidence.risks(predictor, ENDS[2:3])[:, 1, 0])
    single = Competing((), (5.0,), ("a", "b")).incidence((0.0, 0.0))
    assert [own.column for own in single.told] == ["risk", "risk_b"]
    assert (incidence.find_cause(None), incidence.find_cause("loss")) == (0, 2)
    with pytest.raises(ValueError, match="the causes are death, transplant, loss"):
        incidence.find_cause("relapse")
    with pytest.raises(ValueError, match="0 to the last horizon, 365 days"):
        incidence.risks(predictor, np.array([400.0]))


@pytest.mark.parametrize("f", [[0.1, -2.0, 0.4], [600.0, 0.0, -600.0], [-40.0, -5.0, -30.0]])
@pytest.mark.parametrize("seed", range(2))
def test_recipes(f: list[float], seed: int) -> None:
    baseline, incidence, _ = draw(seed)
    found = FAMILY.write_levels(Plain(), [repr(x) for x in f], baseline.tolist())
    (wanted,) = incidence.told_risks(np.array([f]))
    np.testing.assert_allclose([float(x) for x in found], wanted, atol=1e-13)


def test_a_cause_without_hazard_in_an_interval_has_no_part_in_its_recipe() -> None:
    """Its share would be the logarithm of nothing."""
    _, incidence, _ = draw(0)
    shares = np.array([[0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.0, 0.0, 0.4, 1.0], [0, 0.1, 0.2, 0.6, 1]])
    own = Incidence(
        incidence.causes, ENDS, shares, incidence.horizons, incidence.unit, incidence.column
    )
    from fedrulefit.core.families.incidence import write_incidences

    found = write_incidences(Plain(), ["0.3", "-0.5", "0.2"], own)
    (wanted,) = own.told_risks(np.array([[0.3, -0.5, 0.2]]))
    np.testing.assert_allclose([float(x) for x in found], wanted, atol=1e-14)
