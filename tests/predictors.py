"""Everything that predicts with a model, asked about the same patients in one way.

Each takes a model and columns as :func:`tests.random_models.random_columns` makes them, and returns
each patient's probability (NaN for none) and flags. The page, which needs a browser, is asked in
``tests/browser/test_report.py``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedrulefit import Model
from fedrulefit.study import Number
from tests.databases import Column


def as_inputs(model: Model, columns: Mapping[str, Column]) -> dict[str, Any]:
    """Return the inputs of a graph: numbers, and texts as they stand."""
    return {
        name: np.array([np.nan if cell is None else cell for cell in columns[name].cells], float)
        if isinstance(covariate, Number)
        else np.array(
            ["" if cell is None else str(cell) for cell in columns[name].cells], dtype=object
        )
        for name, covariate in model.study.covariates.items()
    }


def run_graph(model: Model, inputs: Mapping[str, Any]) -> tuple[Any, Any, list[str]]:
    """Return log-odds, probabilities and flags of the ONNX graph."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    tensors = {name: cells.reshape(-1, 1) for name, cells in inputs.items()}
    log_odds, probability, kinds = session.run(["log_odds", "probability", "flags"], tensors)
    words = json.loads(session.get_modelmeta().custom_metadata_map["fedrulefit/flags"])
    names = model.study.names
    flags = ["; ".join(words[names[j]][str(row[j])] for j in np.flatnonzero(row)) for row in kinds]
    return log_odds[:, 0], probability[:, 0], flags
