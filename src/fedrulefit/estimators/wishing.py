"""``wishes=`` of the estimators: the study's wishes, where no study is given.

In: what the caller gives, and the study that was made of X and y. Out: the same study with the
wishes, or an error that says what a study file's reader would be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedrulefit.errors import DataError, did_you_mean
from fedrulefit.study import Study, Wishes

_OF_COVARIATES = ("direction", "keep", "offset")


def add_wishes(study: Study, given: Any) -> Study:
    """Return the study with wishes.

    Parameters
    ----------
    study : Study
    given : mapping
        ``direction`` (covariate to "up" or "down"), ``keep`` and ``offset`` (lists of covariates),
        and the keys of :class:`fedrulefit.study.Wishes`.
    """
    known = (*_OF_COVARIATES, *Wishes.model_fields)
    if not isinstance(given, Mapping):
        raise DataError(f"wishes= is a mapping with keys among {', '.join(known)}")
    for key in given:
        if key not in known:
            raise DataError(f"wishes= has no key {did_you_mean(str(key), known)}")
    facts = study.model_dump()
    directions, kept, offsets = (given.get(key, ()) for key in _OF_COVARIATES)
    listed = not any(isinstance(names, (str, Mapping)) for names in (kept, offsets))
    if not (isinstance(directions, Mapping) or directions == ()) or not listed:
        raise DataError(
            "wishes= wants 'direction' as {'age': 'up'}, 'keep' as a list of covariates, and "
            "'offset' likewise"
        )
    for name, key, value in (
        *((name, "direction", side) for name, side in dict(directions).items()),
        *((name, "keep", True) for name in kept),
        *((name, key, True) for name in offsets for key in ("offset", "complete")),
    ):
        if name not in facts["covariates"]:
            known_names = did_you_mean(str(name), facts["covariates"])
            raise DataError(f"wishes= names a column that X does not have: {known_names}")
        facts["covariates"][name][key] = value
    rest = {key: value for key, value in given.items() if key not in _OF_COVARIATES}
    return Study.from_mapping({**facts, "wishes": rest}, source="wishes=")
