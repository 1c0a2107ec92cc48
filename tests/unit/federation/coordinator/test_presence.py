"""Two processes with one kit are noticed; a restart is not taken for two."""

from __future__ import annotations

import time

import pytest

from fedrulefit.federation.coordinator import presence
from fedrulefit.federation.coordinator.presence import Presence


def note(seen: Presence, *instances: str, site: str = "north") -> bool:
    for instance in instances:
        seen.note(site, instance, time.monotonic())
    return seen.doubled(site)


@pytest.mark.parametrize("instances", ["", "a", "aaa", "aabb", "abcd", "aaabcccd"])
def test_restarts_are_not_two(instances: str) -> None:
    assert not note(Presence(), *instances)


@pytest.mark.parametrize("instances", ["aba", "aaabbba", "abcb", "abca"])
def test_an_old_process_that_answers_again_is_a_second(instances: str) -> None:
    seen = Presence()
    assert note(seen, *instances)
    assert not seen.doubled("south")


def test_a_late_answer_of_the_old_process_is_no_second() -> None:
    """It was asked before the new one was first heard."""
    seen = Presence()
    asked = time.monotonic()
    note(seen, "a", "b")
    seen.note("north", "a", asked)
    assert not seen.doubled("north")
    assert not note(seen, "b")
    seen.note("north", "a", time.monotonic())
    assert seen.doubled("north")


def test_two_are_spoken_of_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Presence()
    assert note(seen, "a", "b", "a")
    monkeypatch.setattr(presence, "REMEMBERED", 0.0)
    assert not seen.doubled("north")


def test_what_is_remembered_is_bounded() -> None:
    seen = Presence()
    note(seen, *(str(k) for k in range(1000)))
    assert len(seen._sites["north"].replaced) <= 64
