"""How ``model-v2.json`` and its predictions were made. Not to be run again after a release."""

from __future__ import annotations

import json
from pathlib import Path

from fedrulefit.core.rounding import Rounding
from fedrulefit.model.publish import round_model
from tests.samples import SOLVERS, fit_model, make_frame, make_study, make_tables

HERE = Path(__file__).parent
SEED = 0  # of patients whose model has every kind of term


def main() -> None:
    settings = {
        **SOLVERS["cv"],
        "path_length": 15,
        "path_ratio": 0.005,
        "n_trees": 8,
        "n_cutoffs": 20,
        "linear_factor": 1.0,
        "interaction_factor": 1.0,
        "holdout": 0.25,
    }
    study = make_study(epsilon=1.0, **settings)
    exact = fit_model(study, make_tables(study, sizes=(300, 200, 150), seed=SEED))
    model = round_model(exact, Rounding(5, 20))
    model.save(HERE / "model-v2.json")
    frame = make_frame(40, seed=77).drop(columns="died")
    frame.loc[0, "ward"] = None
    patients = {
        name: [None if value != value or value is None else value for value in frame[name].tolist()]
        for name in frame
    }
    facts = {"patients": patients, "probabilities": model.predict_proba(frame).tolist()}
    text = json.dumps(facts, indent=1)
    (HERE / "model-v2-predictions.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
