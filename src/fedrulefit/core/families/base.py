r"""What a family of outcomes must tell: loss, link, bounds and words.

The objective of every family is the same (paper 2.2.3):

.. math:: P(w) = \tfrac1W \sum_i w_i\,ℓ(F_i, y_i) + λ\sum_j π_j|w_j|

with the linear predictor :math:`F = Xw`. Everything below is per patient, so that sums over
sites, folds and baselines are left to whoever adds up.

A patient may have several predictors, one for each baseline column: :math:`F_k = a_k + f`, with
rules and linear terms f that all share (an interval of time, a step of a scale). Predictors,
slopes and curvatures then have shape (n_rows, n_baseline), and the loss is a sum over k.

Or predictors have rules and linear terms of their own (:attr:`Family.own_terms`). Of classes the
loss depends on differences of predictors alone, and curvatures are crossed,
:math:`w·∂^2ℓ/∂F_a∂F_b`, of shape (n_rows, n_baseline, n_baseline). Of causes of an event it is a
sum over them; each owns a predictor for every interval of time.

===============================  ==========================  ===========
mathematics                      here                        shape
===============================  ==========================  ===========
:math:`w·ℓ(F, y)`                :meth:`Family.value`        (n_rows,)
:math:`w·∂ℓ/∂F`                  :meth:`Family.slope`        as F
:math:`w·∂²ℓ/∂F²`                :meth:`Family.curvature`    as F
:math:`w·ℓ^*(a·∂ℓ/∂F, y)`        :meth:`Family.conjugate`    (n_rows,)
:math:`\arg\min_F \sum w·ℓ`      :meth:`Family.start`        as one F
:math:`E[y] = g^{-1}(F)`         :attr:`Family.link`         (n_rows,)
what is counted as an event      :meth:`Family.events`       (n_rows,)
what is added up inside rules    :meth:`Family.tallies`      (n_rows, n_tallies)
what one could outweigh all in   :meth:`Family.magnitudes`   (n_rows, any)
in which parts a patient is      :meth:`Family.present`      (n_rows, any)
of which kinds patients are      :meth:`Family.kinds`        (n_rows, any)
===============================  ==========================  ===========

Oracles: numerical differentiation, the definition of the conjugate, and scikit-learn
(``tests/unit/core/test_families.py``, which runs over every family).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.families.evidence import Evidence
from fedrulefit.core.families.incidence import Incidence
from fedrulefit.core.families.judge import Judge
from fedrulefit.core.families.link import Link
from fedrulefit.core.families.recipes import Language
from fedrulefit.core.families.sides import PERCENT, Levels
from fedrulefit.core.families.survival import Timeline
from fedrulefit.core.families.tells import Tells
from fedrulefit.core.fixed import LARGEST_PREDICTOR
from fedrulefit.numerals import format_effect, format_number, is_little


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
    unit : str
        Of predictions and effects; empty for shares, ratios and numbers without one.
    by : str
        The horizon of a prediction, with its blank: `` by 365 days``.
    predictor_is, effect_changes : str
        The verbs behind `predictor` and `effect_of`: ``is``, ``changes``.
    little : str
        Of effects that count for little, behind their name.
    by_hand : str
        How F becomes a prediction, in numbers, for who computes by hand: a sentence.
    calculator : str
        The calculator's name.
    one_of : str
        What one of several levels is called: ``level``, ``class``.
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
    unit: str = ""
    by: str = ""
    predictor_is: str = "is"
    effect_changes: str = "changes"
    little: str = "of 1.00 when rounded"
    by_hand: str = ""
    calculator: str = "Risk calculator"
    one_of: str = "level"


class Family(ABC):
    """The outcome of a study: its kind, and the public facts that it states; nothing else."""

    kind: ClassVar[str]
    """As ``outcome.kind`` in the study file."""

    judge_type: ClassVar[type[Judge[Any, Any]]]
    """The class of :attr:`judge`: what sums a site may be asked for."""

    link: Link
    words: Words

    tells: Tells = Tells()
    """What sums tell of patients with such an outcome."""

    judge: Judge[Any, Any]
    """How predictions are judged on patients that a model was not learnt from."""

    levels: Levels
    """What is told of patients inside and outside rules, from :meth:`tallies`."""

    evidence: Evidence | None = None
    """How the effect of a rule within hospitals is found; None where none is told."""

    effect_javascript: str
    """:meth:`effect` as a JavaScript function."""

    tell_javascript: str
    """A JavaScript function from a prediction to its text."""

    least_span: float
    """A change of F so small that a drawing need not stretch it."""

    n_baseline: int = 1
    """Columns of the baseline block, unpenalised; of several each begins a predictor of its own."""

    names: tuple[str, ...] = ()
    """The levels of an outcome of several, of each of which a probability is predicted."""

    own_terms: bool = False
    """Whether each of :attr:`names` has rules and linear terms of its own."""

    crossed: bool = False
    """Whether the loss does not change where all predictors of a patient move alike; curvatures of
    two different ones are then never above 0."""

    own_shift: bool = False
    """Whether a hospital's own baseline is one number for all predictors, not one for each."""

    n_owners: int = 1
    """How many have terms of their own; the baseline is theirs in equal parts, one by one."""

    of_first: bool = False
    """Whether people ask for the first of :attr:`names` above all, not for each alike."""

    counts_events: bool = False
    """Whether :meth:`events` are what people call events: they are then told, as counts."""

    n_tallies: int = 1
    """Numbers of :meth:`tallies` per patient."""

    offset_unit: float = 1.0  # how much of an offset is 1 on the scale of F
    largest_predictor: float = LARGEST_PREDICTOR
    """No |F| is larger that a site is asked for."""

    newton_leaves: bool = False
    """Whether leaves of trees move F by slope over curvature; else by the mean slope (yes/no)."""

    jumps: bool = False
    """Whether sums at F = 0 tell the best constants (:meth:`jump`): Newton's steps are slow."""

    disperses: bool = False
    """Whether it is learnt, too, how much outcomes vary about their means: the dispersion."""

    ladder: range = range(0)
    """The places that the dispersion may have, of a family that has one."""

    additive: bool = False
    """Whether terms add their effects to a prediction; otherwise they multiply something."""

    tell_effect_javascript: str = "(effect, format) => format(effect)"
    """:meth:`tell_effect` as a JavaScript function; it is given the page's way to write numbers."""

    start_javascript: str = ""
    """A JavaScript function from the intercept to what effects multiply; empty: the effect's."""

    share_javascript: str = "null"
    """A JavaScript function from a prediction to how far a bar goes, 0 to 1; null for no bar."""

    levels_javascript: str = "null"
    """A JavaScript function from predictors to each level's probability; null without levels."""

    of_errors: bool = False
    """Whether losses are half squares of errors, of a spread that is not known before."""

    likelihoods: float = 1.0
    """How many times the loss a log-likelihood is, but for its sign and a constant."""

    averages: bool = False
    """Whether FedDA can fit it: slopes are bounded by 1 for any F."""

    _made_of: tuple[tuple[Any, ...], dict[str, Any]]

    unit: float = 1.0
    """A public power of two: losses and their derivatives are summed as multiples of it."""

    most_slope: float
    """Largest |∂ℓ/∂F| of any patient; the sum over its predictors, where these share terms."""

    most_curvature: float
    """Largest ∂²ℓ/∂F² of any patient; the sum over its predictors, where these share terms."""

    most_conjugate: float
    """Largest |ℓ*| of any patient, at any shrunk slope."""

    separated: float = -math.inf
    """A mean loss below it is reached only on the way to infinite coefficients: solvers stop."""

    def __new__(cls, *args: Any, **facts: Any) -> Self:
        """Keep what a family is made of: links hold functions, which cannot be pickled."""
        made = super().__new__(cls)
        made._made_of = (args, facts)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make the family again, so that fitted estimators can be sent."""
        args, facts = self._made_of
        return _make_again, (type(self), args, facts)

    def with_dispersion(self, dispersion: float | None) -> Self:
        """Return the family with the dispersion that was learnt; None: not learnt yet."""
        if dispersion is not None:
            raise ValueError(f"an outcome of the kind {self.kind!r} has no dispersion")
        return self

    def slope_in_dispersion(
        self, predictor: Floats, outcome: Floats, dispersion: float
    ) -> tuple[Floats, Floats]:
        """Return ∂L/∂log α and −∂²L/∂(log α)² of each patient's log-likelihood L, (n_rows,).

        At most 64 in size, in the family's own public unit. Only of families that have a dispersion
        (:attr:`disperses`).
        """
        raise NotImplementedError

    @abstractmethod
    def most_value(self, predictor: float) -> float:
        """Return the largest ℓ of any patient whose |F| is at most `predictor`."""

    @abstractmethod
    def events(self, outcome: Floats, weights: Floats) -> Floats:
        """Return 1 for patients who count as *with* the outcome in smallest counts, else 0.

        So that no group that is told of is of one kind of patients. Shape (n_rows,).
        """

    def tell_nothing_to_learn(self, patients: float, events: float) -> str:
        """Return why there is nothing to learn from all sites' patients; empty if there is."""
        del patients, events
        return ""

    def tell_unseen(self, falling: Floats, rising: Floats) -> str:
        """Return which levels of the outcome no patient of any site has; empty for none.

        Parameters
        ----------
        falling, rising : (n_baseline,) float64
            Slopes of patients whose loss falls, and rises, with each predictor: summed, over all.
        """
        del falling, rising
        return ""

    def jump(self, slope: Floats, curvature: Floats) -> Floats:
        """Return the constants of least loss, from slope and curvature summed at F = 0.

        All of shape (n_baseline,). Only of families that can (:attr:`jumps`).
        """
        raise NotImplementedError

    def join_baseline(self, baseline: Floats) -> float:
        """Return the intercept of F, of which :attr:`link` speaks, from (n_baseline,) numbers."""
        (intercept,) = baseline.tolist()
        return float(intercept)

    def prepare(self, outcome: Floats) -> Any:
        """Return what loss, slopes and curvature may be given in place of the outcome.

        For those who ask many times: what does not depend on predictors is worked out once.
        """
        return outcome

    @property
    def told_levels(self) -> tuple[str, ...]:
        """Those of :attr:`names` that are told alike; none where one of them is of interest."""
        return () if self.of_first else self.names

    @property
    def baseline_levels(self) -> tuple[str | None, ...]:
        """Whose each column of the baseline is, of :attr:`names`; None where terms are shared."""
        return self.names if self.own_terms else (None,) * self.n_baseline

    def starts(self, intercept: float, baseline: Sequence[float]) -> Floats:
        """Return the intercept of each owner's F, shape (n_owners,), where each has its own."""
        return np.asarray(intercept + np.array(baseline), dtype=np.float64)

    def spread(self, predictor: Floats, baseline: Sequence[float]) -> Floats:
        """Return all of a patient's predictors, shape (n_rows, n_baseline), from F of a model."""
        if self.own_terms:
            return predictor
        return np.asarray(np.add.outer(predictor, np.array(baseline)), dtype=np.float64)

    def predict(self, predictor: Floats) -> Floats:
        """Return the prediction from each patient's F, shape (n_rows,).

        Of an outcome of several levels or causes the probability of each, shape
        (n_rows, n_levels), from all of a patient's predictors.
        """
        return self.link.inverse(predictor)

    def judged(self, predictor: Floats) -> Floats:
        """Return the predictions that are judged: those of :meth:`predict`, or more of them."""
        return self.predict(predictor)

    def write_levels(
        self, language: Language, predictors: Sequence[str], baseline: Sequence[float]
    ) -> list[str]:
        """Return how levels are predicted, written in a language; empty without several levels.

        Parameters
        ----------
        language : Language
        predictors : sequence of str
            F of the model; where each level has terms of its own, of each.
        baseline : sequence of float
            Of the model, where predictors share all terms.
        """
        del language, predictors, baseline
        return []

    @abstractmethod
    def tallies(self, outcome: Floats) -> Floats:
        """Return what is added up of patients inside and outside rules, each within ±1.

        Shape (n_rows, n_tallies).
        """

    def magnitudes(self, outcome: Floats) -> Floats:
        """Return numbers in which one patient could outweigh all others of a group.

        Sums of them leave, and would be nearly that patient's own. Shape (n_rows, any).
        """
        return np.empty((len(outcome), 0))

    def present(self, outcome: Floats) -> Bools:
        """Return in which parts of the loss each patient is at all.

        Where only some are in each. Sums of single parts leave, and would be of these few
        alone. Shape (n_rows, any).
        """
        return np.empty((len(outcome), 0), dtype=np.bool_)

    def kinds(self, outcome: Floats) -> Bools:
        """Return of which kinds patients are that sums inside rules count apart.

        Beside those of :meth:`events`: the levels of an outcome of several. Shape (n_rows, any).
        """
        return np.empty((len(outcome), 0), dtype=np.bool_)

    def tree_problems(self, outcome: Floats) -> Sequence[tuple[Family, Floats]]:
        """Return what trees are grown for: families of one predictor or of shared terms.

        Each with its outcomes, shape (n_rows, …); trees are shared out among them.
        """
        return [(self, outcome)]

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
        """Return the summed ∂²ℓ/∂F² of so many patients for whom this is predicted, rightly."""

    @abstractmethod
    def effect(self, coefficient: float) -> float:
        """Return what a coefficient does, as people are told it (:attr:`Words.effect`)."""

    def tell_effect(self, effect: float, *, unit: bool = True) -> str:
        """Return an effect as text, without :attr:`Words.effect_sign`; `unit`: with its unit."""
        del unit
        return format_effect(effect)

    def is_little(self, effect: float) -> bool:
        """Whether an effect counts for little: none when rounded."""
        return is_little(effect)

    def tell_tick(self, effect: float) -> str:
        """Return a round effect on an axis, without a unit."""
        return f"{self.words.effect_sign}{format_number(effect)}"

    @property
    def predicts_shares(self) -> bool:
        """Whether a prediction is a probability."""
        return self.levels.drawn == PERCENT

    def timeline(self, baseline: Sequence[float]) -> Timeline | None:
        """Return how the risk grows with time, from a model's baseline; None of other outcomes."""
        del baseline
        return None

    def incidence(self, baseline: Sequence[float]) -> Incidence | None:
        """Return how risks of competing causes grow with time; None of other outcomes."""
        del baseline
        return None

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
    def start(self, outcome: Floats, weights: Floats) -> Floats | None:
        """Return the constant F of least loss, shape (n_baseline,); None where none is finite."""


def _make_again(family: type[Family], args: tuple[Any, ...], facts: dict[str, Any]) -> Family:
    return family(*args, **facts)
