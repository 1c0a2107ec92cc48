"""The page of the paper's study takes what the experiments write."""

from __future__ import annotations

from pathlib import Path

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


def test_what_was_not_run_stays(tmp_path: Path) -> None:
    make_results(tmp_path, "trauma")
    page = (ROOT / "docs" / study.PAGE).read_text(encoding="utf-8")
    filled = study.fill_page(page, tmp_path)
    before, after = (text.partition("## Trauma patients") for text in (page, filled))
    assert before[0] == after[0]
    assert before[2] != after[2]
