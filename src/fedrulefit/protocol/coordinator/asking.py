"""One question to all sites, and what their answers add up to.

Sums over sites are added as whole units, masked or not. Where a run may go on without a lost
site, a round that misses an answer is given up and asked again among the rest, under a new
step; the sites see to it that only one of the two can be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from fedrulefit.core.arrays import Ints
from fedrulefit.errors import FitError, ProtocolError, one_line
from fedrulefit.privacy.masks import SEED_BYTES, RingOverflowError, add_rings, check_ring, open_sum
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.public import Public
from fedrulefit.study import Settings, Study

Answer = TypeVar("Answer")
Replied = TypeVar("Replied", bound=m.Reply)
Talk: TypeAlias = Generator[Mapping[str, m.Request], Mapping[str, m.Reply], Answer]
"""Yields requests, is sent the replies, and returns what they add up to."""


STEPS: Final = {
    "join": "sites join",
    "keys": "sites exchange keys",
    "histograms": "noisy histograms",
    "rules": "sites grow rules",
    "votes": "sites vote on the rules",
    "pruning": "fewer terms",
    "terms": "sites receive the merged rules",
    "path": "cross-validation",
    "fit": "fit together",
    "dispersion": "how much outcomes vary",
    "summary": "supports of the rules",
    "between": "differences between sites",
    "own baselines": "sites find their own baselines",
    "evaluation": "held-out patients",
    "adjusted": "each term given all others",
    "results": "each site's own results",
    "done": "done",
}
"""What each step is, in words."""


@dataclass(frozen=True)
class Progress:
    """Where the run is: the step, its round, and the objective so far."""

    step: str
    round: int = 0
    rounds: int = 0
    objective: float | None = None


class Asker:
    """Asks the sites of one run.

    Parameters
    ----------
    study : Study
    sites : tuple of str
        Names of the sites that take part; fewer, once some are lost.
    run : str
    secure : bool
        Whether sums are masked.
    dropouts : {"wait", "continue"}
        Whether the run goes on without sites that do not reply.
    """

    def __init__(
        self,
        study: Study,
        sites: tuple[str, ...],
        run: str,
        *,
        secure: bool,
        dropouts: Literal["wait", "continue"],
    ) -> None:
        self.study = study
        self.sites = sites
        self.n_joined = len(sites)
        """How many sites the run began with: sites know no other number."""
        self.run = run
        self.secure = secure
        self.dropouts = dropouts
        self.steps = 0
        self.progress = Progress("join")
        self._peers: dict[str, m.Peer] = {}

    @property
    def settings(self) -> Settings:
        """The study's settings."""
        return self.study.settings

    def header(self, site: str) -> m.Header:
        """Return the header of the next question to a site."""
        return m.Header(m.PROTOCOL_VERSION, self.run, self.steps, site, self.study.digest)

    def finish(self) -> None:
        """Say that nothing more will be asked."""
        self.progress = replace(self.progress, step="done")

    # --- Keys -----------------------------------------------------------------------------------

    def exchange_keys(self) -> Talk[None]:
        """Carry the sites' signed keys to all sites."""
        self.progress = Progress("keys")
        replies = yield from self.ask(m.KeyReply, m.KeyRequest)
        self._peers = {
            r.header.site: m.Peer(r.header.site, r.public, r.certificate, r.dropouts, r.signature)
            for r in replies
        }
        yield from self._hand_out_keys()

    def _hand_out_keys(self) -> Talk[None]:
        """Name the sites of the sums to come."""
        peers = tuple(self._peers[site] for site in self.sites)
        yield from self.ask(m.PeersReply, partial(m.PeersRequest, peers=peers))

    # --- Sums -----------------------------------------------------------------------------------

    def sum(self, request: Callable[[m.Header], m.SumRequest], public: Public) -> Talk[list[Any]]:
        """Ask all sites for a sum; return the totals, one per declared sum of the answer."""
        question = request(self.header(""))
        size = question.size(public)
        try:
            replies, seeds = yield from self.ask_together(m.SumReply, request)
            total = self._add(replies, seeds, size)
        except ProtocolError as error:
            if error.code == "overflow" and self.settings.solver == "fedda":
                raise diverged(f"the numbers outgrow a sum ({error})", self.settings) from None
            raise
        return question.read(total, public)

    def _add(self, replies: Sequence[m.SumReply], seeds: Sequence[bytes], size: int) -> Ints:
        """Add the sites' numbers up, and take their own masks off where they have some."""
        for reply in replies:
            site = reply.header.site
            if reply.masked != self.secure:
                how = "without masks" if self.secure else "under masks"
                raise ProtocolError(f"site {site!r} sent a sum {how}")
            if reply.numbers.shape != (size,):
                raise ProtocolError(
                    f"site {site!r} sent a sum of {len(reply.numbers)} numbers, where {size} "
                    "were due"
                )
            if not self.secure:
                self._check_ring(reply, len(replies))
        numbers = [reply.numbers for reply in replies]
        return open_sum(numbers, seeds, size) if self.secure else add_rings(numbers, size)

    @staticmethod
    def _check_ring(reply: m.SumReply, n_sites: int) -> None:
        try:
            check_ring(reply.numbers, n_sites)
        except RingOverflowError as error:
            raise ProtocolError(f"site {reply.header.site!r}: {error}", "overflow") from None

    def ask_together(
        self, kind: type[Replied], request: Callable[[m.Header], m.Request]
    ) -> Talk[tuple[list[Replied], list[bytes]]]:
        """Return masked answers of one set of sites, and the seeds that open their own masks."""
        while True:
            asked, before = self.steps, self.sites
            replies = yield from self.ask(kind, request)
            if self.sites == before or not self.secure:
                break  # else given up: the masks shared with the lost sites would stay
        seeds: list[bytes] = []
        if self.secure and self.dropouts == "continue":
            # Once a site has opened its mask, only this set of sites can end the round.
            opened = yield from self.ask(
                m.OpenReply, partial(m.OpenRequest, answered=asked), may_leave=False
            )
            seeds = [reply.seed for reply in opened]
            if any(len(seed) != SEED_BYTES for seed in seeds):
                raise ProtocolError("a site opened a sum with something that is not a seed")
        return replies, seeds

    # --- Any question ---------------------------------------------------------------------------

    def ask(
        self,
        kind: type[Replied],
        request: Callable[[m.Header], m.Request],
        *,
        may_leave: bool = True,
    ) -> Talk[list[Replied]]:
        """Send the same request to all sites; return their replies by name."""
        asked = {site: request(self.header(site)) for site in self.sites}
        self.steps += 1
        replies = yield asked
        _check_refusals(replies)
        ordered: list[Replied] = []
        for site, question in asked.items():
            reply = replies.get(site)
            if reply is None:
                continue
            if not isinstance(reply, kind) or reply.header != question.header:
                raise ProtocolError(f"site {site!r} answered another question")
            ordered.append(reply)
        missing = [site for site in asked if site not in replies]
        if missing:
            turn = next(iter(asked.values())).turn
            yield from self._go_on_without(missing, turn=turn, may_leave=may_leave)
        return ordered

    def _go_on_without(
        self, missing: Sequence[str], *, turn: m.Turn | None, may_leave: bool
    ) -> Talk[None]:
        """Let lost sites go, where the run allows it."""
        lost = ", ".join(missing)
        left = tuple(site for site in self.sites if site not in missing)
        if self.dropouts == "wait" or not may_leave or not left:
            raise ProtocolError(
                f"no reply from {lost}: the run can be resumed once they are back", "lost"
            )
        if self.settings.per_site:
            raise ProtocolError(
                f"no reply from {lost}: the study tells results of single sites, and the "
                "difference to earlier sums would tell theirs; the run can be resumed once they "
                "are back",
                "lost",
            )
        if turn is not None and turn > m.Turn.REFIT:
            raise ProtocolError(
                f"no reply from {lost}: the model rests on their patients; "
                "the run can be resumed once they are back",
                "lost",
            )
        self.sites = left
        if self._peers:
            yield from self._hand_out_keys()


def _check_refusals(replies: Mapping[str, m.Reply]) -> None:
    """End a run that a site refuses, and say why."""
    refusals = {
        site: reply for site, reply in sorted(replies.items()) if isinstance(reply, m.Refusal)
    }
    for site, refusal in refusals.items():
        if refusal.code == "overflow":
            raise ProtocolError(f"site {site!r}: {one_line(refusal.reason)}", refusal.code)
    if refusals:
        lines = [
            f"  {site}: {one_line(refusal.reason)} [{one_line(refusal.code, 40)}]"
            for site, refusal in refusals.items()
        ]
        raise FitError("\n".join(["these sites refused:", *lines]))


def diverged(how: str, settings: Settings) -> FitError:
    """Return the error of a FedDA that does not converge."""
    return FitError(
        f"FedDA diverges ({how}): lower 'client_step' (now {settings.client_step:g}) or set "
        "'centre = true'"
    )
