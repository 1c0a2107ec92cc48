"""The report in a real browser: silent, correct, and open to everybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.arrays import Floats
from fedrulefit.core.families.count_judge import CountJudge
from fedrulefit.core.families.count_ranges import find_count_range
from fedrulefit.model import Model
from fedrulefit.study import Covariate, Number
from tests.random_models import expected, look_at, random_columns, random_model
from tests.reports import (
    HEBREW,
    LONG,
    NAMES,
    SCRIPT,
    as_texts,
    draw_patients,
    empty_model,
    evaluated_model,
    hostile_model,
    hostile_unit_model,
    huge_model,
    many_levels_model,
    ordered_model,
    outcome_model,
    path_model,
    sample_model,
    time_model,
)

Open = Callable[..., Any]

MODELS: dict[str, Callable[[], Model]] = {
    "sample": sample_model,
    "path": path_model,
    "evaluated": evaluated_model,
    "hostile": hostile_model,
    "empty": empty_model,
    "huge": huge_model,
    "time": time_model,
}
LEVELS: dict[str, Callable[[], Model]] = {
    "ordered levels": lambda: outcome_model("ordered"),
    "classes": lambda: outcome_model("classes"),
    "many classes": lambda: many_levels_model("classes"),
}
"""They have a probability of each level: test_levels.py."""
EVERY = MODELS | LEVELS
every_model = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY.keys())

ENTER = """(texts) => {
  texts.forEach((text, j) => { document.getElementById("x" + j).value = text; });
  document.getElementById("x0").dispatchEvent(new Event("input", { bubbles: true }));
  return document.getElementById("risk").dataset.risk;
}"""
FLAGS = "JSON.parse(document.getElementById('risk').dataset.flags)"


def enter(page: Any, model: Model, patient: Floats) -> float:
    """Type a patient in, and return the risk that the page computes."""
    return float(page.evaluate(ENTER, as_texts(model, patient)))


@pytest.mark.parametrize("make", [*MODELS.values(), ordered_model], ids=[*MODELS, "ordered"])
def test_the_calculator_is_the_model(make: Callable[[], Model], open_report: Open) -> None:
    model = make()
    page = open_report(model)
    patients = draw_patients(model, 60 if make is huge_model else 300, seed=5)
    shown = [enter(page, model, patient) for patient in patients]
    np.testing.assert_allclose(shown, model.predict(patients), rtol=0, atol=1e-9)


@pytest.mark.parametrize("make", [outcome_model, hostile_unit_model])
@pytest.mark.parametrize("kind", ["number", "count", "time"])
def test_the_calculator_is_the_model_of_any_outcome(
    kind: str, make: Callable[[str], Model], open_report: Open
) -> None:
    model = make(kind)
    page = open_report(model)
    patients = draw_patients(model, 100, seed=5)
    shown = [enter(page, model, patient) for patient in patients]
    np.testing.assert_allclose(shown, model.predict(patients), rtol=1e-12, atol=1e-9)
    told = model.study.family.tell(shown[-1]).replace("-", "−")
    assert page.locator("#risk").inner_text().split() == told.split()
    assert page.locator("#curve-words").inner_text()


def test_the_calculator_tells_where_a_new_patient_lies(open_report: Open) -> None:
    model = outcome_model("number")
    page = open_report(model)
    assert page.locator("#risk-range").inner_text() == ""
    patient = draw_patients(model, 1, seed=5)[0]
    value, tell = enter(page, model, patient), model.study.family.tell
    told = page.locator("#risk-range").inner_text()
    for share, reach in model.reaches.items():
        ends = f"from {tell(value - reach)} to {tell(value + reach)} in {share} %"
        assert ends.replace("-", "−") in told


@pytest.mark.parametrize("kind", ["count", "count, negative binomial"])
def test_the_calculator_tells_between_what_a_new_patient_s_count_lies(
    kind: str, open_report: Open
) -> None:
    model = outcome_model(kind)
    page = open_report(model)
    for patient in draw_patients(model, 20, seed=5):
        value = enter(page, model, patient)
        assert page.locator("#risk-range").inner_text() == model.tell_ranges(value)
    judge = model.family.judge
    assert isinstance(judge, CountJudge)
    assert model.tell_ranges(value).startswith(
        f"As far as held-out patients tell, {judge.range_words} from "
    )
    for dispersion in (0.9, 1.0, 1.3, 8.0):
        for mean in (1e-3, 0.7, 12.0, 900.0):
            found = page.evaluate(f"({judge.range_javascript})({mean}, [{dispersion}])")
            for share, low, high in found:
                at = np.array([mean])
                ends = find_count_range(at, judge.spread_at(at, dispersion), share / 100)[0]
                assert (float(low), float(high)) == tuple(ends)


@pytest.mark.parametrize("seed", range(12))
def test_any_model_and_any_patient(seed: int, open_report: Open) -> None:
    """The same probability and the same flags as every other predictor gives."""
    rng = np.random.default_rng(seed)
    model = random_model(rng)
    columns = random_columns(rng, model, 40, bad=0.1) | {
        name: column
        for name, column in random_columns(rng, model, 40).items()
        if not isinstance(model.study.covariates[name], Number)
    }
    cells = [(columns[name].cells, covariate) for name, covariate in model.study.covariates.items()]
    rows = [i for i in range(40) if all(can_be_entered(cell[i], c) for cell, c in cells)]
    chances, flags = expected(model, columns)
    page = open_report(model)
    for i in rows:
        texts = [type_cell(cell[i], covariate) for cell, covariate in cells]
        shown, told = page.evaluate(ENTER, texts), page.evaluate(FLAGS)
        assert "; ".join(told) == flags[i]
        assert (shown is None) == (chances[i] is None)
        if shown is not None:
            assert abs(float(shown) - chances[i]) < 1e-9
        # What is missing is asked for, all else is said beside the number.
        said = page.locator("#risk-flags").text_content()
        wanted = [flag for flag in told if not flag.endswith(" missing: no prediction")]
        assert said == " ".join(f"{flag}." for flag in wanted)


def can_be_entered(cell: Any, covariate: Covariate) -> bool:
    """A select offers levels only."""
    return isinstance(covariate, Number) or look_at(cell, covariate)[0] != "unseen"


def type_cell(cell: Any, covariate: Covariate) -> str:
    """Return what is typed into a cell's field, or chosen in it."""
    if isinstance(covariate, Number):
        return "" if cell is None else cell if isinstance(cell, str) else repr(cell)
    kind, place = look_at(cell, covariate)
    return str(int(place)) if kind == "known" else ""


def test_the_calculator_explains_as_the_model_does(open_report: Open) -> None:
    model = sample_model()
    page = open_report(model)
    for patient in draw_patients(model, 20, seed=6):
        enter(page, model, patient)
        rows = page.eval_on_selector_all(
            "#parts tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
        )
        (explanation,) = model.explain(patient[None, :])
        told = [(part.kind, part.term, part.contribution) for part in explanation.contributions]
        assert rows[0][0] == "Starting point"
        shown = {row[0]: row[1].replace("−", "-") for row in rows[1:]}
        assert sorted(shown.values()) == sorted(f"{adds:+.3f}" for _, _, adds in told)
        for kind, term, adds in told:
            if kind == "rule":
                assert shown[term] == f"{adds:+.3f}"
            else:  # at the patient's own value
                name = term.split(",")[0]
                assert any(w.startswith(f"{name} = ") and w.endswith(" (linear)") for w in shown)


def test_the_curve_follows_the_value_that_moves(open_report: Open) -> None:
    model = sample_model()
    page = open_report(model)
    patient = draw_patients(model, 1, seed=8)[0]
    enter(page, model, np.where(np.isnan(patient), 1.0, patient))
    for j in range(model.study.n_features):
        option = page.locator(f'#vary option[value="{j}"]')
        if not option.count():
            continue
        page.select_option("#vary", str(j))
        page.locator("#move").press("Home")
        first = page.locator(f"#x{j}").input_value()
        page.locator("#move").press("End")
        assert page.locator(f"#x{j}").input_value() != first
        page.get_by_role("button", name="Back to the value entered").click()
        assert not page.locator("#back").is_visible()
        page.locator("#move").press("End")
        shown = float(page.locator("#risk").get_attribute("data-risk"))
        assert f"now {100 * shown:.1f} %" in page.locator("#curve-words").inner_text()


def test_what_is_unusual_is_said_beside_the_number(open_report: Open) -> None:
    page = open_report(sample_model())
    risk = page.locator("#risk")
    assert "Still needed: gcs, sex" in page.locator("#risk-note").inner_text()
    assert risk.get_attribute("data-risk") is None
    page.locator("#x2").fill("8")
    page.locator("#x4").select_option("1")
    assert risk.get_attribute("data-risk") is not None
    without = risk.get_attribute("data-risk")
    for text in ("old", "0x10", "1 2", "--1"):
        page.locator("#x0").fill(text)
        assert page.locator("#x0").get_attribute("aria-invalid") == "true"
        assert risk.get_attribute("data-risk") == without
        words = "age not a number: counted as missing."
        assert page.locator("#risk-flags").inner_text() == words
        assert words in page.locator("#x0-hint").inner_text()
    page.locator("#x0").fill("61,5")
    assert page.locator("#risk-flags").inner_text() == ""
    comma = risk.get_attribute("data-risk")
    page.locator("#x0").fill("61.5")
    assert comma == risk.get_attribute("data-risk") is not None
    page.locator("#x0").fill("100")
    oldest = risk.get_attribute("data-risk")
    for text in ("300", "1e999", "Infinity"):
        page.locator("#x0").fill(text)
        assert risk.get_attribute("data-risk") == oldest
        words = "age above the range: counted as 100 years."
        assert page.locator("#risk-flags").inner_text() == words
    page.locator("#x2").fill("much")
    assert risk.get_attribute("data-risk") is None
    assert "gcs not a number: no prediction." in page.locator("#risk-flags").inner_text()
    page.get_by_role("button", name="Clear").click()
    page.wait_for_function("document.getElementById('risk').dataset.risk === undefined")


def test_everything_works_by_keyboard(open_report: Open) -> None:
    page = open_report(huge_model())
    reached: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focus = page.evaluate("document.activeElement.id || document.activeElement.textContent")
        reached.append(focus.strip())
        if focus == "x2":
            page.keyboard.type("7")
        elif focus == "x4":
            page.keyboard.press("ArrowDown")
        elif focus == "theme":
            page.keyboard.press("Enter")
        elif focus == "vary":
            page.keyboard.press("ArrowDown")
        elif focus == "move":
            page.keyboard.press("ArrowRight")
        elif focus == "f-text":
            page.keyboard.type("gcs")
        elif focus == "Weight (shrunk), odds ratio":
            page.keyboard.press("Enter")
        elif focus.startswith("Show all"):
            page.keyboard.press("Space")
            break
    wanted = ["theme", "x0", "x4", "Clear", "vary", "move", "f-text", "f-direction", "f-support"]
    assert [name for name in wanted if name not in reached] == []
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.locator("#risk").get_attribute("data-risk") is not None
    assert page.locator("#vary").input_value() == "1"
    assert page.locator("#x1").input_value() != ""
    head = page.locator("th[data-key=effect]")
    assert head.get_attribute("aria-sort") == "descending"
    rows = page.locator("#rules-table tbody tr:visible")
    assert rows.count() > 50
    assert all("gcs" in text for text in rows.locator("th").all_inner_texts())


def test_rules_are_filtered_and_sorted(open_report: Open) -> None:
    model = huge_model()
    page = open_report(model)
    rows = page.locator("#rules-table tbody tr:visible")
    assert rows.count() == 50
    page.locator("#f-support").fill("50")
    page.locator("#f-direction").select_option("lowers")
    wanted = [t for t in model.rule_terms if t.coefficient < 0 and 100 * model.support(t) >= 50]
    assert f"of {len(model.terms)} shown" in page.locator("#rules-count").inner_text()
    page.get_by_role("button", name="Show all 200").first.click()
    assert rows.count() == len(wanted)
    page.get_by_role("button", name="Support", exact=True).click()
    support = [float(row) for row in rows.evaluate_all("rows => rows.map(r => r.dataset.support)")]
    assert support == sorted(support, reverse=True)
    page.locator("#f-text").fill("no rule says this")
    assert rows.count() == 0
    assert "No rule fits" in page.locator("#rules-count").inner_text()


@every_model
@pytest.mark.parametrize("width", [380, 1000])
def test_nothing_scrolls_sideways(make: Callable[[], Model], width: int, open_report: Open) -> None:
    page = open_report(make(), width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner


def test_tables_of_measures_fit_the_page(open_report: Open) -> None:
    page = open_report(evaluated_model(), width=1200)
    page.eval_on_selector_all("details", "all => all.forEach((part) => (part.open = true))")
    wide = page.eval_on_selector_all(
        "#performance .scroll",
        "all => all.filter((b) => b.scrollWidth > b.clientWidth).map((b) => b.ariaLabel)",
    )
    assert wide == []


def test_names_are_shown_as_text(open_report: Open) -> None:
    model = hostile_model()
    page = open_report(model)
    assert page.title() != "run"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert page.locator("h1").inner_text() == SCRIPT + LONG + HEBREW
    labels = page.locator("#patient label").all_inner_texts()
    assert all(any(name in label for label in labels) for name in NAMES)
    assert SCRIPT in page.locator("#x4 option").all_inner_texts()
    shown = page.locator("#rules-table tbody th bdi").all_inner_texts()
    assert [text.split() for text in shown] == [model.describe(t).split() for t in model.terms]


def test_every_control_is_reached_by_the_tab_key(open_report: Open) -> None:
    page = open_report(evaluated_model())
    page.locator("#x2").fill("7")
    page.locator("#x4").select_option("1")
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    page.evaluate("document.activeElement.blur(); window.reached = []")
    page.evaluate("addEventListener('focusin', (e) => window.reached.push(e.target))")
    wanted = """() => [...document.querySelectorAll(
        'a[href], button, input, select, summary, [tabindex="0"]')]
        .filter((e) => e.checkVisibility() && !e.disabled)"""
    n_wanted = page.evaluate(f"({wanted})().length")
    for _ in range(n_wanted + 5):
        page.keyboard.press("Tab")
    missed = f"({wanted})().filter((e) => !window.reached.includes(e)).map((e) => e.outerHTML)"
    assert page.evaluate(missed) == []


def test_folded_parts_open_by_key(open_report: Open) -> None:
    page = open_report(evaluated_model())
    for k in range(page.locator("summary").count()):
        summary = page.locator("summary").nth(k)
        summary.press("Enter")
        assert summary.evaluate("e => e.parentElement.open")


def test_row_headers_stay_readable_on_a_telephone(open_report: Open) -> None:
    page = open_report(evaluated_model(), width=380)
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    widths = page.eval_on_selector_all(
        "#performance tbody th, #tripod td:nth-child(2)",
        "cells => cells.map(c => c.getBoundingClientRect().width)",
    )
    assert min(widths) > 70


def test_an_empty_model_makes_sense(open_report: Open) -> None:
    page = open_report(empty_model())
    text = page.locator("main").inner_text()
    assert "The model has no rules" in text
    assert "same probability" in text
    assert not page.locator(".whatif").is_visible()


def test_a_huge_model_answers_at_once(open_report: Open) -> None:
    model = huge_model()
    page = open_report(model)
    enter(page, model, draw_patients(model, 1, seed=2)[0])
    assert page.locator("#parts tbody tr").count() <= 32
    page.locator("#parts-all").click()
    assert page.locator("#parts tbody tr").count() > 32
    assert page.locator("#rules-table tbody tr:visible").count() == 50
    assert page.locator("#subgroups-table tbody tr:visible").count() == 50


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["sample", "path", "evaluated", "hostile", "empty", "long", "time", *LEVELS]
)
def test_axe_finds_nothing_serious(name: str, scheme: str, open_report: Open) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is missing")
    # Longer than a first page; all 2,000 rows would only make axe slow.
    model = huge_model(120) if name == "long" else EVERY[name]()
    page = open_report(model, scheme=scheme)
    page.locator("#x2").fill("nonsense")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = {
        f"{v['id']}: {v['nodes'][0]['html'][:200]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    }
    assert serious == set()


def test_colours_follow_the_system_and_the_button(open_report: Open) -> None:
    page = open_report(sample_model(), scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Light colours").click()
    light = page.evaluate(paper)
    assert (dark, light) == ("rgb(20, 23, 27)", "rgb(255, 255, 255)")
    page.get_by_role("button", name="Dark colours").click()
    assert page.evaluate(paper) == dark


def test_it_prints_light_and_without_controls(open_report: Open) -> None:
    page = open_report(sample_model(), scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert not page.locator("#theme").is_visible()
    assert len(page.pdf()) > 10_000


def test_without_javascript_the_report_still_reads(browser: Any, tmp_path: Path) -> None:
    from fedrulefit.report import write_report

    model = sample_model()
    write_report(model, tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#rules-table tbody tr").count() == len(model.terms)
    assert "needs JavaScript" in page.locator("noscript").inner_text()
    context.close()
