"""Curves of single patients over time, called as scikit-survival's step functions are.

A model's hazard is constant between public times, so a cumulative hazard is a straight line from
one to the next, and a survival curve bends in between: unlike steps, these curves are exact at any
time, not at some times only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedrulefit.core.arrays import Floats


@dataclass(frozen=True, eq=False)
class TimeFunction:
    """A patient's cumulative hazard or survival, as a function of time.

    Parameters
    ----------
    x : (n_times,) float64
        Times above 0, increasing; every end of an interval of constant hazard is one.
    hazard : (n_times,) float64
        Cumulative hazard by these times.
    survives : bool
        Whether the function is the survival, exp(−hazard).

    Examples
    --------
    >>> import numpy as np
    >>> curve = TimeFunction(np.array([10.0, 20.0]), np.array([0.1, 0.4]), survives=False)
    >>> float(curve(15.0)), curve([0, 20]).tolist()
    (0.25, [0.0, 0.4])
    """

    x: Floats
    hazard: Floats
    survives: bool

    @property
    def y(self) -> Floats:
        """The function at `x`, shape (n_times,)."""
        return np.exp(-self.hazard) if self.survives else self.hazard

    @property
    def domain(self) -> tuple[float, float]:
        """The times between which the function is known."""
        return 0.0, float(self.x[-1])

    def __call__(self, x: Any) -> Any:
        """Return the function at one time, or at several.

        Parameters
        ----------
        x : float or (n,) array

        Returns
        -------
        value : float, or (n,) float64

        Raises
        ------
        ValueError
            Where nothing is known of a time: before 0 and after the last horizon.
        """
        times = np.atleast_1d(np.asarray(x, dtype=np.float64))
        low, high = self.domain
        if not np.isfinite(times).all():
            raise ValueError("x must be finite")
        if times.size and (times.min() < low or times.max() > high):
            raise ValueError(f"x must be within [{low:f}; {high:f}]")
        hazard = np.interp(times, np.append(0.0, self.x), np.append(0.0, self.hazard))
        value = np.exp(-hazard) if self.survives else hazard
        return value[0] if len(value) == 1 else value


def name_curves(x: Floats, hazards: Floats, *, survives: bool) -> Any:
    """Return a function for each patient, shape (n_rows,), of objects."""
    curves = np.empty(len(hazards), dtype=object)
    curves[:] = [TimeFunction(x, hazard, survives) for hazard in hazards]
    return curves
