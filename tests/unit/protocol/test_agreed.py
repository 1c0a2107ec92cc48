"""What sites and coordinator work out alike."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedrulefit.core.bins import count_histograms
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import complement, cutoff_rules, level_rules
from fedrulefit.privacy.masks import Masks, make_secret, public_key
from fedrulefit.protocol.agreed import (
    Tally,
    add_votes,
    count_ballot,
    fill_ballot,
    follows_from,
    free_rules,
    group_sites,
    is_public,
    make_grid,
    pack_votes,
    same_grid,
    unpack_votes,
)
from tests.samples import make_study, make_tables, repeat

STUDY = make_study(single_cutoffs=True)
TABLE = make_tables(STUDY, sizes=(200,))["north"]
COUNTS = count_histograms(TABLE.values, np.ones(200, dtype=np.int64), STUDY.bins)
GRID = make_grid(STUDY, COUNTS, None)


@given(
    votes=hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(0, 20)),
                     elements=st.integers(0, 1)),
    opened=st.booleans(),
)  # fmt: skip
def test_masked_votes_add_up(votes: np.ndarray, opened: bool) -> None:
    """The low 16 bits of masks over 64 cancel as the masks do."""
    from fedrulefit.privacy.masks import keystream

    names = [f"s{k}" for k in range(len(votes))]
    secrets = {name: make_secret() for name in names}
    publics = {name: public_key(secret) for name, secret in secrets.items()}
    masks = {name: Masks(name, secrets[name], publics, b"run") for name in names}
    parts = [
        pack_votes(masks[name].mask(own, step=1, question=b"q", self_mask=opened))
        for name, own in zip(names, votes, strict=True)
    ]
    seeds = [masks[name].self_seed(step=1, question=b"q") for name in names] if opened else []
    n_rules = votes.shape[1]
    total = add_votes(parts, [keystream(seed, n_rules) for seed in seeds], n_rules)
    np.testing.assert_array_equal(total, votes.sum(axis=0))
    np.testing.assert_array_equal(unpack_votes(pack_votes(votes[0])), votes[0])


def test_a_grid_follows_from_its_histograms_alone() -> None:
    assert follows_from(GRID, STUDY, COUNTS)
    assert not follows_from(GRID, STUDY, COUNTS[::-1].copy())
    for j, axis in enumerate(GRID.axes):
        changes: list[dict[str, object]] = [{"complete": not axis.complete}]
        if axis.kind == "number":
            low, high = axis.limits
            changes += [
                {"limits": (low, high + 1)},
                {"spread": axis.spread * (1 + 1e-6)},
                {"centre": axis.centre + 1e-3},
                {"fill": axis.fill + 1e-3},
                {"cutoffs": axis.cutoffs + 1e-6},
                {"cutoffs": axis.cutoffs[1:], "n_codes": axis.n_codes - 1},
            ]
        for change in changes:
            axes = list(GRID.axes)
            axes[j] = dataclasses.replace(axis, **change)  # type: ignore[arg-type]
            assert not follows_from(Grid(tuple(axes)), STUDY, COUNTS), change
    assert not follows_from(Grid(GRID.axes[:-1]), STUDY, COUNTS)


@pytest.mark.parametrize("spreads", ["histogram", "exact"])
def test_a_spread_is_compared_where_the_histograms_give_it(spreads: str) -> None:
    study = STUDY.with_settings(spreads=spreads)
    axis = GRID.axes[0]
    other = Grid((dataclasses.replace(axis, spread=axis.spread * 1.1), *GRID.axes[1:]))
    assert follows_from(other, study, COUNTS) == (spreads == "exact")


def test_free_rules_have_patients_on_either_side() -> None:
    everything = {*level_rules(GRID), *cutoff_rules(GRID)}
    assert free_rules(STUDY, GRID, None) == everything
    nobody = free_rules(STUDY, GRID, 0 * COUNTS)
    assert nobody == set()
    some = free_rules(STUDY, GRID, COUNTS)
    assert len(some) > 0
    # A site holds a coordinator's list against its own: either side of a cut-off will do.
    assert is_public(sorted(some), everything, GRID).all()
    assert free_rules(STUDY.with_settings(single_cutoffs=False), GRID, None) == {*level_rules(GRID)}


@pytest.mark.parametrize("max_rows", [2, 5])
def test_cutoffs_and_free_rules_have_rows_of_enough_patients_on_either_side(max_rows: int) -> None:
    """As many times the rows as one patient may have: the same as of the patients alone."""
    several, scarce = repeat(STUDY, max_rows), COUNTS // 4
    free = free_rules(several, GRID, max_rows * scarce)
    assert free == free_rules(STUDY, GRID, scarce)
    assert free < free_rules(STUDY, GRID, max_rows * scarce)
    assert same_grid(make_grid(several, max_rows * scarce, None), make_grid(STUDY, scarce, None))
    assert not same_grid(
        make_grid(several, max_rows * scarce, None), make_grid(STUDY, max_rows * scarce, None)
    )


def test_rules_that_need_no_data_are_public_and_so_are_their_negations() -> None:
    free = set(cutoff_rules(GRID))
    rule = sorted(free)[0]
    negation = complement(rule, GRID)
    level = sorted(level_rules(GRID))[0]
    assert negation is not None
    public = is_public([rule, negation, level], free, GRID)
    np.testing.assert_array_equal(public, [True, True, False])


ballots = st.integers(1, 20).flatmap(
    lambda n_sites: hnp.arrays(np.bool_, st.tuples(st.just(n_sites), st.integers(0, 6)))
)


@given(enough=ballots)
def test_a_rule_is_backed_by_sites_of_two_groups(enough: np.ndarray) -> None:
    n_sites, n_rules = enough.shape
    names = [f"s{k:02d}" for k in range(n_sites)]
    deals = [k % 2 == 0 for k in range(n_sites)]
    filled = [
        fill_ballot(own, [deal, not deal], name, names)
        for name, own, deal in zip(names, enough, deals, strict=True)
    ]
    assert {len(ballot) for ballot in filled} == {count_ballot(n_rules, n_sites)}
    total = add_votes([pack_votes(b) for b in filled], [], len(filled[0]))
    tally = Tally.of(total, n_rules)
    np.testing.assert_array_equal(tally.rules, enough.sum(axis=0))
    assert (tally.folds, tally.holdout) == (sum(deals), n_sites - sum(deals))
    groups = group_sites(names)
    assert sorted(sum(groups, ())) == names
    assert len(groups) == min(n_sites, 8)
    for k in range(n_rules):
        behind = {g for g, group in enumerate(groups) for n in group if enough[names.index(n), k]}
        assert tally.backed[k] == (len(behind) >= 2)  # random numbers add to 0 with chance 2⁻³²
        assert tally.elect(2)[k] == (enough[:, k].sum() >= 2 and len(behind) >= 2)
        assert tally.elect(1)[k] == enough[:, k].any()
