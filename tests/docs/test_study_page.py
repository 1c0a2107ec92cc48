"""The page of the paper's study takes what the experiments write."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from fedrulefit.experiments.claims import claims_table
from fedrulefit.experiments.cutoffs import claims as cutoffs_claims
from fedrulefit.experiments.cutoffs import tables as cutoffs
from fedrulefit.experiments.methods import (
    FIXED,
    FIXED_UNSAMPLED,
    OURS,
    PROPOSED,
    REFERENCE,
    UNSAMPLED,
)
from fedrulefit.experiments.simulation import claims as simulation_claims
from fedrulefit.experiments.simulation import tables as simulation
from fedrulefit.experiments.simulation.cells import Cells, list_places
from fedrulefit.experiments.trauma import claims as trauma_claims
from fedrulefit.experiments.trauma import tables as trauma
from fedrulefit.model.file import load_model
from tests.docs.pages import ROOT, load_script

study = load_script("make_study")


def make_results(folder: Path, experiment: str) -> None:
    """What an experiment writes, as far as the page needs it."""
    (folder / experiment).mkdir()
    for name in study.TEXTS[experiment]:
        (folder / experiment / f"{name}.md").write_text(f"{experiment} {name} here\n")
    for figure in study.FIGURES[experiment]:
        (folder / experiment / f"{figure}.png").write_bytes(b"image")


def test_the_page_has_a_place_for_every_result(tmp_path: Path) -> None:
    for experiment in study.TEXTS:
        make_results(tmp_path, experiment)
    page = (ROOT / "docs" / study.PAGE).read_text(encoding="utf-8")
    filled = study.fill_page(page, tmp_path)
    for experiment, names in study.TEXTS.items():
        for name in names:
            assert f"{experiment} {name} here" in filled
    assert study.fill_page(filled, tmp_path) == filled
    images = tmp_path / "images"
    images.mkdir()
    study.copy_figures(tmp_path, images)
    for image in images.iterdir():
        assert f"(images/{image.name})" in filled


def test_the_page_says_what_its_rows_say() -> None:
    """The tables and verdicts on the page follow from the published rows."""
    page = (ROOT / "docs" / study.PAGE).read_text(encoding="utf-8")
    rows = {
        name: duckdb.read_parquet(str(ROOT / "docs" / "results" / f"{name}.parquet")).df()
        for name in study.TEXTS
    }
    for name, part in rows.items():
        assert part["repetition"].nunique() == 100, name
    models = {
        name: load_model(ROOT / "docs" / "results" / f"model-{name}.json")
        for name in (PROPOSED, OURS)
    }
    for text in (
        simulation.results_tables(rows["simulation"]),
        simulation.costs_table(rows["simulation"]),
        simulation.sampling_table(rows["simulation"]),
        claims_table(simulation_claims.check_claims(rows["simulation"])),
        cutoffs.results_table(cutoffs.summarise(rows["cutoffs"])),
        claims_table(cutoffs_claims.check_claims(rows["cutoffs"])),
        trauma.splits_table(rows["trauma"]),
        claims_table(trauma_claims.check_claims(rows["trauma"], models)),
        *map(trauma.rules_table, models.values()),
        *map(trauma.subgroups_table, models.values()),
    ):
        assert text in page


def test_the_reference_as_the_paper_states_it_was_run_in_all_repetitions() -> None:
    """It was in 48 of them, beside that of earlier versions in 100."""
    rows = duckdb.read_parquet(str(ROOT / "docs" / "results" / "simulation.parquet")).df()
    counts = rows.groupby(["method", "scenario", "model", "setting"])["repetition"].nunique()
    for name in (REFERENCE, UNSAMPLED, FIXED, FIXED_UNSAMPLED, PROPOSED, OURS):
        assert (counts[name] == 100).all(), name


def test_what_the_page_says_of_the_reference_follows_from_the_rows() -> None:
    rows = duckdb.read_parquet(str(ROOT / "docs" / "results" / "simulation.parquet")).df()
    cells = Cells(rows)
    for place in list_places():
        assert cells.gap(place, PROPOSED, REFERENCE).mean < 0, place
        assert cells.gap(place, OURS, REFERENCE).mean > 0, place
    for model, more, ours in ((1, -0.004, 0.013), (2, 0.022, 0.004)):
        for place in list_places(models=[model], metrics=["auc"]):
            assert cells.gap(place, REFERENCE, UNSAMPLED).mean == pytest.approx(more, abs=1e-3)
            assert cells.gap(place, OURS, REFERENCE).mean == pytest.approx(ours, abs=8e-4)
    for place in list_places(models=[1], metrics=["accuracy", "f1"]):
        assert 0.0225 <= cells.gap(place, OURS, REFERENCE).mean <= 0.0255


def test_only_full_results_are_taken(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no finished experiment"):
        study.check_results(tmp_path)
    make_results(tmp_path, "trauma")
    record = tmp_path / "trauma" / "run.json"
    record.write_text('{"facts": {"quick": true}}')
    with pytest.raises(SystemExit, match="quick run"):
        study.check_results(tmp_path)
    record.write_text('{"facts": {"quick": false}}')
    study.check_results(tmp_path)


def test_what_was_not_run_stays(tmp_path: Path) -> None:
    make_results(tmp_path, "trauma")
    page = (ROOT / "docs" / study.PAGE).read_text(encoding="utf-8")
    filled = study.fill_page(page, tmp_path)
    before, after = (text.partition("## Trauma patients") for text in (page, filled))
    assert before[0] == after[0]
    assert before[2] != after[2]
