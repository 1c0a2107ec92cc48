"""Terms found again in halves of the patients: against fits to halves made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.refinding import Alike, count_found_again
from fedrulefit.engines import halves, inprocess
from fedrulefit.engines.halves import find_in_halves
from fedrulefit.errors import FitError
from fedrulefit.model import Model
from fedrulefit.model.evidence import tell_folds, write_found_again
from fedrulefit.model.file.reading import build_model
from fedrulefit.model.file.writing import model_facts
from tests.samples import SOLVERS, make_study, make_tables

STUDY = make_study(**SOLVERS["cv"], holdout=0.2)
TABLES = make_tables(STUDY, sizes=(500, 400, 350))


@pytest.fixture(scope="module")
def model() -> Model:
    return inprocess.fit(STUDY, TABLES).model


def test_shares_are_those_of_fits_to_each_half(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    halved: list[dict[str, Any]] = []
    take = halves._halve

    def keep(table: Any, site: str, number: int, study: Any) -> Any:
        half = take(table, site, number, study)
        if number == len(halved):
            halved.append({})
        halved[number][site] = half
        return half

    monkeypatch.setattr(halves, "_halve", keep)
    found = find_in_halves(model, TABLES, n_halves=4, on_half=told.append)
    assert told == [1, 2, 3, 4]
    plain = STUDY.with_settings(holdout=0.0)
    fits = [inprocess.fit(plain, tables, grid=model.grid).model for tables in halved]
    kept = [[(*term.key, term.coefficient) for term in fit.terms] for fit in (model, *fits)]
    counts = count_found_again(kept[0], kept[1:], Alike(model.grid, model.distribution))
    assert [term.in_halves for term in found.terms] == [count / 4 for count in counts]
    assert max(counts) == 4
    plain_again = replace(found, terms=tuple(replace(t, in_halves=None) for t in found.terms))
    assert model_facts(plain_again) == model_facts(model)


def test_halves_come_in_pairs_and_keep_patients_whole() -> None:
    table = replace(TABLES["north"], patients=np.arange(TABLES["north"].n_rows) // 3)
    for pair in range(3):
        parts = [halves._halve(table, "north", 2 * pair + side, STUDY) for side in (0, 1)]
        ids = [set(part.patients.tolist()) for part in parts if part.patients is not None]
        assert ids[0].isdisjoint(ids[1])
        assert abs(len(ids[0]) - len(ids[1])) <= 1
        assert sum(part.n_rows for part in parts) == table.n_rows
    first, other = (halves._halve(table, "north", number, STUDY) for number in (0, 2))
    assert not np.array_equal(first.patients, other.patients)


@pytest.mark.parametrize(("n_halves", "why"), [(3, "even"), (0, "even"), (1002, "1,002")])
def test_other_numbers_are_refused(model: Model, n_halves: int, why: str) -> None:
    with pytest.raises(FitError, match=why):
        find_in_halves(model, TABLES, n_halves=n_halves)


def test_other_sites_and_halves_of_too_few_are_refused(model: Model) -> None:
    with pytest.raises(FitError, match="not those of the model's sites"):
        find_in_halves(model, {"elsewhere": TABLES["north"]})
    few = {name: table.take(table.outcome == 0) for name, table in TABLES.items()}
    with pytest.raises(FitError, match="no model of half of the patients"):
        find_in_halves(model, few)


def test_files_tables_and_words_tell_it(model: Model) -> None:
    found = replace(model, terms=tuple(replace(t, in_halves=0.85) for t in model.terms))
    again = build_model(model_facts(found))
    assert [term.in_halves for term in again.terms] == [0.85] * len(model.terms)
    assert (found.rules_frame()["in_halves"] == 0.85).all()
    assert model.rules_frame()["in_halves"].isna().all()
    assert write_found_again(found, found.terms[0]).endswith("of 3, 85 % of halves")
    assert "random halves" in tell_folds(found)
    assert "random halves" not in tell_folds(model)
    assert "85 % of halves" in found._repr_html_()
