"""The trauma study: its file, its splits, its importances."""

from __future__ import annotations

import dataclasses
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.errors import DataError
from fedrulefit.experiments import trauma, traumadata
from fedrulefit.experiments.methods import Effort
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.file import load_model
from tests.random_models import GOLDEN


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(traumadata.DATA_VARIABLE, raising=False)


class Reply:
    """What the network would answer."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        return self._content

    def __enter__(self) -> Reply:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def as_shipped(path: Path) -> bytes:
    """The file as the R package's repository has it: other names, order, line ends."""
    frame = pd.read_csv(path).rename(columns={"site": "hospital"})
    columns = ["sex", "age", "hospital", "ISS", "GCS", "mortality"]
    return frame[columns].to_csv(sep=";", index=False, lineterminator="\r\n").encode()


def test_the_file_is_downloaded_checked_and_kept(
    data_dir: Path, tmp_path: Path, no_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = as_shipped(data_dir / "trauma.csv")
    asked: list[str] = []

    def answer(url: str, timeout: float) -> Any:
        asked.append(url)
        return Reply(content)

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    frame = traumadata.load_trauma(None, folder=tmp_path / "new")
    assert asked == [traumadata.URL]
    assert frame.shape == (371, 6)
    again = traumadata.load_trauma(None, folder=tmp_path / "new")
    pd.testing.assert_frame_equal(frame, again)
    assert len(asked) == 1
    assert (tmp_path / "new" / "trauma.csv").read_bytes() == (data_dir / "trauma.csv").read_bytes()


def test_a_file_a_folder_and_the_variable_are_the_same(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_file = traumadata.load_trauma(data_dir / "trauma.csv", folder=tmp_path)
    by_folder = traumadata.load_trauma(data_dir, folder=tmp_path)
    monkeypatch.setenv(traumadata.DATA_VARIABLE, str(data_dir))
    by_variable = traumadata.load_trauma(None, folder=tmp_path)
    pd.testing.assert_frame_equal(by_file, by_folder)
    pd.testing.assert_frame_equal(by_file, by_variable)


def test_without_file_and_network_the_error_says_where_to_get_it(
    tmp_path: Path, no_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str, timeout: float) -> Any:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    with pytest.raises(DataError, match=r"no network.*raw\.githubusercontent\.com.*--data"):
        traumadata.load_trauma(None, folder=tmp_path)
    with pytest.raises(DataError, match="does not exist: get https"):
        traumadata.load_trauma(tmp_path / "missing.csv", folder=tmp_path)


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trauma.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="has the columns site, age"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)
    (tmp_path / "trauma.csv").write_text("site,age,sex,ISS,GCS,mortality\n1,2,0,4,5,0\n")
    with pytest.raises(DataError, match="checksum differs"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)
    (tmp_path / "trauma.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read as text"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trauma.csv").write_text("")
    with pytest.raises(DataError, match=r"is not the trauma data.*get https"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)


def test_a_variable_that_names_no_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(traumadata.DATA_VARIABLE, str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"FEDRULEFIT_DATA is .*elsewhere, but"):
        traumadata.load_trauma(None, folder=tmp_path)


def make_splits(**changes: dict[str, list[float]]) -> pd.DataFrame:
    """Splits in which all that the paper claims is true, with `changes` by method."""
    truth = {
        trauma.PROPOSED: {"auc": [0.93, 0.95, 0.94], "GCS": [100] * 3, "age": [80] * 3},
        trauma.OURS: {"auc": [0.94, 0.96, 0.95], "GCS": [100] * 3, "age": [80] * 3},
        "bfi": {"auc": [0.92, 0.94, 0.93], "GCS": [100] * 3, "age": [60] * 3},
    }
    parts = []
    for name, columns in truth.items():
        rest = {"ISS": [50.0 if name != "bfi" else 30.0] * 3, "sex": [5.0] * 3}
        frame = pd.DataFrame({**rest, **columns, **changes.get(name, {})})
        parts.append(frame.assign(method=name, repetition=range(3)))
    return pd.concat(parts, ignore_index=True)


def make_model(*terms: tuple[tuple[Condition, ...], float, tuple[float, float]]) -> Model:
    """A model of the trauma study: rules with coefficients, patients and deaths inside."""
    study = trauma.trauma_study()
    axes = []
    for name in study.names:
        if name == "sex":
            axes.append(Axis("yes/no", np.array([0.5]), 2, True, (0.0, 1.0), 0.5))
        else:
            axes.append(Axis("number", np.array([5.0, 10.0]), 3, True, (0.0, 99.0), 3.0))
    rules = tuple(
        RuleTerm(Rule(conditions), coefficient, 1.0 / (place + 1), inside, deaths)
        for place, (conditions, coefficient, (inside, deaths)) in enumerate(terms)
    )
    base = load_model(GOLDEN)
    origin = dataclasses.replace(base.provenance, patients=100.0, events=40.0, candidates=100)
    return dataclasses.replace(
        base, study=study, grid=Grid(tuple(axes)), terms=rules, provenance=origin, evaluation=None
    )


def codes(name: str, bits: int) -> Condition:
    return Condition(trauma.COVARIATES.index(name), bits)


LOW, MIDDLE, HIGH = 0b001, 0b010, 0b100
GOOD = (
    ((codes("GCS", HIGH),), -0.5, (50.0, 5.0)),
    ((codes("GCS", LOW | MIDDLE),), 0.5, (50.0, 30.0)),
    ((codes("ISS", HIGH), codes("age", HIGH)), 0.4, (30.0, 20.0)),
    ((codes("ISS", LOW),), -0.4, (40.0, 5.0)),
    ((codes("GCS", MIDDLE),), 0.4, (40.0, 5.0)),
)


def verdict(model: Model, words: str, splits: pd.DataFrame | None = None) -> str:
    rows = make_splits() if splits is None else splits
    claims = trauma.check_claims(rows, {trauma.PROPOSED: model, trauma.OURS: model})
    (found,) = [claim.paper for claim in claims if words in claim.text]
    return f"{found.word}: {found.numbers}"


def test_directions_of_rules_are_judged_by_their_open_ends() -> None:
    assert verdict(make_model(*GOOD), "raise the risk") == "holds: 4 of 4"
    wrong = (((codes("ISS", LOW),), 0.8, (40.0, 5.0)), *GOOD[:3])
    assert verdict(make_model(*wrong), "raise the risk").startswith(
        "does not hold: 3 of 4; against it: ISS"
    )
    mixed = (((codes("GCS", HIGH), codes("ISS", HIGH)), 0.1, (40.0, 5.0)),)
    assert verdict(make_model(*mixed), "raise the risk") == "not decided: 0 of 0"


def test_separation_is_judged_on_every_rule_shown() -> None:
    assert verdict(make_model(*GOOD), "clearly separated").startswith("holds")
    alike = (*GOOD[:2], ((codes("age", LOW),), 0.1, (50.0, 20.0)))
    assert verdict(make_model(*alike), "clearly separated").startswith("does not hold")
    assert verdict(make_model(), "clearly separated").startswith("not decided")
    assert verdict(make_model(*GOOD), "rules that involve GCS").startswith("holds: 0.60: GCS")
    wider = (((codes("age", HIGH),), 0.5, (50.0, 39.0)), *GOOD)
    assert verdict(make_model(*wider), "rules that involve GCS").startswith("does not hold: 0.76")
    for one_sided in (GOOD[2:4], GOOD[:2]):
        found = verdict(make_model(*one_sided), "rules that involve GCS")
        assert found.startswith("not decided")


def test_rules_are_counted_kept_and_as_candidates() -> None:
    model = make_model(*GOOD)
    assert verdict(model, "generated 82 rules") == "does not hold: 5 rules"
    assert verdict(model, "if candidates are meant") == "holds: 100 rules"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"auc": [0.91, 0.93, 0.92]}, "higher median AUC"),
        ({"auc": [0.85, 0.99, 0.94]}, "stable variability"),
        ({"age": [120.0] * 3}, "most important covariate"),
        ({"sex": [60.0] * 3}, "most important covariate"),
        ({"ISS": [20.0] * 3}, "more important than in BFI"),
    ],
)
def test_claims_on_splits(changes: dict[str, list[float]], words: str) -> None:
    model = make_model(*GOOD)
    assert verdict(model, words).startswith("holds")
    changed = make_splits(federated=changes)
    assert verdict(model, words, changed).startswith("does not hold")


def test_the_difference_in_auc_counts_that_splits_overlap() -> None:
    told = verdict(make_model(*GOOD), "higher median AUC")
    assert "higher in 3 of 3 splits; mean difference +0.0100 ± 0.0000" in told
    changed = make_splits(federated={"auc": [0.92, 0.96, 0.94]})
    gaps = np.array([0.0, 0.02, 0.01])
    error = gaps.std(ddof=1) * np.sqrt(1 / 3 + 3 / 7)
    assert f"± {error:.4f}" in verdict(make_model(*GOOD), "higher median AUC", changed)


def test_splits_take_70_percent_of_every_hospital() -> None:
    sites = np.repeat([1, 2, 3], [49, 106, 216])
    train = trauma.split_within(sites, np.random.default_rng(0))
    assert [train[sites == k].sum() for k in (1, 2, 3)] == [34, 74, 151]
    other = trauma.split_within(sites, np.random.default_rng(1))
    assert not np.array_equal(train, other)


def test_standardising_uses_training_patients_only() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(5, 2, size=(40, 4))
    train = np.arange(40) < 30
    scaled = trauma.standardise(values, train)
    sex = trauma.COVARIATES.index("sex")
    numbers = np.delete(scaled[train], sex, axis=1)
    np.testing.assert_allclose(numbers.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(numbers.std(axis=0, ddof=1), 1)
    np.testing.assert_array_equal(scaled[:, sex], values[:, sex])


def test_importance_of_bfi_is_coefficient_times_spread() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1, 2, 3, 4]
    model = BFIClassifier().fit(X, X[:, 0] + X[:, 3] > 0)
    expected = np.abs(model.coef_[0]) * X.std(axis=0, ddof=1)
    np.testing.assert_allclose(trauma.importances(model, X), 100 * expected / expected.max())


def test_a_split_holds_all_methods(data_dir: Path) -> None:
    patients = traumadata.load_trauma(data_dir, folder=data_dir)
    (unit,) = trauma.make_units(1, seed=1, effort=Effort(quick=True), patients=patients)
    rows = unit.run()
    assert [row["method"] for row in rows] == list(trauma.COMPARED)
    for row in rows:
        assert row["auc"] > 0.75
        assert max(row[name] for name in trauma.COVARIATES) == pytest.approx(100)
