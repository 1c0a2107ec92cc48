r"""What a family of outcomes must tell: loss, link, bounds and words.

The objective of every family is the same (paper 2.2.3):

.. math:: P(w) = \tfrac1W \sum_i w_i\,ℓ(F_i, y_i) + λ\sum_j π_j|w_j|

with the linear predictor :math:`F = Xw`. Everything below is per patient, so that sums over
sites, folds and baselines are left to whoever adds up.

===============================  ==========================  ==========
mathematics                      here                        shape
===============================  ==========================  ==========
:math:`w·ℓ(F, y)`                :meth:`Family.value`        (n_rows,)
:math:`w·∂ℓ/∂F`                  :meth:`Family.slope`        (n_rows,)
:math:`w·∂²ℓ/∂F²`                :meth:`Family.curvature`    (n_rows,)
:math:`w·ℓ^*(a·∂ℓ/∂F, y)`        :meth:`Family.conjugate`    (n_rows,)
:math:`\arg\min_F \sum w·ℓ`      :meth:`Family.start`        scalar
:math:`E[y] = g^{-1}(F)`         :attr:`Family.link`         (n_rows,)
===============================  ==========================  ==========

Oracles: numerical differentiation, the definition of the conjugate, and scikit-learn
(``tests/unit/core/test_families.py``, which runs over every family).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.judge import Judge


@dataclass(frozen=True)
class Link:
    """How a prediction follows from the linear predictor F, in every language that we write.

    Parameters
    ----------
    name : str
    inverse : callable
        F → the mean of the outcome.
    forward : callable
        The mean of the outcome → F.
    """

    name: str
    inverse: Callable[[Floats], Floats]
    forward: Callable[[Floats], Floats]


@dataclass(frozen=True)
class Words:
    """What people read of an outcome's family.

    Parameters
    ----------
    predictor : str
        What F is: ``log-odds``.
    prediction : str
        What a model predicts: ``probability``.
    effect : str
        What exp(β) or β of a term is: ``odds ratio``.
    """

    predictor: str
    prediction: str
    effect: str


class Family(ABC):
    """A kind of outcome; its instances have no state."""

    kind: ClassVar[str]
    """As ``outcome.kind`` in the study file."""

    link: ClassVar[Link]
    words: ClassVar[Words]

    judge: ClassVar[Judge[Any, Any]]
    """How predictions are judged on patients that a model was not learnt from."""

    n_baseline: ClassVar[int] = 1
    """Columns of the baseline block: unpenalised, always in the model; one is the intercept."""

    most_slope: ClassVar[float]
    """Largest |∂ℓ/∂F| of any patient."""

    most_curvature: ClassVar[float]
    """Largest ∂²ℓ/∂F² of any patient."""

    @abstractmethod
    def most_value(self, predictor: float) -> float:
        """Return the largest ℓ of any patient whose |F| is at most `predictor`."""

    @abstractmethod
    def value(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·ℓ(F, y) per patient, shape (n_rows,)."""

    @abstractmethod
    def slope(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·∂ℓ/∂F per patient, shape (n_rows,)."""

    @abstractmethod
    def curvature(self, predictor: Floats, outcome: Floats, weights: Floats) -> Floats:
        """Return w·∂²ℓ/∂F² per patient, shape (n_rows,)."""

    @abstractmethod
    def conjugate(
        self, predictor: Floats, outcome: Floats, weights: Floats, shrink: Floats
    ) -> Floats:
        """Return w·ℓ*(a·∂ℓ/∂F, y) per patient, for a in [0, 1]; both shapes (n_rows,).

        ℓ* is the convex conjugate of ℓ in F. Shrunk slopes are the certificate's dual point.
        """

    @abstractmethod
    def start(self, outcome: Floats, weights: Floats) -> float | None:
        """Return the constant F of least loss; None where no finite one is (nothing to learn)."""
