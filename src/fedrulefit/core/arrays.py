"""The array types of the package, fixed in one place.

=========  =======  ====================================================
name       dtype    holds
=========  =======  ====================================================
Floats     float64  values, coefficients, weights
Ints       int64    counts, positions
Codes      uint8    a patient's covariates on the shared grid
Bits       uint8    eight patients a byte, for one rule a column
Bools      bool     masks
=========  =======  ====================================================
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.uint8]
Bits: TypeAlias = npt.NDArray[np.uint8]
Bools: TypeAlias = npt.NDArray[np.bool_]

MISSING: Final = 255
"""The code of a missing value, for every covariate."""

MAX_CODES: Final = 255
"""Codes 0 … 254 are values; 255 is :data:`MISSING`."""
