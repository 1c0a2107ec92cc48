r"""The regularisation path, and choosing λ by federated cross-validation.

In: sums over all sites. Out: λ, chosen by the deviance of held-out patients.
Leaves the site: what a round of the exact solver sends, once per fold; of the
held-out patients one summed loss per fold and λ.

Folds are drawn inside each site. All folds, and the fit to all patients, go
down the same geometric path from :math:`λ_{\max}` (where every penalised term is
0) by warm starts, and share their rounds: a round carries one point of each.
Each takes a single Newton step or two per λ, since the curvature at the last λ
predicts the next.

Oracle: the exact solver at every λ, and a loop over folds on pooled data
(``tests/unit/core/test_path.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.curvature import CurvatureSums, Query
from fedrulefit.core.families import Family
from fedrulefit.core.layout import Layout
from fedrulefit.core.newton import Newton, Point
from fedrulefit.core.signs import Signs, pull

PATH_TOLERANCE: Final = 0.05
"""KKT residual, as a share of λ, that is good enough along the path."""

NULL_PENALTY: Final = 1e9
"""So large that no penalised term enters, before λ_max is known."""

PATIENCE: Final = 6
"""Give up after so many λs without a better mean deviance."""


@dataclass(frozen=True, eq=False)
class Path:
    """The finished path.

    Parameters
    ----------
    penalties : (n_path,) float64
        λ, falling.
    deviance, error : (n_path,) float64
        Mean deviance of the patients left out of each fold, and its standard error.
    n_terms, n_rules : (n_path,) int
        Terms (but the baseline) and rules other than 0 in the fit to all patients.
    points : tuple of Point
        The fit to all patients at each λ, near its optimum.
    chosen : int
        Position of the chosen λ.
    folds : tuple of tuple of (n_terms,) float64
        Coefficients of the fits without each fold, at each λ.
    """

    penalties: Floats
    deviance: Floats
    error: Floats
    n_terms: tuple[int, ...]
    n_rules: tuple[int, ...]
    points: tuple[Point, ...]
    chosen: int
    folds: tuple[tuple[Floats, ...], ...] = ()


class PathSearch:
    """All folds on their way down the path, in shared rounds.

    Ask :meth:`queries`, give the summed answers to :meth:`update`, until
    :attr:`done`; then :meth:`finish`.

    Parameters
    ----------
    family : Family
        Of the outcome.
    layout : Layout
        Of the terms.
    factors : sequence of (n_terms,) float64
        Penalty factors of the fit to all patients, then of each fold's.
    length : int
        Number of λs.
    ratio : float
        Smallest λ as a share of the largest.
    max_active : int
    bounds : (n_terms,) float64, optional
        Largest size of each term; 1 by default.
    signs : Signs, optional
        That coefficients may have; any, by default.
    """

    def __init__(
        self,
        family: Family,
        layout: Layout,
        factors: Sequence[Floats],
        *,
        length: int,
        ratio: float,
        max_active: int,
        bounds: Floats | None = None,
        signs: Signs | None = None,
    ) -> None:
        self.rounds = 0
        self._signs = signs
        self._layout = layout
        self._factors = factors[0]
        self._shape = length, ratio
        self._penalties: Floats | None = None
        solver = partial(Newton, family, layout, max_active=max_active, bounds=bounds, signs=signs)
        self._tracks = [
            _Track(solver(own, NULL_PENALTY, fold=fold))
            for fold, own in enumerate(factors, start=-1)
        ]

    @property
    def objective(self) -> float:
        """Penalised mean loss of the fit to all patients."""
        return self._tracks[0].solver.point.objective

    @property
    def done(self) -> bool:
        """Whether the path is walked, or further λs do not help."""
        if self._penalties is None:
            return False
        walked = min(len(track.held) for track in self._tracks)
        if walked == len(self._penalties):
            return True
        if walked <= PATIENCE or len(self._tracks) == 1:
            return False
        deviance = self._held()[:, :walked].mean(axis=0)
        return int(np.argmin(deviance)) < walked - PATIENCE

    def queries(self) -> tuple[Query, ...]:
        """Return one point for every fold that is still on its way."""
        return tuple(solver.query() for solver in self.solvers)

    @property
    def solvers(self) -> tuple[Newton, ...]:
        """The solvers of all folds that are still on their way."""
        return tuple(track.solver for track in self._open())

    def update(self, answers: Sequence[CurvatureSums]) -> None:
        """Take the summed answers to the last queries."""
        self.rounds += 1
        for track, sums in zip(self._open(), answers, strict=True):
            track.solver.update(sums)
        if self._penalties is None:
            self._start()
            return
        for track in self._open():
            track.advance(self._penalties)

    def finish(
        self,
        *,
        rule: Literal["min", "1se"],
        max_rules: int | None = None,
        max_terms: int | None = None,
    ) -> Path:
        """Choose λ: least deviance, or the largest λ within one standard error of it.

        With `max_rules`, among the λs that keep at most so many rules; with `max_terms`, at
        most so many rules and linear terms.
        """
        walked = min(len(track.held) for track in self._tracks)
        if self._penalties is None or walked == 0:
            raise ValueError("no λ of the path is finished: allow more rounds")
        points = self._tracks[0].points[:walked]
        coefs = [point.coef for point in points]
        effects, rules = (
            [int((coef[block] != 0).sum()) for coef in coefs]
            for block in (self._layout.effects, self._layout.rules)
        )
        held = self._held()[:, :walked]
        deviance = 2 * held.mean(axis=0)
        spread = held.std(axis=0, ddof=1) if len(held) > 1 else np.zeros(walked)
        error = 2 * spread / np.sqrt(max(len(held), 1))
        return Path(
            penalties=self._penalties[:walked],
            deviance=deviance,
            error=error,
            n_terms=tuple(effects),
            n_rules=tuple(rules),
            points=tuple(points),
            chosen=choose(
                deviance, error, rules, effects, rule=rule, max_rules=max_rules, max_terms=max_terms
            ),
            folds=tuple(
                tuple(point.coef for point in track.points[:walked]) for track in self._tracks[1:]
            ),
        )

    def held(self, at: int) -> Floats:
        """Return the folds' held-out losses at a λ of the path, shape (n_folds,)."""
        losses: Floats = self._held()[:, at]
        return losses

    def starts(self, at: int, share: float) -> list[Floats]:
        """Return coefficients of all patients' fit, and of each fold's, with fewer terms.

        Those that have about `share` of the terms that they have at a λ of the path.
        """
        effects = self._layout.effects
        found = []
        for track in self._tracks:
            counts = [int((point.coef[effects] != 0).sum()) for point in track.points[: at + 1]]
            near = [abs(count - share * counts[-1]) for count in counts]
            found.append(track.points[len(near) - 1 - int(np.argmin(near[::-1]))].coef)
        return found

    def _open(self) -> list[_Track]:
        length, _ = self._shape
        return [track for track in self._tracks if len(track.held) < length]

    def _held(self) -> Floats:
        """Held-out losses, shape (n_folds, n_path walked by all)."""
        tracks = self._tracks[1:] or self._tracks
        walked = min(len(track.held) for track in tracks)
        return np.array([track.held[:walked] for track in tracks])

    def _start(self) -> None:
        """Know λ_max once the unpenalised terms stand."""
        solvers = [track.solver for track in self._tracks]
        if not all(solver.converged for solver in solvers):
            return
        length, ratio = self._shape
        # Where no penalised term may enter, any λ does.
        largest = largest_penalty(solvers[0].point.gradient, self._factors, self._signs) or 1.0
        self._penalties = largest * np.geomspace(1, ratio, length)
        for track in self._tracks:
            track.begin(self._penalties)


class _Track:
    """One fold's way down the path."""

    def __init__(self, solver: Newton) -> None:
        self.solver = solver
        self.solver.tolerance = 1e-4
        self.held: list[float] = []
        self.points: list[Point] = []

    def begin(self, penalties: Floats) -> None:
        self._go_to(penalties[0])

    def advance(self, penalties: Floats) -> None:
        """Note the point if it is good enough, and go on to the next λ."""
        if not self.solver.converged:
            return
        self.held.append(self.solver.point.held_loss)
        self.points.append(self.solver.point)
        if len(self.held) < len(penalties):
            self._go_to(penalties[len(self.held)])

    def _go_to(self, penalty: float) -> None:
        self.solver.tolerance = PATH_TOLERANCE * penalty
        self.solver.continue_at(penalty)


def largest_penalty(gradient: Floats, factors: Floats, signs: Signs | None = None) -> float:
    """Return the least λ at which every penalised term is 0."""
    penalised, slopes = factors > 0, pull(gradient, signs)
    return float((slopes[penalised] / factors[penalised]).max(initial=0.0))


def choose(
    deviance: Floats,
    error: Floats,
    n_rules: Sequence[int],
    n_terms: Sequence[int],
    *,
    rule: Literal["min", "1se"],
    max_rules: int | None = None,
    max_terms: int | None = None,
) -> int:
    """Return the position of the chosen λ."""
    allowed = np.ones(len(deviance), dtype=np.bool_)
    for counts, most in ((n_rules, max_rules), (n_terms, max_terms)):
        if most is not None:
            allowed &= np.asarray(counts) <= most
    best = int(np.argmin(np.where(allowed, deviance, np.inf)))
    if rule == "min":
        return best
    near = allowed & (deviance <= deviance[best] + error[best])
    return int(np.flatnonzero(near)[0])
