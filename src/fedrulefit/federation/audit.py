"""Was a run led as the protocol says? Any hospital can see for itself.

The coordinator is deterministic: from the study and the sites' replies follows every
question that it may ask. A *record* of a run holds the questions, and these replies as the
sites signed them. A hospital compares each question with the one that it answered, of which
it kept a hash: exactly. And it leads the run once more, and compares each question with the
one that follows from the replies: nearly, since machines differ in the last digits
(:mod:`fedrulefit.protocol.retrace`). A coordinator that asked something else, or more, cannot
make a record that fits: replies that did not happen would need the other sites' signatures.

A run that failed, was stopped or is under way has a record, too: the audit goes as far.

A record tells what the coordinator knew: each site's rules and noisy histograms, and all
pooled sums. Who may see it is for the consortium to say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgpack

from fedrulefit.engines.drive import read_question, unpack_step
from fedrulefit.errors import FederationError, FedRuleFitError, ProtocolError
from fedrulefit.federation.coordinator.runs import read_run_request
from fedrulefit.federation.coordinator.serving import SIGNATURES
from fedrulefit.federation.envelope import Letter, unpack_parts, verify_letter
from fedrulefit.federation.journal import Journal
from fedrulefit.federation.record import MODEL, unpacked
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.identity import Trust
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.retrace import Retracer
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import digest, read_reply, to_bytes
from fedrulefit.study import Study

_EXACT: Final = {
    *("intercept", "coefficient", "cutoffs", "limits", "inside", "events_inside", "by_site"),
    *("held_out", "held_out_by_site"),
    *("patients", "events", "others", "above", "below", "epsilon_per_histogram"),
}
"""Numbers of a model that are the same on every machine, once the points of the fit are."""

_OWN: Final = frozenset(["software"])
"""What a model tells of the machine that made it."""


@dataclass(frozen=True)
class Audit:
    """What came out.

    Parameters
    ----------
    run : str
    study : str
        The study's digest.
    answered : int
        The last step that this hospital has answered.
    finished : bool
        Whether the record goes on to a model.
    steps : int
        Steps that were led through again.
    questions : int
        Questions of the record that are those which this hospital answered.
    replies : int
        Replies of all sites whose signatures hold.
    model : str
        SHA-256 of the model file, which the replies lead to if there is no problem; empty
        without one.
    problems : tuple of str
        What does not fit, in words; empty if everything does.
    """

    run: str
    study: str
    answered: int
    finished: bool
    steps: int
    questions: int
    replies: int
    model: str
    problems: tuple[str, ...]


def audit(
    record: Path,
    *,
    site: str,
    memory_of: Callable[[str, str], Memory],
    trust: Trust,
    coordinator: str,
    model: Path | None = None,
) -> Audit:
    """Lead a recorded run once more, and compare it with what a hospital remembers.

    Parameters
    ----------
    record : Path
    site : str
        The hospital's name.
    memory_of : callable
        Gives what it remembers of a study (its digest) and a run.
    trust : Trust
        Whom it believes.
    coordinator : str
        The name in the coordinator's certificate.
    model : Path, optional
        The model file that the hospital was given, to be compared with the record's.

    Raises
    ------
    FederationError
        If the file is not a record, or of a run that the hospital did not take part in.
    """
    with unpacked(record) as folder:
        request = read_run_request(folder)
        study = Study.load(folder / "study.toml")
        memory = memory_of(study.digest, request.run)
        if memory.get("place") is None:
            raise FederationError(
                f"this hospital remembers no run {request.run!r} of that study: is the state "
                "folder the right one?"
            )
        if model is None and (folder / MODEL).exists():
            model = folder / MODEL
        journal = Journal(folder / "journal.sqlite", read_only=True)
        try:
            replay = _Replay(folder, journal, memory, site, trust, coordinator)
            replay.lead(None if model is None else Model.load(model))
        finally:
            journal.close()
        told = "" if model is None else hashlib.sha256(model.read_bytes()).hexdigest()
    return Audit(
        request.run,
        study.digest,
        replay.answered,
        replay.finished,
        replay.steps,
        replay.questions,
        replay.replies,
        told,
        replay.problems,
    )


class _Replay:
    """A run led once more."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        memory: Memory,
        site: str,
        trust: Trust,
        coordinator: str,
    ) -> None:
        request = read_run_request(folder)
        self._steps = journal.section("run")
        self._signatures = journal.section(SIGNATURES)
        self._lead = Retracer(
            partial(read_question, self._steps),
            Study.load(folder / "study.toml"),
            request.sites,
            run=request.run,
            secure=request.secure,
            dropouts=request.dropouts,
        )
        self._memory = memory
        self._site, self._trust, self._coordinator = site, trust, coordinator
        self.questions, self.replies, self.steps, self._last = 0, 0, 0, -1
        self.finished = False
        self.answered: int = msgpack.unpackb(memory.get("place") or b"\x91\xff")[0]
        self._others: list[str] = []
        self._beside: list[str] = []
        self._problems: list[str] = []

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not fit, in words."""
        wrong = (
            (self._others, "this hospital was asked something else, or nothing"),
            (self._beside, "the question does not follow from the study and the replies"),
        )
        first = [
            f"{steps[0]}: {what}" + f"; so at {len(steps) - 1} later steps" * (len(steps) > 1)
            for steps, what in wrong
            if steps
        ]
        return (*first, *self._problems)

    def lead(self, published: Model | None) -> None:
        """Go through all steps, and compare the model that they lead to."""
        try:
            model = self._go()
        except FedRuleFitError as error:
            self._problems.append(f"the record cannot be led to its end: {error}")
            return
        self.finished = model is not None
        if self.answered > self._last:
            self._problems.append(
                f"this hospital answered requests up to step {self.answered}, the record ends with "
                f"step {self._last}: what came after is not in it"
            )
        if published is None:
            return
        if model is None:
            self._problems.append(f"the record ends after {self.steps} steps, without a model")
        elif not _same_facts("", model_facts(published), model_facts(model)):
            self._problems.append("the model is not the one that the replies lead to")

    def _go(self) -> Model | None:
        outcome = self._lead.step()
        while not isinstance(outcome, Model):
            asked = read_question(self._steps, self.steps)
            if asked is None:
                return None
            what = f"step {self.steps} ({type(asked).__name__})"
            kept = self._steps.get(f"step/{self.steps}")
            data = {} if kept is None else unpack_step(kept)
            sent = {name: _address(asked, name) for name in outcome}
            if not all(self._lead.follows(outcome[name], sent[name]) for name in outcome):
                self._beside.append(what)
            for name, request in sent.items():
                self._compare(name, request, data.get(name), what)
            if kept is None:
                return None  # asked, but not answered by all: the run ended here
            if self._site in sent and self._site not in data:
                self._check_lost(what)
            outcome = self._lead.step({name: read_reply(part) for name, part in data.items()})
            self.steps += 1
        return outcome

    def _compare(self, name: str, request: m.Request, reply: bytes | None, what: str) -> None:
        asked = digest(to_bytes(request))
        if reply is not None:
            self._check_signature(name, asked, reply, what)
        if name != self._site:
            return
        self._last = self.steps
        kept = self._memory.get(f"asked/{self.steps}")
        if kept is None and reply is None:
            return  # lost on its way: not answered, and not counted
        if kept != asked.encode():
            self._others.append(what)
        else:
            self.questions += 1

    def _check_lost(self, what: str) -> None:
        """Tell of an answer that the coordinator says it never had."""
        if self._memory.get(f"asked/{self.steps}") is not None:
            self._problems.append(
                f"{what}: this hospital answered, but the record calls it lost: the answer came "
                "too late, or was left out to ask the others again without it"
            )

    def _check_signature(self, name: str, asked: str, reply: bytes, what: str) -> None:
        kept = self._signatures.get(asked)
        try:
            if kept is None:
                raise ProtocolError("there is no signature of it")
            body, instance, certificate, signature = _read_signature(kept)
            if body != digest(reply):
                raise ProtocolError("what it signed is another reply")
            letter = Letter("done", asked, reply, instance)
            verify_letter(
                letter,
                (certificate, signature),
                trust=self._trust,
                sender=name,
                recipient=self._coordinator,
            )
        except ProtocolError as error:
            self._problems.append(f"{what}: the reply of {name!r} is not its own: {error}")
        else:
            self.replies += 1


def _address(request: m.Request, site: str) -> m.Request:
    """Return a question as it was put to a site."""
    return replace(request, header=replace(request.header, site=site))


def _same_facts(name: str, told: Any, led: Any) -> bool:
    """Whether two models are the same, up to the last digit of what machines add differently."""
    if isinstance(told, dict) and isinstance(led, dict) and name != "study":
        return told.keys() == led.keys() and all(
            _same_facts(key, told[key], led[key]) for key in told if key not in _OWN
        )
    if isinstance(told, list) and isinstance(led, list):
        return len(told) == len(led) and all(
            _same_facts(name, one, other) for one, other in zip(told, led, strict=True)
        )
    if isinstance(told, float) and isinstance(led, float) and name not in _EXACT:
        step = min(_last_digit(told), _last_digit(led))
        return abs(told - led) <= max(1e-9 * abs(led), 1e-12, 1.001 * step)
    return bool(told == led)


def _last_digit(number: float) -> float:
    """Return what the last digit of a number counts."""
    exponent = Decimal(repr(number)).as_tuple().exponent
    return 10.0**exponent if isinstance(exponent, int) else 0.0


def _read_signature(kept: bytes) -> tuple[str, str, bytes, bytes]:
    """Return what a site signed: the reply's digest, its instance, certificate and signature."""
    match unpack_parts(kept, 4):
        case [str() as body, str() as instance, bytes() as certificate, bytes() as signature]:
            return body, instance, certificate, signature
    raise ProtocolError("its signature is not readable")
