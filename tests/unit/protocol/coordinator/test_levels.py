"""Levels of an outcome that nobody has: said in words, however λ is chosen."""

from __future__ import annotations

import pytest

from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.errors import FitError
from fedrulefit.study import Study
from fedrulefit.testing.samples import SOLVERS, make_tables, study_facts


@pytest.mark.parametrize("solver", ["exact", "cv"])
@pytest.mark.parametrize(("kind", "place"), [("ordered", 4), ("ordered", 1), ("classes", 2)])
def test_a_level_that_nobody_has_is_named(kind: str, place: int, solver: str) -> None:
    facts = study_facts(kind, n_cutoffs=3, **{**SOLVERS[solver], "n_trees": 2})
    levels = [*facts["outcome"]["levels"]]
    levels.insert(place, "nowhere")
    study = Study.from_mapping({**facts, "outcome": {**facts["outcome"], "levels": levels}})
    with pytest.raises(FitError, match="no patient of any site has the level 'nowhere'"):
        EMBEDDED.fit(study, make_tables(study, (90, 80)))
