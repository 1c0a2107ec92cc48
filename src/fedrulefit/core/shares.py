r"""Shares of patients, the difference of two, and 95 % intervals that hold with few patients.

In: shares and how many patients they are of, as arrays. Out: ends of intervals. Nothing leaves
the site here.

===================================  ===================================  =========
mathematics                          here                                 shape
===================================  ===================================  =========
Wilson's score interval              :func:`wilson`                       as shares
the same, with Poisson's ends        :func:`wilson_poisson`               as shares
Newcombe's hybrid score interval     :func:`newcombe`                     as shares
patients as few as the noise makes   :func:`effective_size`               as shares
===================================  ===================================  =========

Wilson's interval (JASA 1927) and Newcombe's (Statistics in Medicine 1998, method 10) hold where
the usual one, share ± 1.96 standard errors, does not: with few patients, and near 0 and 1.

Oracle: statsmodels, and simulated coverage (``tests/unit/core/test_shares.py``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import gammaincinv, ndtri

from fedrulefit.core.arrays import Floats

Z95: Final = float(ndtri(0.975))
"""Standard errors on either side in a 95 % interval."""


def wilson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's 95 % interval of a share of n patients."""
    middle = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    wide = Z95 * np.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2)) / (1 + Z95**2 / n)
    return np.minimum(middle - wide, share), np.maximum(middle + wide, share)


def wilson_poisson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's 95 % interval of a share of n patients, with Poisson's end where few count.

    Where up to three have the outcome, or have not, its end near 0 or 1 lies too far inside, and
    that of Poisson's takes its place (Brown, Cai and DasGupta 2001, Statistical Science 16:
    101–133).
    """
    low, high = wilson(share, n)
    least, most = (
        np.where((count > 0) & (count <= 3), gammaincinv(np.maximum(count, 1e-9), 0.05) / n, 1.0)
        for count in (share * n, (1 - share) * n)
    )
    return np.minimum(low, least), np.maximum(high, 1 - most)


def newcombe(
    first: Floats, n_first: Floats, second: Floats, n_second: Floats, covariance: Floats
) -> tuple[Floats, Floats]:
    """Return Newcombe's 95 % interval of first − second.

    Parameters
    ----------
    first, n_first, second, n_second : float64
        Two shares, and of how many patients.
    covariance : float64
        Of the two; 0 where they are of different patients and nothing links them.
    """
    (low_1, high_1), (low_2, high_2) = wilson(first, n_first), wilson(second, n_second)
    linked = 2 * Z95**2 * covariance
    below = np.sqrt(np.maximum((first - low_1) ** 2 + (high_2 - second) ** 2 - linked, 0.0))
    above = np.sqrt(np.maximum((high_1 - first) ** 2 + (second - low_2) ** 2 - linked, 0.0))
    gap = first - second
    return np.maximum(gap - below, -1.0), np.minimum(gap + above, 1.0)


def effective_size(share: Floats, n: Floats, noise: Floats) -> Floats:
    """Return of how many patients a share tells as much as of n, once noise was added to it.

    Parameters
    ----------
    share, n : float64
    noise : float64
        Variance of what was added: of rounding, for instance.
    """
    near = (share * n + 0.5) / (n + 1)  # never 0 or 1
    size: Floats = n / (1 + n * noise / (near * (1 - near)))
    return size
