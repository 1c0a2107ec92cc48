"""``class_weight``: a sample weight per class, as scikit-learn has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from fedrulefit import FederatedRuleFitClassifier, RuleFitClassifier
from fedrulefit.errors import DataError
from fedrulefit.protocol.public import WEIGHT_UNIT
from fedrulefit.study import Study
from tests.samples import make_frame, make_study

SMALL: dict[str, Any] = {"n_trees": 10, "learning_rate": 0.1, "penalty": 0.01, "random_state": 0}
FRAME = make_frame(300, seed=3)
Y = FRAME.pop("died").to_numpy()
SITES = np.array(["north", "south"])[np.arange(300) % 2]


def predictor(model: Any) -> Any:
    return model.decision_function(FRAME)


@pytest.mark.parametrize("make", [RuleFitClassifier, FederatedRuleFitClassifier])
@pytest.mark.parametrize("class_weight", ["balanced", {"no": 1, "yes": 3}, {"yes": 2.5}], ids=str)
def test_as_weights_of_the_patients(make: Any, class_weight: Any) -> None:
    given = {**SMALL, **({"noise": False} if make is FederatedRuleFitClassifier else {})}
    weighed = make(class_weight=class_weight, **given).fit(FRAME, Y)
    as_scikit_learn = compute_sample_weight(
        class_weight if class_weight == "balanced" else {"no": 1, **class_weight}, Y
    )
    by_hand = make(**given).fit(FRAME, Y, sample_weight=as_scikit_learn)
    np.testing.assert_allclose(predictor(weighed), predictor(by_hand), atol=1e-6)
    assert np.abs(predictor(weighed) - predictor(make(**given).fit(FRAME, Y))).max() > 0.1


def test_times_the_sample_weight() -> None:
    """Balanced by the weights, not by the rows: repeated rows are weights."""
    weights = 1.0 + (np.arange(300) % 3)
    weighed = RuleFitClassifier(class_weight="balanced", **SMALL)
    weighed.fit(FRAME, Y, sample_weight=weights)
    rows = np.repeat(np.arange(300), weights.astype(int))
    repeated = RuleFitClassifier(class_weight="balanced", **SMALL).fit(FRAME.iloc[rows], Y[rows])
    np.testing.assert_allclose(predictor(weighed), predictor(repeated), atol=1e-6)
    half = weighed.model_.provenance
    assert half.patients == pytest.approx(weights.sum(), abs=0.2)
    assert half.events == pytest.approx(weights.sum() / 2, abs=0.2)


def test_more_weight_moves_the_intercept_by_its_logarithm() -> None:
    """Without terms the weighted odds are the model: log(3) more."""
    null = {**SMALL, "penalty": 10.0, "linear_factor": 1.0}
    plain = RuleFitClassifier(**null).fit(FRAME, Y)
    weighed = RuleFitClassifier(class_weight={"yes": 3}, **null).fit(FRAME, Y)
    assert weighed.intercept_[0] - plain.intercept_[0] == pytest.approx(np.log(3), abs=1e-6)


def test_the_bound_of_the_weights() -> None:
    """A dict is public, so noise can be scaled to it; what was counted is not, and is said."""
    study = make_study(penalty=0.01, n_trees=5)
    given = FederatedRuleFitClassifier(study=study, noise=True, class_weight={"no": 0.5, "yes": 4})
    given.fit(FRAME, Y)
    assert given.study_.weight.max == 4.0
    assert not given.study_.ranges_from_data
    sensitivities = {r.sensitivity for r in given.ledgers_["site"] if r.epsilon is not None}
    assert sensitivities == {4 * WEIGHT_UNIT}
    counted = FederatedRuleFitClassifier(study=study, class_weight="balanced").fit(FRAME, Y)
    rarer = min((Y == "yes").mean(), (Y == "no").mean())
    assert counted.study_.weight.max == pytest.approx(0.5 / rarer)
    assert counted.study_.ranges_from_data
    assert counted.model_.privacy.ranges_from_data


def test_a_study_s_own_bound_is_of_the_patients_without_their_class() -> None:
    facts = {
        **make_study(penalty=0.01, n_trees=5).model_dump(),
        "weight": {"column": "w", "max": 2},
    }
    study = Study.from_mapping(facts)
    weighted = FederatedRuleFitClassifier(study=study, class_weight={"yes": 3})
    fitted = weighted.fit(FRAME, Y, sample_weight=np.full(300, 2.0))
    assert (fitted.study_.weight.column, fitted.study_.weight.max) == ("w", 6.0)
    assert not fitted.study_.ranges_from_data
    with pytest.raises(DataError, match="public bound 2"):
        weighted.fit(FRAME, Y, sample_weight=np.full(300, 2.5))
    with pytest.raises(DataError, match="pass them as sample_weight"):
        weighted.fit(FRAME, Y)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("balance", "must be None, 'balanced' or a dict, not 'balance'"),
        ({"dead": 2}, "class_weight names 'dead', but the classes of y are"),
        ({"yes": -1}, "not negative"),
        ({"yes": np.nan}, "finite"),
        ([1, 2], "must be None"),
    ],
)
def test_a_bad_class_weight_is_named(class_weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RuleFitClassifier(class_weight=class_weight, **SMALL).fit(FRAME, Y)


def test_labels_that_look_like_other_numbers() -> None:
    """scikit-learn's own reading makes a number of the label "1", and then misses its key."""
    y = np.where(Y == "yes", "1", "0")
    weighed = RuleFitClassifier(class_weight={"1": 3}, **SMALL).fit(FRAME, y)
    same = RuleFitClassifier(class_weight={"yes": 3}, **SMALL).fit(FRAME, Y)
    np.testing.assert_array_equal(predictor(weighed), predictor(same))
