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

import math
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
    sql : callable
        An expression for F, and how the database writes a number → an expression for the mean.
    onnx : tuple of (str,) or (str, float)
        The ONNX operators that make F the mean, one after another; some take a number, too.
    javascript : str
        A function from F to the mean.
    """

    name: str
    inverse: Callable[[Floats], Floats]
    forward: Callable[[Floats], Floats]
    sql: Callable[[str, Callable[[float], str]], str]
    onnx: tuple[tuple[str] | tuple[str, float], ...]
    javascript: str


@dataclass(frozen=True)
class Words:
    """What people read of an outcome's family.

    Parameters
    ----------
    predictor, predictor_column : str
        What F is, and its column in frames and exports: ``log-odds``.
    prediction, predictions, prediction_column : str
        What a model predicts, one and many, and its column: ``probability``.
    level : str
        What a term raises or lowers, in short: ``risk``.
    observed : str
        What predictions are compared with: ``observed share``.
    effect, effect_short, effect_column : str
        What a term's :meth:`Family.effect` is, and its column: ``odds ratio``.
    effect_sign : str
        What stands before an effect: ``×``.
    effect_of : str
        What an effect changes: ``odds``.
    acts : str
        What a term does to that: ``multiplies the odds``.
    effect_meaning, effect_caveat : str
        A sentence on how to read an effect, and one on how not to.
    with_outcome, had_outcome : str
        Of patients whose outcome counts as an event.
    with_and_without, have_or_not, had_or_not : str
        Of patients on either side, where neither may be too few.
    regression : str
        The model in the words of statistics: ``logistic regression``.
    through_link : str
        How F becomes a prediction, for a formula in words.
    refers_to : str
        What predictions refer to, where no patients were resampled: a sentence's end.
    output : str
        What the model gives, in a sentence.
    """

    predictor: str
    predictor_column: str
    prediction: str
    predictions: str
    prediction_column: str
    level: str
    observed: str
    effect: str
    effect_short: str
    effect_column: str
    effect_sign: str
    effect_of: str
    acts: str
    effect_meaning: str
    effect_caveat: str
    with_outcome: str
    had_outcome: str
    with_and_without: str
    have_or_not: str
    had_or_not: str
    regression: str
    through_link: str
    refers_to: str
    output: str


class Family(ABC):
    """A kind of outcome; its instances know what is public of it, and nothing else."""

    kind: ClassVar[str]
    """As ``outcome.kind`` in the study file."""

    link: Link
    words: Words

    judge: Judge[Any, Any]
    """How predictions are judged on patients that a model was not learnt from."""

    effect_javascript: str
    """:meth:`effect` as a JavaScript function."""

    tell_javascript: str
    """A JavaScript function from a prediction to its text."""

    least_span: float
    """A change of F so small that a drawing need not stretch it."""

    n_baseline: int = 1
    """Columns of the baseline block: unpenalised, always in the model; one is the intercept."""

    most_slope: float
    """Largest |∂ℓ/∂F| of any patient."""

    most_curvature: float
    """Largest ∂²ℓ/∂F² of any patient."""

    most_conjugate: float
    """Largest |ℓ*| of any patient, at any shrunk slope."""

    separated: float = -math.inf
    """A mean loss below it is reached only on the way to infinite coefficients, where solvers
    stop; −∞ for a loss that finite ones minimise."""

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
    def information(self, patients: float, mean: float) -> float:
        """Return the summed ∂²ℓ/∂F² of so many patients whose outcomes have this mean."""

    @abstractmethod
    def effect(self, coefficient: float) -> float:
        """Return what a coefficient does, as people are told it (:attr:`Words.effect`)."""

    @abstractmethod
    def effect_ticks(self, low: float, high: float) -> list[tuple[float, float]]:
        """Return a few round effects between two values of F, as (F, effect)."""

    @abstractmethod
    def tell(self, prediction: float) -> str:
        """Return a prediction as text."""

    @abstractmethod
    def tell_move(self, most: float) -> str:
        """Return what it means for a patient that F moves by at most `most`, in a clause."""

    @abstractmethod
    def start(self, outcome: Floats, weights: Floats) -> float | Floats | None:
        """Return the constant F of least loss; None where no finite one is (nothing to learn).

        Where the baseline has several columns, one constant for each, shape (n_baseline,).
        """
