"""A model → an ONNX graph, for programs that score without Python.

In: a model. Out: an ``onnx.ModelProto``. Needs the extra ``onnx``; running the
graph needs a runtime such as onnxruntime.

Every covariate is one input of shape (n_rows, 1), under the study's name. A
number is a double, NaN where missing. All others are strings, spelt as in the
study (or as ``1``, ``true`` for numbers and truth values), empty where
missing: ONNX has no operators for the other spellings that a table may have.
Outputs are the linear predictor and the prediction (of a yes/no outcome ``log_odds``
and ``probability``), of a time with several horizons the risk by each (such as ``risk_90``),
doubles of shape (n_rows, 1), NaN for a patient who gets none; and
``flags``, int64 of shape (n_rows, n_features): which kind of
:class:`~fedrulefit.table.reading.Cell` a value is that the study does not foresee, else 0.
Their words are in the model's metadata, as JSON: covariate → number → text. There, too, stands
whose own baseline the graph has, where the model expects one.

Each covariate becomes a one-hot row of its codes, "missing" being the last. Put
side by side they make Z, and a rule with conditions C holds where Z·A = |C|:
A has a 1 for each code that satisfies a condition of the rule.

Oracle: :meth:`fedrulefit.Model.predict_frame` (``tests/unit/model/export/test_onnx.py``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from fedrulefit.core.arrays import MISSING, Floats
from fedrulefit.core.families import Family
from fedrulefit.core.families.recipes import Language
from fedrulefit.core.grid import RULE_SPREAD, Axis
from fedrulefit.errors import FedRuleFitError, get_extra
from fedrulefit.model import Model, RuleTerm
from fedrulefit.model.prediction import FLAGS_COLUMN, list_results
from fedrulefit.model.publish import check_rounding
from fedrulefit.model.unforeseen import Flag, list_flags
from fedrulefit.study import Category, Number, Ordered, YesNo, level_key
from fedrulefit.table.cells import MISSING_WORDS, parse_numbers
from fedrulefit.table.reading import Cell

if TYPE_CHECKING:
    from onnx import ModelProto

_PREFIX: Final = "fedrulefit/"
_OPSET: Final = 17
_ML_OPSET: Final = 2
_IR_VERSION: Final = 8
"""Old enough for runtimes of the last years."""
_UNKNOWN: Final = -1
FLAGS_KEY: Final = f"{_PREFIX}flags"
"""Of the metadata: what the numbers among the flags say."""
BASELINE_KEY: Final = f"{_PREFIX}baseline"
"""Likewise: whose own baseline is in the graph, or that there is none where one is expected."""


def build_onnx(model: Model) -> ModelProto:
    """Return the graph; see :meth:`fedrulefit.Model.to_onnx`."""
    check_rounding(model)
    try:
        from onnx import checker, helper
    except ImportError:
        raise FedRuleFitError(f"ONNX is not installed; {get_extra('onnx')}") from None
    flags, (predictions, predictors) = list_flags(model), list_results(model)
    results = (*predictors, *predictions, FLAGS_COLUMN)
    taken = set(results) & set(model.study.names)
    taken |= {name for name in model.study.names if name.startswith(_PREFIX)}
    if taken:
        raise FedRuleFitError(f"covariate {taken.pop()!r} has the name of a result of the graph")
    graph = _Graph()
    _fill(graph, model, flags, predictors, predictions)
    made = helper.make_model(
        graph.finish(results, model.study.n_features),
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
        ir_version=_IR_VERSION,
        producer_name="fedrulefit",
    )
    told = {
        name: {f"{cell:d}": flag.text for cell, flag in found.items()}
        for name, found in zip(model.study.names, flags, strict=True)
        if found
    }
    facts = {FLAGS_KEY: json.dumps(told, ensure_ascii=False)}
    if model.of_hospital:
        facts[BASELINE_KEY] = made.doc_string = model.of_hospital_file
    helper.set_model_props(made, facts)
    checker.check_model(made)
    return made


def _fill(
    graph: _Graph,
    model: Model,
    flags: Sequence[Mapping[Cell, Flag]],
    predictors: Sequence[str],
    predictions: Sequence[str],
) -> None:
    family, inputs = model.study.family, [_read(graph, model, j, f) for j, f in enumerate(flags)]
    blocks = []
    for given, axis in zip(inputs, model.grid.axes, strict=True):
        places = graph.constant(np.arange(axis.n_codes + 1, dtype=np.int64)[None, :])
        blocks.append(graph.double(graph.add("Equal", given.code, places)))
    rows = graph.beside(blocks)
    found = [_predictor(graph, model, inputs, rows, part) for part in range(len(predictors))]
    for predictor, name in zip(found, predictors, strict=True):
        graph.add("Identity", predictor, output=name)
    language = _InGraph(graph, family)
    first = [] if family.own_terms else [language.link(found[0])]
    for horizon in model.further:
        first.append(language.link(language.add(found[0], language.number(horizon.shift))))
    written = [*first, *family.write_levels(language, found, model.baseline)]
    for prediction, name in zip(written, predictions, strict=True):
        graph.add("Identity", prediction, output=name)
    graph.add("Identity", graph.beside([given.unusual for given in inputs]), output=FLAGS_COLUMN)


def _predictor(graph: _Graph, model: Model, inputs: Sequence[_Input], rows: str, part: int) -> str:
    """Return F, or that of one level where each has terms of its own."""
    family, start = model.study.family, model.intercept
    level = family.names[part] if family.own_terms else None
    if level is not None:
        start = float(family.starts(model.intercept, model.baseline)[part])
    terms = [graph.constant([[start]]), *(given.fault for given in inputs)]
    rules = [term for term in model.rule_terms if term.level == level]
    linear = [term for term in model.linear_terms if term.level == level]
    if rules:
        terms.append(_rules(graph, model, rules, rows))
    terms += [
        _linear(graph, inputs[t.feature].value, model.grid.axes[t.feature], t.coefficient)
        for t in linear
    ]
    if not rules and not linear:  # the shape alone
        terms.append(graph.add("Mul", graph.double(inputs[0].code), graph.constant([[0.0]])))
    predictor = terms[0]
    for term in terms[1:]:
        predictor = graph.add("Add", predictor, term)
    return predictor


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

    def apply(self, step: tuple[str] | tuple[str, float], name: str, output: str = "") -> str:
        """Add one step of a link, with its number if it has one."""
        kind, *numbers = step
        return self.add(kind, name, *(self.constant([[x]]) for x in numbers), output=output)

    def double(self, name: str) -> str:
        from onnx import TensorProto

        return self.add("Cast", name, to=TensorProto.DOUBLE)

    def choose(self, cases: Sequence[tuple[str, Any]], other: str) -> str:
        """Return a constant where a test holds, the first of them that does, else the other."""
        chosen = other
        for test, value in reversed(cases):
            chosen = self.add("Where", test, self.constant([[value]]), chosen)
        return chosen

    def beside(self, columns: Sequence[str]) -> str:
        return columns[0] if len(columns) == 1 else self.add("Concat", *columns, axis=1)

    def finish(self, results: Sequence[str], n_features: int) -> Any:
        from onnx import TensorProto, helper

        shapes = [(TensorProto.DOUBLE, 1)] * (len(results) - 1)
        shapes.append((TensorProto.INT64, n_features))
        outputs = [
            helper.make_tensor_value_info(name, kind, [None, width])
            for name, (kind, width) in zip(results, shapes, strict=True)
        ]
        return helper.make_graph(
            self.nodes, "fedrulefit", self.inputs, outputs, initializer=self.constants
        )


class _InGraph(Language):
    """Writes numbers as nodes of a graph, each of shape (n_rows, 1)."""

    def __init__(self, graph: _Graph, family: Family) -> None:
        self.graph, self.family = graph, family

    def number(self, value: float) -> str:
        return self.graph.constant([[value]])

    def add(self, first: str, second: str) -> str:
        return self.graph.add("Add", first, second)

    def multiply(self, first: str, second: str) -> str:
        return self.graph.add("Mul", first, second)

    def negate(self, value: str) -> str:
        return self.graph.add("Neg", value)

    def invert(self, value: str) -> str:
        return self.graph.add("Reciprocal", value)

    def exp(self, value: str) -> str:
        return self.graph.add("Exp", value)

    def link(self, value: str) -> str:
        for step in self.family.link.onnx:
            value = self.graph.apply(step, value)
        return value


class _Input(NamedTuple):
    """One covariate in the graph, each of shape (n_rows, 1)."""

    code: str
    value: str
    """NaN where missing."""
    unusual: str
    fault: str
    """0, or NaN where the value leaves no prediction."""


def _read(graph: _Graph, model: Model, feature: int, flags: Mapping[Cell, Flag]) -> _Input:
    name, axis = model.study.names[feature], model.grid.axes[feature]
    covariate = model.study.covariates[name]
    if isinstance(covariate, Number):
        code, value, kinds = _read_number(graph, name, covariate, axis, flags)
    else:
        code, value, kinds = _read_level(graph, name, covariate, axis)
    none = graph.constant(np.zeros((1, 1), dtype=np.int64))
    unusual = graph.choose(
        [(test, np.int64(cell if cell in flags else 0)) for test, cell in kinds], none
    )
    fault = graph.constant([[0.0]])
    for cell, flag in flags.items():
        if flag.fate == "refuse":
            here = graph.add("Equal", unusual, graph.constant([[np.int64(cell)]]))
            fault = graph.choose([(here, np.nan)], fault)
    return _Input(code, value, unusual, fault)


_Kinds = list[tuple[str, Cell]]


def _read_number(
    graph: _Graph, name: str, covariate: Number, axis: Axis, flags: Mapping[Cell, Flag]
) -> tuple[str, str, _Kinds]:
    given, (low, high) = graph.input(name, text=False), covariate.range
    absent = graph.add("IsNaN", given)
    coded = np.array([level_key(code) for code in covariate.missing], dtype=object)
    for number in parse_numbers(coded).values.tolist():
        equal = graph.add("Equal", given, graph.constant([[number]]))  # no number equals NaN
        absent = graph.add("Or", absent, equal)
    below = graph.add("Less", given, graph.constant([[low]]))
    above = graph.add("Greater", given, graph.constant([[high]]))
    kinds = [(absent, Cell.MISSING), (below, Cell.BELOW), (above, Cell.ABOVE)]
    cases = [(test, flags[cell].value if cell in flags else np.nan) for test, cell in kinds]
    value = graph.choose(cases, given)
    code = _count_cutoffs(graph, value, axis)
    code = graph.choose([(graph.add("IsNaN", value), np.int64(axis.n_codes))], code)
    return code, value, kinds


def _read_level(
    graph: _Graph, name: str, covariate: Category | Ordered | YesNo, axis: Axis
) -> tuple[str, str, _Kinds]:
    found = _look_up(graph, graph.input(name, text=True), covariate, axis.n_codes)
    unseen = graph.add("Equal", found, graph.constant([[np.int64(_UNKNOWN)]]))
    absent = graph.add("Equal", found, graph.constant([[np.int64(axis.n_codes)]]))
    code = graph.choose([(unseen, np.int64(axis.n_codes))], found)
    value = graph.choose([(unseen, np.nan), (absent, np.nan)], graph.double(code))
    return code, value, [(unseen, Cell.UNSEEN), (absent, Cell.MISSING)]


def _count_cutoffs(graph: _Graph, value: str, axis: Axis) -> str:
    """Return the code of a number: how many cut-offs are ≤ it."""
    from onnx import TensorProto

    # One more than any value, so that no covariate is without a column.
    cutoffs = graph.constant(np.append(axis.cutoffs, np.inf)[None, :])
    reached = graph.add("Cast", graph.add("GreaterOrEqual", value, cutoffs), to=TensorProto.INT64)
    return graph.add("ReduceSum", reached, graph.constant([1]), keepdims=1)


def _look_up(graph: _Graph, text: str, covariate: Category | Ordered | YesNo, n_codes: int) -> str:
    """Return a text's code, `n_codes` for missing.

    Of words for missing, the usual spellings: a graph has no way to fold case.
    """
    codes = {
        spell(word): n_codes for word in MISSING_WORDS for spell in (str, str.upper, str.title)
    }
    codes |= {"NaN": n_codes}
    folded = {level_key(level).casefold() for level in covariate.coded}
    codes = {word: code for word, code in codes.items() if word.casefold() not in folded}
    for spell in (level_key, str):
        codes |= {spell(code): n_codes for code in covariate.missing}
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


def _rules(graph: _Graph, model: Model, terms: Sequence[RuleTerm], rows: str) -> str:
    """Return what rules add, (n_rows, 1)."""
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
