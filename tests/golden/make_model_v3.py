"""How ``model-v3.json`` and its predictions were made. Not to be run again after a release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from fedrulefit.core.rounding import Rounding
from fedrulefit.engines.leaveout import leave_one_site_out
from fedrulefit.model.publish import round_model
from tests.samples import SOLVERS, fit_model, make_frame, make_study, make_tables

HERE = Path(__file__).parent


def main() -> None:
    settings = {**SOLVERS["exact"], "holdout": 0.3, "per_site": True}
    study = make_study(epsilon=1.0, **settings)
    tables = make_tables(study, sizes=(400, 350, 300))
    exact = fit_model(study, tables)
    exact = replace(exact, validation=leave_one_site_out(study, tables))
    model = round_model(exact, Rounding(5, 10))
    model.save(HERE / "model-v3.json")
    frame = make_frame(40, seed=78).drop(columns="died")
    frame.loc[0, "ward"] = None
    patients = {
        name: [None if value != value or value is None else value for value in frame[name].tolist()]
        for name in frame
    }
    facts = {"patients": patients, "probabilities": model.predict_proba(frame).tolist()}
    text = json.dumps(facts, indent=1)
    (HERE / "model-v3-predictions.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
