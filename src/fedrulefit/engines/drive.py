"""Carry a run from the first request to the model, whatever carries the bytes.

An engine gives :func:`drive` one function, which sends bytes to sites and returns
their answers. All else is the same everywhere: what is journaled, what is asked
again, what is told of the progress.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgpack

from fedrulefit.errors import FederationError, ProtocolError
from fedrulefit.model import Model
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator, Progress
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import read_reply, read_request, read_value, to_bytes

Exchange = Callable[[Mapping[str, bytes]], Mapping[str, bytes]]
"""Sends each site its bytes; returns the answers of those that answered in time."""

PENDING: Final = "pending"
"""Code of a refusal that only means "not yet"."""

ATTEMPTS: Final = 3
"""How often a site that answers something else is asked again."""


_Answers = dict[str, tuple[m.Reply, bytes]]
"""By site, what it answered, and in which bytes."""


@dataclass(frozen=True)
class Status:
    """Where a run is, for people who watch it.

    Parameters
    ----------
    progress : Progress
    sites : tuple of str
        Sites that take part.
    pending : tuple of str
        Sites at which a person has not decided yet.
    sent, received : int
        Bytes so far, over all sites.
    waited : float
        Seconds since the present step was first asked.
    given_up : tuple of str
        Sites that were given up, each with the reason.
    """

    progress: Progress
    sites: tuple[str, ...]
    pending: tuple[str, ...] = ()
    sent: int = 0
    received: int = 0
    waited: float = 0.0
    given_up: tuple[str, ...] = ()


@dataclass
class _Traffic:
    sent: int = 0
    received: int = 0
    pending: set[str] = field(default_factory=set)
    asked: float = 0.0
    given_up: dict[str, str] = field(default_factory=dict)

    @property
    def waited(self) -> float:
        """Seconds since the present step was first asked."""
        return time.monotonic() - self.asked

    def status(self, coordinator: Coordinator) -> Status:
        """Return where the run is."""
        return Status(
            coordinator.progress,
            coordinator.sites,
            tuple(sorted(self.pending)),
            self.sent,
            self.received,
            self.waited,
            tuple(f"{site} {reason}" for site, reason in sorted(self.given_up.items())),
        )


def drive(
    coordinator: Coordinator,
    exchange: Exchange,
    *,
    journal: Memory | None = None,
    on_status: Callable[[Status], None] | None = None,
    pause: float = 2.0,
    give_up: float | None = None,
) -> Model:
    """Run a study to its end.

    Parameters
    ----------
    coordinator : Coordinator
        Fresh: what the journal knows is told to it again.
    exchange : Exchange
    journal : Memory, optional
        Keeps what each step asks, and each completed step; with the journal of an
        interrupted run, it is resumed.
    on_status : callable, optional
        Told where the run is, before every step and while it waits for a person.
    pause : float
        Seconds between two askings of a site at which a person decides.
    give_up : float, optional
        Seconds after which a site that has not answered a step is lost, even if it
        says that it works or that a person decides; by default it is waited for.

    Raises
    ------
    FederationError
        If the journal is of another run.
    """
    if journal is not None:
        _check_journal(coordinator, journal)
    traffic = _Traffic()

    def tell() -> None:
        if on_status is not None:
            on_status(traffic.status(coordinator))

    step, outcome = 0, coordinator.step()
    while not isinstance(outcome, Model):
        traffic.asked = time.monotonic()
        tell()
        kept = None if journal is None else journal.get(f"step/{step}")
        if kept is None:
            _note_question(outcome, step, journal)
            answers = _collect(outcome, exchange, traffic, tell, pause, give_up)
        else:
            answers = {site: (read_reply(data), data) for site, data in unpack_step(kept).items()}
        try:
            outcome = coordinator.step({site: reply for site, (reply, _) in answers.items()})
        except ProtocolError as error:
            raise _name_given_up(error, traffic.given_up) from None
        if kept is None:
            # Only a step that went well is complete: one that was refused, or that lost a
            # site which the run cannot do without, is asked again on resuming.
            _note_step(answers, step, journal)
        step += 1
    tell()
    return outcome


def _note_question(requests: Mapping[str, m.Request], step: int, journal: Memory | None) -> None:
    """Keep what is asked, before it leaves: of one site, since only the site's name differs."""
    question = to_bytes(next(iter(requests.values())))
    if journal is not None and journal.get(f"asked/{step}") != question:
        journal.put({f"asked/{step}": question})


def _note_step(answers: _Answers, step: int, journal: Memory | None) -> None:
    """Keep the replies of a completed step, as they came."""
    if journal is not None:
        received = {site: data for site, (_, data) in answers.items()}
        journal.put({f"step/{step}": msgpack.packb(received)})


def read_question(journal: Memory, step: int) -> m.Request | None:
    """Return what was asked in a step, for any one site; None if the step never came.

    Raises
    ------
    ProtocolError
        If the journal holds something else there.
    """
    kept = journal.get(f"asked/{step}")
    return None if kept is None else read_request(kept)


def _check_journal(coordinator: Coordinator, journal: Memory) -> None:
    """Refuse to resume another run, and mark a new one."""
    facts = (coordinator.run, coordinator.study.digest, coordinator.sites)
    mark = msgpack.packb([*facts, coordinator.secure, coordinator.dropouts])
    kept = journal.get("run")
    if kept is None:
        journal.put({"run": mark})
    elif kept != mark:
        raise FederationError(
            f"the journal of run {coordinator.run!r} began with another study, other sites or "
            "other options: resume with the same, or begin a new run"
        )


def _collect(
    requests: Mapping[str, m.Request],
    exchange: Exchange,
    traffic: _Traffic,
    tell: Callable[[], None],
    pause: float,
    give_up: float | None,
) -> _Answers:
    """Ask until every site that can be reached has answered this very question."""
    waiting = {site: to_bytes(request) for site, request in requests.items()}
    attempts: Counter[str] = Counter()
    answers: _Answers = {}
    while waiting:
        traffic.sent += sum(map(len, waiting.values()))
        received = exchange(waiting)
        heard = [site for site in waiting if site in received]
        lost = [site for site in waiting if site not in received]
        traffic.received += sum(len(received[site]) for site in heard)
        traffic.pending.clear()
        for site in heard:
            reply, fault = _read_answer(received[site], requests[site].header)
            if reply is not None and _is_pending(reply, requests[site].header):
                traffic.pending.add(site)
                continue
            attempts[site] += 1
            if reply is not None:
                answers[site] = reply, received[site]
                del waiting[site]
            elif attempts[site] == ATTEMPTS:
                traffic.given_up[site] = f"was given up: {fault}, {ATTEMPTS} times"
                del waiting[site]
        overdue = give_up is not None and traffic.waited >= give_up
        if traffic.pending and not overdue:
            # While a person decides, a site may go and come back.
            tell()
            time.sleep(pause)
            continue
        # The engine has waited long enough, or the run does not wait for ever.
        for site in (*lost, *traffic.pending):
            del waiting[site]
            if overdue:
                hours = traffic.waited / 3600
                traffic.given_up[site] = f"was given up: no answer to one step in {hours:.3g} h"
    return answers


def _name_given_up(error: ProtocolError, given_up: Mapping[str, str]) -> ProtocolError:
    """Say of a run that ends for want of a site why it was given up."""
    if error.code != "lost" or not given_up:
        return error
    reasons = "; ".join(f"{site} {reason}" for site, reason in sorted(given_up.items()))
    return ProtocolError(f"{reasons}; {error}", "given-up")


def _read_answer(data: bytes, header: m.Header) -> tuple[m.Reply | None, str]:
    """Return the reply, or what is wrong with it: late, foreign and unreadable ones are none."""
    try:
        reply = read_reply(data)
    except ProtocolError as error:
        return None, str(error)
    unread = isinstance(reply, m.Refusal) and not reply.header.run  # the site could not read us
    if unread or reply.header == header:
        return reply, ""
    return None, "it answered another question"


def _is_pending(reply: m.Reply, header: m.Header) -> bool:
    return isinstance(reply, m.Refusal) and reply.code == PENDING and reply.header == header


def unpack_step(kept: bytes) -> dict[str, bytes]:
    """Return the replies of a completed step, by site, as the journal keeps them.

    Raises
    ------
    ProtocolError
        If the journal holds something else there: a record's could be anybody's.
    """
    unpacker = msgpack.Unpacker(max_ext_len=0, max_buffer_size=max(len(kept), 1))
    unpacker.feed(kept)
    replies: dict[str, bytes] = {}
    try:
        for _ in range(unpacker.read_map_header()):
            site, reply = read_value(unpacker, kept), read_value(unpacker, kept)
            if not isinstance(site, str) or not isinstance(reply, bytes):
                raise ValueError
            replies[site] = reply
    except Exception:
        raise ProtocolError("a journal's step is not readable", "unreadable") from None
    return replies
