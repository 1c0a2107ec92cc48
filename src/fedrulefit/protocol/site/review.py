"""What is about to leave a site, in words, for the person who lets it out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fedrulefit.core.arrays import Floats
from fedrulefit.model import describe_rule
from fedrulefit.model.wording import tell_rows
from fedrulefit.privacy.gate import Gated
from fedrulefit.privacy.policy import KINDS, ReleaseKind
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.public import Public


@dataclasses.dataclass(frozen=True)
class Review:
    """Says what a reply tells.

    Parameters
    ----------
    site, run : str
    sites : sequence of str
        The sites of the masked sums; empty without masks.
    most_sums : int
        How many sums the policy allows.
    """

    site: str
    run: str
    sites: Sequence[str]
    most_sums: int

    def words(
        self,
        kind: ReleaseKind,
        request: m.Request,
        reply: m.Reply,
        public: Public,
        *,
        gated: Gated,
        n_candidates: int,
        cost: str,
    ) -> list[str]:
        """Return what is about to leave, in lines.

        Parameters
        ----------
        gated : Gated
            What the gate kept back of the rules.
        n_candidates : int
            Rules that are voted on.
        cost : str
            What the histograms cost, in words.
        """
        what = request.wording or self._tell(kind, request, public)
        lines = [f"Study {public.study.name!r}, run {self.run}.", f"About to leave: {what}."]
        match reply:
            case m.GridReply():
                names = ", ".join(public.study.names)
                lines.append(f"{len(reply.counts)} noisy counts ({reply.mechanism}) of: {names}.")
                if reply.private:
                    lines.append(cost)
            case m.RulesReply():
                lines += self._rules(reply, public, gated)
            case m.ResultsReply():
                lines += [*self._results(reply, public), *filter(None, [tell_rows(public.study)])]
            case _:
                lines += self._sums(request, public, n_candidates)
        return lines

    @staticmethod
    def _tell(kind: ReleaseKind, request: m.Request, public: Public) -> str:
        """Return what a kind of release is: as the policy says, or right for the outcome."""
        if request.by_family and not public.family.tells.as_policy:
            return request.tells(public.study)
        return KINDS[kind]

    def _sums(self, request: m.Request, public: Public, n_candidates: int) -> list[str]:
        under = "without masks: the coordinator sees this site's own numbers"
        if self.sites and request.masked:
            under = f"inside secure sums over {', '.join(self.sites)}"
        lines = [f"They leave {under}."]
        if request.in_rounds:
            lines.append(f"Up to {self.most_sums} rounds.")
            lines.append(f"They are of {public.columns.n_rules} rules.")
        if isinstance(request, m.VoteRequest | m.VariantVoteRequest):
            lines.append(f"There are {n_candidates} candidate rules.")
        return lines

    @staticmethod
    def _rules(reply: m.RulesReply, public: Public, gated: Gated) -> list[str]:
        uneven = f", {gated.one_sided} in which one patient outweighs all others"
        rules = sorted(set(reply.rules).union(*reply.fold_rules), key=lambda r: (len(r), r))
        return [
            f"{len(rules)} rules; kept back: {gated.too_few} with too few patients, "
            f"{gated.too_near} too near to another, {gated.too_many} over the limit"
            f"{uneven * (gated.one_sided > 0)}.",
            *(f"  {describe_rule(rule, public.grid, public.study)}" for rule in rules),
        ]

    def _results(self, reply: m.ResultsReply, public: Public) -> list[str]:
        counted = public.family.counts_events  # else zeros stand in their place
        those = public.family.words.with_outcome
        totals, what = reply.totals, f"patients, and {those}"
        if not counted:
            totals, what = totals[:1], "patients"
        told = [f"{what}: {_list(totals)}"] * (len(totals) > 0)
        if len(reply.inside):
            told.append(f"inside {len(reply.inside)} rules: {_list(reply.inside)}")
            told += [f"{those} inside them: {_list(reply.events_inside)}"] * counted
        if len(reply.held_out):
            told.append(f"held out, inside {len(reply.held_out)} rules: {_list(reply.held_out)}")
            told += [f"{those} inside them: {_list(reply.held_out_events)}"] * counted
        if len(reply.measures):
            names = [field.name for field in dataclasses.fields(public.family.judge.measures)]
            pairs = zip(reply.known.tolist(), reply.measures.tolist(), strict=True)
            told.append("predictions: " + ", ".join(f"{names[k]} = {x:g}" for k, x in pairs))
        return [
            f"They leave without masks, and stand under the name {self.site!r} in the model file "
            "and the report.",
            *(f"  {line}" for line in told or ["nothing: some site has too few patients"]),
        ]


def _list(numbers: Floats) -> str:
    return ", ".join(f"{number:g}" for number in numbers.tolist())
