"""The privacy bill of a whole run, in honest words.

The paper speaks of ε = 1 "for each DP histogram". One patient stands in the
histograms of all p covariates, so these cost p·ε together; and whatever leaves
without noise has no finite ε at all (erratum 10). The bill says both. What left in
answer to a question is told by the question itself
(:meth:`~fedrulefit.protocol.messages.base.Request.tells`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedrulefit.privacy.ledger import EXACT


def one_patient(max_rows: int) -> str:
    """Return "one patient" in words, with the rows that go with the patient."""
    return "one patient" if max_rows == 1 else f"one patient with up to {max_rows} rows"


_TRUST = "trust in the coordinator."


@dataclass(frozen=True)
class PrivacyBill:
    """What the releases of one run cost each patient.

    Parameters
    ----------
    mechanism : str
        How the histograms were protected.
    epsilon_per_histogram : float or None
        None where they left without noise.
    n_histograms : int
        Covariates, each with one histogram per patient.
    ranges_from_data : bool
        Whether the histograms' ranges were read off the data.
    exact : tuple of str
        What left each site without noise.
    sums : tuple of str
        What was summed over sites, without noise.
    sum_of : int or None
        Sites in the secure sums; None if each site's own numbers were seen.
    max_rows : int
        Most rows of one patient: ε is for all of them.
    """

    mechanism: str
    epsilon_per_histogram: float | None
    n_histograms: int
    ranges_from_data: bool
    exact: tuple[str, ...]
    sums: tuple[str, ...] = ()
    sum_of: int | None = None
    max_rows: int = 1

    @property
    def epsilon_histograms(self) -> float | None:
        """ε of all histograms, when one patient is added or removed."""
        if self.epsilon_per_histogram is None:
            return None
        return self.epsilon_per_histogram * self.n_histograms

    def words(self) -> str:
        """Return the bill as a paragraph."""
        secure = self.sum_of is not None
        openly = self.exact if secure else (*self.exact, *self.sums)
        lines = [*self._histograms(), *self._ranges()]
        if openly:
            lines.append(f"Released without noise: {'; '.join(openly)}.")
        if secure:
            lines.append(
                f"Seen by the coordinator only as sums over {self.sum_of} sites, without noise: "
                f"{'; '.join(self.sums)}."
            )
        return " ".join([*lines, *self._rest()])

    def cost(self) -> str:
        """Return what it costs, without the list of what left."""
        return " ".join([*self._histograms(), *self._ranges(), *self._rest()])

    def with_validation(self, n_sites: int) -> PrivacyBill:
        """Return the bill with a further run without each site, and judged on it.

        Each site takes part in all of these runs but one.
        """
        n = n_sites - 1
        told = (
            f"rules and sums once more in {n} further run{'s' * (n != 1)}, each without one other "
            "site; and measures of how well the model of the others predicts the site's patients"
        )
        return replace(self, n_histograms=n_sites * self.n_histograms, exact=(*self.exact, told))

    def with_further(self, n_fits: int, why: str) -> PrivacyBill:
        """Return the bill with the rules and sums of further fits to the same patients."""
        told = f"rules and sums once more in {n_fits} further fit{'s' * (n_fits != 1)}, {why}"
        return replace(self, exact=(*self.exact, told))

    def _histograms(self) -> list[str]:
        each, total = self.epsilon_per_histogram, self.epsilon_histograms
        if self.n_histograms == 0:
            return ["No histogram left a site: the cut-offs come from the data themselves."]
        if each is None or total is None:
            how = "WITHOUT noise" if self.mechanism == EXACT else "WITHOUT a privacy guarantee"
            return [f"{self.n_histograms} histograms left each site {how} ({self.mechanism})."]
        return [
            f"Histograms: {self.n_histograms} of ε = {each:g} each, together ε = {total:g} for "
            f"adding or removing {one_patient(self.max_rows)}, ε = {2 * total:g} for replacing one "
            f"({self.mechanism})."
        ]

    def _ranges(self) -> list[str]:
        if not self.ranges_from_data:
            return []
        return [
            "The covariates' ranges were read from the data: no ε covers them. "
            "Declare them in a study to mend that."
        ]

    def _rest(self) -> list[str]:
        """What all that has no ε rests on."""
        if not self.exact and not self.sums:
            return []
        trust = _TRUST if self.sum_of is None else "the number of patients and sites behind it."
        return [
            "The run as a whole therefore has no finite ε; what is released exactly rests on "
            + trust
        ]
