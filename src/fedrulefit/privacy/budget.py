"""What a run costs, and what a hospital's budget pays for: said before any work is done.

In: the number of covariates and the ε of each histogram, the policy, what is spent. Out:
sentences, and what stands in the way if the budget does not pay.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from fedrulefit.privacy.bill import one_patient
from fedrulefit.privacy.policy import Policy

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """The budget of one study at one hospital.

    Parameters
    ----------
    n_covariates : int
    epsilon : float or None
        ε of one histogram; None without noise.
    policy : Policy
    spent_study, spent_dataset : float
        ε spent so far on the study, and on the data set across studies.
    whose : str
        What to call the policy.
    max_rows : int
        Most rows of one patient: ε is for all of them.
    """

    n_covariates: int
    epsilon: float | None
    policy: Policy
    spent_study: float = 0.0
    spent_dataset: float = 0.0
    whose: str = "the policy"
    max_rows: int = 1

    @property
    def cost(self) -> float | None:
        """ε of a run's histograms where none is remembered; None without noise."""
        return None if self.epsilon is None else self.epsilon * self.n_covariates

    @property
    def runs(self) -> int | None:
        """Runs of this study, each over changed patients, that are paid for; None: no limit."""
        return min((n for n in map(self._runs, self._left()) if n is not None), default=None)

    @property
    def problem(self) -> str:
        """What stands in the way of a run over patients that no run has seen; "" if nothing."""
        for cap, spent, what, key in self._caps():
            if cap is not None and self._runs(cap - spent) == 0:
                return (
                    f"a run costs ε = {self.cost:g} ({self._product()}), but {self.whose} allows "
                    f"ε = {cap:g} for {what}, of which {spent:g} is spent: in the study, lower "
                    f"'epsilon_total' or 'epsilon' or take covariates out; or raise '{key}' in "
                    "the policy"
                )
        return ""

    def words(self) -> list[str]:
        """Return cost and budget as sentences."""
        if self.epsilon is None:
            return ["The histograms leave WITHOUT noise: no budget covers them."]
        lines = [
            f"A run costs ε = {self.cost:g} ({self._product()}) for adding or removing "
            f"{one_patient(self.max_rows)}. Over unchanged patients a further run repeats the "
            "same noise, and costs nothing more."
        ]
        if not self.problem:
            lines.append(self._pays())
        return lines

    def _pays(self) -> str:
        left = [most for most in self._left() if most is not None]
        if not left or self.epsilon is None:
            return f"{self.whose.capitalize()} sets no limit."
        n_covariates = floor(min(left) * (1 + _ROUNDING) / self.epsilon)
        in_all = self._runs(self._left()[1])
        return (
            f"{self.whose.capitalize()} pays for {_count(self.runs)} of this study over changed "
            "patients"
            + ("" if in_all is None else f", for {_count(in_all)} of all studies like it")
            + f", or for one run with {n_covariates} covariates of this ε."
        )

    def _product(self) -> str:
        return f"{self.n_covariates} covariates × {self.epsilon:g}"

    def _caps(self) -> tuple[tuple[float | None, float, str, str], ...]:
        return (
            (self.policy.epsilon_study, self.spent_study, "one study", "epsilon_study"),
            (self.policy.epsilon_dataset, self.spent_dataset, "all studies", "epsilon_dataset"),
        )

    def _left(self) -> list[float | None]:
        return [None if cap is None else cap - spent for cap, spent, *_ in self._caps()]

    def _runs(self, left: float | None) -> int | None:
        if left is None or self.cost is None:
            return None
        return max(0, floor(left * (1 + _ROUNDING) / self.cost))


def _count(runs: int | None) -> str:
    return "1 run" if runs == 1 else f"{runs} runs"
