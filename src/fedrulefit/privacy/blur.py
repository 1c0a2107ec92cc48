r"""How far the noise of the histograms moves what is read off them: known before it is drawn.

In: ε of one histogram, its bins, the most that a patient counts. Out: how many patients' ranks
a median is off, and a warning where that is much of all patients. Nothing here has seen data.

A median splits the bins into two halves, whose noise sums A and C are independent. Its rank is
off by A − (A + C)/2 = (A − C)/2. With M sites, B bins and noise of variance 2(w/ε)² in each, the
standard deviation is

.. math:: \sqrt{M \cdot B \cdot 2 (w/ε)^2} \, / \, 2 = (w/ε) \sqrt{M B / 2}.

Oracle: noisy histograms themselves (``tests/unit/privacy/test_blur.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Final

TOO_FAR: Final = 0.25
"""Share of the patients: what is meant as the median may then as well be a quartile."""


@dataclass(frozen=True)
class Blur:
    """The noise of a study's histograms of numbers.

    Parameters
    ----------
    epsilon : float or None
        ε of one histogram; None where there is no noise, or no number whose cut-offs are
        estimated.
    n_bins : int
    most_weight : float
        The most that one patient can count.
    """

    epsilon: float | None
    n_bins: int
    most_weight: float = 1.0

    def ranks(self, n_sites: int = 1) -> float:
        """Return the standard deviation of a median's rank, in patients."""
        if self.epsilon is None:
            return 0.0
        return self.most_weight / self.epsilon * sqrt(n_sites * self.n_bins / 2)

    def problem(self, n_patients: float, n_sites: int = 1) -> str:
        """Say that cut-offs will be little but noise; "" where they will not.

        Parameters
        ----------
        n_patients : float
            Of all sites together; what they count, where they have weights.
        n_sites : int
        """
        ranks = self.ranks(n_sites)
        if ranks <= TOO_FAR * n_patients:
            return ""
        return (
            f"ε of each histogram is {self.epsilon:.2g}: its noise moves a median by about "
            f"{ranks:,.0f} patients, of {n_patients:,.0f}. Cut-offs and limits of numbers will be "
            "little but noise: take covariates out of the study, raise 'epsilon_total', give "
            "numbers fixed 'cutoffs', or, in a simulation, set 'noise = false'"
        )
