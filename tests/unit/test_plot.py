"""The figures: each takes an ``ax`` and returns it, whatever the model holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedrulefit import Model, RuleFitClassifier, plot
from fedrulefit.errors import FedRuleFitError
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from tests.reports import evaluated_model, time_model
from tests.samples import fit_model, make_frame, make_study, make_tables, study_facts

FUNCTIONS = [plot.rules, plot.importance, plot.subgroups, plot.history]
Draw = Callable[..., Axes]


@pytest.fixture(autouse=True)
def agg() -> Iterator[None]:
    mpl.use("Agg")
    with mpl.rc_context():
        yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> Model:
    return fit_model(make_study())


def without_terms(model: Model) -> Model:
    return dataclasses.replace(model, terms=())


def renamed(names: dict[str, str]) -> Model:
    """Fit a model whose covariates have other names."""
    facts: Any = study_facts()
    facts["covariates"] = {names.get(k, k): v for k, v in facts["covariates"].items()}
    study = Study.from_mapping(facts)
    return fit_model(study, {"north": load_table(make_frame(200).rename(columns=names), study)})


def labels(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize("draw", FUNCTIONS)
def test_takes_an_ax_and_returns_it(draw: Draw, model: Model) -> None:
    figure = Figure()
    ax = figure.subplots()
    assert draw(model, ax) is ax
    figure.canvas.draw()
    assert not plt.get_fignums(), "no other figure is opened"


@pytest.mark.parametrize("draw", FUNCTIONS)
def test_makes_an_ax_where_none_is_given(draw: Draw, model: Model) -> None:
    ax = draw(model)
    assert isinstance(ax, Axes)
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("draw", [*FUNCTIONS, plot.overview])
def test_a_model_without_terms(draw: Callable[..., Any], model: Model) -> None:
    drawn = draw(without_terms(model))
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    figure.canvas.draw()


def test_emptiness_is_said_in_words(model: Model) -> None:
    def words(ax: Axes) -> str:
        return " ".join(text.get_text() for text in ax.texts)

    assert "no terms" in words(plot.rules(without_terms(model)))
    assert "No rule with support above 0.999" in words(plot.subgroups(model, min_support=0.999))


@pytest.mark.parametrize(
    "names",
    [
        {"age": "cost in $ and $\\frac{"},
        {"age": "a$b", "lactate": "$x_1^2$"},
        {"age": "a" * 200, "lactate": ("long " * 40).strip()},
        {"age": "100 % & <b>_{^"},
    ],
    ids=["dollar", "mathematics", "long", "signs"],
)
@pytest.mark.parametrize("draw", [*FUNCTIONS, plot.overview])
def test_any_name_can_be_drawn(draw: Callable[..., Any], names: dict[str, str]) -> None:
    drawn = draw(renamed(names))
    figure = drawn if isinstance(drawn, Figure) else drawn.figure
    figure.canvas.draw()


def test_long_names_are_cut() -> None:
    shown = labels(plot.importance(renamed({"age": "a" * 200})))
    assert max(len(text) for text in shown) <= 48
    assert any(text.endswith("…") for text in shown)


def test_rules_show_the_model_s_rules(model: Model) -> None:
    ax = plot.rules(model, top=4)
    frame = model.rules_frame(top=4)
    widths = [patch.get_width() for patch in ax.patches[:4]]
    np.testing.assert_allclose(widths, 100 * frame["importance"] / frame["importance"].max())
    assert len(labels(ax)) == 4
    for shown, rule in zip(labels(ax), frame["rule"], strict=True):
        assert rule.startswith(shown.rstrip("…"))


def test_importance_is_the_model_s(model: Model) -> None:
    ax = plot.importance(model)
    value = model.variable_importance()
    widths = sorted(patch.get_width() for patch in ax.patches)
    np.testing.assert_allclose(widths, sorted(100 * value / value.max()))
    assert set(labels(ax)) == set(model.study.names)


def test_subgroups_show_rates(model: Model) -> None:
    ax = plot.subgroups(model, top=3, min_support=0.0)
    frame = model.subgroups_frame(top=3)
    widths = [patch.get_width() for patch in ax.patches]
    np.testing.assert_allclose(widths, 100 * np.r_[frame["rate_inside"], frame["rate_outside"]])


def test_history_is_the_model_s(model: Model) -> None:
    (line,) = plot.history(model).lines
    np.testing.assert_array_equal(line.get_ydata(), model.provenance.history)


def test_the_overview_says_synthetic(model: Model) -> None:
    figure = plot.overview(model)
    assert isinstance(figure, Figure)
    assert "synthetic" not in figure.get_suptitle()
    study = model.study.model_copy(update={"synthetic": True})
    marked = plot.overview(dataclasses.replace(model, study=study))
    assert "(synthetic data)" in marked.get_suptitle()


def test_coefficients_draws_every_term_along_the_path() -> None:
    """Of so many patients that every λ but the first beats the empty model by far.

    Of 150 patients the two best λs, one of them without terms, were 0.001 apart in deviance:
    the last digits of a processor's BLAS decided between them.
    """
    study = make_study(solver="exact", penalty="cv", folds=3, path_length=10, epsilon=None)
    model = fit_model(study, make_tables(study, sizes=(300, 250, 200)))
    empty, *others = model.provenance.path
    assert empty.terms == 0
    assert min(point.deviance for point in others) < empty.deviance - 0.2
    assert model.terms
    ax = Figure().subplots()
    assert plot.coefficients(model, ax, top=2) is ax
    lines = [line for line in ax.get_lines() if len(line.get_xdata()) == len(model.path_frame())]
    assert len(lines) == len(model.terms)
    for line, term in zip(lines, model.terms, strict=True):
        assert tuple(line.get_ydata()) == term.path
    assert len(ax.get_legend().get_texts()) == min(2, len(model.terms))


def test_coefficients_without_a_path_says_so() -> None:
    model = fit_model(make_study(solver="exact", penalty=0.01, epsilon=None))
    ax = plot.coefficients(model, Figure().subplots())
    assert "no path" in ax.texts[0].get_text()


def test_the_path_ends_near_the_model_at_the_chosen_penalty() -> None:
    study = make_study(solver="exact", penalty="cv", folds=3, epsilon=None)
    model = fit_model(study, make_tables(study, sizes=(300, 250, 200)))
    assert len(model.terms) >= 3
    frame = model.path_frame()
    chosen = int((frame["penalty"] - model.provenance.penalty).abs().idxmin())
    for term in model.terms[:3]:
        assert abs(term.path[chosen] - term.coefficient) < 0.2 * abs(term.coefficient) + 0.05


def test_hospitals_show_the_validation(model: Model) -> None:
    assert plot.hospitals(model).texts, "no site was left out"
    judged = evaluated_model()
    assert judged.validation is not None
    ax = plot.hospitals(judged)
    found = judged.validation.metrics_frame()
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_xdata(), float), found["auc"])
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [*found["site"], "mean over hospitals", "a further hospital"]
    sites = dict(list(judged.validation.sites.items())[:1])
    few = dataclasses.replace(judged.validation, sites=sites)
    assert len(plot.hospitals(dataclasses.replace(judged, validation=few)).lines) == 1
    none = dataclasses.replace(few, sites={})
    assert plot.hospitals(dataclasses.replace(judged, validation=none)).texts


# --- Estimators ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw", [*FUNCTIONS, plot.path, plot.coefficients, plot.calibration, plot.decision]
)
def test_an_estimator_is_drawn_as_its_model(draw: Draw) -> None:
    frame = make_frame(200)
    y = frame.pop("died")
    estimator = RuleFitClassifier(n_trees=5, penalty=0.01, random_state=0).fit(frame, y)
    assert labels(draw(estimator)) == labels(draw(estimator.model_))
    assert draw(model=estimator).get_title() == draw(estimator.model_).get_title()


def test_others_take_an_estimator_too() -> None:
    frame = make_frame(200)
    y = frame.pop("died")
    estimator = RuleFitClassifier(n_trees=5, penalty=0.01, random_state=0).fit(frame, y)
    assert plot.partial_dependence(estimator, "age").get_xlabel().startswith("age")
    assert plot.hospitals(estimator).texts[0].get_text() == "No site was left out"
    assert isinstance(plot.overview(estimator), Figure)


@pytest.mark.parametrize("draw", [*FUNCTIONS, plot.overview, plot.hospitals])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (RuleFitClassifier(), "not RuleFitClassifier: call its 'fit' first"),
        (RuleFitClassifier, "not RuleFitClassifier: call its 'fit' first"),
        ("model.json", "not str: give 'estimator.model_'"),
        (None, "not NoneType"),
    ],
)
def test_what_is_no_model_is_refused(draw: Draw, wrong: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        draw(wrong)
    assert f"plot.{draw.__name__} takes a Model" in str(caught.value)


# --- survival -----------------------------------------------------------------------------


def legend(ax: Axes) -> list[str]:
    drawn = ax.get_legend()
    assert drawn is not None
    return [text.get_text() for text in drawn.get_texts()]


def test_survival_of_patients_and_of_groups() -> None:
    model, frame = time_model(), make_frame(90, seed=8)
    few = plot.survival(model, frame.head(4))
    assert legend(few) == ["patient 1", "patient 2", "patient 3", "patient 4"]
    times, shown = (np.asarray(part) for part in few.lines[0].get_data())
    alive = model.predict_survival(frame.head(1), times)[0]
    np.testing.assert_allclose(shown, 100 * alive)
    assert few.get_xlabel() == "Time (days)"
    thirds = plot.survival(model, frame)
    assert [text.split("(")[1] for text in legend(thirds)] == ["n = 30)"] * 3
    ends = [line.get_ydata()[-1] for line in thirds.lines[:3]]
    assert ends == sorted(ends, reverse=True), "the lowest risk first"
    assert np.average(ends) == pytest.approx(100 - 100 * model.predict(frame).mean())
    wards = plot.survival(model, frame, groups=np.where(frame["sex"] == "f", "women", "men"))
    assert sorted(text.split(" (")[0] for text in legend(wards)) == ["men", "women"]
    assert len(legend(plot.survival(model, frame, groups=5))) == 5


def test_survival_says_what_it_cannot_draw(model: Model) -> None:
    frame = make_frame(5)
    with pytest.raises(FedRuleFitError, match="no horizons"):
        plot.survival(model, frame)
    with pytest.raises(ValueError, match="each of 5 patients"):
        plot.survival(time_model(), frame, groups=["a", "b"])
    with pytest.raises(ValueError, match="at least 1"):
        plot.survival(time_model(), frame, groups=0)
    none = frame.assign(gcs=np.nan)
    ax = plot.survival(time_model(), none)
    assert [text.get_text() for text in ax.texts] == ["No patient has a prediction"]
    some = frame.assign(gcs=frame["gcs"].where(frame.index != 1))
    assert legend(plot.survival(time_model(), some))[:2] == ["patient 1", "patient 3"]
