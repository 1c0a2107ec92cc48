"""A hospital's own baseline, in the file that stays at the hospital: ``baseline.toml``.

In: a model that expects one (:attr:`~fedrulefit.model.saying.Said.own_baselines`), and a site's
estimate (:mod:`fedrulefit.core.own`). Out: a small file that people can read. It says of which
model it is, by the :func:`fingerprint` of what the model predicts with. It leaves the hospital
through nothing that we do.

Oracle: a file that was written reads back the same (``tests/unit/model/test_own_file.py``).
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.survival import tell_time
from fedrulefit.core.own import Estimate, count_own
from fedrulefit.errors import ModelFileError
from fedrulefit.files import write_whole
from fedrulefit.numerals import format_number
from fedrulefit.toml import load_toml

if TYPE_CHECKING:
    from fedrulefit.core.families import Family
    from fedrulefit.core.grid import Grid
    from fedrulefit.core.rules import Rule
    from fedrulefit.model.model import Model
    from fedrulefit.study import Study

FORMAT: Final = 1

HEADING: Final = """\
# This hospital's own baseline of a fedrulefit model. Keep it here: nobody else needs it, and it
# tells how this hospital's patients differ from all others. A prediction for a patient of this
# hospital adds it to the model's: fedrulefit predict --baseline baseline.toml
"""


class _Read(BaseModel):
    """A file, as it was written."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    format: Literal[1] = Field(description="Version of the file's format.")
    model: str = Field(pattern="^[0-9a-f]{64}$", description="The model's fingerprint.")
    site: str = Field(default="", max_length=200, description="Whose it is, if that is told.")
    date: datetime.date = Field(description="When it was estimated.")
    patients: float = Field(ge=0, description="Patients that tell it, of equal weight.")
    names: list[str] = Field(min_length=1, description="What each number is added to.")
    values: list[float] = Field(description="The numbers.")
    errors: list[float] = Field(description="Their standard errors.")

    @model_validator(mode="after")
    def _check(self) -> _Read:
        if not len(self.names) == len(self.values) == len(self.errors):
            raise ValueError("'names', 'values' and 'errors' must be as many each")
        if any(error < 0 for error in self.errors):
            raise ValueError("a standard error must not be below 0")
        return self


@dataclass(frozen=True)
class OwnBaseline:
    """A hospital's own baseline of a model.

    Parameters
    ----------
    model : str
        The model's ``fingerprint``.
    names : tuple of str
        What each number is added to (``name_own``).
    values, errors : tuple of float
        What is added, on the scale of the linear predictor, and its standard errors.
    patients : float
        How many patients of equal weight tell it.
    date : date
        When it was estimated.
    site : str
        Whose it is; empty if that is not told.
    """

    model: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...]
    patients: float
    date: datetime.date
    site: str = ""

    @classmethod
    def of(
        cls,
        family: Family,
        model: str,
        found: Estimate,
        date: datetime.date | None = None,
        *,
        site: str = "",
    ) -> OwnBaseline:
        """Return the baseline that a site estimated, of the model with this fingerprint."""
        return cls(
            model=model,
            names=name_own(family),
            values=tuple(found.values.tolist()),
            errors=tuple(found.errors.tolist()),
            patients=found.patients,
            date=datetime.datetime.now(tz=datetime.UTC).date() if date is None else date,
            site=site,
        )

    @property
    def shift(self) -> Floats:
        """What is added to a patient's predictors, shape (1,) or (n_baseline,)."""
        return np.array(self.values)

    def check(self, model: Model) -> None:
        """Refuse a model that this is no baseline of.

        Raises
        ------
        ModelFileError
            If the model expects none, or it was estimated for another model.
        """
        if model.own_baselines is None:
            raise ModelFileError(
                "this model has one baseline for all hospitals, and takes none of a hospital's "
                "own: predict without it"
            )
        if self.model != fingerprint(model):
            raise ModelFileError(
                "this baseline was estimated for another model: take the one that was written "
                "with this model, or estimate it anew"
            )
        if self.names != name_own(model.study.family):
            raise ModelFileError("this baseline does not have the numbers that the model adds")

    def text(self) -> str:
        """Return the file's text."""
        facts = {
            "format": FORMAT,
            "model": self.model,
            "site": self.site,
            "date": self.date,
            "patients": self.patients,
            "names": self.names,
            "values": self.values,
            "errors": self.errors,
        }
        return HEADING + "".join(f"{key} = {_write(fact)}\n" for key, fact in facts.items())

    def save(self, path: str | Path) -> None:
        """Write the file, for its owner alone, whole or not at all."""
        try:
            write_whole(Path(path), self.text().encode(), private=True)
        except OSError as error:
            raise ModelFileError(f"cannot write {path}: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | Path) -> OwnBaseline:
        """Read the file, or say what is wrong with it.

        Raises
        ------
        ModelFileError
            If it cannot be read, or is no such file.
        """
        advice = "it is written at the hospital at the end of a run, or by 'fedrulefit baseline'"
        read = load_toml(path, _Read, "baseline", ModelFileError, advice)
        return cls(
            model=read.model,
            names=tuple(read.names),
            values=tuple(read.values),
            errors=tuple(read.errors),
            patients=read.patients,
            date=read.date,
            site=read.site,
        )


def _write(fact: Any) -> str:
    """Return a value of ours as TOML; texts and lists are as in JSON."""
    if isinstance(fact, datetime.date):
        return fact.isoformat()
    return json.dumps(fact, ensure_ascii=False, allow_nan=False)


def name_own(family: Family) -> tuple[str, ...]:
    """Return what each number of a hospital's own baseline is added to, in the outcome's words."""
    n_own = count_own(family)
    if n_own == 1:
        return (family.words.predictor,)
    per_owner = n_own // family.n_owners
    if per_owner == 1:
        return tuple(family.names)
    owners = [f"{name}, " for name in family.names] if family.own_terms else [""]
    constants = (0.0,) * family.n_baseline
    curves = family.incidence(constants) or family.timeline(constants)
    if curves is None:
        return tuple(f"{owner}part {k + 1}" for owner in owners for k in range(per_owner))
    spans = [
        f"{format_number(low)} to {tell_time(high, curves.unit)}"
        for low, high in pairwise(curves.ends.tolist())
    ]
    return tuple(owner + span for owner in owners for span in spans)


def fingerprint(model: Model) -> str:
    """Return the SHA-256 of all that a model predicts with.

    Equal exactly for models that predict alike by the same study: counts, evaluation and versions
    of software do not matter.
    """
    terms = [(*term.key, term.coefficient) for term in model.terms]
    baseline = list_baseline(model)
    return hash_predictor(model.study, model.grid, baseline, terms, model.dispersion)


def list_baseline(model: Model) -> Floats:
    """Return the whole baseline, which joins to the intercept, shape (n_baseline,)."""
    baseline = model.intercept + np.array(model.baseline or (0.0,))
    # Rounded one by one, they may not join to the intercept that the model predicts with.
    baseline -= model.study.family.join_baseline(baseline) - model.intercept
    return baseline


def hash_predictor(
    study: Study,
    grid: Grid,
    baseline: Floats,
    terms: Iterable[tuple[Rule | int, str | None, float]],
    dispersion: float | None = None,
) -> str:
    """Return the :func:`fingerprint` of a model with these parts.

    Parameters
    ----------
    terms : iterable of (Rule or int, str or None, float)
        Rule or covariate, level, and coefficient; of 0 none.
    dispersion : float or None
        Of negative binomial counts.
    """
    facts = {
        "study": study.digest,
        "grid": [
            [axis.cutoffs.tolist(), list(axis.limits), axis.spread, axis.centre, axis.fill]
            for axis in grid.axes
        ],
        "baseline": baseline.tolist(),
        "dispersion": dispersion,
        "terms": sorted(
            [_name_term(key), level or "", coef] for key, level, coef in terms if coef != 0
        ),
    }
    text = json.dumps(facts, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _name_term(key: Rule | int) -> str:
    """Return what tells a term from others, by numbers alone."""
    if isinstance(key, int):
        return f"linear {key}"
    return " & ".join(f"{condition.feature}:{condition.codes:x}" for condition in key)
