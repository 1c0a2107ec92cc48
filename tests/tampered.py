"""Runs whose replies are changed on their way to the coordinator."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from fedrulefit.study import Study
from fedrulefit.table.patients import Table
from tests.samples import make_study, make_tables

Replies = dict[str, Any]
Requests = Mapping[str, m.Request]
TamperSums = Callable[[Replies, Requests, Public], Replies]
STUDY = make_study(rounds=2)


def make_sites(study: Study) -> dict[str, Site]:
    return {name: Site(name, table, study) for name, table in make_tables(study).items()}


def run(
    study: Study = STUDY,
    sites: Mapping[str, Site] | None = None,
    tamper: Callable[[Replies], Replies] = lambda replies: replies,
    tamper_sums: TamperSums = lambda replies, requests, public: replies,
) -> Model:
    """Run a conversation; `tamper` and `tamper_sums` change the replies on their way."""
    sites = sites or make_sites(study)
    coordinator = Coordinator(study, list(sites))
    requests = coordinator.step()
    while not isinstance(requests, Model):
        replies = {name: sites[name].handle(request) for name, request in requests.items()}
        public = next(iter(sites.values())).patients.public
        requests = coordinator.step(tamper_sums(tamper(replies), requests, public))
    return requests


def change(site: str, kind: type, **fields: Any) -> Callable[[Replies], Replies]:
    """Return a `tamper` that sets fields in one site's reply of one kind."""

    def tamper(replies: Replies) -> Replies:
        if isinstance(replies.get(site), kind):
            return {**replies, site: dataclasses.replace(replies[site], **fields)}
        return replies

    return tamper


def lengthen(kind: type[m.SumRequest]) -> TamperSums:
    """One site answers this question with a number too many."""

    def tamper(replies: Replies, requests: Requests, public: Public) -> Replies:
        west = replies["west"]
        if not isinstance(requests["west"], kind) or not isinstance(west, m.SumReply):
            return replies
        numbers = np.append(west.numbers, 0)
        return {**replies, "west": dataclasses.replace(west, numbers=numbers)}

    return tamper


def change_sum(kind: type[m.SumRequest], name: str, numbers: Mapping[str, float]) -> TamperSums:
    """Return a `tamper_sums` that sets one quantity in some sites' answers to a question."""

    def tamper(replies: Replies, requests: Requests, public: Public) -> Replies:
        question = next(iter(requests.values()))
        if not isinstance(question, kind):
            return replies
        packing = question.packings(public)[0]
        changed = dict(replies)
        for site, number in numbers.items():
            parts = packing.split(replies[site].numbers[: packing.size])
            parts[name] = np.array([int(number * 2**32)])
            rest = replies[site].numbers[packing.size :]
            numbers_ = np.concatenate([packing.pack(**parts), rest])
            changed[site] = dataclasses.replace(replies[site], numbers=numbers_)
        return changed

    return tamper


def far_off(study: Study) -> dict[str, Site]:
    """Sites whose outcomes lean so far that the intercept alone must overshoot."""
    sites = {}
    for name, table in make_tables(study).items():
        outcome = (np.arange(table.n_rows) % 10 == 0).astype(float)
        sites[name] = Site(name, Table(table.values, outcome, table.weights), study)
    return sites


def facts(model: Model) -> str:
    return json.dumps(model_facts(model))
