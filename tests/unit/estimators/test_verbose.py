"""What ``verbose`` prints."""

from __future__ import annotations

from typing import Any

import pytest

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from tests.samples import make_frame

SMALL: dict[str, Any] = {
    "n_trees": 5, "penalty": "cv", "folds": 3, "path_length": 6, "path_ratio": 0.1,
    "random_state": 0,
}  # fmt: skip
FRAME = make_frame(200, seed=3)
Y = FRAME.pop("died").to_numpy()


def lines_of(make: Any, verbose: int, capsys: pytest.CaptureFixture[str]) -> tuple[Any, list[str]]:
    model = make(verbose=verbose, **SMALL).fit(FRAME, Y)
    told = capsys.readouterr()
    assert told.err == ""
    return model, told.out.splitlines()


def test_nothing_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines_of(RuleFitClassifier, 0, capsys)[1] == []


def test_a_line_for_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    model, lines = lines_of(FederatedRuleFitClassifier, 1, capsys)
    phases = [
        "sites join",
        "noisy histograms",
        "sites grow rules",
        "sites receive the merged rules",
    ]
    phases += ["cross-validation", "sites vote on the rules", "fewer terms"]
    phases += ["fit together", "supports of the rules", "done"]
    assert len(lines) == len(phases)
    for line, phase in zip(lines, phases, strict=True):
        assert line.startswith(f"[FederatedRuleFitClassifier] {phase}")
        assert line.endswith(" s)")
    objective = f"after {model.n_iter_} rounds, objective {model.model_.provenance.objective:.5f}"
    assert objective in lines[-1]


def test_a_line_for_each_round(capsys: pytest.CaptureFixture[str]) -> None:
    model, lines = lines_of(RuleFitClassifier, 2, capsys)
    rounds = [line for line in lines if "cross-validation" in line or "fit together" in line]
    assert len(rounds) == model.n_iter_
