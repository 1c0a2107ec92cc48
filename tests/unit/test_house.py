"""What the documents say of the house, counted.

A newcomer should find each room by its name, and each fact once. Each count has its exceptions
by name, with the reason; an exception that is none any more must leave its list.
"""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import fedrulefit
from fedrulefit.core.arrays import Floats, Ints
from fedrulefit.core.sums import Packing, Sum, quantity
from fedrulefit.model import Model
from fedrulefit.protocol import messages as m
from fedrulefit.protocol import wire
from fedrulefit.protocol.coordinator import Coordinator, Talk
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from tests.samples import make_sites, make_study, make_tables, record

SOURCE = Path(fedrulefit.__file__).parent
FILES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
ALL_FILES = {
    path.relative_to(SOURCE).as_posix(): path
    for path in sorted(SOURCE.rglob("*"))
    if path.suffix in (".py", ".js", ".css", ".html")
}


@cache
def read(name: str) -> str:
    return ALL_FILES[name].read_text(encoding="utf-8")


@cache
def parse(name: str) -> ast.Module:
    return ast.parse(read(name))


# --- sizes ------------------------------------------------------------------------------------

MOST_LINES = 500


def test_a_file_is_read_in_one_sitting() -> None:
    lengths = {name: len(read(name).splitlines()) for name in ALL_FILES}
    assert not {name: n for name, n in lengths.items() if n > MOST_LINES}


MOST_FUNCTION_LINES = 60


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function, its docstring left out."""
    n_lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is not None:
        n_lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return n_lines


def test_a_function_fits_on_a_screen() -> None:
    lengths = {
        (name, node.name): lines_of(node)
        for name in FILES
        for node in ast.walk(parse(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {place: n for place, n in lengths.items() if n > MOST_FUNCTION_LINES}


ROOT_MODULES = {
    "__init__.py": "the public names",
    "__main__.py": "python -m fedrulefit",
    "demo.py": "synthetic hospitals to try everything on",
    "errors.py": "all errors of the package",
    "files.py": "how files are written: whole, private, durable",
    "numerals.py": "how numbers are written for people",
    "registry.py": "parts that are found by name, such as engines",
    "toml.py": "reading TOML into checked classes",
}


def test_modules_at_the_root_are_few() -> None:
    assert {name for name in FILES if "/" not in name} == {*ROOT_MODULES}


# --- a sum touches three files ----------------------------------------------------------------

MOST_FILES = 3
"""Its mathematics, its question, and who asks it."""

WIDER_SUMS: dict[type[m.SumRequest], dict[str, str]] = {
    m.SpreadsRequest: {
        "protocol/coordinator/concluding.py": "no histograms, no spreads: left off the bill",
    },
    m.CurvatureRequest: {
        "core/newton.py": "the solver that takes the sums",
        "core/path.py": "and the one that leads several of it",
        "protocol/retrace.py": "the audit goes on from the points that were asked for",
        "core/adjusting.py": "a refit to other patients takes the same sums",
        "protocol/messages/adjust.py": "and asks for them",
    },
    m.RefitRequest: {
        "core/pruning.py": "what drops terms and moves cut-offs takes the sums",
        "protocol/retrace.py": "the audit goes on from the points that were asked for",
    },
    m.SummaryRequest: {
        "core/certificate.py": "two sums in one answer: of the terms, and of the duality gap",
        "protocol/site/work.py": "a site's own results are the same sums, over itself alone",
        "core/between.py": "means of all patients follow from these totals",
        "protocol/messages/between.py": "and a site's own means from its own",
    },
    m.AdjustRequest: {
        "core/curvature.py": "the sums are those of a round of the fit, of other patients",
        "core/newton.py": "which the fit's solver takes",
        "core/path.py": "and the one that leads several of it",
        "protocol/messages/fit.py": "and the fit's question asks for",
        "protocol/coordinator/fitting.py": "and the fit leads",
    },
    m.EvaluateRequest: {
        "experiments/coverage/repetitions.py": "how often intervals of the measures hold",
        "core/subgroups.py": "two sums in one answer: of the scores, and of who satisfies rules",
        "model/file/upgrading.py": "and in its older files",
    },
}
"""Files beyond these three that name a sum or its question, and why."""


def names_in(name: str) -> set[str]:
    """Return every name that a file uses or imports."""
    found: set[str] = set()
    for node in ast.walk(parse(name)):
        match node:
            case ast.Name(id=used) | ast.Attribute(attr=used) | ast.ClassDef(name=used):
                found.add(used)
            case ast.alias(name=used):
                found.add(used)
    return found


@pytest.mark.parametrize("kind", m.SUM_REQUESTS)
def test_a_sum_touches_at_most_three_files(kind: type[m.SumRequest]) -> None:
    names = {kind.__name__, *(declared.__name__ for declared in kind.sums)}
    # How an outcome is judged is told in its family's own files, however many.
    files = [name for name in FILES if not name.startswith("core/families/")]
    touched = {name for name in files if names & names_in(name)}
    wider = {*WIDER_SUMS.get(kind, {})}
    assert wider <= touched, "no exception any more"
    assert len(touched - wider) <= MOST_FILES, touched - wider


# --- a family has one home --------------------------------------------------------------------

HOMES = ("core/families/", "baselines/", "experiments/")
FAMILY_NAMES = {
    "model/file/upgrading.py": "files of format 1 knew yes/no outcomes only",
}
"""Files outside that import something of one family, and why."""


def names_a_family(name: str) -> bool:
    """Whether a file imports a family, or a module of one. (``study.YesNo`` is a covariate.)"""
    return any(
        (node.module or "").startswith("fedrulefit.core.families.yesno")
        or (
            node.module == "fedrulefit.core.families"
            and any(alias.name == "YesNo" for alias in node.names)
        )
        for node in ast.walk(parse(name))
        if isinstance(node, ast.ImportFrom)
    )


def test_a_family_is_named_at_home_only() -> None:
    assert {name for name in FILES if not name.startswith(HOMES) and names_a_family(name)} == {
        *FAMILY_NAMES
    }


# --- what an import loads ---------------------------------------------------------------------

FRAMES_AND_PICTURES = [
    "pandas", "polars", "pyarrow", "duckdb", "matplotlib", "narwhals", "sklearn", "jinja2",
    "rich", "typer", "onnx", "nvflare",
]  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Return the top-level modules that are loaded after `code`, in a fresh process."""
    program = f"{code}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("room", ["site", "coordinator", "messages", "wire", "retrace"])
def test_the_protocol_loads_no_frames_and_no_pictures(room: str) -> None:
    loaded = loaded_after(f"import fedrulefit.protocol.{room}")
    assert "numpy" in loaded
    assert not loaded & {*FRAMES_AND_PICTURES, "lightgbm", "opendp"}, "trees and noise load later"


@pytest.mark.parametrize("module", ["fedrulefit", "fedrulefit.cli"])
def test_the_package_and_its_commands_wait_for_no_numbers(module: str) -> None:
    loaded = loaded_after(f"import {module}")
    assert not loaded & {*FRAMES_AND_PICTURES, "numpy", "scipy", "pydantic", "lightgbm"}


RUN = """
import builtins
plain_import = builtins.__import__
def watched(name, globals=None, *rest):
    # LightGBM loads narwhals and pandas for itself: only what we import is looked at.
    if (globals or {{}}).get("__name__", "").startswith("fedrulefit"):
        assert name.split(".")[0] not in {absent}, name
    return plain_import(name, globals, *rest)
builtins.__import__ = watched
import numpy as np
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
study = Study.from_mapping({{
    "name": "run", "outcome": {{"column": "y", "positive": 1, "negative": 0}},
    "covariates": {{"x": {{"kind": "number", "range": [0, 1]}}}},
    "settings": {{"noise": False, "n_trees": 3, "holdout": 0.2, "folds": 2, "path_length": 3}},
}})
rng = np.random.default_rng(0)
sites = {{}}
for name in ("a", "b", "c"):
    x = rng.random((200, 1))
    y = (rng.random(200) < 0.2 + 0.6 * (x[:, 0] > 0.5)).astype(float)
    sites[name] = Site(name, Table(x, y, np.ones(200)), study)
coordinator = Coordinator(study, list(sites))
asked = coordinator.step()
while isinstance(asked, dict):
    asked = coordinator.step(
        {{name: from_bytes(sites[name].answer(to_bytes(r))) for name, r in asked.items()}}
    )
print(type(asked).__name__, asked.evaluation is not None)
"""


def test_a_whole_run_asks_for_no_frames_and_no_pictures() -> None:
    """So the exceptions of the import contracts (pyproject.toml) are for people, after the run."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", RUN.format(absent=FRAMES_AND_PICTURES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Model", "True"]


# --- a new sum, without a line elsewhere ------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class TailSums(Sum):
    """How many patients lie above a limit, in each covariate."""

    above: Floats = quantity("Σ w where x exceeds the limit", shape="n_features")
    heaviest: float = quantity("Σ w² of all", bits=20, most="w²")

    @classmethod
    def packing(cls, n_features: int) -> Packing[TailSums]:
        """Return how the numbers lie."""
        return Packing(cls, {"n_features": n_features})


@dataclasses.dataclass(frozen=True, eq=False)
class TailRequest(m.SumRequest):
    """Ask how many patients lie above these limits."""

    turn = m.Turn.OFFER
    release = "summary"
    sums = (TailSums,)

    limits: Floats

    def packings(self, public: Public) -> tuple[Packing[TailSums]]:
        """Return how the numbers lie."""
        return (TailSums.packing(public.study.n_features),)

    def add_up(self, patients: Patients) -> tuple[Ints]:
        """Return the site's own counts."""
        learnt = patients.learnt
        above = learnt.weights @ (learnt.values > self.limits)
        sums = TailSums(above, float(learnt.weights @ learnt.weights))
        (packing,) = self.packings(patients.public)
        return (packing.round(sums),)


LIMITS = np.array([60.0, 2.0, 8.0, 1.5, 0.5])


class Curious(Coordinator):
    """Asks for it when everything else is known."""

    tails: TailSums

    def _conversation(self) -> Talk[Model]:
        model = yield from super()._conversation()
        question = partial(TailRequest, limits=LIMITS)
        (self.tails,) = yield from self._asker.sum(question, Public(self.study))
        return model


@pytest.mark.parametrize("secure", [False, True])
def test_a_new_sum_is_its_declaration_its_question_and_who_asks_it(
    secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed, masked, sent, recorded and read without a line elsewhere.

    But for the closed set of messages, which is made of the classes of the package alone: it is
    opened here.
    """
    monkeypatch.setitem(wire._MESSAGES, TailRequest.__name__, TailRequest)
    study = make_study(rounds=1)
    tables = make_tables(study)
    sites = make_sites(study, tables, secure=secure)
    coordinator = Curious(study, list(sites), secure=secure)
    _, seen = record(coordinator, sites)
    values = np.concatenate([table.values for table in tables.values()])
    assert coordinator.tails.above.tolist() == (values > LIMITS).sum(axis=0).tolist()
    assert coordinator.tails.heaviest == len(values)
    own = (tables["north"].values > LIMITS).sum(axis=0)
    for site, request, reply in seen:
        if site == "north" and isinstance(request, TailRequest):
            assert isinstance(reply, m.SumReply)
            assert reply.masked == secure
            assert np.array_equal(reply.numbers[:5], own << 32) == (not secure)
    told = [
        (row.quantity, row.shape, row.sum_of, row.protection)
        for row in sites["north"].ledger.releases
        if row.message == "TailSums"
    ]
    words = "exact, inside a secure sum of 3 sites" if secure else "exact: ε = ∞"
    sum_of = 3 if secure else None
    assert told == [("above", (5,), sum_of, words), ("heaviest", (), sum_of, words)]
