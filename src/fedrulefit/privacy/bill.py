"""The privacy bill of a whole run, in honest words.

The paper speaks of ε = 1 "for each DP histogram". One patient stands in the
histograms of all p covariates, so these cost p·ε together; and whatever leaves
without noise has no finite ε at all (erratum 10). The bill says both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedrulefit.privacy.ledger import EXACT

_AVERAGING = "a gradient sum, a loss and the number of patients"
_CURVATURE = (
    "gradients, second derivatives, losses and the number of patients (from which patients and "
    "outcomes inside candidate rules follow)"
)
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
    """

    mechanism: str
    epsilon_per_histogram: float | None
    n_histograms: int
    ranges_from_data: bool
    exact: tuple[str, ...]
    sums: tuple[str, ...] = ()
    sum_of: int | None = None

    @property
    def epsilon_histograms(self) -> float | None:
        """ε of all histograms, when one patient is added or removed."""
        if self.epsilon_per_histogram is None:
            return None
        return self.epsilon_per_histogram * self.n_histograms

    def words(self) -> str:
        """Return the bill as a paragraph."""
        each, total = self.epsilon_per_histogram, self.epsilon_histograms
        if self.n_histograms == 0:
            lines = ["No histogram left a site: the cut-offs come from the data themselves."]
        elif each is None or total is None:
            how = "WITHOUT noise" if self.mechanism == EXACT else "WITHOUT a privacy guarantee"
            lines = [f"{self.n_histograms} histograms left each site {how} ({self.mechanism})."]
        else:
            lines = [
                f"Histograms: {self.n_histograms} of ε = {each:g} each, together ε = {total:g} for "
                f"adding or removing one patient, ε = {2 * total:g} for replacing one "
                f"({self.mechanism})."
            ]
        if self.ranges_from_data:
            lines.append(
                "The covariates' ranges were read from the data: no ε covers them. "
                "Declare them in a study to mend that."
            )
        secure = self.sum_of is not None
        openly = self.exact if secure else (*self.exact, *self.sums)
        if openly:
            lines.append(f"Released without noise: {'; '.join(openly)}.")
        if secure:
            lines.append(
                f"Seen by the coordinator only as sums over {self.sum_of} sites, without noise: "
                f"{'; '.join(self.sums)}."
            )
        if openly or secure:
            lines.append(
                "The run as a whole therefore has no finite ε; what is released exactly rests on "
                + ("the number of patients and sites behind it." if secure else _TRUST)
            )
        return " ".join(lines)


def exact_releases(*, noise: bool, histograms: bool, folds: int, per_site: bool) -> Sequence[str]:
    """Return what leaves a site without noise in a run."""
    words = ["the histograms"] if histograms and not noise else []
    rules = "the rules grown on the site's patients"
    own = "the site's own patients and outcomes, in all and inside rules, and measures of its "
    return [
        *words,
        rules + f", and without each of {folds} folds" * (folds > 0),
        *([own + "predictions"] if per_site else []),
    ]


def summed_releases(
    *, exact_spreads: bool, rounds: int, curvature: bool, folds: int, evaluation: bool
) -> Sequence[str]:
    """Return what is summed over sites without noise in a run."""
    words = ["the spread and number of known values of each covariate"] if exact_spreads else []
    judged = ["histograms of the held-out patients' scores, with and without the outcome"]
    return [
        *words,
        f"{_CURVATURE if curvature else _AVERAGING} in each of {rounds} rounds"
        + f", of all patients and without each of {folds} folds" * (folds > 0),
        "the gradient at the final coefficients, with and without the outcome apart",
        "the number of patients and of outcomes in all and inside each rule of the final model, "
        "the spread of its terms, and its loss",
        *(judged if evaluation else []),
    ]
