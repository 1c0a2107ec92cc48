"""Sites left out are told one by one: nothing adds up what different models say."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from fedrulefit.core.families.yesno_measures import Measures
from fedrulefit.core.heterogeneity import combine
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.engines.inprocess import EMBEDDED
from fedrulefit.engines.leaveout import leave_one_site_out
from fedrulefit.errors import ModelFileError
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.file import build_model, model_facts
from fedrulefit.model.file.writing import evaluation_facts
from fedrulefit.model.validation import SiteValidation
from fedrulefit.study import Study
from tests.oracles import YES_NO
from tests.reports import evaluated_model
from tests.samples import SOLVERS, make_study, make_tables, take

MEASURES = dict.fromkeys((field.name for field in fields(Measures)), 0.5)


def make_measures(area: float = 0.75, error: float = 0.2, **changes: float) -> Measures:
    low, high = expit(logit(area) + 1.959964 * error * np.array([-1, 1])).tolist()
    known = {"patients": 200, "events": 60, "auc": area, "auc_low": low, "auc_high": high}
    return Measures(**{**MEASURES, **known, **changes})


def five() -> SiteValidation:
    areas = (0.73, 0.76, 0.78, 0.70, 0.81)
    sites = {f"site {k}": make_measures(area) for k, area in enumerate(areas)}
    return SiteValidation(sites, YES_NO)


class _Upside:
    """An engine whose models give every patient of the others' share the same probability."""

    def fit(self, study: Any, tables: Any, **options: Any) -> Any:
        rate = np.concatenate([table.outcome for table in tables.values()]).mean()
        fitted = EMBEDDED.fit(study, tables, **options)
        flat = replace(fitted.model, terms=(), intercept=float(logit(rate)))
        return replace(fitted, model=flat)


def test_patients_beyond_the_range_are_judged_as_learning_counts_them() -> None:
    """A policy that refuses them, when the model is used, leaves no hole in its measures."""
    found = []
    for beyond in ("clip", "refuse"):
        facts = make_study(**SOLVERS["exact"]).model_dump()
        study = Study.from_mapping({**facts, "unusual": {"beyond": beyond}})
        tables = make_tables(study, sizes=(200, 200, 200))
        for table in tables.values():
            table.values[:20, 0] = 150.0
        found.append(leave_one_site_out(study, tables).metrics_frame())
    assert found[0].notna().all(axis=None)
    pd.testing.assert_frame_equal(*found)


def test_models_that_know_nothing_do_not_rank_sites_upside_down() -> None:
    """Each site's AUC was .5, "all sites" .25: a site with many outcomes, left out, is given the
    low share of the others."""
    study = make_study(**SOLVERS["exact"])
    tables = make_tables(study, sizes=(200, 200, 200))
    for (site, table), share in zip(list(tables.items()), (0.2, 0.5, 0.8), strict=True):
        rows = [np.flatnonzero(table.outcome == label) for label in (1, 0)]
        few = min(len(part) for part in rows)
        counts = round(few * share), round(few * (1 - share))
        kept = [part[:count] for part, count in zip(rows, counts, strict=True)]
        tables[site] = take(table, np.concatenate(kept))
    found = leave_one_site_out(study, tables, engine=_Upside())  # type: ignore[arg-type]
    frame = found.metrics_frame()
    assert frame["site"].tolist() == list(tables)
    np.testing.assert_allclose(frame["auc"], 0.5)
    scores = [
        np.full(table.n_rows, 1 - share)
        for table, share in zip(tables.values(), (0.2, 0.5, 0.8), strict=True)
    ]
    outcomes = np.concatenate([table.outcome for table in tables.values()])
    assert Evaluation.of_predictions(np.concatenate(scores), outcomes).total.auc < 0.4
    assert not hasattr(found, "total")
    assert not hasattr(found, "calibration_frame")


def test_a_site_with_few_patients_hides_no_other() -> None:
    """It used to hide all, since a total was told."""
    study = make_study(**SOLVERS["exact"])
    tables = dict(make_tables(study, sizes=(200, 150, 120)))
    cases, others = (np.flatnonzero(tables["west"].outcome == label) for label in (1, 0))
    tables["west"] = take(tables["west"], np.concatenate([cases[:4], others]))
    found = leave_one_site_out(study, tables)
    assert list(found.sites) == ["north", "south"]
    assert found.too_few == ("west",)
    assert "Too few patients with or without the outcome to tell: west." in found.words()
    frame = found.metrics_frame().set_index("site")
    assert frame.loc["west"].isna().all()
    assert frame.loc["north", "patients"] % 5 == 0
    assert "here it is 2" in found.words()


def test_the_summary_is_that_of_random_effects() -> None:
    found = five().summary_frame().set_index("measure")
    areas = [sites.auc for sites in five().sites.values()]
    expected = combine(logit(np.array(areas)), np.full(5, 0.2))
    for name in ("mean", "low", "high", "new_low", "new_high"):
        assert logit(found.loc["auc", name]) == pytest.approx(getattr(expected, name), abs=1e-6)
    assert found.loc["auc", "tau"] == pytest.approx(expected.tau, abs=1e-6)
    assert five().heterogeneity() == pytest.approx(expected.tau, abs=1e-6)
    assert found.loc["auc", "scale"] == "logit"
    words = five().words()
    assert "Over 5 hospitals the AUC is 0.758" in words
    assert "95 % prediction interval" in words


def test_hospitals_whose_interval_is_not_known_are_not_counted() -> None:
    """The sentence on differences counted sites that τ had dropped."""
    sites = {**five().sites, "all ranked": make_measures(0.9, auc=1.0, auc_high=1.0)}
    nan = float("nan")
    sites["unknown"] = make_measures(0.9, auc_low=nan, auc_high=nan)
    found = SiteValidation(sites, YES_NO)
    assert found.summary_frame().loc[0, "hospitals"] == 5
    words = found.family.judge.tell_heterogeneity(list(sites.values()))
    assert "5 sites" in words
    near = {**five().sites, "near": make_measures(0.97, auc_high=1.0)}
    assert SiteValidation(near, YES_NO).summary_frame().loc[0, "hospitals"] == 6, (
        "its lower half tells"
    )


def test_publishing_rounds_each_site_and_names_those_with_too_few() -> None:
    validation = replace(five(), too_few=("tiny",))
    few = {**validation.sites, "few": make_measures(patients=203, events=8)}
    found = replace(validation, sites=few).rounded(Rounding(5, 10))
    assert found.too_few == ("tiny", "few")
    assert list(found.sites) == list(five().sites)
    exact = replace(validation, sites=few).rounded(EXACT)
    assert exact.sites["few"].patients == 203
    odd = SiteValidation({"a": make_measures(patients=203, auc=0.7512345)}, YES_NO).rounded(
        Rounding(5, 10)
    )
    assert (odd.sites["a"].patients, odd.sites["a"].auc) == (205, 0.751)


def test_nobody_is_told_of_nobody() -> None:
    empty = SiteValidation({}, YES_NO, ("a", "b"))
    assert empty.summary_frame()["hospitals"].tolist() == [0, 0, 0]
    assert empty.words().endswith("to tell: a, b.")
    assert len(empty.metrics_frame()) == 2


def test_files_of_version_2_keep_their_sites_and_lose_the_pool() -> None:
    model = evaluated_model()
    assert model.evaluation is not None
    facts = json.loads(json.dumps(model_facts(model)))
    old = evaluation_facts(model.evaluation)
    assert old is not None
    del old["within"]
    found = build_model({**facts, "validation": old}).validation
    assert found is not None
    assert found.sites == model.evaluation.sites
    assert found.too_few == ()
    assert build_model({**facts, "validation": {**old, "sites": {}}}).validation is None
    with pytest.raises(ModelFileError, match="overall"):
        build_model({**facts, "validation": {**old, "overall": 3}})


@pytest.mark.parametrize("few", [["nowhere"], ["north"]])
def test_a_site_that_is_told_twice_or_unknown_is_refused(few: list[str], tmp_path: Path) -> None:
    model = evaluated_model()
    assert model.validation is not None
    facts = json.loads(json.dumps(model_facts(model)))
    facts["validation"]["too_few"] = few
    with pytest.raises(ModelFileError, match="twice|does not name"):
        build_model(facts)


def test_discrimination_within_hospitals_is_in_the_file() -> None:
    model = evaluated_model()
    assert model.evaluation is not None
    within = model.evaluation.within
    assert within is not None
    assert within.sites == 3
    again = build_model(json.loads(json.dumps(model_facts(model)))).evaluation
    assert again is not None
    assert again.within == within
    told = model.rounded().evaluation
    assert told is not None
    assert told.within is not None
    assert told.within.auc == round(within.auc, 3)
