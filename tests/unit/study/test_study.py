"""The study protocol: what it refuses, and how it says so."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.families import FAMILIES, YesNo
from fedrulefit.errors import StudyError
from fedrulefit.study import (
    PRESETS,
    Settings,
    Study,
    TimeOutcome,
    level_key,
    resolve_settings,
)
from fedrulefit.study.outcomes import KINDS
from tests.samples import SOLVERS, make_study, study_facts


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the facts with one of them set (or, with `...`, taken out)."""
    facts = copy.deepcopy(study_facts())
    here: Any = facts
    *parents, last = path.split("/")
    for part in parents:
        here = here.setdefault(part, {})
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return facts


FAULTS = [
    # path, value, the place that the message names, some of its words
    ("name", ..., "name", "required"),
    ("name", "", "name", "at least 1 character"),
    ("format", 2, "format", "should be 1"),
    ("nonsense", 1, "nonsense", "not permitted"),
    ("outcome", ..., "outcome", "required"),
    ("outcome/column", "", "outcome.column", "at least 1 character"),
    ("outcome/colour", "red", "outcome.colour", "not permitted"),
    ("outcome/kind", "colour", "outcome.kind", "one of yes/no"),
    ("outcome/positive", "no", "outcome", "'positive' and 'negative' are the same value"),
    ("outcome/expected_rate", [0.4, 0.1], "outcome", "'expected_rate' must be two shares"),
    ("outcome/expected_rate", [-0.1, 0.5], "outcome", "'expected_rate' must be two shares"),
    ("outcome/expected_rate", [0.1, 1.5], "outcome", "'expected_rate' must be two shares"),
    ("outcome/column", "age", "study", "column 'age' cannot be a covariate, too"),
    ("covariates", {}, "covariates", "at least 1 item"),
    (
        "covariates/age/kind",
        "integer",
        "covariates.age",
        "'number', 'category', 'ordered', 'yes/no'",
    ),
    ("covariates/age/kind", ..., "covariates.age", "kind"),
    ("covariates/age/range", ..., "covariates.age.range", "required"),
    ("covariates/age/range", [100, 18], "covariates.age", "lowest < highest"),
    ("covariates/age/range", [50, 50], "covariates.age", "lowest < highest"),
    ("covariates/age/range", [18, float("inf")], "covariates.age.range.1", "finite number"),
    ("covariates/age/range", [float("nan"), 3], "covariates.age.range.0", "finite number"),
    ("covariates/age/range", [18], "covariates.age.range.1", "required"),
    ("covariates/age/step", 0, "covariates.age.step", "greater than 0"),
    ("covariates/age/units", "years", "covariates.age.units", "not permitted"),
    ("covariates/age/spacing", "sqrt", "covariates.age.spacing", "'linear' or 'log'"),
    ("covariates/lactate/range", [0, 25], "covariates.lactate", "starts above 0"),
    ("covariates/age/cutoffs", [], "covariates.age", "'cutoffs' must be 1 to 254 numbers"),
    (
        "covariates/age/cutoffs",
        np.linspace(19, 90, 255).tolist(),
        "covariates.age",
        "'cutoffs' must be 1 to 254 numbers",
    ),
    ("covariates/age/cutoffs", [50, 40], "covariates.age", "'cutoffs' must increase"),
    ("covariates/age/cutoffs", [40, 40], "covariates.age", "'cutoffs' must increase"),
    ("covariates/age/cutoffs", [18, 40], "covariates.age", "inside 'range'"),
    ("covariates/age/cutoffs", [40, 101], "covariates.age", "inside 'range'"),
    ("covariates/ward/levels", ["icu"], "covariates.ward.levels", "at least 2 items"),
    (
        "covariates/ward/levels",
        [str(i) for i in range(256)],
        "covariates.ward.levels",
        "at most 255 items",
    ),
    ("covariates/ward/levels", [1, "1.0"], "covariates.ward", "one level twice"),
    ("covariates/ward/labels", ["a"], "covariates.ward", "one entry per level"),
    ("covariates/sex/yes", "m", "covariates.sex", "'yes' and 'no' are the same value"),
    ("covariates/sex/labels", ["male"], "covariates.sex.labels.1", "required"),
    ("weight", {"column": "died", "max": 1}, "study", "outcome and weight name the same column"),
    ("weight", {"column": "age", "max": 1}, "study", "column 'age' cannot be a covariate, too"),
    ("weight", {"column": "w", "max": 0}, "weight.max", "greater than 0"),
    ("weight", {"column": "w"}, "weight.max", "required"),
    (
        "patient",
        {"column": "died", "max_rows": 2},
        "study",
        "outcome and patient name the same column",
    ),
    ("patient", {"column": "age", "max_rows": 2}, "study", "'age' cannot be a covariate, too"),
    ("patient", {"column": "id", "max_rows": 0}, "patient.max_rows", "greater than or equal to 1"),
    ("patient", {"column": "id", "max_rows": 1.5}, "patient.max_rows", "integer"),
    ("patient", {"column": "id"}, "patient.max_rows", "required"),
    ("settings/preset", "fancy", "settings", "preset 'fancy' is not known"),
    ("settings/tress", 20, "settings.tress", "not permitted"),
    ("settings/epsilon", 0, "settings.epsilon", "greater than 0"),
    ("settings/epsilon", float("inf"), "settings.epsilon", "finite number"),
    ("settings/n_bins", 1, "settings.n_bins", "greater than or equal to 2"),
    ("settings/n_cutoffs", 0, "settings.n_cutoffs", "greater than or equal to 1"),
    ("settings/n_cutoffs", 255, "settings.n_cutoffs", "less than or equal to 254"),
    ("settings/winsor", 0.5, "settings.winsor", "less than 0.5"),
    ("settings/winsor", -0.1, "settings.winsor", "greater than or equal to 0"),
    ("settings/repair", "mend", "settings.repair", "'clip' or 'project'"),
    ("settings/spreads", "none", "settings.spreads", "'exact' or 'histogram'"),
    ("settings/n_trees", -1, "settings.n_trees", "greater than or equal to 0"),
    ("settings/n_trees", 2.5, "settings.n_trees", "valid integer"),
    ("settings/mean_leaves", 1.9, "settings.mean_leaves", "greater than or equal to 2"),
    ("settings/learning_rate", 0, "settings.learning_rate", "greater than 0"),
    ("settings/learning_rate", 1.1, "settings.learning_rate", "less than or equal to 1"),
    ("settings/subsample", 0, "settings.subsample", "greater than 0"),
    ("settings/min_leaf", 0, "settings.min_leaf", "greater than or equal to 1"),
    ("settings/penalty", -1, "settings.penalty", "greater than or equal to 0"),
    ("settings/penalty", "best", "settings.penalty", "'cv'"),
    ("settings/penalty", "best", "settings.penalty", "valid number"),
    ("settings/solver", "adam", "settings.solver", "'exact' or 'fedda'"),
    ("settings/folds", 1, "settings.folds", "greater than or equal to 2"),
    ("settings/path_length", 1, "settings.path_length", "greater than or equal to 2"),
    ("settings/path_ratio", 1, "settings.path_ratio", "less than 1"),
    ("settings/path_ratio", 0, "settings.path_ratio", "greater than 0"),
    ("settings/selection", "best", "settings.selection", "'min', '1se' or 'pruned'"),
    ("settings/max_rules", -1, "settings.max_rules", "greater than or equal to 0"),
    ("settings/tolerance", 0, "settings.tolerance", "greater than 0"),
    ("settings/max_rounds", 0, "settings.max_rounds", "greater than or equal to 1"),
    ("settings/max_active", 0, "settings.max_active", "greater than or equal to 1"),
    ("settings/linear_factor", -1, "settings.linear_factor", "greater than or equal to 0"),
    ("settings/interaction_factor", -1, "settings.interaction_factor", "greater than or equal"),
    ("settings/rounds", 0, "settings.rounds", "greater than or equal to 1"),
    ("settings/local_steps", 0, "settings.local_steps", "greater than or equal to 1"),
    ("settings/server_step", 0, "settings.server_step", "greater than 0"),
    ("settings/client_step", 0, "settings.client_step", "greater than 0"),
    ("settings/client_step", float("nan"), "settings.client_step", "number"),
    ("settings/weighting", "beds", "settings.weighting", "'patients' or 'sites'"),
    ("settings/seed", -1, "settings.seed", "greater than or equal to 0"),
    ("settings/seed", 2**63, "settings.seed", "less than"),
]


@pytest.mark.parametrize(("path", "value", "place", "words"), FAULTS)
def test_a_fault_is_named_with_its_place(path: str, value: Any, place: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        Study.from_mapping(changed(path, value), source="my study")
    first, *faults = str(caught.value).splitlines()
    assert first == "my study is not a valid study:"
    assert any(line.startswith(f"  {place}: ") and words in line for line in faults), faults
    assert "pydantic" not in str(caught.value)


def test_the_facts_without_a_fault_are_accepted() -> None:
    assert Study.from_mapping(study_facts()).n_features == 5


def test_every_fault_is_told_at_once() -> None:
    facts = changed("covariates/age/range", [3, 2])
    facts["settings"]["rounds"] = 0
    with pytest.raises(StudyError) as caught:
        Study.from_mapping(facts)
    assert "covariates.age" in str(caught.value)
    assert "settings.rounds" in str(caught.value)


def test_a_covariate_may_be_called_like_a_kind() -> None:
    """The place of a fault once lost a covariate of the name 'category'."""
    facts = changed("covariates/category", {"kind": "category", "levels": ["a"]})
    with pytest.raises(StudyError, match=r"covariates\.category\.levels: "):
        Study.from_mapping(facts)


def test_a_fault_beside_a_preset_is_as_readable_as_without() -> None:
    """Overrides of a preset once brought pydantic's own page into the message."""
    with pytest.raises(StudyError) as caught:
        Study.from_mapping(changed("settings", {"preset": "paper", "rounds": 0, "tress": 3}))
    lines = str(caught.value).splitlines()
    assert "  settings.rounds: Input should be greater than or equal to 1" in lines
    assert "  settings.tress: Extra inputs are not permitted" in lines
    assert len(lines) == 3


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"tress": 1}])
def test_settings_in_python_give_the_same_error(bad: dict[str, Any]) -> None:
    (name,) = bad
    with pytest.raises(StudyError, match=name):
        resolve_settings("paper", **bad)
    with pytest.raises(StudyError, match=name):
        make_study().with_settings(**bad)
    with pytest.raises(StudyError, match="'fancy' is not known: choose one of default, paper"):
        resolve_settings("fancy")


def test_preset_paper_is_the_paper() -> None:
    paper = resolve_settings("paper")
    assert paper.n_trees == 333
    assert paper.mean_leaves == 4  # L̄ of terminal nodes, erratum 6
    assert paper.learning_rate == 0.01
    assert paper.epsilon == 1
    assert (paper.n_bins, paper.n_cutoffs) == (100, 20)  # erratum 15
    assert paper.winsor == 0.025
    assert paper.penalty == 0.01
    assert (paper.rounds, paper.local_steps) == (300, 20)
    assert (paper.server_step, paper.client_step) == (1, 0.01)
    assert (paper.repair, paper.spreads, paper.weighting) == ("clip", "exact", "patients")
    assert not paper.drop_complements
    assert not paper.centre
    assert paper.linear_terms
    assert paper.subsample == 1
    assert (paper.solver, paper.single_cutoffs) == ("fedda", False)
    assert (paper.linear_factor, paper.interaction_factor) == (1, 1)
    assert paper.selection == "min"
    assert not resolve_settings("paper", solver="exact", penalty="cv").prunes
    exact_only = {
        "folds", "path_length", "path_ratio", "max_rules", "max_terms",
        "tolerance", "max_rounds", "max_active", "baseline_spread",
    }  # fmt: skip
    unused = {"seed", "epsilon_total", *exact_only}
    assert set(PRESETS["paper"]) == set(Settings.model_fields) - unused


def with_covariates(n: int, **settings: Any) -> Study:
    numbers = {f"x{j}": {"kind": "number", "range": [0, 1]} for j in range(n)}
    facts = {"name": "wide", "outcome": {"column": "y"}, "covariates": numbers}
    return Study.from_mapping({**facts, "settings": settings})


@pytest.mark.parametrize(
    ("n", "settings", "each"),
    [
        (4, {}, 1.0),  # a share is never above 1
        (10, {}, 1.0),
        (20, {}, 0.5),
        (50, {}, 0.2),
        (50, {"epsilon_total": 5}, 0.1),
        (50, {"epsilon": 1.0}, 1.0),
        (50, {"epsilon": 2.0, "epsilon_total": 5}, 2.0),
        (50, {"preset": "paper"}, 1.0),
        (50, {"preset": "paper", "epsilon_total": 5}, 0.1),
        (50, {"preset": "paper", "noise": False}, None),
        (4, {"noise": False, "epsilon": 1.0}, None),
    ],
)
def test_covariates_share_the_total_unless_each_has_its_own(
    n: int, settings: dict[str, Any], each: float | None
) -> None:
    study = with_covariates(n, **settings)
    assert study.epsilon_per_histogram == each
    assert study.epsilon_run == (None if each is None else pytest.approx(n * each))


def test_an_epsilon_given_later_wins() -> None:
    """Over a study's own ε, total or "no noise"; but not over "no noise" given with it."""
    own = with_covariates(20, epsilon=1.0)
    assert own.with_settings(epsilon_total=2).epsilon_per_histogram == 0.1
    assert own.with_settings(epsilon_total=2, epsilon=3).epsilon_per_histogram == 3
    quiet = own.with_settings(noise=False)
    assert quiet.epsilon_per_histogram is None
    assert quiet.with_settings(n_bins=20).epsilon_per_histogram is None
    assert quiet.with_settings(epsilon=0.3).epsilon_per_histogram == 0.3
    assert quiet.with_settings(noise=False, epsilon=0.3).epsilon_per_histogram is None


def test_the_default_is_the_exact_solver_with_cross_validation() -> None:
    settings = Settings()
    assert (settings.solver, settings.penalty, settings.selection) == ("exact", "cv", "pruned")
    assert resolve_settings() == settings


def test_fedda_needs_a_number_as_penalty() -> None:
    with pytest.raises(StudyError, match="FedDA needs a number as 'penalty'"):
        resolve_settings(solver="fedda")
    with pytest.raises(StudyError, match="FedDA needs a number as 'penalty'"):
        resolve_settings("paper", penalty="cv")
    assert resolve_settings(solver="fedda", penalty=0).penalty == 0


TOML = """
name = "Sépsis"
[outcome]
column = "died"
[covariates.age]
kind = "number"
range = [18, 100]
[settings]
preset = "paper"
rounds = 7
seed = 3
"""


def test_load_reads_toml_with_a_preset_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TOML, encoding="utf-8")
    study = Study.load(path)
    assert study.name == "Sépsis"
    assert study.settings == resolve_settings("paper", rounds=7, seed=3)
    assert study.settings != resolve_settings(rounds=7, seed=3)
    assert Study.load(str(path)).digest == study.digest


def test_load_says_which_file_is_at_fault(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TOML.replace("[18, 100]", "[100, 18]"), encoding="utf-8")
    with pytest.raises(StudyError, match=r"study\.toml is not a valid study:\n  covariates\.age"):
        Study.load(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name = 'caf\xe9'", "is not UTF-8 text"),
        (b"name = ", "is not valid TOML"),
        (b"a = 1\na = 2", "is not valid TOML"),
        (b"{}", "is not valid TOML"),
        (b"", "is not a valid study"),
    ],
)
def test_load_refuses_what_is_not_a_study(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(StudyError, match=words) as caught:
        Study.load(path)
    assert str(path) in str(caught.value)


def test_load_says_that_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="does not exist: write one with"):
        Study.load(tmp_path / "none.toml")
    with pytest.raises(StudyError, match="is a folder"):
        Study.load(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="cannot be read"):
        Study.load(tmp_path / "file" / "study.toml")


CHANGES = [
    ("name", "other"),
    ("description", "more words"),
    ("synthetic", True),
    ("ranges_from_data", True),
    ("outcome/column", "dead"),
    ("outcome/label", "death in hospital"),
    ("outcome/expected_rate", [0.1, 0.9]),
    ("covariates/age/range", [18, 101]),
    ("covariates/age/unit", "months"),
    ("covariates/age/cutoffs", [50]),
    ("covariates/age/complete", True),
    ("covariates/age/spacing", "log"),
    ("covariates/age/note", "at admission"),
    ("covariates/ward/levels", ["er", "icu", "general", "other"]),
    ("covariates/sex/labels", ...),
    ("covariates/sex", ...),
    ("weight", {"column": "w", "max": 2}),
    ("patient", {"column": "id", "max_rows": 2}),
    *((f"settings/{name}", value) for name, value in [("epsilon", 2), ("rounds", 11), ("seed", 1)]),
]


def test_a_patient_counts_with_all_rows() -> None:
    """Each of which counts up to the largest weight."""
    facts = study_facts()
    plain, patient, weight = (
        make_study(),
        {"column": "id", "max_rows": 3},
        {"column": "w", "max": 2.5},
    )
    assert (plain.max_rows, plain.most_row, plain.most_weight) == (1, 1.0, 1.0)
    several = Study.from_mapping({**facts, "patient": patient})
    assert (several.max_rows, several.most_row, several.most_weight) == (3, 1.0, 3.0)
    both = Study.from_mapping({**facts, "patient": patient, "weight": weight})
    assert (both.max_rows, both.most_row, both.most_weight) == (3, 2.5, 7.5)
    assert both.special == {"outcome": "died", "weight": "w", "patient": "id"}
    with pytest.raises(StudyError, match="weight and patient name the same column"):
        Study.from_mapping({**facts, "patient": patient, "weight": {"column": "id", "max": 1}})


@pytest.mark.parametrize(("path", "value"), CHANGES)
def test_any_change_changes_the_digest(path: str, value: Any) -> None:
    assert Study.from_mapping(changed(path, value)).digest != make_study().digest


def test_the_order_of_covariates_changes_the_digest() -> None:
    facts = study_facts()
    facts["covariates"] = dict(reversed(facts["covariates"].items()))
    assert Study.from_mapping(facts).digest != make_study().digest


def test_equal_studies_have_equal_digests() -> None:
    study = make_study()
    assert len(study.digest) == 64
    assert Study.from_mapping(study_facts()).digest == study.digest
    assert Study.from_mapping(study.model_dump(mode="json")).digest == study.digest
    spelled_out = changed("settings/winsor", 0.025)
    assert Study.from_mapping(spelled_out).digest == study.digest
    assert Study.from_mapping(changed("covariates/age/range", [18.0, 100.0])).digest == study.digest


def test_with_settings_refreshes_the_digest_and_the_bins() -> None:
    study = make_study()
    before, bins = study.digest, study.bins
    other = study.with_settings(n_bins=10)
    assert other.settings == study.settings.model_copy(update={"n_bins": 10})
    assert other.digest != before == study.digest
    assert (len(bins[0].edges), len(other.bins[0].edges)) == (83, 10)
    assert other.with_settings(n_bins=100).digest == before
    assert study.with_settings("paper", rounds=3).settings == resolve_settings("paper", rounds=3)


@pytest.mark.parametrize("kind", ["number", "count", "time"])
def test_settings_that_do_not_fit_the_outcome_are_refused_in_words(kind: str) -> None:
    """Not as a traceback of pydantic's, with its link and the whole study in it."""
    for preset, settings in ((None, {"solver": "fedda", "penalty": 0.01}), ("paper", {})):
        with pytest.raises(StudyError, match="whose slopes have no bound: choose") as raised:
            make_study(kind, **SOLVERS["exact"]).with_settings(preset, **settings)
        assert str(raised.value).startswith("these settings do not fit the study:\n  settings: ")
        assert "pydantic" not in str(raised.value)


def test_a_study_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        make_study().name = "other"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (1, "1"),
        (1.0, "1"),
        ("1", "1"),
        ("1.0", "1"),
        (" 01 ", "1"),
        (np.int64(1), "1"),
        (np.float32(0.5), "0.5"),
        (0.1, "0.1"),
        ("0.10", "0.1"),
        (-0.0, "0"),
        ("900000000000207008", "900000000000207008"),  # more digits than a float keeps
        ("000", "0"),
        (True, "true"),
        (np.bool_(False), "false"),
        ("TRUE", "true"),
        ("False", "false"),
        (" icu ", "icu"),
        ("ICU", "ICU"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("", ""),
    ],
)
def test_level_key(value: object, key: str) -> None:
    assert level_key(value) == key


def test_bins_follow_the_public_range() -> None:
    study = make_study(n_bins=4, cutoff_style="quantile")
    age, lactate, gcs, ward, sex = study.bins
    np.testing.assert_allclose(age.edges, [18, 38.5, 59, 79.5, 100])
    np.testing.assert_allclose(np.diff(np.log(lactate.edges)), np.log(250) / 4)
    assert (lactate.edges[0], lactate.edges[-1]) == (0.1, 25.0)
    assert (age.kind, ward.kind, sex.kind) == ("number", "category", "yes/no")
    assert (gcs.step, gcs.complete, gcs.n_cells, age.n_cells) == (1, True, 4, 5)
    assert (ward.n_bins, ward.n_cells, sex.n_cells) == (4, 5, 2)
    np.testing.assert_array_equal(sex.cutoffs, [0.5])


def test_bins_end_at_round_numbers_of_the_public_range() -> None:
    age, lactate, gcs, *_ = make_study(n_bins=12).bins
    assert age.edges.tolist() == [18, *range(20, 100, 10), 100]
    assert lactate.edges.tolist() == [0.1, 0.2, 0.4, 0.5, 1, 2, 4, 5, 10, 20, 25]
    assert gcs.n_bins <= 12


def test_fixed_cutoffs_reach_the_bins() -> None:
    study = Study.from_mapping(changed("covariates/age/cutoffs", [40, 65]))
    np.testing.assert_array_equal(study.bins[0].cutoffs, [40, 65])
    assert study.names == ("age", "lactate", "gcs", "ward", "sex")


def test_a_study_can_name_every_kind_that_has_a_family() -> None:
    facts = {"kind": "time", "time": "days", "event": "status", "horizons": [1]}
    rivals = TimeOutcome.model_validate({**facts, "competing": {"death": 2}}).family()
    assert set(FAMILIES) <= {*KINDS, rivals.kind}


def test_an_outcome_of_which_no_kind_is_told_is_yes_no() -> None:
    study = make_study()
    assert "kind" not in study_facts()["outcome"]
    assert study.outcome.kind == "yes/no"
    assert isinstance(study.family, YesNo)


# --- baselines of sites' own ------------------------------------------------------------------


def test_studies_that_once_had_no_own_baselines_keep_their_hash() -> None:
    plain = make_study(**SOLVERS["exact"])
    told = make_study(**SOLVERS["exact"], baseline="shared", baseline_spread=0.5)
    own = make_study(**SOLVERS["exact"], baseline="site")
    tight = make_study(**SOLVERS["exact"], baseline="site", baseline_spread=0.25)
    assert told.digest == plain.digest
    assert len({plain.digest, own.digest, tight.digest}) == 3
    assert plain.settings.own_spread is None
    assert (own.settings.own_spread, tight.settings.own_spread) == (0.5, 0.25)


@pytest.mark.parametrize(
    ("outcome", "settings", "why"),
    [
        ("yes/no", SOLVERS["fedda"], "solver = 'exact'"),
        ("yes/no", {**SOLVERS["exact"], "weighting": "sites"}, "weighting = 'patients'"),
        ("count, negative binomial", SOLVERS["exact"], "negative binomial"),
        ("yes/no", {**SOLVERS["exact"], "baseline_spread": 0.0}, "baseline_spread"),
        ("yes/no", {**SOLVERS["exact"], "baseline_spread": 5.0}, "baseline_spread"),
    ],
)
def test_what_does_not_go_with_own_baselines_is_refused(
    outcome: str, settings: dict[str, Any], why: str
) -> None:
    make_study(outcome, **{**settings, "baseline_spread": 0.5})
    with pytest.raises(StudyError, match=why):
        make_study(outcome, **settings, baseline="site")
