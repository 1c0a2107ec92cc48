"""A model judged on held-out patients, federated and secure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from fedrulefit import plot
from fedrulefit.core.grid import encode
from fedrulefit.core.rounding import EXACT, Rounding
from fedrulefit.engines import inprocess
from fedrulefit.engines.leaveout import leave_one_site_out
from fedrulefit.errors import DataError, FitError
from fedrulefit.model import Model
from fedrulefit.model.evaluation import ALL_SITES, Evaluation
from fedrulefit.model.file import load_model, model_facts
from fedrulefit.model.validation import SiteValidation
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.privacy.policy import KINDS, MIN_COUNT, OPEN, Policy
from fedrulefit.protocol.dealing import hold_out, site_rng
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from tests.oracles import YES_NO, fires
from tests.samples import SOLVERS, make_study, make_tables, take

matplotlib.use("Agg")
STUDY = make_study(epsilon=1.0, holdout=0.3, **SOLVERS["exact"])
SHOWN = STUDY.with_settings(per_site=True)
TABLES = make_tables(STUDY, sizes=(300, 200, 150))


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def fit(study: Study = STUDY, **options: Any) -> Any:
    def noise(site: str) -> UnsafeSeededLaplace:
        return UnsafeSeededLaplace(3, site)

    return inprocess.fit(study, TABLES, make_noise=noise, **options)


@pytest.fixture(scope="module")
def model() -> Model:
    found: Model = fit(SHOWN).model
    return found


def _hold_out(outcome: Any, share: float, seed: int, site: str) -> Any:
    """Hold patients out as a site without a secret and a policy does."""
    rng = site_rng(seed, site, 1_000_000)
    return hold_out(outcome, np.ones(len(outcome)), share, rng, least=0)


def held_out(site: str) -> Any:
    """Return the held-out patients of a site."""
    table = TABLES[site]
    return take(table, _hold_out(table.outcome, 0.3, STUDY.settings.seed, site))


def test_the_measures_are_those_of_the_held_out_patients(model: Model) -> None:
    assert model.evaluation is not None
    tables = {site: held_out(site) for site in TABLES}
    chance = {site: model.predict_proba(table.values) for site, table in tables.items()}
    frame = model.evaluation.metrics_frame().set_index("site")
    assert list(frame.index) == [ALL_SITES, "north", "south", "west"]
    pooled = np.concatenate(list(chance.values()))
    outcomes = np.concatenate([tables[site].outcome for site in chance])
    cases = [(ALL_SITES, outcomes, pooled)]
    cases += [(site, tables[site].outcome, chance[site]) for site in chance]
    for name, outcome, p in cases:
        row = frame.loc[name]
        off = 0 if name == ALL_SITES else MIN_COUNT / 2  # what a site tells is rounded
        assert abs(row["patients"] - len(outcome)) <= off + 1e-6
        assert abs(row["events"] - outcome.sum()) <= off + 1e-6
        assert abs(row["auc"] - roc_auc_score(outcome, p)) <= row["auc_bound"] + 1e-3
        assert row["auc_low"] < row["auc"] < row["auc_high"]
        assert row["brier"] == pytest.approx(brier_score_loss(outcome, p), abs=1e-3)
        assert row["log_loss"] == pytest.approx(log_loss(outcome, p), abs=1e-3)
        assert row["expected"] == pytest.approx(p.mean(), abs=2e-3)
    assert model.provenance.patients == 650 - len(outcomes), "they were not learnt from"
    assert "AUC" in model.evaluation.words()
    assert model.evaluation.heterogeneity() >= 0


def test_secure_sums_tell_only_the_total(model: Model) -> None:
    fitted = fit(secure=True)
    evaluation = fitted.model.evaluation
    assert evaluation is not None
    assert model.evaluation is not None
    assert not evaluation.sites
    assert np.isnan(evaluation.heterogeneity())
    for name in ("cases", "others", "chances"):
        np.testing.assert_array_equal(
            getattr(evaluation.overall, name), getattr(model.evaluation.overall, name)
        )
    rows = [r for r in fitted.ledgers["north"].releases if r.message == "ScoreSums"]
    assert {r.sum_of for r in rows} == {3}
    assert "held-out patients' scores" in fitted.model.privacy.words()


def test_without_per_site_the_model_is_that_of_secure_sums() -> None:
    plain, secure = fit().model, fit(secure=True).model
    assert not plain.provenance.by_site
    facts, others = model_facts(plain), model_facts(secure)
    assert facts.pop("privacy")["sum_of"] is None
    assert others.pop("privacy")["sum_of"] == 3
    assert facts == others


def test_results_per_site_leave_openly_while_sums_are_masked(model: Model) -> None:
    fitted = fit(SHOWN, secure=True)
    facts, others = model_facts(model), model_facts(fitted.model)
    bill = others.pop("privacy")
    assert facts.pop("privacy") == {**bill, "sum_of": None}
    assert facts == others, "the same as without masks"
    assert any("under the site's name" in words for words in bill["exact"])
    for ledger in fitted.ledgers.values():
        rows = [r for r in ledger.releases if r.message in ("OfferSums", "ResultsReply")]
        assert {r.quantity for r in rows} == {
            "rules", "totals", "evaluation", "inside", "events_inside", "known", "measures",
            "held_out", "held_out_events",
        }  # fmt: skip
        assert {(r.message, r.sum_of) for r in rows} == {("OfferSums", 3), ("ResultsReply", None)}
        assert all(r.epsilon is None for r in rows)


def test_a_hospital_must_choose_to_tell_its_own_results() -> None:
    assert "site-results" not in Policy().allow
    policy = Policy(allow=tuple(kind for kind in KINDS if kind != "site-results"))
    with pytest.raises(FitError, match="this site's own results, by name and without masks"):
        fit(SHOWN, policy=policy, secure=True)
    model = fit(SHOWN, policy=Policy(allow=tuple(KINDS)), secure=True).model
    assert model.provenance.by_site


def test_what_one_site_keeps_back_no_site_tells() -> None:
    few = dict(TABLES)
    cases = np.flatnonzero(few["west"].outcome == 1)[:10]
    others = np.flatnonzero(few["west"].outcome == 0)
    few["west"] = take(few["west"], np.concatenate([cases, others]))
    shown = inprocess.fit(SHOWN, few).model  # seven cases to learn from, three held out
    assert shown.evaluation is not None
    assert len(shown.provenance.by_site) == 3
    assert not shown.evaluation.sites
    few["west"] = take(TABLES["west"], np.concatenate([cases[:4], others]))
    hidden = inprocess.fit(SHOWN, few).model
    assert not hidden.provenance.by_site
    assert not any(term.by_site for term in hidden.rule_terms)


def test_subgroups_by_site_are_those_of_the_patients(model: Model) -> None:
    learnt = {
        site: take(table, ~_hold_out(table.outcome, 0.3, STUDY.settings.seed, site))
        for site, table in TABLES.items()
    }
    assert [c.patients for c in model.provenance.by_site] == [
        len(t.values) for t in learnt.values()
    ]
    shown = 0
    for term in model.rule_terms:
        hits = [fires(term.rule, encode(table.values, model.grid)) for table in learnt.values()]
        cells = []
        for table, hit in zip(learnt.values(), hits, strict=True):
            y = np.asarray(table.outcome)
            cells.append([y[hit].sum(), (1 - y[hit]).sum(), y[~hit].sum(), (1 - y[~hit]).sum()])
        assert bool(term.by_site) == (np.min(cells) >= MIN_COUNT), "all cells of all sites or none"
        for counts, (cases, others, *_) in zip(term.by_site, cells, strict=False):
            assert counts.patients % MIN_COUNT == counts.events % MIN_COUNT == 0
            assert abs(counts.patients - (cases + others)) <= MIN_COUNT / 2
            assert abs(counts.events - cases) <= MIN_COUNT / 2
        shown += bool(term.by_site)
    assert 0 < shown < len(model.rule_terms)
    frame = model.subgroups_frame(by_site=True, patients="training")
    assert len(frame) == shown * 3
    assert frame[["rate_inside", "rate_outside"]].stack().between(0, 1).all()
    assert fit().model.subgroups_frame(by_site=True).empty


def test_no_bin_of_the_file_holds_a_few(model: Model) -> None:
    assert model.evaluation is not None
    weight = model.evaluation.overall.cases + model.evaluation.overall.others
    assert weight[weight > 0].min() >= MIN_COUNT


def test_a_policy_may_forbid_it_at_once() -> None:
    policy = Policy(allow=tuple(kind for kind in KINDS if kind != "evaluation"))
    with pytest.raises(FitError, match="histograms of the model's scores"):
        fit(policy=policy, secure=True)


def test_without_held_out_patients_there_is_no_evaluation() -> None:
    study = make_study(**SOLVERS["exact"])
    model = inprocess.fit(study, make_tables(study)).model
    assert model.evaluation is None
    assert plot.calibration(model).texts
    assert plot.decision(model).texts


def test_cases_and_others_are_held_out_alike_and_by_the_seed_alone() -> None:
    outcome = np.repeat([0.0, 1.0], [70, 30])
    held = _hold_out(outcome, 0.2, 1, "north")
    assert (held[:70].sum(), held[70:].sum()) == (14, 6)
    np.testing.assert_array_equal(held, _hold_out(outcome, 0.2, 1, "north"))
    assert (held != _hold_out(outcome, 0.2, 2, "north")).any()
    assert (held != _hold_out(outcome, 0.2, 1, "south")).any()
    assert not _hold_out(outcome, 0.0, 1, "north").any()


def test_too_few_patients_to_hold_some_out() -> None:
    study = make_study(holdout=0.9)
    with pytest.raises(DataError, match="lower 'holdout'"):
        Site("north", take(TABLES["north"], np.arange(1)), study)


def test_the_file_keeps_it(model: Model, tmp_path: Any) -> None:
    model.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json").evaluation
    assert again is not None
    assert model.evaluation is not None
    assert again.metrics_frame().equals(model.evaluation.metrics_frame())


def test_the_file_keeps_the_validation_and_the_counts(model: Model, tmp_path: Any) -> None:
    assert model.evaluation is not None
    sites = dict(model.evaluation.sites)
    del sites["west"]
    judged = replace(model, validation=SiteValidation(sites, YES_NO, ("west",)))
    judged.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert model_facts(again) == model_facts(judged)
    assert again.terms == judged.terms
    assert again.provenance == judged.provenance
    assert again.validation is not None
    assert again.validation.sites == sites
    assert again.validation.too_few == ("west",)


def test_predictions_at_hand_can_be_judged(model: Model) -> None:
    table = held_out("north")
    assert table.outcome is not None
    found = Evaluation.of_predictions(model.predict_proba(table.values), table.outcome)
    assert model.evaluation is not None
    frame = model.evaluation.metrics_frame().set_index("site")
    assert found.metrics_frame().loc[0, "auc"] == pytest.approx(frame.loc["north", "auc"], abs=0.02)


@pytest.mark.parametrize("rounding", [EXACT, Rounding(5, 10)])
def test_a_published_group_stands_at_its_mean_prediction(rounding: Rounding) -> None:
    """Few patients of high risk stand in one wide group; it was shown at the middle of it."""
    rng = np.random.default_rng(4)
    chance = expit(rng.normal(-2.6, 1.1, 1500))
    outcome = (rng.random(1500) < chance).astype(float)
    told = Evaluation.of_predictions(chance, outcome).rounded(rounding)
    assert told is not None
    frame = told.calibration_frame(100)
    inside = [(row.above <= chance) & (chance < row.below) for row in frame.itertuples()]
    truth = np.array([chance[held].mean() for held in inside])
    if rounding != EXACT:
        assert frame["above"].iloc[-1] <= 0.5
        assert frame["below"].iloc[-1] == 1.0
        assert abs(0.5 * (frame["above"].iloc[-1] + 1) - truth[-1]) > 0.1, "the middle is wrong"
    np.testing.assert_allclose(frame["predicted"], truth, atol=0.03)


def test_the_coordinator_says_that_it_judged_the_rounded_model() -> None:
    told = fit(policy=OPEN.model_copy(update={"min_published": 10})).model
    assert told.evaluation is not None
    assert told.evaluation.judged == told.rounding != EXACT
    exact = fit().model
    assert exact.evaluation is not None
    assert exact.evaluation.judged == EXACT
    later = exact.rounded()
    assert later.evaluation is not None
    assert later.evaluation.judged == EXACT != later.rounding


def test_a_file_tells_how_sure_its_groups_are(tmp_path: Path) -> None:
    """What was rounded is known from the file, too, so that its intervals are as wide."""
    told = fit().model.rounded()
    told.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    assert told.evaluation is not None
    assert again.evaluation is not None
    assert again.evaluation.published == told.evaluation.published == told.rounding != EXACT
    assert again.evaluation.calibration_frame().equals(told.evaluation.calibration_frame())


def test_the_plots_show_the_frames(model: Model) -> None:
    assert model.evaluation is not None
    frame = model.evaluation.calibration_frame()
    ax = plot.calibration(model)
    drawn = ax.containers[0].lines[0]
    np.testing.assert_allclose(np.asarray(drawn.get_xdata(), float), frame["predicted"])
    np.testing.assert_allclose(np.asarray(drawn.get_ydata(), float), frame["observed"])
    ax = plot.decision(model)
    frame = model.evaluation.decision_frame()
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata(), float), frame["net_benefit"])
    assert (frame["net_benefit"] <= frame["sensitivity"]).all()


def test_leaving_a_site_out_judges_it_by_the_others() -> None:
    def noise(site: str) -> UnsafeSeededLaplace:
        return UnsafeSeededLaplace(3, site)

    asked: list[str] = []
    found = leave_one_site_out(STUDY, TABLES, make_noise=noise, on_site=asked.append)
    assert asked == list(TABLES)
    others = {site: TABLES[site] for site in ("north", "west")}
    study = STUDY.with_settings(holdout=0.0)
    model = inprocess.fit(study, others, make_noise=noise).model
    outcome = TABLES["south"].outcome
    assert outcome is not None
    frame = found.metrics_frame().set_index("site")
    expected = roc_auc_score(outcome, model.predict_proba(TABLES["south"].values))
    assert abs(frame.loc["south", "auc"] - expected) <= frame.loc["south", "auc_bound"] + 1e-3
    assert list(frame.index) == list(TABLES), "each by a model of its own: nothing together"
    with pytest.raises(FitError, match="two are needed"):
        leave_one_site_out(STUDY, {"north": TABLES["north"]})
