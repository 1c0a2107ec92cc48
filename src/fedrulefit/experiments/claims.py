r"""The paper's claims, each checked by code: holds or does not, with the numbers.

A claim on repetitions, or on splits of the same patients, is brought into the form "these
numbers are all above 0" (its *margins*, one per cell of a table). It holds where each is
clearly above 0, and does not where at least one is clearly below; otherwise the repetitions do
not decide. *Clearly* is an error of 5 % (Student's t): all of many cells can only be above by
chance if the worst is, while one of many is easily below, so the limit there is divided among
the cells (Bonferroni). What no test is made of is *described, not tested*.

Splits share patients, so that their numbers do not vary freely: the usual standard error
would be far too small. Numbers that are each computed from a share s of all patients (those of
a split's test set, or those of its training set) have the correlation s, and so over n splits

.. math:: \operatorname{Var}(\bar d) = \left(\tfrac1n + \tfrac{s}{1 - s}\right) \hat\sigma^2.

Of test patients that is Nadeau and Bengio's correction (*Inference for the generalization
error*, Machine Learning 2003); of training patients, such as the importance of a
covariate, Shao and Wu's delete-d jackknife (Annals of Statistics 1989). Oracle: the formula
written out, and false alarms in simulated splits (``tests/unit/experiments/test_claims.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from scipy.stats import t

from fedrulefit.core.arrays import Floats
from fedrulefit.experiments.markdown import make_table

MARGIN: Final = 0.02
"""Mean differences up to this count as comparable."""
LEVEL: Final = 0.05
"""Chance of a wrong verdict where a claim is just at its limit."""
_WORDS: Final = {True: "holds", False: "does not hold", None: "not decided"}
OUR_CHECK: Final = "*Our own check:* "
"""Begins a row that the paper does not claim."""


@dataclass(frozen=True)
class Mean:
    """A mean over repetitions.

    Parameters
    ----------
    mean : float
    sd : float
        Standard deviation over repetitions.
    error : float
        Standard error of the mean: by Monte Carlo, or of splits that overlap.
    df : int
        Degrees of freedom of `sd`.
    """

    mean: float
    sd: float
    error: float
    df: int

    @classmethod
    def of(cls, values: Floats) -> Mean:
        """Return the mean of one number per repetition."""
        return cls.over_splits(values, 0.0)

    @classmethod
    def over_splits(cls, values: Floats, shared: float) -> Mean:
        """Return the mean of one number per split of the same patients.

        Parameters
        ----------
        values : Floats, shape (n_splits,)
        shared : float
            Share of the patients that a number is computed from.
        """
        n, sd = len(values), float(np.std(values, ddof=1))
        error = sd * float(np.sqrt(1 / n + shared / (1 - shared)))
        return cls(float(np.mean(values)), sd, error, n - 1)

    def room(self, limit: float) -> Mean:
        """Return `limit` minus the mean's size: above 0 where the mean is within ± `limit`."""
        return replace(self, mean=limit - abs(self.mean))

    def reach(self, level: float) -> float:
        """Return how far from 0 the mean is with a chance of `level` where the truth is 0."""
        return _limit(level, self.df) * self.error

    def words(self) -> str:
        """Return mean and standard error."""
        return f"{self.mean:+.4f} ± {self.error:.4f}"


@cache
def _limit(level: float, df: int) -> float:
    return float(t.isf(level, df))


def judge(margins: Iterable[Mean]) -> bool | None:
    """Return whether all `margins` are above 0; None where chance may decide, or none is there."""
    margins = list(margins)
    if not margins:
        return None
    if any(margin.mean < -margin.reach(LEVEL / len(margins)) for margin in margins):
        return False
    return True if all(margin.mean > margin.reach(LEVEL) for margin in margins) else None


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the numbers that say so.

    Parameters
    ----------
    holds : bool or None
        None where the numbers do not decide, or no test is made of them.
    numbers : str
    tested : bool
        Whether a test of a stated error stands behind it.
    """

    holds: bool | None
    numbers: str
    tested: bool = True

    @classmethod
    def describe(cls, numbers: str) -> Verdict:
        """Return numbers of which no test is made."""
        return cls(None, numbers, tested=False)

    @property
    def word(self) -> str:
        """The verdict alone."""
        return "described, not tested" if not self.tested else _WORDS[self.holds]

    def words(self) -> str:
        """Return verdict and numbers as Markdown."""
        word = self.word if self.holds or not self.tested else f"**{self.word}**"
        return f"{word}: {self.numbers}"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Parameters
    ----------
    text : str
        What the paper says, and in brackets how it is checked.
    paper : Verdict
        With the paper's settings.
    ours : Verdict, optional
        With our defaults in the place of the proposed method; None where the
        claim is not about it.
    """

    text: str
    paper: Verdict
    ours: Verdict | None = None


def claims_table(claims: Sequence[Claim]) -> str:
    """Return the claims as a Markdown table, with a line on how many hold above it."""
    rows = [
        (claim.text, claim.paper.words(), claim.ours.words() if claim.ours else "–")
        for claim in claims
    ]
    table = make_table(("the paper's claim", "preset `paper`", "our defaults"), rows)
    return f"{count_verdicts(claims)}\n\n{table}"


def count_verdicts(claims: Sequence[Claim]) -> str:
    """Return in a line how many of the paper's claims hold; our own checks are not counted."""
    stated = [claim for claim in claims if not claim.text.startswith(OUR_CHECK)]
    ours = [claim.ours for claim in stated if claim.ours is not None]
    line = f"{len(stated)} claims: {_tally([claim.paper for claim in stated])}."
    if ours:
        line += f" With our defaults, of the {len(ours)} that concern them: {_tally(ours)}."
    return line


def _tally(verdicts: Sequence[Verdict]) -> str:
    words = {True: "confirmed", False: "not confirmed", None: "not decided"}
    tested = [verdict for verdict in verdicts if verdict.tested]
    counts = [f"{sum(v.holds is k for v in tested)} {word}" for k, word in words.items()]
    n_described = len(verdicts) - len(tested)
    return ", ".join([*counts, f"{n_described} described, not tested"][: 4 if n_described else 3])
