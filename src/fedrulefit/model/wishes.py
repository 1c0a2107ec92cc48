"""What became of each wish of a study, and what it costs.

In: the study, and the terms that were fitted. Out: a :class:`Wish` for each, which stands in the
model file and is told by the report and the command line. Its price, where somebody
asked for it (:mod:`fedrulefit.engines.pricing`), is by how much the cross-validated deviance of a
patient rises with the wish, beside the same fit without.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from fedrulefit.core.limits import Limits
from fedrulefit.core.rules import Rule
from fedrulefit.numerals import write_minus
from fedrulefit.study import Category, Study
from fedrulefit.study.phrases import place_rule

Kind = Literal[
    "direction", "keep", "never", "rule", "kept rule", "forbidden rule", "most conditions", "offset"
]

IN_MODEL: Final = "in the model"
NOT_NEEDED: Final = "a candidate, and not needed"
TOO_FEW: Final = "left out: too few patients, or too near to another rule"
NO_EFFECT: Final = "kept, with no effect: none is left on the allowed side, or in these patients"
OBEYED: Final = "kept to"


@dataclass(frozen=True)
class Wish:
    """A wish, and what became of it.

    Parameters
    ----------
    kind : str
    text : str
        The wish as the study has it: a rule in words, or covariates.
    fate : str
    price : float or None
        By how much the cross-validated deviance of a patient rises with it; below 0 where it
        falls. None where nobody asked.
    error : float or None
        Standard error of that over the folds.
    """

    kind: Kind
    text: str
    fate: str = OBEYED
    price: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class Edit:
    """A change that somebody made to a finished model.

    Parameters
    ----------
    parent : str
        SHA-256 of the file of the model that was changed.
    dropped, added : tuple of str
        Terms in words.
    price : float or None
        By how much the cross-validated deviance of a patient rose.
    error : float or None
        Standard error of that over the folds.
    """

    parent: str
    dropped: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    price: float | None = None
    error: float | None = None

    def words(self) -> str:
        """Return what was changed, and what it costs, in a sentence."""
        parts = [f"without {_quote(self.dropped)}"] * bool(self.dropped)
        parts += [f"with {_quote(self.added)}"] * bool(self.added)
        price = tell_price(self)
        cost = f"; {PRICE} {price}" if price else ""
        return (
            f"Edited by hand, {' and '.join(parts)}{cost}. Made of the model {self.parent[:12]}…."
        )


def _quote(terms: Sequence[str]) -> str:
    return ", ".join(f"“{term}”" for term in terms)


def list_wishes(study: Study) -> tuple[Wish, ...]:
    """Return the wishes of a study, what became of them not yet known."""
    wishes, told = study.wishes, []
    for name, covariate in study.covariates.items():
        direction = getattr(covariate, "direction", None)
        told += [Wish("direction", f"{name} {direction}")] if direction else []
        told += [Wish("keep", name)] if covariate.keep else []
    groups = ((entry,) if isinstance(entry, str) else entry for entry in wishes.never)
    told += [Wish("never", " with ".join(group)) for group in groups]
    told += [Wish("rule", text) for text in wishes.rules]
    told += [Wish("kept rule", text) for text in wishes.kept_rules]
    told += [Wish("forbidden rule", text) for text in wishes.forbidden_rules]
    most = study.settings.max_conditions
    told += [] if most is None else [Wish("most conditions", str(most))]
    return tuple(told)


def without(study: Study, wish: Wish) -> Study:
    """Return the study without one of its wishes."""
    facts, wishes = study.model_dump(), study.wishes
    if wish.kind == "most conditions":
        return study.with_settings(max_conditions=None)
    if wish.kind in ("direction", "keep"):
        name = wish.text.rpartition(" ")[0] if wish.kind == "direction" else wish.text
        facts["covariates"][name].pop(wish.kind)
        return Study.model_validate(facts)
    key, entries = _entries(study, wish)
    at = [listed.text for listed in list_wishes(study) if listed.kind == wish.kind].index(wish.text)
    left = tuple(entry for k, entry in enumerate(entries) if k != at)
    return Study.model_validate({**facts, "wishes": {**wishes.model_dump(), key: left}})


def _entries(study: Study, wish: Wish) -> tuple[str, Sequence[object]]:
    key = "never" if wish.kind == "never" else f"{wish.kind.replace(' ', '_')}s"
    entries: Sequence[object] = getattr(study.wishes, key)
    return key, entries


def tell_fates(
    study: Study,
    limits: Limits,
    candidates: Collection[Rule],
    rules: Collection[Rule],
    linear: Collection[int],
) -> tuple[Wish, ...]:
    """Return all wishes, with what became of them.

    Parameters
    ----------
    candidates : collection of Rule
        What the fit could choose from.
    rules, linear : collection of Rule, and of int
        What the model has, and of which covariates it has a linear term.
    """
    told: list[Wish] = []
    own = iter(study.wished.own)
    for wish in list_wishes(study):
        if wish.kind in ("rule", "kept rule"):
            said = next(own)
            rule = place_rule(said, study.names, limits.grid)
            missed = NOT_NEEDED if wish.kind == "rule" else NO_EFFECT
            fate = IN_MODEL if rule in rules else missed if rule in candidates else TOO_FEW
            told.append(replace(wish, fate=fate))
        elif wish.kind == "keep":
            told.append(replace(wish, fate=_fate_of_kept(study, wish.text, rules, linear)))
        else:
            told.append(wish)
    return tuple(told)


def _fate_of_kept(study: Study, name: str, rules: Collection[Rule], linear: Collection[int]) -> str:
    feature = study.names.index(name)
    if isinstance(study.covariates[name], Category):
        found = sum(rule.features == (feature,) for rule in rules)
        n_levels = len(study.covariates[name].levels) - 1  # type: ignore[union-attr]
        return IN_MODEL if found >= n_levels else f"{found} of {n_levels} levels {IN_MODEL}"
    return IN_MODEL if feature in linear else NO_EFFECT


def tell_price(wish: Wish | Edit) -> str:
    """Return the price in words; empty where none is told."""
    if wish.price is None:
        return ""
    words = write_minus(f"{wish.price:+.4f}") if abs(wish.price) >= 0.00005 else "0.0000"
    return words if wish.error is None else f"{words} ± {wish.error:.4f}"


UNPRICED: Final = (
    "What each wish costs is not known: 'fedrulefit fit --price-wishes' tells, where all tables "
    "lie on one machine."
)
PRICE: Final = "cross-validated deviance"
PRICE_NOTE: Final = (
    "The price is by how much the cross-validated deviance of a patient rises with the wish, "
    "beside the same fit without it on the same folds, ± a standard error over the folds. Below 0 "
    "the wish helps."
)
