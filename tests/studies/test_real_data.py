"""What the preset ``paper`` gives on real hospitals' data.

The short tests run with all others; the long one is ``make study`` and prints
the table of docs/real-data.md.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.studies import real_data


def test_trauma_ranks_gcs_first_and_sex_last(data_dir: Path) -> None:
    study, frame = real_data.load(data_dir, "trauma")
    # Noise is off, so that these splits give the same answer every time.
    runs = [
        real_data.run(study, *split, preset="paper", noise=False)
        for split in real_data.splits(frame, 3)
    ]
    assert {run.importance.index[0] for run in runs} == {"GCS"}
    assert {run.importance.index[-1] for run in runs} == {"sex"}
    assert np.mean([run.auc for run in runs]) > 0.93


@pytest.mark.parametrize("name", ["heart_uci", "ist"])
def test_missing_values_and_categories_run_as_they_are(data_dir: Path, name: str) -> None:
    study, frame = real_data.load(data_dir, name)
    train, test = next(iter(real_data.splits(frame, 1)))
    run = real_data.run(study, train, test, preset="paper", noise=False, rounds=15, n_trees=40)
    assert run.auc > 0.75
    assert run.n_terms > 0


@pytest.mark.study
@pytest.mark.parametrize(
    ("name", "preset", "repeats"),
    [
        ("trauma", "paper", 100),
        ("trauma", "default", 50),
        ("heart_uci", "paper", 20),
        ("heart_uci", "default", 20),
        ("ist", "paper", 5),
        ("ist", "default", 3),
    ],
)
def test_real_data_study(
    data_dir: Path, name: str, preset: str, repeats: int, capsys: pytest.CaptureFixture[str]
) -> None:
    study, frame = real_data.load(data_dir, name)
    runs = [
        real_data.run(study, *split, preset=preset) for split in real_data.splits(frame, repeats)
    ]
    first = Counter(run.importance.index[0] for run in runs)
    last = Counter(run.importance.index[-1] for run in runs)
    mean = sum(run.importance for run in runs) / repeats
    with capsys.disabled():
        print(
            f"\n{name}, {preset}: {repeats} splits; AUC "
            f"{real_data.describe([r.auc for r in runs])}, pooled logistic regression "
            f"{real_data.describe([r.auc_logistic for r in runs])}; "
            f"terms {np.mean([r.n_terms for r in runs]):.0f}\n"
            f"  most important: {dict(first)}; least: {dict(last)}\n"
            f"  mean importance: {(100 * mean / mean.max()).sort_values()[::-1].round().to_dict()}"
        )
    if name == "trauma":
        assert mean.idxmax() == "GCS"
        assert mean.idxmin() == "sex"
