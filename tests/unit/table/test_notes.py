"""What an estimator says of how it read X: one warning, and no patient's value in it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.errors import DataError, ReadingWarning
from fedrulefit.table.asked import Asked
from fedrulefit.table.infer import infer_covariates
from fedrulefit.table.notes import MOST_NOTES, Note, tell_notes
from tests.samples import make_study

QUICK: dict[str, Any] = {"n_trees": 2, "penalty": 0.01, "random_state": 0}
RNG = np.random.default_rng(3)
N = 90
Y = np.arange(N) % 2


def make_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "blood": RNG.integers(1, 5, N),
            "gcs": np.where(np.arange(N) % 4, RNG.integers(3, 16, N), -9),
            "age": [*map(str, range(20, 20 + N - 1)), "unknown"],
            "weight": RNG.normal(70, 9, N),
        }
    )


def notes_of(frame: Any) -> list[Note]:
    return list(infer_covariates(frame).notes)


def test_one_warning_tells_all_guesses_and_how_to_change_each() -> None:
    frame = make_frame()
    with pytest.warns(ReadingWarning) as caught:
        RuleFitClassifier(**QUICK).fit(frame, Y)
    (warning,) = [w for w in caught if issubclass(w.category, ReadingWarning)]
    assert warning.filename == __file__, "the warning points at the line that calls fit"
    lines = str(warning.message).splitlines()
    assert [re.search("'(.*?)'", line)[1] for line in lines[1:]] == ["blood", "gcs", "age"]
    # What the warning advises is what silences it.
    advice = {"missing": {"gcs": [-9], "age": ["unknown"]}, "categorical": ["blood"]}
    for name in ("missing={'gcs': [-9]}", "missing={'age': ['unknown']}", "categorical=['blood']"):
        assert name in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        fitted = RuleFitClassifier(**advice, **QUICK).fit(frame, Y)
    assert fitted.study_.covariates["gcs"].range[0] >= 3
    assert fitted.study_.covariates["blood"].levels == (1, 2, 3, 4)


def test_no_rare_text_and_no_number_of_a_patient_is_shown() -> None:
    cells = [f"{20 + i}.75" for i in range(N)]
    cells[3], cells[5:9], cells[10:20] = "Mr Smith", ["ask Jones"] * 4, ["often said"] * 10
    (note,) = notes_of(pd.DataFrame({"x": cells}))
    assert "Smith" not in str(note)
    assert "Jones" not in str(note)
    assert ".75" not in str(note)
    assert "'often said' and 2 rare text(s) (15 cells) as missing" in str(note)
    assert "missing={'x': ['often said']}" in str(note)
    found = infer_covariates(pd.DataFrame({"x": cells}))
    assert found.covariates["x"].missing == ("often said",)
    assert int(np.isnan(found.values).sum()) == 15


def test_columns_with_the_same_note_share_a_line_and_many_are_counted() -> None:
    constant = pd.DataFrame({f"c{i}": np.full(N, 7.0) for i in range(30)})
    text = tell_notes(notes_of(constant))
    assert len(text.splitlines()) == 2
    assert "columns 'c0', 'c1'" in text
    assert "and 10 more: has the same value" in text
    coded = pd.DataFrame({f"g{i}": RNG.integers(1, 5, N) for i in range(MOST_NOTES + 7)})
    assert tell_notes(notes_of(coded)).endswith("\n  and 7 more")


def test_columns_that_repeat_another_are_told() -> None:
    x = RNG.normal(size=N)
    x[4] = np.nan
    sex = RNG.choice(["f", "m"], N)
    frame = pd.DataFrame(
        {"a": x, "b": -x, "sex": sex, "c": x + 0.0, "male": (sex == "m").astype(int)}
    )
    assert [note.columns for note in notes_of(frame)] == [("a", "c"), ("sex", "male")]


def test_patients_of_weight_zero_have_no_say() -> None:
    frame = pd.DataFrame({"x": np.where(np.arange(N) < 30, -9.0, RNG.integers(3, 16, N))})
    assert len(notes_of(frame)) == 1
    assert infer_covariates(frame, rows=np.arange(N) >= 30).notes == ()


def test_ordinary_arrays_and_frames_are_read_in_silence() -> None:
    X = RNG.normal(size=(N, 5)).round(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        RuleFitClassifier(**QUICK).fit(X, Y)
        FederatedRuleFitClassifier(noise=False, **QUICK).fit(pd.DataFrame(X), Y)


def test_columns_of_an_array_are_named_by_position() -> None:
    X = np.column_stack([RNG.normal(size=N), RNG.integers(1, 5, N), RNG.integers(0, 3, N)])
    model = RuleFitClassifier(
        categorical=[1], ordered={2: [0, 1, 2]}, missing={0: [-9]}, **QUICK
    ).fit(X, Y)
    kinds = {name: covariate.kind for name, covariate in model.study_.covariates.items()}
    assert kinds == {"x0": "number", "x1": "category", "x2": "ordered"}
    assert model.study_.covariates["x0"].missing == (-9,)
    by_name = RuleFitClassifier(
        categorical=["x1"], ordered={"x2": [0, 1, 2]}, missing={"x0": [-9]}, **QUICK
    ).fit(X, Y)
    assert by_name.study_.covariates == model.study_.covariates


def test_blanks_around_a_name_do_not_count() -> None:
    frame = pd.DataFrame({" blood ": RNG.integers(1, 5, N)})
    for name in (" blood ", "blood"):
        model = RuleFitClassifier(categorical=[name], **QUICK).fit(frame, Y)
        assert model.study_.covariates["blood"].levels == (1, 2, 3, 4)


@pytest.mark.filterwarnings("ignore::fedrulefit.errors.ReadingWarning")
def test_arrays_of_text_or_of_objects_are_read_column_by_column() -> None:
    """They once ended in "could not convert string to float: 'female'"."""
    age, sex = RNG.integers(20, 90, N), RNG.choice(["female", "male"], N)
    mixed = np.empty((N, 2), dtype=object)
    mixed[:, 0], mixed[:, 1] = age, sex
    as_text = np.column_stack([age.astype(str), sex])
    as_lists = [[int(a), str(s)] for a, s in zip(age, sex, strict=True)]
    plain = RuleFitClassifier(**QUICK).fit(pd.DataFrame({"x0": age, "x1": sex}), Y)
    for X in (mixed, as_text, as_lists, pd.DataFrame(mixed), pd.DataFrame({0: age, 1: sex})):
        model = RuleFitClassifier(**QUICK).fit(X, Y)
        assert model.study_.covariates == plain.study_.covariates
        np.testing.assert_array_equal(
            model.predict_proba(X), plain.predict_proba(pd.DataFrame({"x0": age, "x1": sex}))
        )


def test_an_arrow_table_is_read_like_the_frame() -> None:
    pa = pytest.importorskip("pyarrow")
    nyha = pd.Categorical(RNG.choice(["I", "II", "III"], N), ["I", "II", "III"], ordered=True)
    frame = pd.DataFrame(
        {"age": RNG.normal(60, 9, N), "sex": RNG.choice(["female", "male"], N), "nyha": nyha}
    )
    frame.loc[3, "age"] = np.nan
    frame.loc[4, "sex"] = None
    table = pa.Table.from_pandas(frame)
    model = RuleFitClassifier(**QUICK).fit(table, Y)
    assert list(model.feature_names_in_) == ["age", "sex", "nyha"]
    assert model.study_.covariates == RuleFitClassifier(**QUICK).fit(frame, Y).study_.covariates
    np.testing.assert_array_equal(model.predict_proba(table), model.predict_proba(frame))


def test_what_is_asked_is_a_parameter_like_any_other() -> None:
    frame = make_frame()
    asked = {"categorical": ["blood"], "ordered": None, "missing": {"gcs": [-9]}}
    model = FederatedRuleFitClassifier(noise=False, **asked, **QUICK)
    assert {name: clone(model).get_params()[name] for name in asked} == asked
    search = GridSearchCV(model, {"categorical": [None, ["blood"]]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        best = search.fit(frame, Y).best_estimator_
    assert best.study_.covariates["gcs"].missing == (-9,)


@pytest.mark.parametrize("name", ["categorical", "ordered", "missing"])
def test_beside_a_study_it_is_refused(name: str) -> None:
    model = RuleFitClassifier(study=make_study(), **{name: []})
    with pytest.raises(DataError, match=f"leave {name}= out, or say it in the study"):
        model.fit(make_frame(), Y)


def test_numbers_that_measure_nothing_by_their_name_are_pointed_out() -> None:
    """A model had a term "pid, per 100", of patients with three rows each."""
    frame = pd.DataFrame(
        {
            "pid": np.arange(N) // 3,
            "zip": RNG.choice([2139, 2140, 10001], N),
            "patient_age": RNG.integers(20, 90, N),
        }
    )
    of_patient, of_postcode = notes_of(frame)
    assert of_patient.columns == ("pid",)
    assert of_patient.advice == "drop it; if it says whose a row is, patients=frame['pid']"
    assert of_postcode.columns == ("zip",)
    assert "categorical=['zip']" in of_postcode.advice
    asked = Asked(categorical=frozenset({"zip"}))
    assert [note.columns for note in infer_covariates(frame, asked=asked).notes] == [("pid",)]


def test_several_codes_count_as_numbers() -> None:
    educ = [1, 2, 3, 4, 5, 77, 88, 99] * 20
    said = [note.message for note in notes_of(pd.DataFrame({"educ_score": educ}))]
    assert said == [
        "77 (20 rows), 88 (20 rows), 99 (20 rows) may stand for a missing value, and count as "
        "numbers"
    ]


def test_all_columns_that_cannot_be_read_are_told_at_once() -> None:
    """Each was told only when the one before was mended."""
    frame = pd.DataFrame(
        {
            "admitted": pd.date_range("2024-01-01", periods=N),
            "age": RNG.integers(20, 90, N),
            "crp": ["<0.5" if i % 9 == 0 else f"{i / 3:.1f}" for i in range(N)],
        }
    )
    with pytest.raises(DataError) as refusal:
        infer_covariates(frame)
    head, *lines = str(refusal.value).splitlines()
    assert head == "2 columns of X cannot be read:"
    assert [line.strip().split()[1] for line in lines] == ["'admitted'", "'crp'"]
    with pytest.raises(DataError, match="^column 'admitted' holds dates"):
        infer_covariates(frame.drop(columns="crp"))
