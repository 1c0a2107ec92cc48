"""The trauma study: its file, its splits, its importances."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.errors import DataError
from fedrulefit.experiments import trauma, traumadata
from fedrulefit.experiments.methods import Effort


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
    with pytest.raises(DataError, match="needs the columns site, age"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)
    (tmp_path / "trauma.csv").write_text("site,age,sex,ISS,GCS,mortality\n1,2,0,4,5,0\n")
    with pytest.raises(DataError, match="checksum differs"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)
    (tmp_path / "trauma.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="cannot be read as text"):
        traumadata.load_trauma(tmp_path, folder=tmp_path)


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
