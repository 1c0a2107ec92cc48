"""What wishes cost: a fit with and without each, on the same folds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.core.rounding import Rounding
from fedrulefit.engines import inprocess
from fedrulefit.engines.pricing import compare_folds, fix_cutoffs, price_wishes
from fedrulefit.errors import FitError
from fedrulefit.model.publish import round_model
from fedrulefit.model.wishes import list_wishes, tell_price, without
from fedrulefit.study import Study
from fedrulefit.testing.samples import SOLVERS, study_facts
from tests.samples import fit_model, make_tables

WISHES: dict[str, Any] = {
    "rules": ["age >= 64.3 & gcs < 9"],
    "kept_rules": ["ward = er"],
    "forbidden_rules": ["ward = icu"],
    "never": ["age", ["lactate", "gcs"]],
}


def declare(solver: str = "cv", **wishes: Any) -> Study:
    facts = study_facts(**{**SOLVERS[solver], "n_trees": 5, "max_conditions": 2})
    facts["covariates"]["lactate"]["direction"] = "down"  # the patients say: up
    facts["covariates"]["sex"]["keep"] = True
    return Study.from_mapping({**facts, "wishes": wishes})


STUDY = declare(**{**WISHES, "never": [["lactate", "gcs"]]})
TABLES = make_tables(STUDY, sizes=(250, 200))


@pytest.fixture(scope="module")
def priced() -> Any:
    return price_wishes(fit_model(STUDY, TABLES), TABLES)


def test_each_wish_is_priced_by_the_fit_without_it(priced: Any) -> None:
    assert [wish.kind for wish in priced.wishes] == [
        "direction", "keep", "never", "rule", "kept rule", "forbidden rule", "most conditions"
    ]  # fmt: skip
    own = inprocess.fit(STUDY, TABLES, grid=priced.grid).held
    for wish in priced.wishes:
        study = without(STUDY, wish)
        assert study.digest != STUDY.digest
        assert len(list_wishes(study)) == len(priced.wishes) - 1
        other = inprocess.fit(study, TABLES, grid=fix_cutoffs(priced.grid, study)).held
        assert own is not None
        assert other is not None
        assert wish.price == pytest.approx(2 * np.mean(own - other), abs=1e-12)
        assert wish.error == pytest.approx(2 * np.std(own - other, ddof=1) / np.sqrt(3))
        assert tell_price(wish).startswith(("+", "−", "0.0000"))


def test_a_wish_against_the_patients_costs_something(priced: Any) -> None:
    """Risk rises with lactate."""
    price = {wish.kind: wish.price for wish in priced.wishes}
    assert price["direction"] > 0.02
    assert abs(price["most conditions"]) < 0.01


@pytest.mark.parametrize("solver", ["exact", "pruned"])
def test_other_ways_to_choose_are_priced_too(solver: str) -> None:
    study = declare(solver, rules=WISHES["rules"])
    model = price_wishes(fit_model(study, TABLES), TABLES)
    assert all(wish.price is not None for wish in model.wishes)


def test_cut_offs_that_a_study_fixes_stay_those_of_the_fit_without_a_rule() -> None:
    facts = study_facts(**{**SOLVERS["cv"], "n_trees": 2})
    facts["covariates"]["age"]["cutoffs"] = [40, 60, 80]
    study = Study.from_mapping({**facts, "wishes": {"rules": ["age >= 65 & gcs < 9"]}})
    model = price_wishes(fit_model(study, TABLES), TABLES)
    assert model.grid.axes[0].cutoffs.tolist() == [40, 60, 65, 80]
    assert model.wishes[0].price is not None


def test_without_wishes_nothing_is_priced_and_the_papers_solver_has_no_prices() -> None:
    study = Study.from_mapping(study_facts(n_trees=2))
    plain = fit_model(study, TABLES)
    assert price_wishes(plain, TABLES) is plain
    paper = Study.from_mapping({**study_facts(n_trees=2), "wishes": {"never": ["sex"]}})
    with pytest.raises(FitError, match="only the exact solver"):
        price_wishes(fit_model(paper, TABLES), TABLES)


def test_prices_are_paired_over_folds() -> None:
    price, error = compare_folds(np.array([0.5, 0.7]), np.array([0.4, 0.5]))
    assert price == pytest.approx(0.3)
    assert error == pytest.approx(0.1)
    assert compare_folds(np.array([0.5]), np.array([0.4]))[1] == 0


def test_prices_are_rounded_with_the_model(priced: Any) -> None:
    rounded = round_model(priced, Rounding(5, 10))
    for exact, told in zip(priced.wishes, rounded.wishes, strict=True):
        assert told.price == pytest.approx(round(exact.price, 2))  # 450 patients
        assert (told.kind, told.text, told.fate) == (exact.kind, exact.text, exact.fate)


def test_a_model_with_prices_is_kept_in_its_file(priced: Any, tmp_path: Any) -> None:
    path = tmp_path / "model.json"
    priced.save(path)
    assert type(priced).load(path).wishes == priced.wishes
