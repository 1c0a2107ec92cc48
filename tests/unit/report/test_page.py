"""The page as text: complete, safe, and from the model alone."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedrulefit.cli.app import app
from fedrulefit.core.certificate import Certificate
from fedrulefit.core.families.yesno_sums import ScoreSums
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import Model
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.publish import BEFORE_ROUNDING
from fedrulefit.report import curves, forest, render_report, write_report
from fedrulefit.report.contents import list_certificate, list_origin, list_terms, tell_model
from fedrulefit.report.curves import draw_calibration, draw_decision
from fedrulefit.report.embedded import dump_island, island_facts
from fedrulefit.report.forest import draw_forests
from fedrulefit.report.tripod import AUTHORS, list_checklist
from tests.reports import (
    SCRIPT,
    empty_model,
    evaluated_model,
    hostile_model,
    huge_model,
    path_model,
    sample_model,
)

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Balance(HTMLParser):
    """Checks that every element is closed, and collects ids and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "action", "data", "srcset"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(
    "make",
    [
        sample_model,
        path_model,
        evaluated_model,
        hostile_model,
        empty_model,
        lambda: huge_model(200),
    ],
)
def test_pages_are_well_formed_and_point_nowhere(make) -> None:  # type: ignore[no-untyped-def]
    parser = Balance()
    parser.feed(render_report(make()))
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    for address in parser.addresses:
        assert address == "data:," or address[1:] in parser.ids


def test_every_section_is_there() -> None:
    page = render_report(path_model())
    for name in (
        "model", "calculator", "rules", "variables", "effects", "subgroups", "sites", "privacy",
        "certificate", "tripod",
    ):  # fmt: skip
        assert f'<section id="{name}"' in page


def test_no_name_closes_the_island_or_opens_an_element() -> None:
    model = hostile_model()
    page = render_report(model)
    assert SCRIPT not in page
    assert "<img" not in page
    island = dump_island(model)
    assert not set("<>&") & set(island)
    assert json.loads(island) == json.loads(json.dumps(island_facts(model)))


def test_names_are_not_templates() -> None:
    page = render_report(hostile_model())
    assert "{{ 7 * 7 }}" in page.replace("&amp;", "&")


def test_the_policy_names_the_program_by_its_hash() -> None:
    import base64

    page = render_report(sample_model())
    program = page[page.rindex("<script>") + len("<script>") : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    assert f"sha256-{digest}" in policy.replace("&#39;", "'")
    assert "default-src" in policy
    assert "unsafe" not in policy


def test_the_checksum_is_that_of_the_model_file(tmp_path: Path) -> None:
    model = sample_model()
    model.save(tmp_path / "model.json")
    digest = hashlib.sha256((tmp_path / "model.json").read_bytes()).hexdigest()
    assert f'<code id="digest">{digest}</code>' in render_report(model)


def test_terms_agree_with_the_frame() -> None:
    model = sample_model()
    frame = model.rules_frame()
    rows = list_terms(model)
    assert [row.words for row in rows] == frame["rule"].tolist()
    assert [row.size for row in rows] == frame["odds_ratio"].tolist()
    assert max(row.importance for row in rows) == 100


def test_the_model_is_told_in_plain_words() -> None:
    assert "the same probability" in " ".join(tell_model(empty_model()))
    words = " ".join(tell_model(sample_model()))
    assert "150 patients of 3 sites" in words


def test_the_checklist_is_whole_and_partly_filled() -> None:
    items = list_checklist(sample_model())
    assert len(items) == 52
    assert len({item.number for item in items}) == 52
    assert {item.answer for item in items if not item.filled} == {AUTHORS}
    assert sum(item.filled for item in items) > 15


def test_performance_is_shown_only_where_there_is_some() -> None:
    assert "No patients were held out" in render_report(sample_model())
    model = evaluated_model()
    assert model.evaluation is not None
    page = render_report(model)
    assert '<section id="performance"' in page
    assert model.evaluation.words() in page
    (auc,) = model.evaluation.metrics_frame().query("site == 'all sites'")["auc"]
    assert f'<td class="num">{auc:.3f}</td>' in page
    for title in ("Calibration by groups", "Decision curve", "Hospitals like these"):
        assert page.count(f"<caption>{title}") == 1
    assert page.count("<caption>Discrimination and calibration") == 2, "and by site left out"
    (left_out,) = re.findall(r"<h3>Sites left out</h3>.*?</section>", page, re.DOTALL)
    assert "all sites" not in left_out, "each was judged by a model of its own"
    assert model.validation is not None
    assert model.validation.words() in left_out


def test_a_forest_shows_each_site_the_mean_and_a_further_hospital() -> None:
    validation = evaluated_model().validation
    assert validation is not None
    drawn = draw_forests(validation)
    assert [tree.title.split(" (")[0] for tree in drawn] == [
        "AUC", "Calibration slope", "Calibration in the large",
    ]  # fmt: skip
    for tree, summary in zip(drawn, validation.summary(), strict=True):
        assert [bar.kind for bar in tree.bars] == [*["site"] * 3, "mean", "new"]
        assert [bar.name for bar in tree.bars][:3] == list(validation.sites)
        for bar in tree.bars:
            assert forest.LEFT <= bar.left <= bar.right <= forest.WIDTH - forest.RIGHT
            assert bar.x is None or bar.left <= bar.x <= bar.right
        assert f"{summary.across.new_high:.2f}".replace("-", "−") in tree.bars[-1].told
    two = dict(list(validation.sites.items())[:2])
    assert {bar.kind for bar in draw_forests(replace(validation, sites=two))[0].bars} == {"site"}
    assert draw_forests(replace(validation, sites={})) == []
    assert "Sites left out" in render_report(
        replace(evaluated_model(), validation=replace(validation, sites={}, too_few=("north",)))
    )


def test_counts_and_rates_of_sites_are_told_to_be_of_training_patients() -> None:
    """They stood beside held-out rates without a word."""
    told = dict(list_origin(evaluated_model(), "model.json"))
    assert told["Counted are"] == "patients that the model was learnt from, none held out"
    unjudged = replace(evaluated_model(), evaluation=None)
    assert "Counted are" not in dict(list_origin(unjudged, "model.json"))


def test_curves_are_drawn_from_the_frames() -> None:
    evaluation = evaluated_model().evaluation
    assert evaluation is not None
    frame = evaluation.calibration_frame()
    curve = draw_calibration(evaluation)
    assert len(curve.dots) == len(frame)
    last = float(curve.x_ticks[-1].text)
    scale = (curve.x_ticks[-1].at - curve.x_ticks[0].at) / last
    for dot, row in zip(curve.dots, frame.itertuples(), strict=True):
        assert dot.x == pytest.approx(curve.x_ticks[0].at + scale * row.predicted, abs=0.2)
        assert dot.high <= dot.y <= dot.low
    low, high = curves.HEIGHT - curves.BOTTOM, curves.TOP
    for drawn in (curve, draw_decision(evaluation)):
        for line in drawn.lines:
            places = [tuple(map(float, pair.split())) for pair in line.path[1:].split("L")]
            assert all(curves.LEFT <= x <= curves.WIDTH - curves.RIGHT for x, _ in places)
            assert all(high <= y <= low for _, y in places)


def test_a_useless_model_has_a_decision_curve_that_stays_on_paper() -> None:
    rng = np.random.default_rng(1)
    chance, outcome = rng.random(400), (rng.random(400) < 0.02).astype(float)
    drawn = draw_decision(Evaluation.of_predictions(chance, outcome))
    (model,) = (line.path for line in drawn.lines if line.label == "model")
    heights = [float(pair.split()[1]) for pair in model[1:].split("L")]
    assert max(heights) == curves.HEIGHT - curves.BOTTOM, "cut where it leaves the paper"


def decision_of(*benefits: float) -> Evaluation:
    """Return an evaluation whose net benefit is `benefits` at 0.1, 0.2, …"""
    edges = np.arange(1, len(benefits) + 1) / 10
    true = 100 * np.linspace(0.9, 0.1, len(benefits))
    false = (true - 1000 * np.array(benefits)) * (1 - edges) / edges
    cases, others = (-np.diff([n, *part, 0]) for n, part in ((100, true), (900, false)))
    nothing = np.zeros(4), np.zeros(2)
    return Evaluation(ScoreSums(cases, others, 100.0, 80.0, 300.0, *nothing, edges))


def test_a_decision_curve_ends_where_the_model_is_of_no_use() -> None:
    """It ended before, as if a model were of use at every threshold that was shown."""
    drawn = draw_decision(decision_of(0.05, 0.03, 0.01, -0.006, -0.01))
    assert [dot.words for dot in drawn.dots] == [
        "0.050 at 0.1", "0.030 at 0.2", "0.010 at 0.3", "−0.006 at 0.4",
    ]  # fmt: skip
    (model,) = (line.path for line in drawn.lines if line.label == "model")
    last = drawn.dots[-1]
    assert model.endswith(f"L{last.x:g} {last.y:g}")
    (zero,) = (tick.at for tick in drawn.y_ticks if tick.text == "0")
    assert last.y > zero, "below 0 on the paper"
    assert len(draw_decision(decision_of(0.05, 0.03)).dots) == 2, "to the end where none is"


def test_groups_are_drawn_with_their_range() -> None:
    model = evaluated_model().rounded()
    assert model.evaluation is not None
    curve = draw_calibration(model.evaluation, 0)
    frame = model.evaluation.calibration_frame()
    for dot, row in zip(curve.dots, frame.itertuples(), strict=True):
        assert dot.left <= dot.x <= dot.right
        assert f"predicted {100 * row.above:g} to {100 * row.below:g} %, about" in dot.words
    assert curve.dots[-1].right == curves.WIDTH - curves.RIGHT


def certificate_of(model: Model) -> dict[str, str]:
    return dict(list_certificate(model))


def test_a_rounded_model_is_certified_before_rounding() -> None:
    """A gap of 0 was claimed for coefficients that had been rounded after the fit."""
    exact = path_model()
    origin = replace(exact.provenance, certificate=Certificate(residual=0.0, gap=0.0))
    exact = replace(exact, provenance=origin)
    assert certificate_of(exact)["Duality gap"].startswith(
        "below 1e−09: the most that the loss lies"
    )
    facts = certificate_of(exact.rounded())
    assert "Duality gap" not in facts
    assert facts["Duality gap, before rounding"].startswith(
        "below 1e−09: the most that the loss lay"
    )
    assert facts["KKT residual, before rounding"] == "below 1e−09"
    why = "Terms and rules are counted before rounding"
    assert why in render_report(exact.rounded())
    assert why not in render_report(exact)


def test_a_rounded_page_says_when_it_was_judged_and_that_groups_are_rounded() -> None:
    exact = evaluated_model()
    later = exact.rounded()
    assert later.evaluation is not None
    judged = replace(later.evaluation, judged=later.rounding)
    pages = {
        "exact": render_report(exact),
        "rounded later": render_report(later),
        "rounded, then judged": render_report(replace(later, evaluation=judged)),
    }
    assert [name for name, page in pages.items() if BEFORE_ROUNDING in page] == ["rounded later"]
    assert "need not add up" not in pages["exact"]
    assert "need not add up" in pages["rounded later"]


def test_rates_of_rounded_counts_have_no_decimals() -> None:
    assert re.search(r"\d\.\d % <span", render_report(sample_model()))
    page = render_report(sample_model().rounded())
    section = page[page.index('id="subgroups-table"') :]
    section = section[: section.index("</table>")]
    assert re.search(r"\d % <span", section)
    assert not re.search(r"\d\.\d %", section)


def test_numbers_have_minus_signs() -> None:
    page = render_report(evaluated_model())
    shown = re.sub(r"<(style|script|svg)\b.*?</\1>|<[^>]+>", " ", page, flags=re.S)
    assert not re.search(r"(?<![\w.)-])-\d", shown)
    assert re.search(r"−\d", shown)


def test_subgroups_by_site_are_shown_where_the_model_tells_them() -> None:
    page = render_report(evaluated_model())
    rows = evaluated_model().subgroups_frame(by_site=True)
    assert len(rows) > 0
    table = page[page.index('id="site-subgroups-table"') :]
    assert table[: table.index("</table>")].count("<tr") == 1 + len(rows)
    assert "site-subgroups-table" not in render_report(sample_model())


def test_writing_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(FedRuleFitError, match="cannot write"):
        write_report(sample_model(), tmp_path / "no" / "report.html")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    model = sample_model()
    model.save(tmp_path / "ours.json")
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "ours.json"), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert page.read_text(encoding="utf-8") == render_report(model, file="ours.json")
    assert "fedrulefit round ours.json -o rounded.json" in page.read_text(encoding="utf-8")
    assert f"round{tmp_path / 'ours.json'}-orounded" in "".join(result.output.split())
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".part"] == []
    result = CliRunner().invoke(app, ["report", str(tmp_path / "ours.json"), "-o", str(tmp_path)])
    assert result.exit_code == 2
