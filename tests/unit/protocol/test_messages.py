"""The closed set of messages, and what each keeps of its declaration."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from fedrulefit.protocol import messages as m


def test_a_class_from_elsewhere_is_no_message() -> None:
    """Had the set followed every subclass, importing a program would have widened it."""
    before = m.MESSAGES, m.REQUESTS, m.SUM_REQUESTS

    class Stray(m.Request):
        turn = m.Turn.FIT

    class StraySum(m.SumRequest):
        turn = m.Turn.FIT

    class StrayReply(m.Reply):
        pass

    again = importlib.reload(m)
    assert before == (again.MESSAGES, again.REQUESTS, again.SUM_REQUESTS)
    strays = {Stray, StraySum, StrayReply}
    assert not strays & {*again.MESSAGES}
    assert m.SumRequest not in again.MESSAGES


def test_questions_come_in_the_order_of_their_turns() -> None:
    turns = [kind.turn for kind in m.REQUESTS if kind.turn is not None]
    assert turns == sorted(turns)
    assert {kind for kind in m.REQUESTS if kind.turn is None} == {m.OpenRequest}


@pytest.mark.parametrize("field", ["formula", "mechanism", "shape"])
def test_every_field_of_a_reply_is_declared(field: str) -> None:
    for cls in m.Reply.__subclasses__():
        for entry in dataclasses.fields(cls):
            if entry.name != "header":
                assert field in entry.metadata, f"{cls.__name__}.{entry.name}"
                assert field == "shape" or entry.metadata[field], f"{cls.__name__}.{entry.name}"
