"""The privacy bill of a whole run, in honest words.

The paper speaks of ε = 1 "for each DP histogram". One patient stands in the
histograms of all p covariates, so these cost p·ε together; and whatever leaves
without noise has no finite ε at all (erratum 10). The bill says both. What left in a
release of each kind is told by one :class:`Item`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fedrulefit.privacy.ledger import EXACT
from fedrulefit.privacy.policy import ReleaseKind

_TRUST = "trust in the coordinator."


@dataclass(frozen=True)
class Item:
    """What leaves without noise in releases of one kind, as the bill tells it.

    Parameters
    ----------
    kind : str
        The kind of release, as in a policy.
    words : str
        What leaves, with ``{rounds}`` for the rounds of the fit.
    with_folds : str
        What is added where cross-validation asks for it too, with ``{folds}``.
    also : mapping of str to str
        What is added where releases of another kind leave, too.
    """

    kind: ReleaseKind
    words: str
    with_folds: str = ""
    also: Mapping[ReleaseKind, str] = field(default_factory=dict)

    def tell(self, released: Collection[ReleaseKind], *, rounds: int, folds: int) -> str:
        """Return the item in words, for a run of so many rounds and folds (0: none)."""
        more = "".join(words for kind, words in self.also.items() if kind in released)
        told = self.words + more + (self.with_folds if folds else "")
        return told.format(rounds=rounds, folds=folds)


_FIT: Final = ", of all patients and without each of {folds} folds"

EXACT_ITEMS: Final = (
    Item("exact-histograms", "the histograms"),
    Item(
        "rules",
        "the rules grown on the site's patients",
        with_folds=", and without each of {folds} folds",
    ),
    Item(
        "site-results",
        "under the site's name and rounded, where no site has too few: its patients and outcomes, "
        "in all and inside rules",
        also={"evaluation": ", and measures of its predictions"},
    ),
)
"""What each site's own numbers tell, in the order of the bill."""

SUMMED_ITEMS: Final = (
    Item("spreads", "the spread and number of known values of each covariate"),
    Item("votes", "how many sites have enough patients in each candidate rule"),
    Item(
        "curvature",
        "gradients, second derivatives, losses and the number of patients (from which patients "
        "and outcomes inside candidate rules follow) in each of {rounds} rounds",
        with_folds=_FIT,
    ),
    Item(
        "dual",
        "a gradient sum, a loss and the number of patients in each of {rounds} rounds",
        with_folds=_FIT,
    ),
    Item("slopes", "the gradient at the final coefficients, with and without the outcome apart"),
    Item(
        "summary",
        "the number of patients and of outcomes in all and inside each rule of the final model, "
        "the spread of its terms, and its loss",
    ),
    Item(
        "evaluation",
        "histograms of the held-out patients' scores, with and without the outcome",
    ),
    Item("site-results", "how many sites have too few patients to tell results of their own"),
)
"""What is needed only added up over the sites, so that masks can hide each site's part."""


def itemise(
    items: Iterable[Item], released: Collection[ReleaseKind], *, rounds: int, folds: int
) -> tuple[str, ...]:
    """Return in words what left in a run, of all items.

    Parameters
    ----------
    items : iterable of Item
        :data:`EXACT_ITEMS` or :data:`SUMMED_ITEMS`.
    released : collection of str
        Kinds of release that the run asked for.
    rounds, folds : int
        Of the fit, and of its cross-validation (0: none).
    """
    return tuple(
        item.tell(released, rounds=rounds, folds=folds) for item in items if item.kind in released
    )


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

    def _histograms(self) -> list[str]:
        each, total = self.epsilon_per_histogram, self.epsilon_histograms
        if self.n_histograms == 0:
            return ["No histogram left a site: the cut-offs come from the data themselves."]
        if each is None or total is None:
            how = "WITHOUT noise" if self.mechanism == EXACT else "WITHOUT a privacy guarantee"
            return [f"{self.n_histograms} histograms left each site {how} ({self.mechanism})."]
        return [
            f"Histograms: {self.n_histograms} of ε = {each:g} each, together ε = {total:g} for "
            f"adding or removing one patient, ε = {2 * total:g} for replacing one "
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
