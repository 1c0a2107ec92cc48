"""A hospital: holds its patients, answers requests, keeps its ledger.

In: a request. Out: a reply, already written into the site's ledger. A request
of another study, another run, at the wrong time or against the site's policy
gets a :class:`~fedrulefit.protocol.messages.Refusal`.

Every request goes the same way (:meth:`Site.respond`):

1. Is it for this site, study and run? Was it answered before (then the very same
   bytes leave again), and is it its turn? Does the policy allow this kind of release,
   the budget pay for it, and does what is handed out follow from what was sent?
2. Compute the answer; in review mode, a person accepts it.
3. Sums are masked. The answer is kept, so that it can be repeated after a crash,
   entered in the ledger, and only then leaves.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import cast

from fedrulefit.core.people import count_rows_each
from fedrulefit.errors import DataError, ProtocolError
from fedrulefit.model.own_file import OwnBaseline
from fedrulefit.privacy.identity import Identity, Trust
from fedrulefit.privacy.ledger import Ledger, Release
from fedrulefit.privacy.mechanisms import Noise, OpenDPLaplace
from fedrulefit.privacy.policy import OPEN, Policy, ReleaseKind
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.dealing import Dealer
from fedrulefit.protocol.masking import Masking
from fedrulefit.protocol.patients import Patients
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site.diary import Diary
from fedrulefit.protocol.site.door import Door
from fedrulefit.protocol.site.handed import Handed
from fedrulefit.protocol.site.joining import check_join, note_run
from fedrulefit.protocol.site.own import find_baseline
from fedrulefit.protocol.site.review import Review
from fedrulefit.protocol.site.work import Known, Work
from fedrulefit.protocol.store import Memory, Transient
from fedrulefit.protocol.tables import note_table
from fedrulefit.protocol.wire import digest, from_bytes, read_request, to_bytes
from fedrulefit.study import Study
from fedrulefit.table.patients import Table

log = logging.getLogger(__name__)

Approver = Callable[[str, Sequence[str]], bool | None]
"""Told a kind of release and what is about to leave, in words; None: not decided yet."""


@dataclass(frozen=True, eq=False)
class _Draft:
    """An answer that has not left: nothing of the question has taken effect yet."""

    asked: str
    reply: m.Reply
    known: Known


class Site:
    """One hospital in one run of a study.

    Parameters
    ----------
    name : str
    table : Table
        The site's patients, checked against the study.
    study : Study
    policy : Policy
        What may leave; :data:`~fedrulefit.privacy.policy.OPEN` by default.
    ledger : Ledger, optional
        Where releases are recorded; in memory by default.
    noise : Noise, optional
        Adds noise to histograms; OpenDP's discrete Laplace by default.
    identity, trust : Identity and Trust, optional
        Who the site is and whom it believes; secure sums need both.
    roster : collection of str, optional
        The consortium's sites; any may take part, if not given.
    approver : callable, optional
        Asks a person, where the policy wants a review.
    memory, shared : Memory, optional
        What a restarted site must remember of the run, and of the data set across
        runs; both forget by default.
    charter : bytes
        Hash of the charter that the site accepted: secure sums are only among sites
        that accepted the same.
    dealing : bytes, optional
        The site's secret, by which patients are dealt into folds and held out; without
        it, they are dealt by the study's seed, which everybody knows.
    n_threads : int
        Threads for growing trees; the result does not depend on it.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        study: Study,
        *,
        policy: Policy = OPEN,
        ledger: Ledger | None = None,
        noise: Noise | None = None,
        identity: Identity | None = None,
        trust: Trust | None = None,
        roster: Collection[str] | None = None,
        approver: Approver | None = None,
        memory: Memory | None = None,
        shared: Memory | None = None,
        charter: bytes = b"",
        dealing: bytes | None = None,
        n_threads: int = 1,
    ) -> None:
        self.name = name
        self.study = study
        self.policy = policy
        self._table = table
        self._approver = approver
        self._memory = memory if memory is not None else Transient()
        self._shared = shared if shared is not None else Transient()
        self._outlived = shared is not None
        self._lock = threading.Lock()
        self._run: str | None = None
        self._draft: _Draft | None = None
        self._changed = False
        patients = _deal(name, table, study, Dealer(study, name, dealing, policy.min_count))
        self._masking = Masking(
            name, policy, identity, trust, roster, self._memory, self._shared, charter
        )
        self._work = Work(
            name,
            policy,
            self._masking,
            patients,
            noise=noise if noise is not None else OpenDPLaplace(),
            memory=self._memory,
            shared=self._shared,
            n_threads=n_threads,
        )
        self._door = Door(name, study, policy, self._masking, private=self._work.private)
        self._handed = Handed(name, policy, self._masking, self._memory)
        self._known = Known(patients)
        self._diary = Diary(self._memory, Ledger() if ledger is None else ledger, study.name)
        self._remember()

    def handle(self, request: m.Request) -> m.Reply:
        """Answer a request, and record what leaves."""
        return cast(m.Reply, from_bytes(self.answer(to_bytes(request))))

    def answer(self, data: bytes) -> bytes:
        """Answer the bytes of a request; whatever they are, this returns a reply's."""
        try:
            request = read_request(data)
        except ProtocolError as error:
            return to_bytes(m.Refusal(m.blank_header(self.name), error.code, str(error)))
        return self.respond(request, data)

    def respond(self, request: m.Request, data: bytes) -> bytes:
        """Answer a request that was read from `data`."""
        with self._lock:
            try:
                return self._respond(request, data)
            except ProtocolError as error:
                refusal = m.Refusal(request.header, error.code, str(error))
            except Exception as error:  # whatever it says could hold a patient's value
                kind = type(error).__name__
                log.error("%s failed with %s at %s", type(request).__name__, kind, _where(error))
                reason = f"site {self.name!r} failed with {kind}: see its log"
                refusal = m.Refusal(request.header, "internal", reason)
            if refusal.code != "pending":  # asked again every few seconds
                log.info("refused %s: %s", type(request).__name__, refusal.code)
            return to_bytes(refusal)

    @property
    def ledger(self) -> Ledger:
        """What left, and what it cost."""
        return self._diary.ledger

    @property
    def own_baseline(self) -> OwnBaseline | None:
        """The site's own baseline of the finished model, for the hospital itself.

        None before the run has handed the model out, and where all sites share a baseline.
        """
        model = self._known.model
        return None if model is None else find_baseline(self.patients, model, self.name)

    @property
    def patients(self) -> Patients:
        """What the site computes on; of all this, only replies leave."""
        return self._known.patients

    @property
    def finished(self) -> bool:
        """Whether the run has asked for everything that it can."""
        settings, n_sites = self.study.settings, self.patients.public.n_sites
        asked = [
            kind.turn
            for kind in m.REQUESTS
            if kind.asked_in(settings) and kind.least_sites <= n_sites
        ]
        return self._diary.place.turn == max(turn for turn in asked if turn is not None)

    def _respond(self, request: m.Request, received: bytes) -> bytes:
        asked = digest(received)
        self._check_header(request.header)
        repeated = self._diary.recall(request.header.step, asked)
        if repeated is not None:
            return repeated
        self._check(request)
        if self._draft is None or self._draft.asked != asked:
            self._check_handed(request)
            known = self._known.take_in(request)
            self._draft = _Draft(asked, self._work.answer(request, known), known)
        draft = self._draft
        self._check_approval(request, draft)
        data = to_bytes(self._mask(request, draft.reply))
        releases = self._releases(request, draft, digest(data))
        self._keep(request, received, data, releases)
        self._known, self._draft = draft.known, None
        self._enter(request)
        if releases:
            self.ledger.append(*releases)
        return data

    # --- 1. May it be answered? -----------------------------------------------------------------

    def _check_header(self, header: m.Header) -> None:
        self._door.check_header(header, self._run)
        if self._changed:
            raise ProtocolError(
                "the site's data changed during the run: bring the same file back, or start anew",
                "data-changed",
            )

    def _check(self, request: m.Request) -> None:
        """Refuse what is out of turn, or against the policy."""
        place = self._diary.place
        self._door.check_turn(request, self._run, place)
        match request:
            case m.JoinRequest():
                self._check_join(request)
            case m.PeersRequest():
                self._check_peers(request)
        self._door.check_policy(request, place)
        if isinstance(request, m.GridRequest):
            self._check_budget()

    def _check_join(self, request: m.JoinRequest) -> None:
        patients = self.patients
        check_join(
            request,
            self.study,
            self.policy,
            self._masking,
            self._shared,
            learnt=patients.learnt,
            held_out=patients.held_out,
        )
        self._door.check_run(secure=request.secure, n_sites=len(request.sites))
        self._check_budget()

    def _check_peers(self, request: m.PeersRequest) -> None:
        self._masking.check_peers(request)
        if self._masking.active and self.study.settings.per_site:
            raise ProtocolError(
                "a study that tells results of single sites goes on without none of them",
                "set-changed",
            )

    def _check_budget(self) -> None:
        cost = self._work.histograms.cost(self.ledger) if self._work.private else 0.0
        self._door.check_budget(cost, self.ledger)

    def _check_handed(self, request: m.Request) -> None:
        known, place = self._known, self._diary.place
        self._handed.check(
            request,
            place,
            known.patients.public,
            counts=known.counts,
            candidates=known.candidates,
            bases=known.bases,
        )

    # --- 2. A person accepts the answer ---------------------------------------------------------

    def _check_approval(self, request: m.Request, draft: _Draft) -> None:
        """In review mode, ask a person once for each wording of a release in the run."""
        kind = self._door.kind_of(type(request))
        if self.policy.approval == "auto" or kind is None:
            return
        words = self._words(kind, request, draft)
        seen = f"approved/{hashlib.sha256(chr(0).join(words).encode()).hexdigest()}"
        if self._memory.get(seen) is not None:
            return
        decision = self._approver(kind, words) if self._approver else False
        if decision is None:
            raise ProtocolError("a person has not decided yet whether this may leave", "pending")
        if not decision:
            raise ProtocolError("a person declined this release", "declined")
        self._memory.put({seen: b"yes"})

    def _words(self, kind: ReleaseKind, request: m.Request, draft: _Draft) -> list[str]:
        sums = self.policy.max_sums
        priced = isinstance(draft.reply, m.GridReply) and self._work.private
        return Review(self.name, str(self._run), self._masking.sites, sums).words(
            kind,
            request,
            draft.reply,
            draft.known.patients.public,
            gated=self._work.gated,
            n_candidates=len(draft.known.candidates),
            cost=self._work.histograms.words(self.ledger) if priced else "",
        )

    # --- 3. Masked, kept, recorded --------------------------------------------------------------

    def _mask(self, request: m.Request, reply: m.Reply) -> m.Reply:
        """Mask a sum or votes, where the run has secure sums."""
        if not (self._masking.active and request.masked):
            return reply
        subject = self._diary.place.subject(request)
        if isinstance(reply, m.VoteReply):
            return self._masking.mask_votes(reply, subject)
        numbers = cast(m.SumReply, reply).numbers
        return m.SumReply(reply.header, True, self._masking.mask_sum(numbers, subject))

    def _releases(self, request: m.Request, draft: _Draft, bytes_digest: str) -> list[Release]:
        """Every patient-derived quantity of a reply, as the ledger tells it."""
        if isinstance(draft.reply, m.GridReply):
            rows = self._work.histograms.book(self.ledger, bytes_digest, request.header.run)
            about = self._diary.common(request, bytes_digest)
            books = (Release(message=m.GridReply.__name__, **about, **row) for row in rows)
            return self.ledger.date(books)
        masked = self._masking.active and request.masked
        told = self._diary.tell(
            request,
            draft.reply,
            digest=bytes_digest,
            public=draft.known.patients.public,
            sum_of=len(self._masking.sites) if masked else None,
        )
        return self.ledger.date(told)

    def _keep(
        self, request: m.Request, received: bytes, data: bytes, releases: list[Release]
    ) -> None:
        """Keep the reply, and what a restarted site must know."""
        beside: dict[str, bytes | None] = {**request.noted}
        match request:
            case m.JoinRequest():
                beside["data"] = self._table.digest
                self._note_join(request.header)
            case m.KeyRequest():
                beside["secret"] = self._masking.drawn
            case m.PeersRequest():
                beside["certificates"] = self._masking.pack_certificates(request)
            case m.GridRequest() | m.VoteRequest() | m.VariantVoteRequest():
                beside |= _own(from_bytes(data))
        if request.masked or isinstance(request, m.OpenRequest):
            self._masking.note(opening=isinstance(request, m.OpenRequest))
        self._diary.keep(
            request,
            received,
            asked=digest(received),
            answer=data,
            releases=releases,
            beside=beside,
            masks=self._masking.place,
        )

    def _note_join(self, header: m.Header) -> None:
        """Remember, across runs, that this table takes part in one."""
        note_run(header, self._shared)
        if self._outlived:  # else no later run reads it, and marking patients takes time
            patients = self.patients
            note_table(patients.learnt, patients.held_out, self.study, self._shared)

    def _enter(self, request: m.Request) -> None:
        """Take part, once the answer is kept: nothing of patients leaves in answer to these."""
        match request:
            case m.JoinRequest():
                self._run = request.header.run
                self._masking.join(request)
            case m.KeyRequest():
                self._masking.take_secret()
            case m.PeersRequest():
                self._masking.meet(request)

    def _remember(self) -> None:
        """Be again where the run was when the process died."""
        for request in self._diary.remember(self._masking):
            self._enter(request)
            self._known = self._known.take_in(request)
        joined = self._memory.get("data")
        self._changed = joined is not None and joined != self._table.digest


def _deal(name: str, table: Table, study: Study, dealer: Dealer) -> Patients:
    """Hold some patients out, and deal the rest into folds."""
    if table.outcome is None:
        raise DataError(f"site {name!r}: a site needs the outcome of its patients")
    if not table.weights.sum() > 0:
        raise DataError(f"site {name!r}: no patient with a weight above 0")
    _check_rows_each(name, table, study)
    held = dealer.hold_out(table)
    learnt = table.take(~held)
    if not learnt.weights.sum() > 0:
        raise DataError(f"site {name!r}: too few patients to hold some out: lower 'holdout'")
    folds = dealer.deal_folds(learnt)
    return Patients(Public(study), learnt, table.take(held), folds, dealer.least)


def _check_rows_each(name: str, table: Table, study: Study) -> None:
    """Refuse patients who would count for more than the study's noise covers."""
    if (table.patients is None) != (study.patient is None):
        has, lacks = ("study", "table") if table.patients is None else ("table", "study")
        raise DataError(f"site {name!r}: the {has} says whose a row is, and the {lacks} does not")
    if count_rows_each(table.patients) > study.max_rows:
        raise DataError(
            f"site {name!r}: a patient has more rows than the study's 'max_rows', {study.max_rows}"
        )


def _own(reply: m.Message) -> dict[str, bytes]:
    """Return what the site must know again when its own words are handed out."""
    match reply:
        case m.GridReply():
            return {"histogram": reply.counts.astype("<i8").tobytes()}
        case m.VoteReply():
            return {"votes": reply.votes}
    return {}


def _where(error: BaseException) -> str:
    """Return file and line of an error, without its words."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
