"""The share of patients with the outcome, inside and outside a rule, in words.

Patients and those of them with the outcome say it all: counts are added up, told and rounded
(:mod:`fedrulefit.core.subgroups`, where the intervals are, too).
"""

from __future__ import annotations

from fedrulefit.core.families.sides import PERCENT, Levels, LevelWords


class ShareLevels(Levels):
    """Shares of patients with the outcome, and their difference."""

    drawn = PERCENT
    words = LevelWords(
        level="rate",
        gap="difference",
        one="outcome rate",
        many="outcome rates",
        unit=" %",
        heading="rate",
        gap_heading="Inside − outside (points)",
        shown="and how many of them had the outcome",
        follow="rates follow from them",
    )

    def write(self, level: float, *, coarse: bool) -> str:
        """Return a share in percent, of rounded counts without decimals."""
        return f"{100 * level:z.{0 if coarse else 1}f}"

    def write_gap(self, gap: float, *, coarse: bool) -> str:
        """Return a difference in percentage points, with its sign."""
        return f"{100 * gap:+z.{0 if coarse else 1}f}"

    def write_gap_end(self, gap: float, *, coarse: bool) -> str:
        """Return an end of its interval."""
        return self.write(gap, coarse=coarse)

    def share(self, level: float, largest: float) -> float:
        """Return the share itself."""
        return level
