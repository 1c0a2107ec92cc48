"""The privacy bill says the whole price (erratum 10)."""

from __future__ import annotations

from typing import Any

import pytest

from fedrulefit.privacy.bill import PrivacyBill


def bill(**changes: Any) -> PrivacyBill:
    facts: dict[str, Any] = {
        "mechanism": "discrete Laplace, OpenDP 0.16",
        "epsilon_per_histogram": 0.5,
        "n_histograms": 7,
        "ranges_from_data": False,
        "exact": (),
    }
    return PrivacyBill(**{**facts, **changes})


def test_one_patient_stands_in_all_histograms_so_their_epsilons_add_up() -> None:
    assert bill().epsilon_histograms == pytest.approx(3.5)
    assert bill(epsilon_per_histogram=None).epsilon_histograms is None


def test_the_words_give_each_total_and_replacement_price() -> None:
    words = bill().words()
    assert "7 of ε = 0.5 each" in words
    assert "together ε = 3.5 for adding or removing one patient" in words
    assert "ε = 7 for replacing one" in words
    assert "discrete Laplace, OpenDP 0.16" in words
    assert "no finite ε" not in words
    assert "without noise" not in words


def test_what_left_exactly_is_listed_and_ends_the_guarantee() -> None:
    words = bill(exact=("the rules", "the gradients")).words()
    assert "Released without noise: the rules; the gradients." in words
    assert "no finite ε" in words
    assert "trust in the coordinator" in words


def test_histograms_without_noise_are_shouted() -> None:
    words = bill(epsilon_per_histogram=None, mechanism="exact").words()
    assert "7 histograms left each site WITHOUT noise" in words
    assert "together" not in words


def test_seeded_noise_is_called_what_it_is() -> None:
    words = bill(epsilon_per_histogram=None, mechanism="UNSAFE seeded noise").words()
    assert "WITHOUT a privacy guarantee (UNSAFE seeded noise)" in words
    assert "ε =" not in words


def test_no_histogram_promises_no_epsilon() -> None:
    words = bill(n_histograms=0).words()
    assert "No histogram left" in words
    assert "ε =" not in words


def test_ranges_read_off_the_data_are_owned_up_to() -> None:
    assert "no ε covers them" in bill(ranges_from_data=True).words()
    assert "ranges" not in bill().words()


def test_sums_are_listed_with_what_left_openly_or_on_their_own() -> None:
    facts = {"exact": ("the rules",), "sums": ("the gradients", "the losses")}
    seen = bill(**facts).words()
    assert "Released without noise: the rules; the gradients; the losses." in seen
    assert "only as sums" not in seen
    assert "trust in the coordinator" in seen
    masked = bill(**facts, sum_of=4).words()
    assert "Released without noise: the rules." in masked
    assert "only as sums over 4 sites, without noise: the gradients; the losses." in masked
    assert "no finite ε" in masked
    assert "trust in the coordinator" not in masked


@pytest.mark.parametrize(("n_sites", "runs"), [(2, "1 further run,"), (4, "3 further runs,")])
def test_a_validation_multiplies_the_histograms(n_sites: int, runs: str) -> None:
    """Each site takes part in the run of all, and in one without each other site."""
    once = bill(exact=("the rules",))
    whole = once.with_validation(n_sites)
    assert whole.n_histograms == 7 * n_sites
    assert whole.epsilon_histograms == pytest.approx(3.5 * n_sites)
    assert whole.exact[0] == "the rules"
    assert runs in whole.exact[1]


def test_the_cost_leaves_out_the_list_of_what_left() -> None:
    whole = bill(exact=("the rules",), sums=("the gradients",), ranges_from_data=True)
    assert "the rules" not in whole.cost()
    assert "together ε = 3.5" in whole.cost()
    assert "read from the data" in whole.cost()
    assert whole.cost().endswith("trust in the coordinator.")
    assert bill(sums=("the gradients",)).cost().endswith("trust in the coordinator.")
    assert "finite" not in bill().cost()
    masked = bill(sums=("the gradients",), sum_of=3).cost()
    assert masked.endswith("the number of patients and sites behind it.")
    assert "Released without noise" not in bill(sums=("the gradients",), sum_of=3).words()
