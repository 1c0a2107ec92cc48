"""A model at a hospital: with that hospital's own baseline taken in.

In: a model that expects hospitals' own baselines, and one of them
(:mod:`fedrulefit.model.own_file`). Out: a model that starts from the baseline + b, and is the same
in all else. So predictions, explanations, queries, graphs and the page have b without knowing of
it. Such a model is the hospital's own: it is never written as a model file.

Oracle: the family's prediction from F + b (``tests/unit/model/test_at_hospital.py``).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fedrulefit.errors import BaselineWarning
from fedrulefit.model.own_file import OwnBaseline, list_baseline

if TYPE_CHECKING:
    from fedrulefit.model.model import Model
    from fedrulefit.table.sources import Source

LACKING: Final = (
    "No hospital's own baseline was given: these are predictions for a new hospital, worse than "
    "with it at a hospital that has patients of its own{}. Give the hospital's own (--baseline "
    "FILE, Model.at), or estimate it (fedrulefit baseline)."
)
"""What is said wherever a model predicts without the baseline that it expects."""

FITTED: Final = ", and there worse even than of a model with one baseline for all"
"""What it says besides where coefficients were fitted together with such baselines."""

IN_FILE: Final = (
    "This file holds it, and so is the hospital's own: it tells how its patients differ from those "
    "of all hospitals. Think before you share it."
)
"""What is said in whatever is written of a model with a hospital's own baseline."""


@dataclass(frozen=True, eq=False)
class Hospital:
    """Where a model predicts.

    Parameters
    ----------
    shared : Model
        The model as it is in its file, without a baseline of any one hospital.
    own : OwnBaseline or None
        None at a new hospital, knowingly.
    """

    shared: Model
    own: OwnBaseline | None


class AtHospital:
    """What a model says of the hospital where it predicts."""

    def at(self: Model, baseline: OwnBaseline | None) -> Model:  # type: ignore[misc]
        """Return the model for patients of one hospital, with its own baseline.

        From a model that is at one already, that one's is left behind.

        Parameters
        ----------
        baseline : OwnBaseline or None
            ``OwnBaseline.load("baseline.toml")``; None for a new hospital, knowingly: then
            predictions without a baseline warn no more.

        Raises
        ------
        ModelFileError
            If it is of another model, or this model expects none.
        """
        shared = self if self.hospital is None else self.hospital.shared
        if baseline is None:
            known = shared.own_baselines is None
            return shared if known else replace(shared, hospital=Hospital(shared, None))
        baseline.check(shared)
        family = shared.study.family
        starts = list_baseline(shared) + baseline.shift
        intercept = family.join_baseline(starts)
        return replace(
            shared,
            intercept=intercept,
            baseline=tuple((starts - intercept).tolist()) if shared.baseline else (),
            hospital=Hospital(shared, baseline),
        )

    def estimate_baseline(self: Model, source: Source, *, site: str = "") -> OwnBaseline:  # type: ignore[misc]
        """Return a hospital's own baseline, estimated from its own patients with their outcomes.

        Nothing is sent anywhere. Parameters of the model are not learnt again.

        Parameters
        ----------
        source
            A table with all columns of the study, the outcome among them.
        site : str
            Whose it is.

        Raises
        ------
        DataError
            If the table does not fit the study, or too few patients tell a baseline.
        """
        from fedrulefit.model.own_estimate import estimate_from

        return estimate_from(self, source, site=site)

    @property
    def lacks_baseline(self: Model) -> bool:  # type: ignore[misc]
        """Whether it expects a hospital's own baseline and has none."""
        own = self.hospital and self.hospital.own
        return self.own_baselines is not None and own is None

    @property
    def of_hospital(self: Model) -> str:  # type: ignore[misc]
        """Whose own baseline it has, or that it lacks one; empty where all hospitals share one."""
        if self.lacks_baseline:
            return LACKING.format(FITTED * self.study.settings.fits_own)
        if self.hospital is None or self.hospital.own is None:
            return ""
        own = self.hospital.own
        whose = f"of {own.site}" if own.site else "of one hospital"
        return f"Predictions have the own baseline {whose}, of {own.date}: for its patients alone."

    @property
    def of_hospital_file(self: Model) -> str:  # type: ignore[misc]
        """:attr:`of_hospital`, as a file that is written of the model says it."""
        told = self.of_hospital
        return told if self.lacks_baseline or not told else f"{told} {IN_FILE}"

    def _warn_of_hospital(self: Model) -> None:  # type: ignore[misc]
        """Warn where a baseline lacks, unless that was said to be known."""
        if self.lacks_baseline and self.hospital is None:
            warnings.warn(self.of_hospital, BaselineWarning, stacklevel=3)
