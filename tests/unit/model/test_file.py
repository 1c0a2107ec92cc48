"""Model files: the same bytes again, and nothing built from a damaged one."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.arrays import MISSING
from fedrulefit.core.rounding import Rounding
from fedrulefit.errors import ModelFileError
from fedrulefit.model import Model
from fedrulefit.model.file import build_model, load_model, model_facts, reading, save_model
from fedrulefit.study import Settings, Study, Unusual
from fedrulefit.study.settings import LATER as LATER_SETTINGS
from tests.reports import evaluated_model
from tests.samples import fit_model, make_frame, make_study

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="module")
def model() -> Model:
    return fit_model(make_study(epsilon=1.0))


@pytest.fixture
def saved(model: Model, tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def base(model: Model) -> Any:
    return json.loads(json.dumps(model_facts(model)))


@pytest.fixture
def facts(base: Any) -> Any:
    return copy.deepcopy(base)


def refused(facts: Any) -> str:
    with pytest.raises(ModelFileError) as caught:
        build_model(facts, source="m.json")
    assert str(caught.value).startswith("m.json")
    return str(caught.value)


def first_rule(facts: Any, n_conditions: int = 1) -> Any:
    return next(
        t for t in facts["terms"] if t["kind"] == "rule" and len(t["conditions"]) >= n_conditions
    )


def test_saving_what_was_loaded_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    Model.load(saved).save(again)
    assert again.read_bytes() == saved.read_bytes()
    Model.load(str(again)).save(str(again))
    assert again.read_bytes() == saved.read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_the_file_carries_the_policy_for_what_the_study_does_not_foresee(tmp_path: Path) -> None:
    frame = make_frame(5)
    frame.loc[0, "age"] = 200.0
    golden = Path(__file__).parents[2] / "golden"
    for old in ("model-v1.json", "model-v2.json", "model-v3.json"):
        loaded = Model.load(golden / old)
        assert loaded.study.unusual == Unusual(beyond="clip", unseen="missing")
        assert np.isfinite(loaded.predict_proba(frame)).all()
        strict = {**loaded.study.model_dump(), "unusual": {"beyond": "refuse"}}
        replace(loaded, study=Study.from_mapping(strict)).save(tmp_path / old)
        again = Model.load(tmp_path / old)
        assert again.study.unusual == Unusual(beyond="refuse", unseen="missing")
        assert np.isnan(again.predict_proba(frame)).tolist() == [True, *[False] * 4]


def test_a_loaded_model_predicts_the_same(model: Model, saved: Path) -> None:
    frame = make_frame(80, seed=3)
    loaded = load_model(saved)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    assert loaded.study.digest == model.study.digest
    assert loaded.privacy == model.privacy
    assert loaded.provenance == model.provenance
    assert loaded.terms == model.terms
    np.testing.assert_array_equal(loaded.variable_importance(), model.variable_importance())


def test_a_file_is_readable_text(saved: Path) -> None:
    text = saved.read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert "≥" in text
    assert json.loads(text)["format"] == "fedrulefit-model"


def test_a_file_cut_off_anywhere_is_refused(saved: Path) -> None:
    data = saved.read_bytes()
    source = random.Random(0)
    ends = {0, 1, 2, len(data) - 3, *(source.randrange(len(data) - 2) for _ in range(150))}
    for end in sorted(ends):
        saved.write_bytes(data[:end])
        with pytest.raises(ModelFileError, match=r"model\.json"):
            load_model(saved)


def test_random_edits_are_refused_or_give_a_model(saved: Path) -> None:
    data = saved.read_bytes()
    source = random.Random(1)
    outcomes = {"model": 0, "refused": 0}
    for _ in range(400):
        edited = bytearray(data)
        place = source.randrange(len(edited))
        match source.randrange(3):
            case 0:
                edited[place] = source.randrange(256)
            case 1:
                del edited[place : place + source.randint(1, 20)]
            case 2:
                edited[place:place] = source.choice([b"0", b"-", b'"', b"[", b"9" * 400, b"null"])
        saved.write_bytes(bytes(edited))
        try:
            loaded = load_model(saved)
        except ModelFileError:
            outcomes["refused"] += 1
        else:
            assert isinstance(loaded, Model)
            outcomes["model"] += 1
    assert outcomes["refused"] > 100
    assert outcomes["model"] > 10, "an edited digit of a coefficient is still a number"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not complete JSON"),
        (b"\x80\x04\x95pickle", "not UTF-8 text"),
        (bytes(range(256)), "not UTF-8 text"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 text"),
        (b"hello", "not complete JSON"),
        (b"null", "not a model of fedrulefit"),
        (b"[]", "not a model of fedrulefit"),
        (b'"fedrulefit-model"', "not a model of fedrulefit"),
        (b"{}", "not a model of fedrulefit"),
        (b'{"format": "other"}', "not a model of fedrulefit"),
        (b'{"format": "fedrulefit-model"}', "file version None"),
        (b'{"format": "fedrulefit-model", "version": 1}', "not a valid model"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a": [-Infinity]}', "-Infinity is not a number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
        (b'{"a": 1, "a": 2}', "stands twice"),
        (b'{"a": {"b": 1, "b": 1}}', "stands twice"),
    ],
)
def test_what_is_not_a_model_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=words) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_a_folder_and_a_giant_are_refused(
    tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelFileError, match=r"cannot read model file .*No such file"):
        load_model(tmp_path / "none.json")
    with pytest.raises(ModelFileError, match=r"cannot read model file .*Is a directory"):
        load_model(tmp_path)
    with pytest.raises(ModelFileError, match="m"):
        load_model(tmp_path / "a\0b")
    monkeypatch.setattr(reading, "MAX_BYTES", 100)
    with pytest.raises(ModelFileError, match="over 100 bytes"):
        load_model(saved)


def test_a_file_that_cannot_be_written_is_told(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"cannot write .*No such file"):
        save_model(model, tmp_path / "no folder" / "m.json")
    with pytest.raises(ModelFileError, match="cannot write"):
        save_model(model, tmp_path)
    assert not list(tmp_path.parent.glob("*.part"))


@pytest.mark.parametrize("version", [0, 4, "1", None, 1.5, [1], True, 1.0, 3.0])
def test_another_version_is_refused(facts: Any, version: object) -> None:
    facts["version"] = version
    assert "this program reads 1 to 3: use the version of fedrulefit that wrote it" in refused(
        facts
    )


HUGE = 10**400


def put(*path: Any) -> Callable[[Any], None]:
    """Return an edit that sets the last of `path` at the place before it."""
    *place, key, value = path

    def edit(facts: Any) -> None:
        here = facts
        for part in place:
            here = here[part]
        here[key] = value

    return edit


EDITS: list[tuple[Callable[[Any], None], str]] = [
    (put("extra", 1), "extra"),
    (put("intercept", "0.5"), "intercept"),
    (put("intercept", None), "intercept"),
    (put("intercept", True), "intercept"),
    (put("intercept", [0.5]), "intercept"),
    (put("intercept", float("nan")), "intercept"),
    (put("intercept", float("inf")), "intercept"),
    (put("intercept", HUGE), "intercept"),
    (put("terms", {}), "terms"),
    (put("terms", 0, 5), "terms.0"),
    (put("terms", 0, "kind", "code"), "terms.0"),
    (put("terms", 0, "coefficient", "1"), "coefficient"),
    (put("terms", 0, "coefficient", HUGE), "coefficient"),
    (put("terms", 0, "importance", -1.0), "importance"),
    (put("terms", 0, "__class__", "os.system"), "__class__"),
    (put("grid", 0, "covariate", "weight"), "grid does not name the study's covariates"),
    (put("grid", 0, "kind", "category"), "not of the study's kind"),
    (put("grid", 0, "kind", "letters"), "grid.0.kind"),
    (put("grid", 0, "codes", 3), "one code more than cut-offs"),
    (put("grid", 0, "codes", HUGE), "codes"),
    (put("grid", 3, "codes", 0), "1 to 255 codes"),
    (put("grid", 3, "codes", 5), "category's levels"),
    (put("grid", 4, "cutoffs", [0.7]), "cut-offs that the study fixes"),
    (put("grid", 0, "cutoffs", 0, 1e9), "must increase"),
    (put("grid", 0, "cutoffs", "1, 2"), "cutoffs"),
    (put("grid", 0, "limits", [1.0]), "limits"),
    (put("grid", 0, "limits", [2.0, 1.0]), "reversed"),
    (put("grid", 0, "spread", -1.0), "spread"),
    (put("grid", []), "grid does not name the study's covariates"),
    (put("study", []), "study"),
    (put("study", {}), "name: Field required"),
    (put("study", "covariates", "age", "range", [9, 1]), "lowest < highest"),
    (put("study", "covariates", "age", "kind", "code"), "covariates.age"),
    (put("study", "settings", "rounds", 0), "settings.rounds"),
    (put("study", "more", 1), "more"),
    (put("privacy", "n_histograms", -1), "n_histograms"),
    (put("privacy", "exact", "all"), "exact"),
    (put("privacy", "sums", "all"), "sums"),
    (put("privacy", "sum_of", 0), "sum_of"),
    (put("privacy", "sum_of", 1.5), "sum_of"),
    (put("provenance", "patients", 0), "patients"),
    (put("provenance", "history", ["a"]), "history"),
    (put("rounding", {"multiple": 0, "smallest": 0}), "rounding"),
    (put("rounding", {"multiple": 5}), "rounding"),
    (put("rounding", "none"), "rounding"),
    (put("evaluation", {}), "evaluation"),
    (put("provenance", "software", {"a": 1}), "software"),
]


@pytest.mark.parametrize(("edit", "words"), EDITS)
def test_a_file_that_contradicts_itself_is_refused(
    facts: Any, edit: Callable[[Any], None], words: str
) -> None:
    edit(facts)
    assert words in refused(facts)


LATER: dict[tuple[str, ...], Any] = {
    ("privacy", "sums"): [],
    ("privacy", "sum_of"): None,
    ("study", "outcome", "kind"): "yes/no",
    ("study", "settings", "noise"): True,
    ("study", "settings", "epsilon_total"): 10.0,
    ("study", "settings", "holdout"): 0.0,
    ("study", "settings", "per_site"): False,
    ("study", "settings", "between_sites"): False,
    ("provenance", "by_site"): [],
}
"""Fields that came after the first files of version 1, and what they stand for there."""

LATER_OF_RULES: dict[str, Any] = {"by_site": [], "held_out": None, "held_out_by_site": []}
"""The same of rules."""


def test_every_field_is_needed(facts: Any) -> None:
    for name in list(facts):
        if (name,) in LATER:
            continue
        without = {k: v for k, v in facts.items() if k != name}
        refused(without)
    for part in ("privacy", "provenance"):
        for name in facts[part]:
            if (part, name) in LATER:
                continue
            without = {**facts, part: {k: v for k, v in facts[part].items() if k != name}}
            assert name in refused(without)


def test_fields_that_older_files_lack_are_not_needed(facts: Any, tmp_path: Path) -> None:
    for (*parts, name), default in LATER.items():
        inner = reduce(getitem, parts, facts)
        assert name in inner
        del inner[name]
        path = tmp_path / "older.json"
        path.write_text(json.dumps(facts), encoding="utf-8")
        assert reduce(getitem, parts, model_facts(load_model(path)))[name] == default


def test_no_epsilon_in_an_older_file_still_means_no_noise(facts: Any, tmp_path: Path) -> None:
    settings = facts["study"]["settings"]
    del settings["noise"], settings["epsilon_total"]
    settings["epsilon"] = None
    path = tmp_path / "older.json"
    path.write_text(json.dumps(facts), encoding="utf-8")
    assert load_model(path).study.epsilon_per_histogram is None


def test_words_must_agree_with_conditions(facts: Any) -> None:
    rule = first_rule(facts)
    rule["rule"] = rule["rule"].replace("≥", "<") + " "
    assert "the words of a rule do not fit its conditions" in refused(facts)


def test_a_changed_condition_is_noticed_by_its_words(facts: Any) -> None:
    rule = next(
        t
        for t in facts["terms"]
        if t["kind"] == "rule"
        and t["conditions"][0].get("interval")
        and t["conditions"][0]["covariate"] == "age"
    )
    lo, hi = rule["conditions"][0]["interval"]
    rule["conditions"][0]["interval"] = [lo + 1, hi] if lo + 1 < hi else [lo - 1, hi]
    assert "words of a rule" in refused(facts)


CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({"covariate": "heart"}, "a covariate that the study does not have"),
    ({"covariate": 3}, "covariate"),
    ({"interval": None}, "either an interval or levels"),
    ({"levels": [0]}, "either an interval or levels"),
    ({"interval": [0]}, "interval"),
    ({"interval": [3, 1]}, "interval is out of range"),
    ({"interval": [-1, 1]}, "interval is out of range"),
    ({"interval": [0, MISSING + 1]}, "interval is out of range"),
    ({"interval": [0, HUGE]}, "interval is out of range"),
    ({"interval": [0, 200]}, "code that its covariate does not have"),
    ({"interval": [0, 0], "missing": False}, "canonical"),
    ({"interval": [0.0, 1.0]}, "interval"),
    ({"missing": 1}, "missing"),
    ({"interval": None, "levels": [0, 2]}, "must be an interval"),
    ({"interval": None, "levels": [255]}, "level is out of range"),
    ({"interval": None, "levels": [-1]}, "level is out of range"),
    ({"interval": None, "levels": [HUGE]}, "level is out of range"),
    ({"run": "rm"}, "run"),
]


@pytest.mark.parametrize(("change", "words"), CONDITIONS)
def test_a_condition_that_cannot_be_is_refused(
    facts: Any, change: dict[str, Any], words: str
) -> None:
    rule = first_rule(facts)
    condition = {"covariate": "age", "interval": [0, 1], "missing": False}
    rule["conditions"] = [{**condition, **change}]
    assert words in refused(facts)


def test_a_rule_that_is_not_canonical_is_refused(facts: Any) -> None:
    rule = first_rule(facts, n_conditions=2)
    conditions = rule["conditions"]
    for bad in (conditions[::-1], [*conditions, conditions[-1]], []):
        rule["conditions"] = bad
        assert "canonical" in refused(facts)


def test_a_linear_term_of_a_category_is_refused(facts: Any) -> None:
    linear = next(t for t in facts["terms"] if t["kind"] == "linear")
    linear["covariate"] = "ward"
    assert "'ward' has no linear term" in refused(facts)
    linear["covariate"] = "heart"
    assert "a covariate that the study does not have" in refused(facts)


def test_counts_must_be_possible(facts: Any) -> None:
    rule = first_rule(facts)
    rule["inside"] = facts["provenance"]["patients"] + 1
    assert "more patients" in refused(facts)
    rule["inside"], rule["events_inside"] = 10, 11
    assert "more patients" in refused(facts)
    rule["events_inside"] = 1
    facts["provenance"]["events"] = facts["provenance"]["patients"] + 1
    assert "more patients" in refused(facts)


def test_no_code_in_a_file_is_run(facts: Any, tmp_path: Path) -> None:
    """Texts that other formats would execute stay texts."""
    witness = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(witness)!r}).touch()"
    facts["study"]["description"] = code
    facts["provenance"]["solver"] = code
    assert build_model(facts).provenance.solver == code
    facts["terms"][0]["kind"] = code
    refused(facts)
    assert not witness.exists()


def predict_stored(golden: Model, name: str) -> list[float]:
    """Check that a golden file predicts what it did; return the probabilities."""
    stored = json.loads((GOLDEN / f"{name}-predictions.json").read_text(encoding="utf-8"))
    columns = {
        name: np.array([np.nan if x is None else x for x in column], dtype=float)
        if name in ("age", "lactate", "gcs")
        else np.array(column, dtype=object)
        for name, column in stored["patients"].items()
    }
    assert None in stored["patients"]["ward"]
    assert None in stored["patients"]["lactate"]
    np.testing.assert_allclose(
        golden.predict_proba(columns), stored["probabilities"], rtol=1e-12, atol=0
    )
    assert np.ptp(stored["probabilities"]) > 0.3
    probabilities: list[float] = stored["probabilities"]
    return probabilities


def say_later_keys(study: dict[str, Any]) -> dict[str, Any]:
    """Return a study of an older file with the keys that have come since, as they were."""
    covariates = {}
    for name, covariate in study["covariates"].items():
        assert "missing" not in covariate
        covariates[name] = {**covariate, "missing": []}
    assert "unusual" not in study
    assert "patient" not in study
    assert "max_candidates" not in study["settings"]
    assert "cutoff_style" not in study["settings"]
    assert not {*LATER_SETTINGS} & {*study["settings"]}
    later = {name: Settings.model_fields[name].default for name in LATER_SETTINGS}
    later |= {"max_candidates": 10_000, "cutoff_style": "quantile"}
    return {
        **study,
        "settings": {**study["settings"], **later},
        "patient": None,
        "covariates": covariates,
        "unusual": {"beyond": "clip", "unseen": "missing"},
    }


def test_the_first_golden_file_still_loads_and_predicts(tmp_path: Path) -> None:
    """Written by version 1 of the format; must be read by every later program."""
    golden = load_model(GOLDEN / "model-v1.json")
    predict_stored(golden, "model-v1")
    assert golden.rounding is None, "nobody said how coarse its counts are"
    assert {axis.kind for axis in golden.grid.axes} == {"number", "category", "yes/no"}
    conditions = [c for t in golden.rule_terms for c in t.rule]
    assert any(c.missing for c in conditions)
    assert any(c.feature == 3 for c in conditions)
    assert golden.linear_terms
    assert golden.privacy.n_histograms == 5
    assert golden.provenance.path
    assert golden.provenance.certificate.residual <= 1e-8
    again = tmp_path / "again.json"
    golden.save(again)
    facts = json.loads((GOLDEN / "model-v1.json").read_bytes())
    for (*parts, name), default in LATER.items():
        assert name not in reduce(getitem, parts, facts)
        reduce(getitem, parts, facts)[name] = default
    for axis in facts["grid"]:
        axis["shares"] = None
    for term in facts["terms"]:
        if term["kind"] == "rule":
            assert not {*LATER_OF_RULES} & {*term}
            term.update(LATER_OF_RULES)
        term["between_sites"] = None
    facts |= {"version": 3, "rounding": None, "evaluation": None, "validation": None}
    facts["study"] = say_later_keys(facts["study"])
    assert json.loads(again.read_text(encoding="utf-8")) == facts


def test_the_second_golden_file_still_loads_and_predicts(tmp_path: Path) -> None:
    """Written by version 2, whose counts are rounded; saved again it tells the outcome's kind."""
    golden = load_model(GOLDEN / "model-v2.json")
    predict_stored(golden, "model-v2")
    assert golden.rounding == Rounding(5, 20)
    assert golden.provenance.patients % 5 == 0
    assert any(term.events_inside is None for term in golden.rule_terms)
    assert golden.evaluation is not None
    assert golden.evaluation.measures is not None
    golden.save(tmp_path / "again.json")
    facts = json.loads((GOLDEN / "model-v2.json").read_bytes())
    assert "kind" not in facts["study"]["outcome"]
    facts["study"]["outcome"] = {"kind": "yes/no", **facts["study"]["outcome"]}
    for axis in facts["grid"]:
        axis["shares"] = None
    for term in facts["terms"]:
        if term["kind"] == "rule":
            assert {*LATER_OF_RULES} - {*term} == {"held_out", "held_out_by_site"}
            term.update({name: LATER_OF_RULES[name] for name in LATER_OF_RULES if name not in term})
        term["between_sites"] = None
    facts["study"]["settings"]["between_sites"] = False
    facts["study"] = say_later_keys(facts["study"])
    facts["evaluation"]["within"] = None
    facts["version"] = 3
    assert json.loads((tmp_path / "again.json").read_bytes()) == facts


def test_the_third_golden_file_still_loads_and_predicts(tmp_path: Path) -> None:
    """Written by version 3, which tells of held-out patients, of several hospitals and of codes."""
    golden = load_model(GOLDEN / "model-v3.json")
    predict_stored(golden, "model-v3")
    assert any(term.held_out is not None for term in golden.rule_terms)
    assert any(term.held_out_by_site for term in golden.rule_terms)
    assert golden.tells_between
    assert golden.distribution is not None
    assert golden.evaluation is not None
    assert golden.evaluation.within is not None
    assert golden.validation is not None
    assert len(golden.validation.sites) == 3
    golden.save(tmp_path / "again.json")
    facts = json.loads((GOLDEN / "model-v3.json").read_bytes())
    facts["study"] = say_later_keys(facts["study"])
    assert json.loads((tmp_path / "again.json").read_bytes()) == facts


def test_files_that_do_not_tell_how_they_were_judged_still_load() -> None:
    facts = json.loads((GOLDEN / "model-v2.json").read_text(encoding="utf-8"))
    del facts["evaluation"]["judged"]
    for group in facts["evaluation"]["groups"]:
        del group["predicted"]
    found = build_model(facts).evaluation
    assert found is not None
    assert found.overall.means is None
    assert found.judged == Rounding(5, 20)


def test_scores_in_the_bins_of_version_1_are_put_into_todays(facts: Any) -> None:
    """A bin of the old file stands where its mean probability is."""
    old = {"bins": [[100, 1.0, 9.0, 0.4], [257, 4.0, 6.0, 5.1], [300, 8.0, 2.0, 7.9]],
           "squares": 4.5, "loss": 9.0}  # fmt: skip
    facts |= {"version": 1, "evaluation": {"overall": old, "sites": {}}, "validation": None}
    del facts["rounding"]
    found = build_model(facts).evaluation
    assert found is not None
    sums = found.overall
    assert (sums.n_cases, sums.n_others) == (13, 17)
    assert sums.cases[np.searchsorted(sums.edges, 0.04, side="right")] == 1
    assert sums.cases[np.searchsorted(sums.edges, 0.51, side="right")] == 4
    assert found.total.expected == pytest.approx(13.4 / 30)
    assert found.total.brier == pytest.approx(4.5 / 30)
    facts["evaluation"]["overall"]["bins"][0][0] = 514
    assert "does not exist" in refused(facts)


def test_groups_of_the_evaluation_must_fit_together(facts: Any) -> None:
    judged = evaluated_model()
    base = json.loads(json.dumps(model_facts(judged)))
    for edit in (
        lambda groups: groups.pop(),
        lambda groups: groups[0].update(above=0.1),
        lambda groups: groups[0].update(below=0.9),
        lambda groups: groups.reverse(),
        lambda groups: groups.clear(),
        lambda groups: groups[0].update(predicted=groups[0]["below"] + 0.01),
    ):
        wrong = copy.deepcopy(base)
        edit(wrong["evaluation"]["groups"])
        refused(wrong)
