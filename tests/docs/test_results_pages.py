"""The pages on coverage, the defaults, real data and outcomes say what their rows say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from benchmarks import peers
from benchmarks.compare import by_method, compare, is_clear, tell
from benchmarks.defaults import draws
from benchmarks.defaults import tables as defaults
from benchmarks.outcomes import texts as outcomes
from benchmarks.real import splits
from benchmarks.real import tables as real

from fedrulefit.experiments.coverage import coverage_table, summarise
from fedrulefit.experiments.coverage.hospitals import hospitals_table, summarise_hospitals
from tests.docs.pages import ROOT, load_script

script = load_script("make_results")

MakeTexts = Callable[[pd.DataFrame], Mapping[str, str]]

TEXTS: Mapping[str, MakeTexts] = {
    "coverage": lambda rows: {"tables": coverage_table(summarise(rows))},
    "hospitals": lambda rows: {"tables": hospitals_table(summarise_hospitals(rows))},
    "defaults": defaults.make_texts,
    "real": real.make_texts,
    "outcomes": outcomes.make_texts,
}


def read_rows(study: str) -> pd.DataFrame:
    return duckdb.read_parquet(str(ROOT / "docs" / script.rows_of(study))).df()


def read_page(study: str) -> str:
    return (ROOT / "docs" / script.PAGES[study].name).read_text(encoding="utf-8")


@pytest.mark.parametrize("study", script.PAGES)
def test_a_page_says_what_its_rows_say(study: str) -> None:
    page, texts = read_page(study), TEXTS[study](read_rows(study))
    assert set(texts) == set(script.PAGES[study].texts)
    for name, text in texts.items():
        _, _, part = page.partition(f"<!-- {study}-{name}:start -->")
        assert part.partition(f"<!-- {study}-{name}:end -->")[0].strip() == text, name


def test_the_study_on_real_data_has_all_splits_of_all_methods() -> None:
    rows = read_rows("real")
    assert set(rows["data"]) == set(real.TITLES)
    counts = rows.groupby(["data", "method"])["split"].nunique().unstack()
    assert set(counts.columns) == set(splits.METHODS)
    assert counts.min(axis=None) >= splits.SPLITS == 20


def test_the_defaults_were_confirmed_on_seeds_that_did_not_choose_them() -> None:
    rows = read_rows("defaults")
    seeds = {stage: set(own["seed"]) for stage, own in rows.groupby("stage")}
    assert seeds == {"choosing": set(draws.CHOOSING), "confirming": set(draws.CONFIRMING)}
    counts = rows.groupby(["stage", "model", "method"])["seed"].nunique()
    assert (counts.loc["choosing"] == 6).all()
    assert (counts.loc["confirming"] == 20).all()


def test_the_headline_of_the_defaults_follows_from_the_rows() -> None:
    """They lose to logistic regression on the linear truth, by so little as the page says."""
    rows = read_rows("defaults")
    own = rows[(rows["stage"] == "confirming") & (rows["model"] == "linear")]
    loss = by_method(own, "loss", over="seed")
    for name in peers.LOGISTIC:
        lost = compare(loss, draws.DEFAULT, name)
        assert is_clear(lost)
        assert 0 < lost.mean < 0.01
        assert is_clear(compare(loss, draws.PAPER, name))


def test_every_bold_difference_is_clear_and_no_other_is_bold() -> None:
    rows = read_rows("real")
    page = read_page("real")
    for name, own in rows.groupby("data"):
        shared = own["n_test"].iloc[0] / (own["n_test"].iloc[0] + own["n_train"].iloc[0])
        table = by_method(own, "loss", over="split")
        for method in splits.METHODS:
            if method != peers.RIDGE:
                found = compare(table, method, peers.RIDGE, shared=shared)
                assert f"({tell(found)})" in page, (name, method)
    assert len(re.findall(r"\*\*[+-]0\.\d+ ± ", page)) < len(re.findall(r"\([+-]0\.\d+ ± ", page))


def test_a_run_is_put_in_its_place(tmp_path: Path) -> None:
    for study, page in script.PAGES.items():
        folder = tmp_path / study
        folder.mkdir()
        for name in ("run", *page.texts):
            (folder / f"{name}.md").write_text(f"the {name} here\n")
        (folder / "run.json").write_text(json.dumps({"experiment": study, "facts": {}}))
        assert script.check_results(folder) == study
        filled = script.fill_page(read_page(study), study, folder)
        for name in ("run", *page.texts):
            assert f"the {name} here" in filled
        assert f"({script.rows_of(study)})" in filled
        assert script.fill_page(filled, study, folder) == filled


def test_only_full_results_of_a_study_with_a_page_are_taken(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no finished run"):
        script.check_results(tmp_path)
    (tmp_path / "run.md").write_text("")
    record = tmp_path / "run.json"
    record.write_text('{"experiment": "coverage", "facts": {"quick": true}}')
    with pytest.raises(SystemExit, match="quick run"):
        script.check_results(tmp_path)
    record.write_text('{"experiment": "trauma", "facts": {}}')
    with pytest.raises(SystemExit, match="none of coverage"):
        script.check_results(tmp_path)
