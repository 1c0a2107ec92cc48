"""What page and command line tell of a model whose hospitals have own baselines."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from fedrulefit.cli.show import print_evaluation
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.model import Model
from fedrulefit.model.publish import round_model
from fedrulefit.report import render_report
from fedrulefit.report.tripod import list_checklist
from tests.unit.protocol.coordinator.test_own_baselines import play
from tests.unit.report.test_page import Balance

EACH = pytest.mark.parametrize("baseline", ["afterwards", "site"])


def told_of(model: Model) -> str:
    return " ".join(str(item) for item in list_checklist(model))


@EACH
def test_the_page_tells_both_judgements(baseline: str) -> None:
    model, _, _ = play(baseline=baseline)
    page = render_report(model)
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    for words in (
        "As patients of a new hospital",
        "With each hospital's own baseline",
        "all sites, as new hospitals",
        "all sites, with own baselines",
    ):
        assert words in page.replace("&#39;", "'")
    assert "It is not in this model, and known to the site alone" in page


def test_of_a_shared_baseline_the_page_says_nothing_new() -> None:
    model, _, _ = play()
    page = render_report(model)
    assert "own baseline" not in page.replace("&#39;", "'")
    assert "All sites share one intercept" in told_of(model)


def test_the_checklist_says_which_way_it_was() -> None:
    within, _, _ = play(baseline="site", baseline_spread=0.25)
    after, _, _ = play(baseline="afterwards")
    assert "In the fit each had a baseline of its own" in told_of(within)
    assert "standard deviation 0.25" in told_of(within)
    assert "of the finished model" in told_of(after)


@EACH
def test_the_command_line_prints_both(baseline: str) -> None:
    model, _, _ = play(baseline=baseline)
    console = Console(file=io.StringIO(), width=120)
    print_evaluation(console, model)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "all sites, as new hospitals" in text
    assert "all sites, with own baselines" in text


def test_a_published_model_has_both_rounded_and_of_few_patients_neither() -> None:
    model, _, _ = play(baseline="site")
    told = round_model(model, PUBLISHED).evaluation
    assert told is not None
    assert told.own is not None
    for found in told.all_measures.values():
        assert found.patients % 5 == 0
    assert model.evaluation is not None
    assert told.own.published == told.published == PUBLISHED
    few = replace(model.evaluation, own=None)
    assert len(few.all_measures) == 1
