"""Whether a request may be answered at all: before anything of it is computed.

Is it for this site, study and run? Is it its turn? Does the site's policy allow this kind of
release, and its budget pay for it? The policy is the site's own and wins over every request.
"""

from __future__ import annotations

import re
from typing import Final

from fedrulefit.errors import ProtocolError
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.policy import KINDS, Policy, ReleaseKind
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.masking import Masking
from fedrulefit.protocol.site.diary import Place
from fedrulefit.study import Study

RUN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
"""What a run may be called."""


class Door:
    """Lets requests in, or says why not.

    Parameters
    ----------
    name : str
        The site's.
    study : Study
    policy : Policy
    masking : Masking
    private : bool
        Whether the histograms' noise guarantees their ε.
    """

    def __init__(
        self, name: str, study: Study, policy: Policy, masking: Masking, *, private: bool
    ) -> None:
        self._name = name
        self._study = study
        self._policy = policy
        self._masking = masking
        self._private = private

    def check_header(self, header: m.Header, run: str | None) -> None:
        """Refuse what is of another site, study or run."""
        if header.site != self._name:
            raise ProtocolError(f"a message for another site reached {self._name!r}", "site")
        if header.study != self._study.digest:
            raise ProtocolError(
                f"site {self._name!r} holds another study: all sites need the same study file",
                "study",
            )
        if run is not None and header.run != run:
            raise ProtocolError(f"site {self._name!r} takes part in another run", "run")
        if not RUN_NAME.fullmatch(header.run):
            raise ProtocolError("a run's name has up to 100 letters, digits, '-', '_', '.'", "run")

    def check_turn(self, request: m.Request, run: str | None, place: Place) -> None:
        """Refuse what comes too early, or again."""
        if run is None and not isinstance(request, m.JoinRequest):
            raise ProtocolError(f"site {self._name!r} has not joined a run yet", "order")
        if request.turn is None:
            return
        # Once refits have chosen the terms, rounds of the fit find their coefficients.
        back = (request.turn, place.turn) == (m.Turn.FIT, m.Turn.REFIT)
        back = back and self._study.settings.prunes
        fitting = back or (request.turn == place.turn and request.turn.repeats)
        leaving = isinstance(request, m.PeersRequest) and self._masking.active
        given_up = request.masked and request.turn == place.turn and self._masking.given_up
        if not (request.turn > place.turn or fitting or leaving or given_up):
            raise ProtocolError(f"{type(request).__name__} came out of turn", "order")
        if not request.asked_by(self._study):
            name = type(request).__name__
            raise ProtocolError(f"{name} is not the study's: its settings never ask it", "order")
        early = place.turn < m.Turn.GRID
        if isinstance(request, m.RulesRequest) and early and self._policy.min_count > 0:
            raise ProtocolError("rules are asked for before the histograms", "order")

    def check_policy(self, request: m.Request, place: Place) -> None:
        """Refuse what the site's policy does not let out, or not in the open."""
        kind = self.kind_of(type(request))
        if kind is not None:
            self.check_allowed(kind)
        if request.masked and self._policy.secure_sums and not self._masking.active:
            raise ProtocolError("the site's policy lets sums out only under masks", "secure-sum")
        if request.masked and place.n_sums >= self._policy.max_sums:
            self._refuse_number()

    def check_run(self, *, secure: bool, n_sites: int) -> None:
        """Refuse a run of which the policy would refuse a release later."""
        settings, policy = self._study.settings, self._policy
        asked = [k for k in m.REQUESTS if k.asked_in(settings) and k.least_sites <= n_sites]
        if not secure:
            asked = [k for k in asked if k not in (m.VoteRequest, m.VariantVoteRequest)]
        # Another site's policy may ask for votes: they count here, too.
        others = sum(kind.masked for kind in asked if kind.turn is None or not kind.turn.repeats)
        if settings.solver == "fedda" and settings.rounds + others > policy.max_sums:
            self._refuse_number()
        for kind in asked:
            if kind in (m.VoteRequest, m.VariantVoteRequest) and policy.min_votes == 0:
                continue
            release = self.kind_of(kind)
            if release is not None:
                self.check_allowed(release)

    def check_allowed(self, kind: ReleaseKind) -> None:
        """Refuse a kind of release that the policy does not name."""
        if kind not in self._policy.allow:
            raise ProtocolError(f"the site's policy does not let out {KINDS[kind]}", "policy")

    def kind_of(self, request: type[m.Request]) -> ReleaseKind | None:
        """Return which kind of release a request asks for; None if nothing of patients."""
        if request.release == "histograms" and not self._private:
            return "exact-histograms"
        if request.release == "curvature" and self._study.settings.fits_own:
            return "own-baselines"
        return request.release

    def check_budget(self, cost: float, ledger: Ledger) -> None:
        """Refuse histograms of this cost that the site's budget does not pay for."""
        if cost == 0:
            return  # no bound to keep, or the same noise as in an earlier run
        for cap, spent, what in (
            (self._policy.epsilon_study, ledger.spent(self._study.name), "this study"),
            (self._policy.epsilon_dataset, ledger.epsilon, "the data set"),
        ):
            if cap is not None and spent + cost > cap * (1 + 1e-9):
                raise ProtocolError(
                    f"the site's privacy budget for {what} is ε = {cap:g}; {spent:g} of it is "
                    f"spent, and these histograms cost {cost:g}",
                    "budget",
                )

    def _refuse_number(self) -> None:
        most = self._policy.max_sums
        raise ProtocolError(f"the site's policy allows {most} sums in a run", "policy")
