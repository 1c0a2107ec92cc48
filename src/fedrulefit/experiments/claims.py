"""The paper's claims, each checked by code: holds, or does not hold, with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrulefit.experiments.markdown import make_table


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the numbers that say so."""

    holds: bool
    numbers: str

    def words(self) -> str:
        """Return the verdict in a line."""
        return f"{'holds' if self.holds else '**does not hold**'}: {self.numbers}"


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
    """Return the claims as a Markdown table."""
    rows = [
        (claim.text, claim.paper.words(), claim.ours.words() if claim.ours else "–")
        for claim in claims
    ]
    return make_table(("the paper's claim", "preset `paper`", "our defaults"), rows)
