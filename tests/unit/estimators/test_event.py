"""Which of the two values of y a model speaks of, and that it says so."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedrulefit import RuleFitClassifier
from fedrulefit.errors import ReadingWarning

QUICK: dict[str, Any] = {"n_trees": 2, "penalty": 0.01, "random_state": 0}
AGE = np.random.default_rng(0).integers(20, 90, 200)
X = pd.DataFrame({"age": AGE})


def fit(no: Any, yes: Any) -> RuleFitClassifier:
    return RuleFitClassifier(**QUICK).fit(X, np.where(AGE > 60, yes, no))


def test_an_event_that_words_contradict_is_said() -> None:
    """Of 'Dead' and 'alive' the model was of survival, without a word."""
    with pytest.warns(ReadingWarning) as caught:
        model = fit("alive", "Dead")
    (warning,) = caught
    assert warning.filename == __file__, "the warning points at the line that calls fit"
    assert "are of 'alive'" in str(warning.message)
    assert "give y == 'Dead'" in str(warning.message)
    assert repr(model.model_).startswith("<Model of 'outcome = alive': ")
    assert "Model of outcome = alive" in model.model_._repr_html_()


@pytest.mark.parametrize(
    ("no", "yes", "shown"),
    [
        (0, 1, "outcome"),
        (False, True, "outcome"),
        (0.0, 1.0, "outcome"),
        (1, 2, "outcome = 2"),
        ("alive", "dead", "outcome = dead"),
        ("A", "B", "outcome = B"),
    ],
)
def test_the_event_is_shown(no: Any, yes: Any, shown: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReadingWarning)
        assert repr(fit(no, yes).model_).startswith(f"<Model of '{shown}': ")
