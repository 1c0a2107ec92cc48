"""What a site remembers of a run, and what its ledger tells.

In: an answer that is about to leave. Kept, in one piece and before it leaves: the answer, so
that it can be repeated; where the run is; what was handed out. So a restarted site is where it
was, a step is answered once, and nothing leaves that the ledger does not tell.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Any, Final, cast

import msgpack

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.ledger import EXACT, Ledger, Release
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.agreed import VOTE_BYTES
from fedrulefit.protocol.masking import Masking, Subject
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.store import Memory
from fedrulefit.protocol.wire import question_digest, read_request

RECENT: Final = 4
"""Replies to sums that are kept, to be repeated."""

STAGES: Final = tuple(kind for kind in m.REQUESTS if kind.hands_out)
"""Requests that change what the site knows, in their order; a restarted site reads them again."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a run is.

    Parameters
    ----------
    step : int
        Of the last answer; -1 before the first.
    turn : int
        The furthest turn that was answered.
    n_sums : int
        Sums answered so far.
    recent : tuple of int
        Steps of sums whose replies are kept.
    transcript, about : bytes
        Hashes: of all that was handed out, and of grid and rules alone.
    """

    step: int = -1
    turn: int = -1
    n_sums: int = 0
    recent: tuple[int, ...] = ()
    transcript: bytes = b""
    about: bytes = b""

    def after(self, request: m.Request) -> Place:
        """Return where the run is once a request is answered."""
        recent = self.recent
        if request.masked or isinstance(request, m.OpenRequest):
            recent = (*recent, request.header.step)[-RECENT:]
        transcript, about = self.transcript, self.about
        if request.hands_out:
            transcript = hashlib.sha256(transcript + question_digest(request)).digest()
        if isinstance(request, m.RulesRequest | m.TermsRequest | m.VariantsRequest):
            about = hashlib.sha256(about + question_digest(request.without_evidence())).digest()
        return Place(
            step=request.header.step,
            turn=max(self.turn, -1 if request.turn is None else request.turn),
            n_sums=self.n_sums + request.masked,
            recent=recent,
            transcript=transcript,
            about=about,
        )

    def subject(self, request: m.Request) -> Subject:
        """Return what masks of the answer are bound to."""
        question = question_digest(request.without_evidence())
        return Subject(request.header.step, question, self.transcript, self.about)


class Diary:
    """Keeps what a run must not forget.

    Parameters
    ----------
    memory : Memory
        Of the run.
    ledger : Ledger
    study : str
        The study's name, as the ledger tells it.
    """

    def __init__(self, memory: Memory, ledger: Ledger, study: str) -> None:
        self.memory = memory
        self.ledger = ledger
        self.place = Place()
        self._study = study

    def recall(self, step: int, asked: str) -> bytes | None:
        """Return the reply to a request that was answered before.

        A step is answered once: the same request gets the same bytes, another one
        under the same number is refused.
        """
        if step > self.place.step:
            return None
        kept = self.memory.get(f"reply/{step}")
        if kept is None:
            raise ProtocolError(f"step {step} is over, the run is at {self.place.step}", "stale")
        was, reply, rows = msgpack.unpackb(kept)
        if was != asked:
            raise ProtocolError(f"step {step} was answered to another question", "conflict")
        if rows:
            # The process may have died after keeping the reply and before recording all of it.
            missing = rows[self.ledger.count(rows[0]["digest"]) :]
            self.ledger.append(*map(Release.from_facts, missing))
        return cast(bytes, reply)

    def keep(
        self,
        request: m.Request,
        received: bytes,
        *,
        asked: str,
        answer: bytes,
        releases: list[Release],
        beside: dict[str, bytes | None],
        masks: Any,
    ) -> None:
        """Keep an answer and where the run is; only then is the run there.

        Parameters
        ----------
        received, asked
            The request's bytes, and their hash.
        beside : dict of str to bytes or None
            Whatever else is to be kept with it.
        masks : object
            What :class:`~fedrulefit.protocol.masking.Masking` must know again.
        """
        step, there = request.header.step, self.place.after(request)
        reply = [asked, answer, [release.facts() for release in releases]]
        entries: dict[str, bytes | None] = {
            f"reply/{step}": msgpack.packb(reply),
            f"asked/{step}": asked.encode(),
            **beside,
        }
        if request.hands_out:
            entries[f"stage/{type(request).__name__}"] = received
        # Sums are many and large: only the last few can still be asked for again.
        dropped = set(self.place.recent) - set(there.recent)
        entries |= {f"reply/{old}": None for old in dropped}
        facts = (there.step, there.turn, there.n_sums, list(there.recent))
        handed = (there.transcript, there.about)
        self.memory.put({**entries, "place": msgpack.packb((*facts, handed, masks))})
        # Only now: had the disk been full, the site would still be where it was.
        self.place = there

    def remember(self, masking: Masking) -> Iterator[m.Request]:
        """Be again where the run was when the process died; yield what was handed out."""
        kept = self.memory.get("place")
        if kept is None:
            return
        for kind in STAGES:
            stage = self.memory.get(f"stage/{kind.__name__}")
            if stage is not None:
                yield read_request(stage)
        step, turn, n_sums, recent, (transcript, about), masks = msgpack.unpackb(kept)
        self.place = Place(step, turn, n_sums, tuple(recent), transcript, about)
        masking.place = masks
        peers = self.memory.get(f"stage/{m.PeersRequest.__name__}")
        if peers is not None and read_request(peers).header.step == step:
            masking.give_up()  # the place was kept before the new set took effect

    def tell(
        self,
        request: m.Request,
        reply: m.Reply,
        *,
        digest: str,
        public: Public,
        sum_of: int | None,
    ) -> Iterator[Release]:
        """Yield a row for every patient-derived quantity of a reply without noise."""
        common = self.common(request, digest)
        common |= {"mechanism": EXACT, "epsilon": None, "sum_of": sum_of}
        if isinstance(request, m.SumRequest):
            for (kind, name), shape in request.shapes(public).items():
                if shape != (0,):
                    yield Release(kind.__name__, name, shape, **common)
            return
        for field in dataclasses.fields(reply):
            if field.metadata.get("mechanism", m.NO_PATIENT_DATA) == m.NO_PATIENT_DATA:
                continue
            shape = _shape_of(field.name, getattr(reply, field.name))
            if shape != (0,):
                yield Release(type(reply).__name__, field.name, shape, **common)

    def common(self, request: m.Request, digest: str) -> dict[str, Any]:
        """Return what all rows of one reply have in common."""
        return {
            "digest": digest,
            "study": self._study,
            "run": request.header.run,
            "step": request.header.step,
            "round": request.ledger_round,
        }


def _shape_of(name: str, value: Any) -> tuple[int, ...]:
    """Return the shape of what left, as the ledger tells it."""
    if name == "fold_rules":
        value = sum(value, ())
    if isinstance(value, bytes):
        return (len(value) // VOTE_BYTES,)
    return () if isinstance(value, float) else (len(value),)
