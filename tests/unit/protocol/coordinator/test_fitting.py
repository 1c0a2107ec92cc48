"""Coefficients: how a fit ends, and what it refuses to divide by."""

from __future__ import annotations

import pytest

from fedrulefit.errors import FitError, ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.public import SITE_WEIGHT, Public
from tests.samples import make_study
from tests.tampered import Replies, Requests, change_sum, far_off, make_sites, run


@pytest.mark.parametrize("number", [0.0, -5.0])
@pytest.mark.parametrize(
    ("kind", "field"), [(m.DualRequest, "weight"), (m.SummaryRequest, "total")]
)
def test_sites_without_patients_are_refused(
    kind: type[m.SumRequest], field: str, number: float
) -> None:
    """A weight of 0 from every site once divided by zero.

    Only the total is looked at: under masks nothing else is seen.
    """
    everywhere = dict.fromkeys(("north", "south", "west"), number)
    for numbers in (everywhere, {"west": -120.0}):  # the others have 70 and 50
        with pytest.raises(ProtocolError, match="the sites count no patients"):
            run(tamper_sums=change_sum(kind, field, numbers))


@pytest.mark.parametrize("rounds", [1, 30])
def test_divergence_is_an_error_that_says_what_to_do(rounds: int) -> None:
    """With one round the last objective, not a round's first, must be looked at."""
    study = make_study(client_step=1000.0, rounds=rounds)
    with pytest.raises(FitError, match=r"diverges .*lower 'client_step' \(now 1000\)"):
        run(study, far_off(study))


def test_the_same_sites_converge_with_a_smaller_step() -> None:
    study = make_study(rounds=30)
    model = run(study, far_off(study))
    assert model.provenance.objective < model.provenance.history[0]


@pytest.mark.parametrize("weighting", ["patients", "sites"])
def test_sites_count_by_patients_or_equally(weighting: str) -> None:
    study = make_study(rounds=1, weighting=weighting)
    sites = make_sites(study)
    weights: dict[str, float] = {}

    def look(replies: Replies, requests: Requests, public: Public) -> Replies:
        for name, request in requests.items():
            if isinstance(request, m.DualRequest):
                (sums,) = request.read(replies[name].numbers, public)
                weights[name] = sums.weight
        return replies

    run(study, sites, tamper_sums=look)
    expected = {"north": 70, "south": 50, "west": 30}
    assert weights == (
        expected if weighting == "patients" else dict.fromkeys(expected, SITE_WEIGHT)
    )
