"""A model → an ONNX graph, for programs that score without Python.

In: a model. Out: an ``onnx.ModelProto``. Needs the extra ``onnx``; running the
graph needs a runtime such as onnxruntime.

Every covariate is one input of shape (n_rows, 1), under the study's name. A
number is a double, NaN where missing. A category or yes/no is a string, spelt as
in the study (or as ``1``, ``true`` for numbers and truth values), empty where
missing: ONNX has no operators for the other spellings that a table may have.
Outputs are the linear predictor and the prediction (of a yes/no outcome ``log_odds``
and ``probability``), doubles of shape (n_rows, 1); NaN where an input is not a value
of the study.

Each covariate becomes a one-hot row of its codes, "missing" being the last. Put
side by side they make Z, and a rule with conditions C holds where Z·A = |C|:
A has a 1 for each code that satisfies a condition of the rule.

Oracle: :meth:`fedrulefit.Model.predict_proba` (``tests/unit/model/export/test_onnx.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.grid import RULE_SPREAD, Axis
from fedrulefit.errors import FedRuleFitError, get_extra
from fedrulefit.model import Model
from fedrulefit.model.publish import check_rounding
from fedrulefit.study import Category, Covariate, Number, Ordered, YesNo, level_key

if TYPE_CHECKING:
    from onnx import ModelProto

_PREFIX: Final = "fedrulefit/"
_OPSET: Final = 17
_ML_OPSET: Final = 2
_IR_VERSION: Final = 8
"""Old enough for runtimes of the last years."""
_UNKNOWN: Final = -1


def build_onnx(model: Model) -> ModelProto:
    """Return the graph; see :meth:`fedrulefit.Model.to_onnx`."""
    check_rounding(model)
    try:
        from onnx import checker, helper
    except ImportError:
        raise FedRuleFitError(f"ONNX is not installed; {get_extra('onnx')}") from None
    family = model.study.family
    results = (family.words.predictor_column, family.words.prediction_column)
    taken = set(results) & set(model.study.names)
    taken |= {name for name in model.study.names if name.startswith(_PREFIX)}
    if taken:
        raise FedRuleFitError(f"covariate {taken.pop()!r} has the name of a result of the graph")
    graph = _Graph()
    faults, blocks, linear = [], [], {}
    for j, (name, covariate) in enumerate(model.study.covariates.items()):
        axis = model.grid.axes[j]
        code, value, fault = _read(graph, name, covariate, axis)
        places = graph.constant(np.arange(axis.n_codes + 1, dtype=np.int64)[None, :])
        blocks.append(graph.double(graph.add("Equal", code, places)))
        faults.append(fault)
        linear[j] = value
    terms = [graph.constant([[model.intercept]]), *faults]
    if model.rule_terms:
        rows = blocks[0] if len(blocks) == 1 else graph.add("Concat", *blocks, axis=1)
        terms.append(_rules(graph, model, rows))
    terms += [
        _linear(graph, linear[t.feature], model.grid.axes[t.feature], t.coefficient)
        for t in model.linear_terms
    ]
    predictor = terms[0]
    for term in terms[1:]:
        predictor = graph.add("Add", predictor, term)
    graph.add("Identity", predictor, output=results[0])
    graph.add(family.link.onnx, predictor, output=results[1])
    made = helper.make_model(
        graph.finish(results),
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        ir_version=_IR_VERSION,
        producer_name="fedrulefit",
    )
    checker.check_model(made)
    return made


class _Graph:
    """Nodes, inputs and constants, named one after another."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []

    def _name(self) -> str:
        return f"{_PREFIX}{len(self.nodes) + len(self.constants)}"

    def input(self, name: str, *, text: bool) -> str:
        from onnx import TensorProto, helper

        kind = TensorProto.STRING if text else TensorProto.DOUBLE
        self.inputs.append(helper.make_tensor_value_info(name, kind, [None, 1]))
        return name

    def constant(self, values: Any) -> str:
        from onnx import numpy_helper

        name = self._name()
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, output: str = "", **options: Any) -> str:
        from onnx import helper

        name = output or self._name()
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **options))
        return name

    def double(self, name: str) -> str:
        from onnx import TensorProto

        return self.add("Cast", name, to=TensorProto.DOUBLE)

    def finish(self, results: Sequence[str]) -> Any:
        from onnx import TensorProto, helper

        outputs = [
            helper.make_tensor_value_info(name, TensorProto.DOUBLE, [None, 1]) for name in results
        ]
        return helper.make_graph(
            self.nodes, "fedrulefit", self.inputs, outputs, initializer=self.constants
        )


def _read(graph: _Graph, name: str, covariate: Covariate, axis: Axis) -> tuple[str, str, str]:
    """Return a covariate's code, its value (NaN where missing) and its fault (0 or NaN)."""
    nan, zero = graph.constant([[np.nan]]), graph.constant([[0.0]])
    last = graph.constant([[axis.n_codes]])
    if isinstance(covariate, Number):
        value = graph.input(name, text=False)
        missing = graph.add("IsNaN", value)
        wrong = graph.add("IsInf", value)
        code = graph.add("Where", missing, last, _count_cutoffs(graph, value, axis))
    else:
        code = _look_up(graph, graph.input(name, text=True), covariate, axis.n_codes)
        missing = graph.add("Equal", code, last)
        wrong = graph.add("Equal", code, graph.constant([[_UNKNOWN]]))
        value = graph.add("Where", missing, nan, graph.double(code))
    if axis.complete:
        wrong = graph.add("Or", wrong, missing)
    return code, value, graph.add("Where", wrong, nan, zero)


def _count_cutoffs(graph: _Graph, value: str, axis: Axis) -> str:
    """Return the code of a number: how many cut-offs are ≤ it."""
    from onnx import TensorProto

    # One more than any value, so that no covariate is without a column.
    cutoffs = graph.constant(np.append(axis.cutoffs, np.inf)[None, :])
    reached = graph.add("Cast", graph.add("GreaterOrEqual", value, cutoffs), to=TensorProto.INT64)
    return graph.add("ReduceSum", reached, graph.constant([1]), keepdims=1)


def _look_up(graph: _Graph, text: str, covariate: Category | Ordered | YesNo, n_codes: int) -> str:
    codes = {"": n_codes}
    for spell in (level_key, str):
        codes |= {spell(level): code for code, level in enumerate(covariate.coded)}
    return graph.add(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=_UNKNOWN,
    )


def _rules(graph: _Graph, model: Model, rows: str) -> str:
    """Return what all rules add, (n_rows, 1)."""
    terms = model.rule_terms
    starts = np.cumsum([0, *(axis.n_codes + 1 for axis in model.grid.axes)])
    satisfy: Floats = np.zeros((starts[-1], len(terms)))
    for k, term in enumerate(terms):
        for condition in term.rule:
            n_codes = model.grid.axes[condition.feature].n_codes
            hit = condition.table()[[*range(n_codes), MISSING]]
            start = starts[condition.feature]
            satisfy[start : start + n_codes + 1, k] = hit
    counted = graph.add("MatMul", rows, graph.constant(satisfy))
    # Whole numbers, so half a condition is between all and too few.
    all_but_half = graph.constant(np.array([[len(term.rule) - 0.5 for term in terms]]))
    holds = graph.double(graph.add("Greater", counted, all_but_half))
    return graph.add("MatMul", holds, graph.constant([[term.coefficient] for term in terms]))


def _linear(graph: _Graph, value: str, axis: Axis, coefficient: float) -> str:
    """Return what a linear term adds: β·0.4·(winsorised value − centre) / s*."""
    filled = graph.add("Where", graph.add("IsNaN", value), graph.constant([[axis.fill]]), value)
    kept = graph.add("Max", filled, graph.constant([[axis.limits[0]]]))
    kept = graph.add("Min", kept, graph.constant([[axis.limits[1]]]))
    scaled = graph.add(
        "Mul",
        graph.add("Sub", kept, graph.constant([[axis.centre]])),
        graph.constant([[RULE_SPREAD]]),
    )
    scaled = graph.add("Div", scaled, graph.constant([[axis.spread]]))
    return graph.add("Mul", scaled, graph.constant([[coefficient]]))
