"""Small synthetic hospitals with every kind of covariate, for many tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import msgpack
import numpy as np
import pandas as pd

from fedrulefit.engines import inprocess
from fedrulefit.model import Model
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.wire import from_bytes, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table

SMALL: dict[str, Any] = {
    "n_trees": 20,
    "solver": "fedda",
    "rounds": 10,
    "local_steps": 5,
    "client_step": 0.2,
    "learning_rate": 0.1,
    "penalty": 0.002,
    "single_cutoffs": False,
    "linear_factor": 1.0,
    "interaction_factor": 1.0,
}
"""Settings of a small run of the paper's FedDA."""

EXACT: dict[str, Any] = {
    "solver": "exact",
    "single_cutoffs": True,
    "linear_factor": 0.2,
    "interaction_factor": 1.75,
}
SOLVERS: dict[str, dict[str, Any]] = {
    "fedda": {},
    "exact": {**EXACT, "penalty": 0.01},
    "cv": {**EXACT, "penalty": "cv", "folds": 3, "path_length": 10, "path_ratio": 0.05},
}
"""What turns :data:`SMALL` into a run of each way to fit."""


def study_facts(**settings: Any) -> dict[str, Any]:
    """Return the facts of a study with every kind of covariate."""
    return {
        "name": "sepsis",
        "outcome": {"column": "died", "positive": "yes", "negative": "no"},
        "covariates": {
            "age": {"kind": "number", "range": [18, 100], "unit": "years"},
            "lactate": {"kind": "number", "range": [0.1, 25], "spacing": "log", "unit": "mmol/l"},
            "gcs": {"kind": "number", "range": [3, 15], "step": 1, "complete": True},
            "ward": {"kind": "category", "levels": ["icu", "er", "general", "other"]},
            "sex": {
                "kind": "yes/no",
                "yes": "f",
                "no": "m",
                "labels": ["male", "female"],
                "complete": True,
            },
        },
        "settings": {**SMALL, "noise": settings.get("epsilon") is not None, **settings},
    }


def make_study(**settings: Any) -> Study:
    """Return the study, by default small and without noise."""
    return Study.from_mapping(study_facts(**settings))


def make_frame(n_rows: int = 150, seed: int = 0) -> pd.DataFrame:
    """Return patients as a hospital would export them, some values missing."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 100, n_rows).round(1)
    lactate = np.exp(rng.normal(0.7, 0.7, n_rows)).round(2)
    gcs = rng.integers(3, 16, n_rows)
    ward = rng.choice(["icu", "er", "general", "other"], n_rows, p=[0.3, 0.3, 0.3, 0.1])
    sex = rng.choice(["m", "f"], n_rows)
    odds = 0.04 * (age - 60) + 1.5 * (lactate > 2.5) - 0.2 * (gcs - 9) + 1.0 * (ward == "icu")
    died = rng.random(n_rows) < 1 / (1 + np.exp(0.5 - odds))
    frame = pd.DataFrame(
        {
            "age": age,
            "lactate": lactate,
            "gcs": gcs,
            "ward": ward.astype(object),
            "sex": sex,
            "died": np.where(died, "yes", "no"),
        }
    )
    frame.loc[rng.random(n_rows) < 0.1, "lactate"] = np.nan
    frame.loc[rng.random(n_rows) < 0.05, "ward"] = None
    return frame


def make_tables(
    study: Study, sizes: Sequence[int] = (70, 50, 30), seed: int = 0
) -> dict[str, Table]:
    """Return one table per site."""
    names = ("north", "south", "west", "east", "centre", "coast")
    return {
        name: load_table(make_frame(size, seed + k), study)
        for k, (name, size) in enumerate(zip(names, sizes, strict=False))
    }


def take(table: Table, rows: Any) -> Table:
    """Return some patients of a table."""
    assert table.outcome is not None
    return Table(table.values[rows], table.outcome[rows], table.weights[rows])


def fit_model(study: Study, tables: Mapping[str, Table] | None = None, **options: Any) -> Model:
    """Fit with the embedded engine; noise, where the study has any, is seeded."""
    made = inprocess.fit(
        study,
        tables if tables is not None else make_tables(study),
        make_noise=lambda site: UnsafeSeededLaplace(7, site),
        **options,
    )
    return made.model


def record(
    coordinator: Coordinator, sites: Mapping[str, Site]
) -> tuple[Model, list[tuple[str, m.Request, m.Reply]]]:
    """Run a conversation and keep every message: (site, request, reply)."""
    seen = []
    requests = coordinator.step()
    while not isinstance(requests, Model):
        replies = {name: sites[name].handle(request) for name, request in requests.items()}
        seen += [(name, requests[name], reply) for name, reply in replies.items()]
        requests = coordinator.step(replies)
    return requests, seen


def make_sites(
    study: Study,
    tables: Mapping[str, Table] | None = None,
    *,
    secure: bool = True,
    each: Callable[[str], dict[str, Any]] = lambda name: {},
    **options: Any,
) -> dict[str, Site]:
    """Return sites of one consortium; `each` gives options by a site's name."""
    made = tables if tables is not None else make_tables(study)
    identities, trust = make_consortium(list(made)) if secure else ({}, None)
    return {
        name: Site(
            name,
            table,
            study,
            **{"identity": identities.get(name), "trust": trust, **options, **each(name)},
        )
        for name, table in made.items()
    }


def disguise(data: bytes) -> bytes:
    """Return other bytes of the same message: its fields turned round, a wide integer."""
    facts = msgpack.unpackb(data)
    header = facts.pop("header")
    turned = {**dict(reversed(facts.items())), "header": dict(reversed(header.items()))}
    step, wide = (msgpack.packb("step") + number for number in _integers(header["step"]))
    changed = msgpack.packb(turned).replace(step, wide)
    assert changed != data
    assert to_bytes(from_bytes(changed)) == data
    return changed


def _integers(number: int) -> tuple[bytes, bytes]:
    return msgpack.packb(number), b"\xcf" + number.to_bytes(8, "big")


class Talk:
    """Asks one site, as a coordinator of any intent could."""

    def __init__(
        self, site: Site, *, run: str = "run", step: int = 0, disguised: bool = False
    ) -> None:
        self.site, self.run, self.step, self.disguised = site, run, step, disguised

    def header(self, **changes: Any) -> m.Header:
        facts = {
            "version": m.PROTOCOL_VERSION,
            "run": self.run,
            "step": self.step,
            "site": self.site.name,
            "study": self.site.study.digest,
        }
        return m.Header(**{**facts, **changes})

    def ask(self, kind: Any, **fields: Any) -> Any:
        """Ask the next question; a refused one does not use its step up."""
        data = to_bytes(kind(self.header(), **fields))
        reply = from_bytes(self.site.answer(disguise(data) if self.disguised else data))
        self.step += not isinstance(reply, m.Refusal)
        return reply

    def join(
        self,
        sites: Sequence[str],
        *,
        secure: bool = True,
        dropouts: Literal["wait", "continue"] = "wait",
    ) -> Any:
        return self.ask(m.JoinRequest, sites=tuple(sites), secure=secure, dropouts=dropouts)


def take_apart(request: m.SumRequest, numbers: Any, public: Public) -> list[SimpleNamespace]:
    """Return the whole units of an answer, a namespace per declared sum."""
    parts, start = [], 0
    for packing in request.packings(public):
        told, units = packing.of.quantities(), packing.split(numbers[start : start + packing.size])
        start += packing.size
        parts.append(
            SimpleNamespace(**{n: v if told[n].shape else int(v[0]) for n, v in units.items()})
        )
    assert start == len(numbers)
    return parts


def sums_of(site: Site, request: m.SumRequest) -> list[SimpleNamespace]:
    """Ask a site without masks for a sum; return its whole units."""
    reply = site.handle(request)
    assert isinstance(reply, m.SumReply), reply
    assert not reply.masked
    return take_apart(request, reply.numbers, site.patients.public)
