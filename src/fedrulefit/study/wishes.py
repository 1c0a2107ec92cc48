"""What clinicians wish of a model: vetoes, rules of their own, and what has to be in it.

Beside ``direction`` and ``keep`` of a covariate. All of it is public and part of the study, so
every hospital agrees to it before a run. On the shared grid it becomes
:class:`fedrulefit.core.limits.Limits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.bins import Bins
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.limits import Limits
from fedrulefit.core.rules import Rule
from fedrulefit.core.signs import NEITHER, allowed_signs
from fedrulefit.errors import did_you_mean
from fedrulefit.study.covariates import Covariate, Number
from fedrulefit.study.fields import Lasting
from fedrulefit.study.phrases import Said, place_rule, read_rule

MOST_RULES: Final = 100
"""Most rules in words of each sort."""

SIDES: Final[Mapping[str | None, int]] = {None: 0, "up": 1, "down": -1}

Group = Annotated[tuple[str, ...], Field(min_length=1)]


class Wishes(Lasting):
    """What the model may not do, and what it has to."""

    later: ClassVar[tuple[str, ...]] = ("rules", "kept_rules", "forbidden_rules", "never")

    rules: tuple[str, ...] = Field(
        default=(),
        max_length=MOST_RULES,
        description='Rules of your own, such as `"age >= 65 & GCS < 9"`: always candidates, if '
        "enough patients are in them. Their cut-offs become shared ones.",
    )
    kept_rules: tuple[str, ...] = Field(
        default=(),
        max_length=MOST_RULES,
        description="Rules of your own that are in the model whatever the patients say, without "
        "a penalty; if enough patients are in them.",
    )
    forbidden_rules: tuple[str, ...] = Field(
        default=(),
        max_length=MOST_RULES,
        description="Rules that are never used, nor others that hold for the same known values, "
        "or, of one condition, for all others.",
    )
    never: tuple[str | Group, ...] = Field(
        default=(),
        max_length=MOST_RULES,
        description='Covariates of which no term is made, such as `never = ["sex"]`; and lists '
        'of those that no rule names together, such as `never = [["age", "sex"]]`.',
    )


@dataclass(frozen=True, eq=False)
class Wished:
    """The wishes of a study, read.

    Parameters
    ----------
    covariates : mapping of str to Covariate
    wishes : Wishes
    longest : int or None
        Most conditions of a rule.
    """

    covariates: Mapping[str, Covariate]
    wishes: Wishes
    longest: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The covariates in their order."""
        return tuple(self.covariates)

    @property
    def any(self) -> bool:
        """Whether anything is wished."""
        return (
            self.wishes != Wishes()
            or self.longest is not None
            or any(self.directions)
            or bool(self.kept)
        )

    @cached_property
    def directions(self) -> tuple[int, ...]:
        """What predictions may do as each covariate rises: 1, −1, or 0 for anything."""
        return tuple(SIDES[getattr(c, "direction", None)] for c in self.covariates.values())

    @cached_property
    def kept(self) -> frozenset[int]:
        """The covariates whose terms are unpenalised."""
        return frozenset(j for j, c in enumerate(self.covariates.values()) if c.keep)

    @cached_property
    def own(self) -> tuple[Said, ...]:
        """The study's own rules: the kept ones last."""
        return self._read((*self.wishes.rules, *self.wishes.kept_rules))

    @cached_property
    def forbidden(self) -> tuple[Said, ...]:
        """The rules that are not used."""
        return self._read(self.wishes.forbidden_rules)

    @cached_property
    def unused(self) -> frozenset[int]:
        """The covariates of no term."""
        return frozenset().union(*(group for group in self._groups if len(group) == 1))

    @cached_property
    def apart(self) -> tuple[frozenset[int], ...]:
        """The covariates that no rule names together."""
        return tuple(group for group in self._groups if len(group) > 1)

    @cached_property
    def _groups(self) -> tuple[frozenset[int], ...]:
        found = []
        for entry in self.wishes.never:
            group = (entry,) if isinstance(entry, str) else entry
            for name in group:
                if name not in self.covariates:
                    known = did_you_mean(name, self.covariates)
                    raise ValueError(f"'never' names no covariate {known}")
            found.append(frozenset(map(self.names.index, group)))
        return tuple(found)

    def _read(self, texts: tuple[str, ...]) -> tuple[Said, ...]:
        return tuple(read_rule(text, self.covariates) for text in texts)

    def find_cutoffs(self, feature: int) -> tuple[float, ...]:
        """Return the cut-offs of a covariate that the study's own rules need."""
        name = self.names[feature]
        return tuple(
            sorted({c for said in self.own for p in said if p.covariate == name for c in p.cutoffs})
        )

    def add_cutoffs(self, bins: Bins, feature: int) -> Bins:
        """Return a covariate's bins with the cut-offs of own rules."""
        cutoffs = self.find_cutoffs(feature)
        return bins.with_cutoffs(cutoffs) if cutoffs else bins

    def on_grid(self, grid: Grid) -> Limits:
        """Return what the wishes mean on a grid.

        Raises
        ------
        ValueError
            If the grid lacks a cut-off of an own rule.
        """
        own = tuple(self._place(said, grid) for said in self.own)
        n_free = len(self.wishes.rules)
        forbidden = (place_rule(said, self.names, grid) for said in self.forbidden)
        return Limits(
            grid=grid,
            directions=self.directions,
            unused=self.unused,
            apart=self.apart,
            longest=self.longest,
            forbidden=tuple(rule for rule in forbidden if rule is not None),
            own=tuple(dict.fromkeys(own)),
            fixed=frozenset(own[n_free:]),
            kept=self.kept,
        )

    def _place(self, said: Said, grid: Grid) -> Rule:
        rule = place_rule(said, self.names, grid)
        if rule is None:
            raise ValueError("the grid lacks a cut-off of the study's own rules")
        return rule

    # --- Wishes that contradict each other ----------------------------------------------------

    def check(self) -> None:
        """Refuse wishes that contradict each other, or that nothing can satisfy.

        Raises
        ------
        ValueError
            With the rule or covariate in question.
        """
        for feature in sorted(self.kept & self.unused):
            raise ValueError(f"covariate {self.names[feature]!r} is both kept and in 'never'")
        if len(self.unused) == len(self.covariates):
            raise ValueError("'never' names every covariate")
        for name, covariate in self.covariates.items():
            fixed = getattr(covariate, "cutoffs", None) or ()
            if len({*fixed, *self.find_cutoffs(self.names.index(name))}) > MAX_CODES - 1:
                raise ValueError(f"the rules of {name!r} have more than {MAX_CODES - 1} cut-offs")
        if not (self.own or self.forbidden):
            return
        wishes, grid = self.wishes, self._smallest_grid()
        texts = (*wishes.rules, *wishes.kept_rules, *wishes.forbidden_rules)
        rules = [place_rule(said, self.names, grid) for said in (*self.own, *self.forbidden)]
        for text, rule in zip(texts, rules, strict=True):
            if rule is None:
                raise ValueError(f"rule {text!r}: every patient satisfies it, or none")
        limits = self.on_grid(grid)
        for text, rule in zip(texts[: len(self.own)], rules, strict=False):
            if rule is not None and not limits.permits(rule):
                raise ValueError(f"rule {text!r}: {self._why_not(rule, limits)}")

    def _smallest_grid(self) -> Grid:
        """Return the grid that has the cut-offs of the rules in words and no others."""
        axes = []
        for j, (name, covariate) in enumerate(self.covariates.items()):
            if isinstance(covariate, Number):
                said = (p for s in self.forbidden for p in s if p.covariate == name)
                cuts = np.unique([*self.find_cutoffs(j), *(c for p in said for c in p.cutoffs)])
                axes.append(
                    Axis("number", cuts[: MAX_CODES - 1], len(cuts) + 1, covariate.complete)
                )
                continue
            bins = covariate.bins(2, "quantile")
            cuts = np.empty(0) if bins.cutoffs is None else bins.cutoffs
            axes.append(Axis(bins.kind, cuts, bins.n_bins, covariate.complete))
        return Grid(tuple(axes))

    def _why_not(self, rule: Rule, limits: Limits) -> str:
        """Return which other wish a rule contradicts."""
        features = frozenset(rule.features)
        for feature in sorted(features & self.unused):
            return f"{self.names[feature]!r} is not to be used ('never')"
        for group in self.apart:
            if group <= features:
                names = " and ".join(repr(self.names[j]) for j in sorted(group))
                return f"{names} are not to meet in a rule ('never')"
        if self.longest is not None and len(rule) > self.longest:
            return f"it has {len(rule)} conditions, of at most {self.longest} ('max_conditions')"
        if allowed_signs(rule, self.directions, limits.grid) == NEITHER:
            return (
                "it goes against a 'direction' with either sign: a covariate that has one can be "
                "limited on one side only, and two of them on sides that agree"
            )
        return "it is forbidden, too ('forbidden_rules')"
