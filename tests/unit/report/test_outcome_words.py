"""What people read of outcomes other than yes/no: nothing of odds, nor of events that none are."""

from __future__ import annotations

import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from typer.testing import CliRunner

from fedrulefit import plot
from fedrulefit.cli.app import app
from fedrulefit.core.rounding import PUBLISHED
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model.publish import round_model
from fedrulefit.report import render_report
from tests.reports import outcome_model
from tests.samples import make_frame
from tests.unit.report.test_family_words import read

mpl.use("Agg")

UNTRUE = {
    "number": re.compile(
        r"\bodds|\brisk|probabilit|logist|with the (outcome|event)|too few to tell|median"
        r"|of outcomes|decision curve|ratio\b",
        re.IGNORECASE,
    ),
    "count": re.compile(
        r"\bodds|\brisk|probabilit|logist|with the outcome|too few to tell|median|of outcomes",
        re.IGNORECASE,
    ),
    "time": re.compile(r"\bodds|logist|with the outcome|the outcome's rate", re.IGNORECASE),
}
ALLOWED = ("Harmonisation of predictors and outcome", "path ratio", "path_ratio")


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("kind", UNTRUE)
def test_no_page_says_what_is_untrue(kind: str, rounded: bool) -> None:
    model = outcome_model(kind)
    model = round_model(model, PUBLISHED) if rounded else model
    text = read(render_report(model))
    left = {text[max(0, m.start() - 40) : m.end() + 20] for m in UNTRUE[kind].finditer(text)}
    assert {words for words in left if not any(known in words for known in ALLOWED)} == set()
    assert "nan" not in text.lower().replace("finance", "").split()


def test_a_number_is_told_with_its_unit_and_sign() -> None:
    model = outcome_model("number")
    text = read(render_report(model))
    assert re.search(r"\+\d+\.\d+ days", text)
    assert re.search(r"−\d+\.\d+ days", text)
    assert re.search(r"It starts from \d+\.\d+ days", text)
    assert "Inside − outside (days)" in text
    assert "Predicted value (days)" in text
    assert "Root mean squared error, days" in text
    assert "Decision curve" not in text


def test_where_a_new_patient_lies_is_told() -> None:
    model = outcome_model("number")
    assert set(model.reaches) == {80, 95}
    assert '"reaches":[[80,' in render_report(model)
    assert outcome_model("time").reaches == {}
    count = outcome_model("count")
    assert count.evaluation is not None
    assert count.range_facts == [count.evaluation.total.dispersion]
    assert "of a new patient like this one over" in render_report(count)
    assert '"reaches"' not in render_report(outcome_model("time"))


@pytest.mark.parametrize("kind", UNTRUE)
def test_figures_say_what_is_true(kind: str) -> None:
    model = outcome_model(kind)
    for axes in (
        plot.rules(model, Figure().subplots()),
        plot.subgroups(model, Figure().subplots()),
        plot.calibration(model, Figure().subplots()),
        plot.partial_dependence(model, "age", Figure().subplots()),
        plot.partial_dependence(model, ("age", "ward"), Figure().subplots()),
    ):
        said = [text.get_text() for text in axes.figure.findobj(Text)]
        assert not any(UNTRUE[kind].search(words) for words in said)


def test_figures_of_a_number_are_in_its_unit() -> None:
    model = outcome_model("number")
    drawn = plot.partial_dependence(model, "age", Figure().subplots())
    assert drawn.get_ylabel() == "Adds to the value (days)"
    calibration = plot.calibration(model, Figure().subplots())
    assert calibration.get_xlabel() == "Predicted value (days)"
    assert plot.subgroups(model, Figure().subplots()).get_xlabel() == "mean of stay (days)"
    frame = model.partial_dependence("age")
    known = frame[frame["value"].notna()]
    np.testing.assert_allclose(drawn.lines[1].get_ydata(), 30 * known["linear_predictor"])


@pytest.mark.parametrize("kind", UNTRUE)
def test_commands_say_what_is_true(kind: str, tmp_path: object) -> None:
    path = f"{tmp_path}/model.json"
    outcome_model(kind).save(path)
    for command in (
        ["rules", path],
        ["rules", path, "--subgroups"],
        ["explain", path, "--value", "age=71", "--value", "gcs=9", "--value", "sex=f"],
    ):
        shown = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
        assert shown.exit_code == 0, shown.output
        assert not UNTRUE[kind].search(shown.output), shown.output
    if kind == "number":
        assert "adds to the value" in shown.output
        assert re.search(r"the\s+value of a new patient like this one lies from", shown.output)


def test_parts_of_a_number_add_up_in_its_unit(tmp_path: object) -> None:
    """What the command explains: the baseline and what each term adds make the value."""
    path = f"{tmp_path}/model.json"
    model = outcome_model("number")
    model.save(path)
    patient = ["--value", "age=71", "--value", "gcs=9", "--value", "sex=f"]
    shown = CliRunner().invoke(app, ["explain", path, *patient], env={"COLUMNS": "200"}).output
    told = re.findall(r"([+−]?\d+\.\d+) days(?:\n| *$)", shown, re.MULTILINE)
    parts = [float(x.replace("−", "-")) for x in told]
    _, *added, total = parts  # the value stands above, too
    assert sum(added) == pytest.approx(total, abs=0.02 * len(added))


@pytest.mark.parametrize("kind", UNTRUE)
def test_a_model_predicts_under_one_name(kind: str) -> None:
    model, frame = outcome_model(kind), make_frame(50)
    found = model.predict(frame)
    column = model.study.family.words.prediction_column
    np.testing.assert_array_equal(found, model.predict_frame(frame)[column])
    if kind == "time":
        np.testing.assert_array_equal(model.predict_proba(frame), found)
        return
    with pytest.raises(FedRuleFitError, match="call 'predict'"):
        model.predict_proba(frame)
