"""What a patient counts in the fit: ``sample_weight`` times the weight of the patient's class.

In: what the user gave. Out: one weight per patient, and how large one can be. Noise is scaled to
that bound, so it must be public: it is where a study or ``class_weight`` declares it, and is not
where it is read off the patients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedrulefit.core.arrays import Floats
from fedrulefit.errors import DataError
from fedrulefit.study import Study

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None
"""The weight of each class, as scikit-learn takes it."""


@dataclass(frozen=True, eq=False)
class PatientWeights:
    """What each patient counts.

    Parameters
    ----------
    values : (n_rows,) float64
    largest : float
        None can be larger.
    from_data : bool
        Whether `largest` was read off the patients.
    """

    values: Floats
    largest: float
    from_data: bool


def weigh_patients(sample_weight: Floats | None, *, study: Study | None) -> PatientWeights | None:
    """Return what each row counts; None where all count 1.

    Parameters
    ----------
    sample_weight : (n_rows,) float64, optional
    study : Study or None
        May declare the largest sample weight.
    """
    declared = None if study is None else study.weight
    if sample_weight is None:
        if declared is not None:
            raise DataError("the study has patient weights: pass them as sample_weight")
        return None
    most = float(sample_weight.max()) or 1.0
    if declared is not None:
        if most > declared.max:
            raise DataError(f"a weight is above the study's public bound {declared.max:g}")
        most = declared.max
    return PatientWeights(sample_weight, most, from_data=declared is None)


def weigh_by_class(
    own: PatientWeights | None,
    class_weight: ClassWeight,
    classes: npt.NDArray[Any],
    places: Floats,
) -> PatientWeights | None:
    """Return what each row counts, times the weight of its class; None where all count 1.

    Parameters
    ----------
    own : PatientWeights or None
        Without that of the class.
    class_weight : mapping of class to float, "balanced" or None
        "balanced" gives all classes the same total weight, of all sites together.
    classes : (n_classes,) array
    places : (n_rows,) float64
        Of each row's class among them.
    """
    if class_weight is None:
        return own
    if own is None:
        own = PatientWeights(np.ones(len(places)), 1.0, from_data=False)
    by_class = _weigh_classes(class_weight, classes, places, own.values)
    return PatientWeights(
        own.values * by_class[places.astype(np.intp)],
        own.largest * (float(by_class.max()) or 1.0),
        from_data=class_weight == "balanced" or own.from_data,
    )


def _weigh_classes(
    class_weight: ClassWeight, classes: npt.NDArray[Any], places: Floats, own: Floats
) -> Floats:
    """Return the weight of each class, shape (n_classes,)."""
    if class_weight == "balanced":
        totals = np.bincount(places.astype(np.intp), own, minlength=len(classes))
        if not totals.min() > 0:
            raise ValueError("no patient of one class has a weight above 0: nothing to learn")
        return np.asarray(own.sum() / (len(classes) * totals), dtype=np.float64)
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, not {class_weight!r}")
    known = classes.tolist()
    foreign = [label for label in class_weight if label not in known]
    if foreign and not class_weight.keys() >= set(known):
        raise ValueError(f"class_weight names {foreign[0]!r}, but the classes of y are {known}")
    given = np.array([class_weight.get(label, 1.0) for label in known], dtype=np.float64)
    if not (np.isfinite(given) & (given >= 0)).all():
        raise ValueError("class_weight must hold finite numbers that are not negative")
    return given
