r"""Between which counts that of a new patient lies: the mean is predicted, the rest is chance.

In: the expected count :math:`μ`, and the dispersion :math:`φ` of held-out patients. Out: the
quantiles of the negative binomial distribution of that mean and of variance :math:`φμ`, or of
Poisson's where φ is 1 or less; where the model has learnt α, of variance :math:`μ + αμ^2`. In
Python and in JavaScript, for the report's calculator.

Counts are whole, so more than the stated share of patients lies inside, above all where few are
expected. φ is that about predictions over the held-out patients' own exposures.

Oracles: simulation (``tests/unit/core/test_count_ranges.py``), and each language for the other
(``tests/browser/test_report.py``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats

SHARES: Final = (80, 95)
"""Per cent of new patients that lie inside."""

_QUANTILES: Final = """\
[80, 95].map((share) => {
    const size = mean / (spread - 1), over = spread > 1;
    const ends = [50 - share / 2, 50 + share / 2].map((at) => {
      let log = over ? -size * Math.log(spread) : -mean, sum = Math.exp(log), k = 0;
      while (sum < at / 100 && k < 1e6) {
        log += Math.log(over ? (k + size) / (k + 1) * (1 - 1 / spread) : mean / (k + 1));
        k += 1;
        sum += Math.exp(log);
      }
      return String(k);
    });
    return [share, ...ends];
  })"""

JAVASCRIPT: Final = f"(mean, [spread]) => {_QUANTILES}"
"""Of an expected count and [φ]: for each share the ends, as text."""

OF_MEAN_JAVASCRIPT: Final = (
    f"(mean, [dispersion]) => ((spread) => {_QUANTILES})(1 + dispersion * mean)"
)
"""The same of [α], where the variance is μ + αμ²."""


def find_count_range(mean: Floats, dispersion: float | Floats, share: float) -> Floats:
    """Return between what counts lie in a share of patients, shape (n_rows, 2).

    Parameters
    ----------
    mean : (n_rows,) float64
        Expected counts.
    dispersion : float or (n_rows,) float64
        Variance of counts by their mean.
    share : float
        Between 0 and 1.
    """
    from scipy.stats import nbinom, poisson

    ends = np.array([0.5 - share / 2, 0.5 + share / 2])
    means = np.asarray(mean, dtype=np.float64)[:, None]
    spread = np.broadcast_to(np.asarray(dispersion, dtype=np.float64), len(means))[:, None]
    over = np.where(spread > 1, spread - 1, 1.0)
    found = np.where(
        spread > 1, nbinom.ppf(ends, means / over, 1 / (1 + over)), poisson.ppf(ends, means)
    )
    ranges: Floats = np.maximum(np.asarray(found, dtype=np.float64), 0.0)
    return ranges
