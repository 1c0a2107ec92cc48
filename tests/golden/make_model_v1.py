"""How ``model-v1.json`` and its predictions were made, once. Not to be run again."""

from __future__ import annotations

import json
from pathlib import Path

from tests.samples import fit_model, make_frame, make_study

HERE = Path(__file__).parent


def main() -> None:
    model = fit_model(make_study(epsilon=1.0, n_trees=8, rounds=15, penalty=0.004))
    model.save(HERE / "model-v1.json")
    frame = make_frame(40, seed=77).drop(columns="died")
    frame.loc[0, "ward"] = None
    patients = {
        name: [None if value != value or value is None else value for value in frame[name].tolist()]
        for name in frame
    }
    facts = {"patients": patients, "probabilities": model.predict_proba(frame).tolist()}
    text = json.dumps(facts, indent=1)
    (HERE / "model-v1-predictions.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
