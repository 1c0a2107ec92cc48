"""The paper's claims, each checked by code: holds or does not, with the numbers.

A claim on repetitions is brought into the form "these numbers are all above 0" (its
*margins*, one per cell of a table). It holds where each is clearly above 0, and does not
where at least one is clearly below; otherwise the repetitions do not decide. *Clearly*
is an error of 5 %: all of many cells can only be above by chance if the worst is, while
one of many is easily below, so the limit there is divided among the cells (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.experiments.markdown import make_table

MARGIN: Final = 0.02
"""Mean differences up to this count as comparable."""
LEVEL: Final = 0.05
"""Chance of a wrong verdict where a claim is just at its limit."""
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
        Monte-Carlo standard error of the mean.
    """

    mean: float
    sd: float
    error: float

    @classmethod
    def of(cls, values: Floats) -> Mean:
        """Return the mean of one number per repetition."""
        sd = float(np.std(values, ddof=1))
        return cls(float(np.mean(values)), sd, sd / float(np.sqrt(len(values))))

    def room(self, limit: float) -> Mean:
        """Return `limit` minus the mean's size: above 0 where the mean is within ± `limit`."""
        return Mean(limit - abs(self.mean), self.sd, self.error)

    def words(self) -> str:
        """Return mean and standard error."""
        return f"{self.mean:+.4f} ± {self.error:.4f}"


def judge(margins: Iterable[Mean]) -> bool | None:
    """Return whether all `margins` are above 0; None where chance may decide, or none is there."""
    margins = list(margins)
    if not margins:
        return None
    normal = NormalDist()
    sure, strict = (normal.inv_cdf(1 - LEVEL / n) for n in (1, len(margins)))
    if any(margin.mean < -strict * margin.error for margin in margins):
        return False
    return True if all(margin.mean > sure * margin.error for margin in margins) else None


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the numbers that say so.

    Parameters
    ----------
    holds : bool or None
        None where the numbers do not decide.
    numbers : str
    """

    holds: bool | None
    numbers: str

    @property
    def word(self) -> str:
        """The verdict alone."""
        return {True: "holds", False: "does not hold", None: "not decided"}[self.holds]

    def words(self) -> str:
        """Return verdict and numbers as Markdown."""
        word = self.word if self.holds else f"**{self.word}**"
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
    return ", ".join(f"{sum(v.holds is k for v in verdicts)} {word}" for k, word in words.items())
