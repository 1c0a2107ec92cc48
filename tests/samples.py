"""Small synthetic hospitals with every kind of covariate, for many tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import msgpack

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
from fedrulefit.table.patients import Table
from fedrulefit.testing.samples import (  # noqa: F401 - the tests' samples, too
    EXACT,
    SMALL,
    SOLVERS,
    make_frame,
    make_study,
    make_tables,
    study_facts,
)


def take(table: Table, rows: Any) -> Table:
    """Return some patients of a table."""
    assert table.outcome is not None
    patients = None if table.patients is None else table.patients[rows]
    events = None if table.events is None else table.events[rows]
    return Table(table.values[rows], table.outcome[rows], table.weights[rows], patients, events)


def repeat(study: Study, max_rows: int) -> Study:
    """Return the study for tables in which a patient has up to `max_rows` rows."""
    facts = {"patient": {"column": "patient", "max_rows": max_rows}}
    return Study.model_validate({**study.model_dump(), **facts})


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
