"""The exact solver's choices one by one, on sums made by hand.

Here no patient is needed: a solver is given an answer, and what it asks next is compared
with what follows from the formulas on paper. Whole fits are in ``test_newton.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.oracles import YES_NO

from fedrulefit.core import newton as newton_module
from fedrulefit.core.curvature import STEPS, CurvatureSums, Query, pack_triangle
from fedrulefit.core.fixed import LARGEST_PREDICTOR
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import (
    NEAR,
    RIDGES,
    ROUNDING,
    SHORTEST,
    Newton,
    Point,
    active_room,
    near_coef,
)
from fedrulefit.errors import FitError

FREE = np.zeros(2)
"""No penalty on either of two terms."""


def make_newton(factors: Any, penalty: float, **options: Any) -> Newton:
    """Return a solver of an intercept, and of rules only."""
    layout = Layout(1, len(factors) - 1, 0)
    return Newton(YES_NO, layout, factors, penalty, **options)


def answer(
    query: Query, losses: Any, *, gradient: Any = (0.0, 0.0), hessian: Any = None, **facts: float
) -> CurvatureSums:
    """Return sums of one patient in all, by default flat."""
    bend = np.eye(len(query.active)) if hessian is None else np.asarray(hessian, float)
    defaults = {"weight": 1.0, "held_weight": 0.0, "held_loss": 0.0, **facts}
    return CurvatureSums(
        query,
        losses=np.asarray(losses, float),
        gradient=np.asarray(gradient, float),
        hessian=pack_triangle(bend),
        **defaults,
    )


def between(start: Any, end: Any, active: Any = (0, 1)) -> Query:
    terms = np.arange(len(start))
    return Query(-1, terms, np.asarray(start, float), np.asarray(end, float), np.asarray(active))


def point(coef: Any, gradient: Any) -> Point:
    return Point(np.asarray(coef, float), 1.0, np.asarray(gradient, float), 1.0, math.nan)


def test_the_defaults() -> None:
    newton = make_newton(FREE, 0.0)
    assert (newton.tolerance, newton.max_active, newton.fold, newton.rounds) == (1e-8, 300, -1, 0)
    assert newton_module.MAX_ACTIVE == 2000


# --- going back -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "part"),
    [
        ([1.0, 2.0, 2.0, 2.0, 2.0], 0.0625),  # none is better: the shortest
        ([1.0, 0.9, 2.0, 2.0, 2.0], 0.0625),
        ([1.0, 0.9, 0.8, 2.0, 2.0], 0.25),
        ([1.0, 0.7, 0.8, 0.6, 2.0], 0.5),
        ([1.0, 0.5, 0.5, 0.5, 1.1], 0.0625),  # the first of equals
    ],
)
def test_a_step_that_makes_things_worse_goes_back_to_the_best_on_the_way(
    losses: list[float], part: float
) -> None:
    newton = make_newton(FREE, 0.0)
    start, end = np.array([1.0, 2.0]), np.array([5.0, -6.0])
    newton.update(answer(between(start, end), losses))
    asked = newton.query()
    assert asked.start.tolist() == start.tolist()
    assert asked.end.tolist() == (start + part * (end - start)).tolist()
    assert asked.active.tolist() == [0, 1]
    assert newton.rounds == 1
    assert not newton.converged
    with pytest.raises(ValueError, match="before its first round"):
        _ = newton.point  # it stands nowhere yet


def test_going_back_stays_at_the_point_known_until_a_better_one_is_answered() -> None:
    newton = make_newton(FREE, 0.0, tolerance=1e-9)
    newton.update(answer(newton.query(), [3.0] * 5, gradient=[1.0, 2.0]))
    here, asked = newton.point, newton.query()
    assert asked.end.tolist() == [-1, -2], "a Newton step of a quadratic with unit curvature"
    newton.update(answer(asked, [3.0, 2.9, 3.5, 4.0, 5.0], gradient=[9.0, 9.0]))
    assert newton.point is here
    again = newton.query()
    assert again.end.tolist() == [-1 / 16, -2 / 16]
    newton.update(answer(again, [3.0, 2.99, 2.98, 2.95, 2.9], gradient=[0.5, 0.0]))
    assert newton.point.coef.tolist() == [-1 / 16, -2 / 16]
    assert newton.point.objective == 2.9
    assert newton.query().end.tolist() == [-1 / 16 - 0.5, -2 / 16]
    assert newton.rounds == 3


def test_the_best_on_the_way_counts_the_penalty_too() -> None:
    """At 1/4 the loss is least; with 0.1·|β₁| on the way from 0 to 8 the least is at 1/16."""
    newton = make_newton(np.array([0.0, 1.0]), 0.1)
    losses = [2.0, 1.9, 1.8, 1.85, 1.9]
    objectives = [loss + 0.1 * 8 * t for loss, t in zip(losses, STEPS, strict=True)]
    assert np.argmin(objectives) == 1
    newton.update(answer(between([0.0, 0.0], [3.0, 8.0]), losses))
    assert newton.query().end.tolist() == [3 / 16, 8 / 16]


@pytest.mark.parametrize(("rise", "accepted"), [(0.0, True), (1.0, True), (2.0, False)])
def test_a_rise_within_the_rounding_is_none(rise: float, accepted: bool) -> None:
    """Losses are known to 2⁻³⁰: a solver that went back for less would never end."""
    assert ROUNDING == 2.0**-30
    newton = make_newton(FREE, 0.0)
    query = between([0.0, 0.0], [1.0, 1.0])
    losses = [1.0, 0.5, 0.5, 0.5, 1.0 + rise * ROUNDING]
    newton.update(answer(query, losses, gradient=[1.0, 1.0]))
    if accepted:
        assert newton.point.coef.tolist() == [1, 1]
    else:
        assert newton.query().end.tolist() == [1 / 16, 1 / 16]


def test_a_point_that_is_better_is_taken_even_where_one_on_the_way_is_better_still() -> None:
    newton = make_newton(FREE, 0.0)
    newton.update(answer(between([0, 0], [1, 1]), [1.0, 0.2, 0.1, 0.2, 0.9], gradient=[1, 1]))
    assert newton.point.coef.tolist() == [1, 1]


# --- a point ----------------------------------------------------------------------------------


def test_a_point_by_its_sums() -> None:
    newton = make_newton(np.array([0.0, 2.0]), 0.25, tolerance=1e-6)
    query = between([0.0, 0.0], [1.0, -3.0])
    newton.update(
        answer(
            query, [40.0, 40.0, 40.0, 40.0, 8.0], gradient=[4.0, 1.0],
            weight=8.0, held_weight=4.0, held_loss=6.0,
        )
    )  # fmt: skip
    here = newton.point
    assert here.coef.tolist() == [1, -3]
    assert here.objective == 8 / 8 + 0.25 * 2 * 3
    assert here.gradient.tolist() == [0.5, 0.125]
    assert here.held_loss == 1.5
    assert here.residual == max(0.5, abs(0.125 - 0.25 * 2))
    assert math.isnan(_at(query, held_weight=0.0).held_loss)
    assert _at(query, held_weight=1e-9, held_loss=1e-9).held_loss == 1


def _at(query: Query, **facts: float) -> Point:
    newton = make_newton(FREE, 0.0)
    newton.update(answer(query, [1.0] * 5, **facts))
    return newton.point


@pytest.mark.parametrize(("loss", "separated"), [(0.99e-4, True), (1e-4, False)])
def test_outcomes_are_separated_below_a_mean_loss(loss: float, separated: bool) -> None:
    newton = make_newton(FREE, 0.0)
    query = between([0.0, 0.0], [3.0, 4.0])
    newton.update(answer(query, [1.0, 1.0, 1.0, 1.0, loss], gradient=[1.0, 1.0]))
    assert newton.separated is newton.converged is separated
    if separated:
        newton.continue_at(0.5)
        assert newton.query().start.tolist() == newton.query().end.tolist() == [3, 4]


@pytest.mark.parametrize(("slope", "converged"), [(0.5, True), (0.5000001, False)])
def test_a_residual_at_the_tolerance_is_enough(slope: float, converged: bool) -> None:
    newton = make_newton(FREE, 0.0, tolerance=0.5)
    newton.update(answer(newton.query(), [1.0] * 5, gradient=[slope, 0.0]))
    assert newton.converged is converged


def test_another_penalty_by_hand() -> None:
    newton = make_newton(np.array([0.0, 2.0]), 0.25, tolerance=10.0)
    newton.update(answer(between([0, 0], [1, -3]), [4.0, 4, 4, 4, 2], gradient=[0.5, 0.125]))
    newton.continue_at(0.05)
    assert newton.point.objective == pytest.approx(2.0 + 0.05 * 2 * 3)
    assert newton.point.residual == pytest.approx(0.5)
    # Unit curvature: a soft threshold of −3 − 0.125 at λπ = 0.1, and 1 − 0.5.
    np.testing.assert_allclose(newton.query().end, [0.5, -3.025], atol=1e-12)


# --- active terms -----------------------------------------------------------------------------


def test_active_are_the_terms_near_their_penalty() -> None:
    """By hand, with λ = 2: shares of λπ of 0.7, 0.695, 0.75, 0.9, 0.1 for terms 1 to 5."""
    factors = np.array([0.0, 1.0, 1.0, 2.0, 1.0, 0.5, 0.0])
    gradient = [0.0, 1.4, -1.39, 3.0, -1.8, 0.1, 0.0]
    newton = make_newton(factors, 2.0, start=point(np.zeros(7), gradient))
    assert NEAR == 0.7
    assert newton.query().active.tolist() == [0, 1, 3, 4, 6]
    assert newton.query().terms.tolist() == [0]
    # A coefficient makes a term active whatever its gradient.
    with_coef = make_newton(factors, 2.0, start=point([0, 0, 0.5, 0, 0, -0.5, 0], gradient))
    assert with_coef.query().active.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert with_coef.query().terms.tolist() == [0, 2, 5]


@pytest.mark.parametrize(
    ("max_active", "active"),
    [(0, [0, 4]), (1, [0, 4]), (2, [0, 4]), (3, [0, 3, 4]), (4, [0, 1, 3, 4]), (9, [0, 1, 3, 4])],
)
def test_where_there_is_little_room_the_nearest_are_active(
    max_active: int, active: list[int]
) -> None:
    factors = np.array([0.0, 1.0, 1.0, 2.0, 1.0])
    gradient = [0.0, 1.4, -1.39, 3.0, -1.8]
    newton = make_newton(factors, 2.0, start=point(np.zeros(5), gradient), max_active=max_active)
    assert newton.query().active.tolist() == active


def test_the_first_active_terms_are_those_that_are_penalised_least() -> None:
    newton = make_newton(np.array([0.0, 1.0, 1.42, 1.43, 0.2, 0.0]), 0.1, max_active=300)
    assert newton.query().active.tolist() == [0, 1, 2, 4, 5]
    assert newton.query().start.tolist() == newton.query().end.tolist() == [0]
    few = make_newton(np.array([0.0, 1.0, 1.2, 0.5, 0.2, 1.0]), 0.1, max_active=3)
    assert few.query().active.tolist() == [0, 3, 4]
    none = make_newton(np.array([0.0, 1.0, 1.0]), 0.0)
    assert none.query().active.tolist() == [0, 1, 2], "nothing is penalised"


@pytest.mark.parametrize(
    ("must", "max_active", "room"),
    [(0, 300, 300), (1, 300, 300), (224, 300, 300), (225, 300, 301), (500, 300, 576),
     (1999, 300, 2000), (5, 3000, 2000), (7, 0, 8), (7, 3, 8), (7, 4, 9)],
)  # fmt: skip
def test_the_room_for_active_terms(must: int, max_active: int, room: int) -> None:
    assert active_room(must, max_active) == room


def test_more_coefficients_than_a_hessian_holds_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(newton_module, "MAX_ACTIVE", 3)
    factors, gradient = np.array([0.0, 1.0, 1.0, 1.0]), np.zeros(4)
    fits = make_newton(factors, 1.0, start=point([1, 2, 3, 0], gradient))
    assert fits.query().active.tolist() == [0, 1, 2]
    with pytest.raises(FitError, match="4 terms have a coefficient, and a fit can have 3"):
        make_newton(factors, 1.0, start=point([1, 2, 3, 4], gradient))


def test_the_next_active_terms_follow_from_the_predicted_slopes() -> None:
    """A step along term 0 halves the slope of term 0 only: term 2 stays below its penalty."""
    newton = make_newton(np.array([0.0, 1.0, 1.0]), 1.0)
    query = Query(-1, np.array([0]), np.zeros(1), np.zeros(1), np.array([0, 1, 2]))
    hessian = [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    # β₀ goes to −0.8, and with it the slope of term 1 from 0.9 to 0.5: not near any more.
    newton.update(answer(query, [1.0] * 5, gradient=[0.8, 0.9, 0.75], hessian=hessian))
    asked = newton.query()
    np.testing.assert_allclose(asked.end, [-0.8], atol=1e-12)
    assert asked.active.tolist() == [0, 2]


# --- bounds -----------------------------------------------------------------------------------


def step_from(old: float, slope: float, bend: float, *, bound: float = 1.0) -> tuple[Newton, float]:
    """Return a solver of the intercept alone after a step, and the point that it asks for."""
    newton = make_newton(np.zeros(1), 0.0, bounds=np.array([bound]))
    query = Query(-1, np.array([0]), np.array([old]), np.array([old]), np.array([0]))
    newton.update(answer(query, [1.0] * 5, gradient=[slope], hessian=[[bend]]))
    return newton, float(newton.query().end[0])


def test_a_step_within_the_bounds_is_taken_whole() -> None:
    newton, end = step_from(0.0, -1.0, 1 / 2000)
    assert end == pytest.approx(2000, rel=1e-9)
    assert not newton.confined


@pytest.mark.parametrize("bound", [1.0, 64.0])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("old", [0.0, 1000.0])
def test_a_step_beyond_the_bounds_ends_just_inside(bound: float, sign: int, old: float) -> None:
    newton, end = step_from(sign * old / bound, -sign * 1e3 / bound, 1e-2, bound=bound)
    assert not newton.confined
    assert not newton.converged
    assert end * bound * sign == pytest.approx(LARGEST_PREDICTOR, rel=1e-8)
    assert abs(end) * bound <= LARGEST_PREDICTOR * (1 - ROUNDING / 2)


@pytest.mark.parametrize(("left", "confined"), [(1.1, False), (0.9, True), (0.0, True)])
def test_where_hardly_any_step_is_left_there_is_no_better_point(
    left: float, confined: bool
) -> None:
    """A step of 1,000 (over a curvature made steeper by 1 %), of which so many ‰ are left."""
    assert SHORTEST == 1e-3
    old = LARGEST_PREDICTOR * (1 - ROUNDING) - left
    newton, end = step_from(old, -1000 * 1.01, 1.0)
    assert newton.confined is newton.converged is confined
    if confined:
        assert end == old
    else:
        assert end == pytest.approx(LARGEST_PREDICTOR, rel=1e-8)
    newton.continue_at(0.0)
    assert newton.confined is confined, "as before, since nothing else changed"


def test_a_point_beyond_the_bounds_stays_where_it_is() -> None:
    newton, end = step_from(LARGEST_PREDICTOR + 1, -1e4, 1.0)
    assert newton.confined
    assert end == LARGEST_PREDICTOR + 1


def test_flat_directions_are_given_up_before_the_step_is_shortened() -> None:
    """Columns that cancel out: the slightest ridge that keeps the point within the bounds."""
    hessian, slope = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([-3e-4, 1e-4])
    expected = {
        ridge: np.linalg.solve(hessian + ridge * np.eye(2), -slope) for ridge in RIDGES if ridge
    }
    sizes = [np.abs(b).sum() for b in expected.values()]
    assert sizes[0] > LARGEST_PREDICTOR > sizes[1]
    newton = make_newton(FREE, 0.0)
    newton.update(answer(between([0, 0], [0, 0]), [1.0] * 5, gradient=slope, hessian=hessian))
    np.testing.assert_allclose(newton.query().end, expected[1e-6], rtol=1e-4)
    assert not newton.confined


def test_the_steepest_ridge_comes_last() -> None:
    assert RIDGES == (0.0, 1e-9, 1e-6, 1e-4, 1e-2)
    hessian, slope = np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([-1.5e-1, 1.5e-1])
    newton = make_newton(FREE, 0.0)
    newton.update(answer(between([0, 0], [0, 0]), [1.0] * 5, gradient=slope, hessian=hessian))
    # 0.15 over 1e-4 is 1,500 for each of two terms: beyond. Over 1e-2 it is 15.
    np.testing.assert_allclose(newton.query().end, [15, -15], rtol=1e-6)


# --- the same coefficients --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "same"),
    [(1 + 1e-7, True), (1 - 1e-7, True), (1 + 1.03e-7, False), (1 - 1.03e-7, False)],
)
def test_coefficients_are_the_same_up_to_a_share_of_their_size(other: float, same: bool) -> None:
    assert near_coef(np.array([5.0, other]), np.array([5.0, 1.0])) is same
    assert near_coef(np.array([5.0, -other]), np.array([5.0, -1.0])) is same


def test_coefficients_of_nothing_are_the_same_up_to_their_last_digit() -> None:
    zero = np.zeros(1)
    assert near_coef(np.array([1e-9]), zero)
    assert not near_coef(np.array([1.1e-9]), zero)
    assert not near_coef(np.array([-1.1e-9]), zero)


def test_a_query_of_the_very_same_solver_could_be_its_own() -> None:
    newton = make_newton(np.array([0.0, 1.0, 1.0]), 1.0, start=point(np.zeros(3), [0.0, 0.9, 0.2]))
    own = newton.query()
    assert own.active.tolist() == [0, 1]
    assert newton.could_ask(own)
    others: list[Any] = [[0], [0, 1, 2], [0, 2]]
    for active in others:
        assert not newton.could_ask(
            Query(own.fold, own.terms, own.start, own.end, np.array(active))
        )


@pytest.mark.parametrize(("share", "either"), [(0.9e-6, True), (1.1e-6, False)])
@pytest.mark.parametrize("side", [1, -1])
def test_a_term_at_the_very_limit_may_be_active_or_not(
    share: float, either: bool, side: int
) -> None:
    slope = 0.7 + side * share
    newton = make_newton(
        np.array([0.0, 1.0, 1.0]), 1.0, start=point(np.zeros(3), [0.0, 0.9, slope])
    )
    own = newton.query()
    assert own.active.tolist() == ([0, 1, 2] if side == 1 else [0, 1])
    turned = np.array([0, 1] if side == 1 else [0, 1, 2])
    query = Query(own.fold, own.terms, own.start, own.end, turned)
    assert newton.could_ask(query) is either


@pytest.mark.parametrize(("share", "either"), [(0.9e-6, True), (1.1e-6, False)])
def test_where_the_room_is_full_the_limit_is_that_of_the_last_one_in(
    share: float, either: bool
) -> None:
    gradient = [0.0, 0.9, 0.9 - share, 0.8]
    factors = np.array([0.0, 1.0, 1.0, 1.0])
    newton = make_newton(factors, 1.0, start=point(np.zeros(4), gradient), max_active=2)
    own = newton.query()
    assert own.active.tolist() == [0, 1]
    query = Query(own.fold, own.terms, own.start, own.end, np.array([0, 2]))
    assert newton.could_ask(query) is either


# --- flat directions --------------------------------------------------------------------------


def flat_solver(bend: float = 0.0) -> tuple[Newton, Query]:
    """A solver of two terms that hold for the same patients, but for so much curvature.

    It stands at (0, 0, 0) and asks for (0, 1, 1) or another point on the same line.
    """
    newton = make_newton(np.zeros(3), 0.0)
    hessian = np.array([[1.0, 0.0, 0.0], [0.0, 1.0 + bend, 1.0], [0.0, 1.0, 1.0 + bend]])
    query = Query(-1, np.arange(3), np.zeros(3), np.zeros(3), np.arange(3))
    newton.update(answer(query, [1.0] * 5, gradient=[0.0, -2.0, -2.0], hessian=hessian))
    own = newton.query()
    assert own.end[1] + own.end[2] == pytest.approx(2, abs=1e-6)
    return newton, own


def moved(own: Query, by: Any) -> Query:
    end = np.zeros(3)
    end[own.terms] = own.end
    return Query(own.fold, np.arange(3), np.zeros(3), end + np.asarray(by), own.active)


def test_along_a_flat_direction_another_machine_may_stand_elsewhere() -> None:
    newton, own = flat_solver()
    assert newton.could_ask(moved(own, [0, 0.5, -0.5]))
    assert newton.could_ask(moved(own, [0, 0.003, -0.003]))
    assert not newton.could_ask(moved(own, [0, 0.5, -0.4]))
    assert not newton.could_ask(moved(own, [1e-5, 0.5, -0.5]))
    assert not newton.could_ask(moved(own, [0, 0.5, 0.5]))


def test_far_along_a_flat_direction_is_another_point() -> None:
    """By more than one and the largest coefficient, here 1 + 1."""
    newton, own = flat_solver()
    largest = 1 + np.abs(own.end).max()
    for by, same in ((largest - 1e-9, True), (largest + 1e-9, False)):
        assert newton.could_ask(moved(own, [0, by, -by])) is same


@pytest.mark.parametrize(("bend", "same"), [(0.5e-14, True), (2e-14, False), (1e-10, False)])
def test_how_flat_a_direction_must_be(bend: float, same: bool) -> None:
    """Along (1, −1) the curvature is the square of the share by which predictors move: 10⁻⁷."""
    newton, own = flat_solver()
    newton._hessian[1, 1] += bend
    newton._hessian[2, 2] += bend
    assert newton.could_ask(moved(own, [0, 1.5, -1.5])) is same


def test_a_flat_direction_keeps_the_penalty() -> None:
    newton, own = flat_solver()
    newton.penalty, newton.factors = 1.0, np.array([0.0, 1.0, 1.0])
    assert newton.could_ask(moved(own, [0, 0.5, -0.5]))
    newton.factors = np.array([0.0, 1.0, 1.1])
    assert not newton.could_ask(moved(own, [0, 0.5, -0.5]))
    newton.factors = np.array([0.0, 1.0, 1.0])
    assert not newton.could_ask(moved(own, [0, 1.5, -1.5])), "opposite signs cost more"


@pytest.mark.parametrize(
    ("slope", "tolerance", "inner"), [(8.0, 0.5, 8e-3), (8.0, 2.0, 2e-2), (1e-3, 1e-8, 1e-6)]
)
def test_the_quadratic_is_solved_finer_than_the_problem(
    monkeypatch: pytest.MonkeyPatch, slope: float, tolerance: float, inner: float
) -> None:
    """To a thousandth of the residual; never finer than a hundredth of what is asked for."""
    seen: list[float] = []

    def spy(
        hessian: Any, linear: Any, penalty: Any, here: Any, *, tolerance: float, signs: None
    ) -> Any:
        seen.append(tolerance)
        return here

    monkeypatch.setattr(newton_module, "solve_quadratic", spy)
    newton = make_newton(FREE, 0.0, tolerance=tolerance)
    newton.update(answer(newton.query(), [1.0] * 5, gradient=[slope, 0.0]))
    assert seen == [pytest.approx(inner)]
