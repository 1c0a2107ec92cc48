"""A setting is one field: whatever names settings follows from it."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import fedrulefit
from fedrulefit import (
    FederatedRuleFitClassifier,
    FederatedRuleFitRegressor,
    FederatedRuleFitSurvival,
    RuleFitClassifier,
    RuleFitRegressor,
    RuleFitSurvival,
    Study,
)
from fedrulefit.cli.app import app
from fedrulefit.estimators.parameters import takes_settings
from fedrulefit.study import PRESETS, Settings, describe_settings, resolve_settings
from fedrulefit.study.settings import UNUSED, setting
from tests.docs.pages import ROOT

NAMES = list(Settings.model_fields)
SOURCE = Path(fedrulefit.__file__).parent
BY_RANDOM_STATE = {"seed"}
OF_NOISE = {"noise", "epsilon_total", "epsilon"}
NOT_THE_PAPERS = {
    "epsilon_total", "seed",  # it has an ε per histogram, and no word on seeds
    "folds", "path_length", "path_ratio", "max_rules", "max_terms",  # its λ is given
    "tolerance", "max_rounds", "max_active", "baseline_spread",  # of the exact solver
}  # fmt: skip
EACH = pytest.mark.parametrize(
    ("estimator", "left_out"),
    [
        (FederatedRuleFitClassifier, BY_RANDOM_STATE),
        (FederatedRuleFitRegressor, BY_RANDOM_STATE),
        (FederatedRuleFitSurvival, BY_RANDOM_STATE),
        (RuleFitClassifier, BY_RANDOM_STATE | OF_NOISE),
        (RuleFitRegressor, BY_RANDOM_STATE | OF_NOISE),
        (RuleFitSurvival, BY_RANDOM_STATE | OF_NOISE),
    ],
)


class More(Settings):
    """Settings with one that no other file knows."""

    n_toys: int = setting(3, paper=2, group="Trees", meaning="Toys of each tree.", ge=1, le=9)


@takes_settings(elsewhere={"seed": "give 'random_state'"}, settings=More)
class Toy:
    """An estimator.

    Parameters
    ----------
    own : str
        Its own.
    **settings
    """

    def __init__(self, *, own: str = "mine", **settings: Any) -> None:
        self.own = own
        self.given = settings


# --- where a setting must be ---------------------------------------------------------------


def test_the_study_file_takes_every_setting() -> None:
    schema = Study.model_json_schema()["$defs"]["Settings"]
    assert list(schema["properties"]) == NAMES
    assert schema["additionalProperties"] is False


def test_every_setting_has_a_meaning_of_its_own() -> None:
    meanings = [told.meaning for told in describe_settings()]
    assert len(set(meanings)) == len(meanings) == len(NAMES)
    assert all(meaning.endswith(".") for meaning in meanings)


@EACH
def test_an_estimator_has_a_parameter_for_every_setting(estimator: Any, left_out: set[str]) -> None:
    expected = [name for name in NAMES if name not in left_out]
    parameters = inspect.signature(estimator).parameters
    assert [name for name in parameters if name in NAMES] == expected
    assert all(parameters[name].default is None for name in expected)
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in parameters)
    assert set(expected) <= set(estimator().get_params())
    shown = re.findall(r"^(\w+) : ", inspect.getdoc(estimator) or "", flags=re.M)
    assert [name for name in shown if name in NAMES] == expected
    assert "**" not in (inspect.getdoc(estimator) or "")
    own = [name for name in parameters if name not in NAMES]
    assert sorted(name for name in shown if name in own) == sorted(own), "each once"


@EACH
def test_every_parameter_reaches_the_settings(estimator: Any, left_out: set[str]) -> None:
    """Each setting in turn takes another value, and the fit's settings have it."""
    for name in sorted(set(NAMES) - left_out):
        value = other_value(name)
        made = clone(estimator(preset="paper").set_params(**{name: value}))
        assert getattr(made._resolve(None), name) == value, name


def other_value(name: str) -> Any:
    """Return a value that a setting of the paper can have, and has not."""
    now = getattr(resolve_settings("paper"), name)
    others: tuple[Any, ...] = (
        not now if isinstance(now, bool) else 0.25, 7, "project", "histogram", "exact", "1se",
        "sites", "round", "site",
    )  # fmt: skip
    for value in others:
        try:
            told = resolve_settings("paper", **{name: value})
        except fedrulefit.errors.StudyError:
            continue
        if getattr(told, name) != now:
            return getattr(told, name)
    raise AssertionError(f"no other value for {name}")


@pytest.mark.parametrize(
    ("estimator", "name", "words"),
    [
        (RuleFitClassifier, "n_tree", "did you mean 'n_trees'?"),
        (FederatedRuleFitClassifier, "seed", "give 'random_state'"),
        (RuleFitClassifier, "epsilon", "FederatedRuleFitClassifier has it"),
        (RuleFitRegressor, "epsilon", "FederatedRuleFitRegressor has it"),
        (RuleFitSurvival, "horizon", "did you mean 'horizons'?"),
        (RuleFitClassifier, "qqqq", "RuleFitClassifier has no parameter 'qqqq'"),
    ],
)
def test_an_unknown_parameter_is_refused(estimator: Any, name: str, words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        estimator(**{name: 1})


def test_the_command_line_lists_every_setting() -> None:
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"})
    words = runner.invoke(app, ["study", "settings"]).output
    assert [line.split()[0] for line in words.splitlines() if line[:1].islower()] == NAMES
    flat = " ".join(words.split())
    assert "R: rounds of FedDA. (whole number, ≥ 1, ≤ 1 000 000)" in flat
    schema = json.loads(runner.invoke(app, ["study", "settings", "--json"]).output)
    assert list(schema["properties"]) == NAMES
    rounds = schema["properties"]["rounds"]
    assert (rounds["default"], rounds["paper"], rounds["maximum"]) == (300, 300, 1_000_000)


def test_the_documentation_lists_every_setting() -> None:
    page = (ROOT / "docs" / "howto-consortium.md").read_text(encoding="utf-8")
    table = page.partition("<!-- settings:start -->")[2].partition("<!-- settings:end -->")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert [row[0].strip("|` ") for row in rows] == NAMES
    told = {s.name: s.meaning for s in describe_settings()}
    assert all(row[-1].removesuffix(" |") == told[row[0].strip("|` ")] for row in rows)


def test_the_preset_of_the_paper_states_all_that_its_method_uses() -> None:
    assert set(PRESETS["paper"]) == set(NAMES) - NOT_THE_PAPERS
    assert all(
        json.loads(json.dumps(value)) == getattr(resolve_settings("paper"), name)
        for name, value in PRESETS["paper"].items()
    )


# --- a new setting touches one file --------------------------------------------------------


def test_a_new_field_is_a_parameter_and_documented() -> None:
    parameter = inspect.signature(Toy).parameters["n_toys"]
    assert (parameter.default, parameter.annotation) == (None, int | None)
    doc = inspect.getdoc(Toy) or ""
    assert "n_toys : int, optional\n    Toys of each tree.\n" in doc
    assert "Preset `default`: 3 (≥ 1, ≤ 9)." in doc
    assert Toy(n_toys=5).given["n_toys"] == 5
    assert set(Toy().given) == {*NAMES, "n_toys"} - BY_RANDOM_STATE
    with pytest.raises(TypeError, match="did you mean 'n_toys'"):
        Toy(n_toy=5)


def test_a_new_field_is_described_with_both_presets() -> None:
    told = describe_settings(More)[-1]
    assert (told.name, told.group, told.default, told.paper) == ("n_toys", "Trees", "3", "2")
    assert told.holds == "whole number, ≥ 1, ≤ 9"


def test_a_setting_must_say_what_the_paper_does() -> None:
    with pytest.raises(TypeError, match="paper"):
        setting(3, group="Trees", meaning="")  # type: ignore[call-arg]
    assert "paper" not in setting(3, paper=UNUSED, group="Trees", meaning="").json_schema_extra


def test_every_setting_is_declared_in_one_file() -> None:
    home = SOURCE / "study" / "settings.py"
    found = [
        (path, node.target.id)
        for path, node in walk_source()
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "setting"
    ]
    assert found == [(home, name) for name in NAMES]


def test_no_other_file_lists_the_settings() -> None:
    """As parameters, fields or keys: a solver's own few are no list."""
    listed: dict[Path, set[str]] = {}
    for path, node in walk_source():
        match node:
            case ast.arg(arg=name) | ast.AnnAssign(target=ast.Name(id=name)):
                listed.setdefault(path, set()).add(name)
            case ast.Constant(value=str(name)):
                listed.setdefault(path, set()).add(name)
    del listed[SOURCE / "study" / "settings.py"]
    del listed[SOURCE / "testing" / "samples.py"]  # made-up studies choose values
    most = max(len(names & set(NAMES)) for names in listed.values())
    assert most <= len(NAMES) / 4


def walk_source() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path, node
