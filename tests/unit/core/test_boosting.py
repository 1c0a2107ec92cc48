"""Boosted trees against a naive best-first grower over all splits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chisquare
from tests.oracles import YES_NO, fires

from fedrulefit.core import boosting
from fedrulefit.core.arrays import MISSING
from fedrulefit.core.boosting import Split, Tree, draw_leaf_counts, extract_rules, grow_trees
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, check_rules, interval


def ordered(n_codes: int, *, complete: bool = False) -> Axis:
    return Axis("number", np.arange(n_codes - 1.0), n_codes, complete)


def category(n_codes: int, *, complete: bool = False) -> Axis:
    return Axis("category", np.empty(0), n_codes, complete)


def make_data(
    grid: Grid, n_rows: int, *, seed: int, missing: float = 0.0, weighted: bool = True
) -> tuple[Any, Any, Any]:
    """Codes, an outcome that depends on them, and weights without ties."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, axis.n_codes, n_rows) for axis in grid.axes])
    score = codes @ rng.normal(size=codes.shape[1]) + codes[:, 0] * codes[:, -1] / 3
    score = (score - score.mean()) / score.std()
    for j, axis in enumerate(grid.axes):
        if not axis.complete:
            codes[rng.random(n_rows) < missing, j] = MISSING
    score += np.where((codes == MISSING).any(axis=1), 1.0, 0.0)
    outcome = (rng.random(n_rows) < expit(2 * score)).astype(float)
    weights = rng.uniform(0.5, 1.5, n_rows) if weighted else np.ones(n_rows)
    return codes.astype(np.uint8), outcome, weights


def grow(data: tuple[Any, Any, Any], grid: Grid, *, seed: int = 0, **changes: Any) -> list[Tree]:
    settings: dict[str, Any] = {
        "n_trees": 8,
        "mean_leaves": 4.0,
        "learning_rate": 0.1,
        "subsample": 1.0,
        "min_leaf": 5.0,
        **changes,
    }
    return grow_trees(YES_NO, *data, grid, rng=np.random.default_rng(seed), **settings)


def count_leaves(node: Split | None) -> int:
    return 1 if node is None else count_leaves(node.left_child) + count_leaves(node.right_child)


def nodes(tree: Tree) -> Iterator[Split]:
    waiting = [tree.root]
    while waiting:
        node = waiting.pop()
        if node is not None:
            yield node
            waiting += [node.left_child, node.right_child]


# --- the law of the number of leaves ----------------------------------------------------


def test_leaf_counts_follow_the_floored_exponential_law_erratum_6() -> None:
    """⌊Exp of mean 2⌋ is geometric: P(T = 2 + k) = (1 − a)·aᵏ with a = e^(−1/2).

    The seed is fixed; over seeds a true law fails once in a million.
    """
    n_trees, a = 20_000, math.exp(-0.5)
    counts = draw_leaf_counts(n_trees, 4.0, np.random.default_rng(20))
    # Mean by Hoeffding is loose; by the normal law 5 standard errors are p < 1e-6.
    mean, spread = 2 + a / (1 - a), math.sqrt(a) / (1 - a)
    assert abs(counts.mean() - mean) < 5 * spread / math.sqrt(n_trees)
    observed = np.bincount(np.minimum(counts - 2, 12), minlength=13)
    law = np.append((1 - a) * a ** np.arange(12), a**12)
    assert chisquare(observed, n_trees * law).pvalue > 1e-6


def test_a_mean_of_two_leaves_gives_only_stumps() -> None:
    assert set(draw_leaf_counts(500, 2.0, np.random.default_rng(1)).tolist()) == {2}
    grid = Grid((ordered(6), ordered(6)))
    trees = grow(make_data(grid, 400, seed=1), grid, mean_leaves=2.0)
    assert len(trees) == 8
    assert [count_leaves(tree.root) for tree in trees] == [2] * 8


def test_each_tree_has_the_number_of_leaves_drawn_for_it() -> None:
    grid = Grid(tuple(ordered(30) for _ in range(3)))
    data = make_data(grid, 3000, seed=2)
    trees = grow(data, grid, n_trees=15, seed=5, min_leaf=2.0)
    drawn = draw_leaf_counts(15, 4.0, np.random.default_rng(5))
    assert len(set(drawn.tolist())) > 3
    assert [count_leaves(tree.root) for tree in trees] == drawn.tolist()


# --- the naive twin ---------------------------------------------------------------------


def naive_splits(codes: Any, grid: Grid) -> Iterator[tuple[Any, Any]]:
    """Yield the rows on either side of every split of the covariates' codes."""
    for j, axis in enumerate(grid.axes):
        code = codes[:, j]
        missing = code == MISSING
        sides = (
            [code < cut for cut in range(1, axis.n_codes + 1)]
            if axis.ordered
            else [code != level for level in range(axis.n_codes)] + [~missing]
        )
        for side in sides:
            for missing_left in (False, True) if missing.any() else (False,):
                left = np.where(missing, missing_left, side)
                yield left, ~left


def naive_best(
    rows: Any, residual: Any, weights: Any, splits: list[Any], min_leaf: float
) -> tuple[float, Any]:
    """Return the largest fall of the weighted sum of squares, and the two children."""

    def score(mask: Any) -> float:
        return float((weights[mask] @ residual[mask]) ** 2 / weights[mask].sum())

    best, children = 1e-9, None
    for left, right in splits:
        a, b = rows & left, rows & right
        if min(weights[a].sum(), weights[b].sum()) >= min_leaf:
            gain = score(a) + score(b) - score(rows)
            if gain > best:
                best, children = gain, (a, b)
    return best, children


def naive_boost(
    codes: Any,
    outcome: Any,
    weights: Any,
    grid: Grid,
    leaf_counts: Any,
    *,
    rate: float,
    leaf: float,
) -> list[set[bytes]]:
    """Algorithm 1 written out; per tree the patients of each node but the root."""
    events = weights @ outcome
    predictor = np.full(len(codes), np.log(events / (weights.sum() - events)))
    splits = list(naive_splits(codes, grid))
    trees = []
    for n_leaves in leaf_counts:
        residual = outcome - expit(predictor)
        root = np.ones(len(codes), dtype=bool)
        leaves = [(*naive_best(root, residual, weights, splits, leaf), root)]
        found: set[bytes] = set()
        while len(leaves) < n_leaves and any(children is not None for _, children, _ in leaves):
            k = max(range(len(leaves)), key=lambda i: leaves[i][0] * (leaves[i][1] is not None))
            for child in leaves.pop(k)[1]:
                found.add(child.tobytes())
                leaves.append((*naive_best(child, residual, weights, splits, leaf), child))
        for _, _, rows in leaves:
            predictor[rows] += rate * (weights[rows] @ residual[rows]) / weights[rows].sum()
        trees.append(found)
    return trees


GRIDS = {
    "numbers": Grid((ordered(7), ordered(5), ordered(4))),
    "with a category": Grid((ordered(6), category(4), ordered(3))),
    "yes/no": Grid((Axis("yes/no", np.array([0.5]), 2, False), ordered(9))),
}


@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_trees_are_those_of_a_naive_best_first_grower(name: str, missing: float, seed: int) -> None:
    """Nodes are compared by the patients in them: in a small node two cut-offs may tie."""
    grid = GRIDS[name]
    data = make_data(grid, 240, seed=seed, missing=missing)
    trees = grow(data, grid, seed=seed, n_trees=10, learning_rate=0.3, min_leaf=8.0)
    counts = draw_leaf_counts(10, 4.0, np.random.default_rng(seed))
    expected = naive_boost(*data, grid, counts, rate=0.3, leaf=8.0)
    found = [
        {fires(rule, data[0]).tobytes() for rule in extract_rules([tree], grid)} for tree in trees
    ]
    assert sum(len(tree) for tree in expected) > 30
    assert found == expected


def rules_of(trees: list[Tree], grid: Grid) -> list[set[Rule]]:
    return [extract_rules([tree], grid) for tree in trees]


@pytest.mark.parametrize("subsample", [1.0, 0.5])
@pytest.mark.parametrize("name", GRIDS)
def test_rows_of_a_patient_grow_the_trees_of_the_patient(name: str, subsample: float) -> None:
    """Three equal rows of each, and leaves of three times as many: the same patients are drawn."""
    grid = GRIDS[name]
    data = make_data(grid, 240, seed=3, missing=0.1, weighted=False)
    facts: dict[str, Any] = {"subsample": subsample, "n_trees": 12, "learning_rate": 0.3}
    once = grow(data, grid, min_leaf=6.0, patients=np.arange(240), **facts)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(240), 3))
    repeated = tuple(part[rows] for part in data)
    often = grow(repeated, grid, min_leaf=18.0, patients=7 * rows, **facts)  # type: ignore[arg-type]
    assert rules_of(once, grid) == rules_of(often, grid)
    assert len(set().union(*rules_of(once, grid))) > 20
    if subsample < 1:
        everybody = grow(data, grid, min_leaf=6.0, **{**facts, "subsample": 1.0})
        assert rules_of(once, grid) != rules_of(everybody, grid)


def test_a_tree_sees_all_rows_of_a_patient_or_none() -> None:
    """The share drawn is that of patients; over seeds it is off by 0.05 once in a million times."""
    place = np.repeat(np.arange(400), np.arange(400) % 5 + 1)
    drawn = boosting._draw_patients(place, 0.7, 1)
    shares, sets = [], set()
    for _ in range(30):
        seen = next(drawn)
        alone = np.bincount(place, seen) / np.bincount(place)
        assert set(alone.tolist()) <= {0.0, 1.0}
        shares.append(alone.mean())
        sets.add(seen.tobytes())
    assert abs(np.mean(shares) - 0.7) < 0.05
    assert len(sets) == 30, "another sample for every tree"


def test_without_patients_or_samples_nothing_changes() -> None:
    grid = GRIDS["numbers"]
    data = make_data(grid, 240, seed=3)
    plain, own = (grow(data, grid, patients=p) for p in (None, np.arange(240) // 2))
    assert rules_of(plain, grid) == rules_of(own, grid)


def test_the_learning_rate_reaches_the_trees() -> None:
    grid = GRIDS["numbers"]
    data = make_data(grid, 240, seed=3)
    slow = grow(data, grid, learning_rate=0.01)
    fast = grow(data, grid, learning_rate=1.0)
    assert extract_rules(slow[:1], grid) == extract_rules(fast[:1], grid)
    assert extract_rules(slow, grid) != extract_rules(fast, grid)


# --- rules ------------------------------------------------------------------------------


def test_a_tree_gives_at_most_two_rules_per_split_all_canonical() -> None:
    grid = GRIDS["with a category"]
    trees = grow(make_data(grid, 500, seed=4, missing=0.1), grid, n_trees=20, mean_leaves=6.0)
    for tree in trees:
        rules = extract_rules([tree], grid)
        assert 0 < len(rules) <= 2 * (count_leaves(tree.root) - 1)
        check_rules(sorted(rules), grid)


def test_every_node_but_the_root_becomes_a_rule() -> None:
    grid = Grid((ordered(4, complete=True), ordered(3, complete=True)))
    low, high = Condition(0, interval(0, 2)), Condition(0, interval(2, 4))
    left, right = Condition(1, interval(0, 1)), Condition(1, interval(1, 3))
    tree = Tree(Split(low, high, None, Split(left, right, None, None)))
    assert extract_rules([tree, Tree(None)], grid) == {
        Rule((low,)),
        Rule((high,)),
        Rule((high, left)),
        Rule((high, right)),
    }


def test_splits_separate_only_adjacent_codes_of_the_grid() -> None:
    grid = Grid((ordered(255), ordered(9)))
    trees = grow(make_data(grid, 3000, seed=6), grid, n_trees=20, min_leaf=1.0)
    cuts = set()
    for tree in trees:
        for node in nodes(tree):
            n_codes = grid.axes[node.left.feature].n_codes
            assert node.left.codes | node.right.codes == interval(0, n_codes)
            assert node.left.codes & node.right.codes == 0
            cut = node.left.codes.bit_count()
            assert node.left.codes == interval(0, cut)
            assert 0 < cut < n_codes
            cuts.add(cut)
    assert len(cuts) > 5


@pytest.mark.parametrize("cut", [1, 2, 100, 253, 254])
@pytest.mark.parametrize("missing", [False, True])
def test_any_of_254_cutoffs_can_be_found(cut: int, missing: bool) -> None:
    codes = np.repeat(np.arange(255), 4).astype(np.uint8)[:, None]
    outcome = (codes[:, 0] >= cut).astype(float)
    if missing:
        codes = np.vstack([codes, np.full((40, 1), MISSING, np.uint8)])
        outcome = np.append(outcome, np.ones(40))
    grid = Grid((ordered(255),))
    data = codes, outcome, np.ones(len(codes))
    (tree,) = grow(data, grid, n_trees=1, mean_leaves=2.0, min_leaf=1.0)
    assert tree.root is not None
    assert tree.root.left.codes == interval(0, cut)
    assert tree.root.right.codes == interval(cut, 255, missing=missing)


def test_no_rule_holds_fewer_than_min_leaf_patients() -> None:
    grid = GRIDS["with a category"]
    for weighted in (False, True):
        data = make_data(grid, 400, seed=7, missing=0.1, weighted=weighted)
        for min_leaf in (1.0, 20.0, 60.0):
            rules = extract_rules(
                grow(data, grid, n_trees=25, min_leaf=min_leaf, subsample=0.7), grid
            )
            inside = [data[2] @ fires(rule, data[0]) for rule in rules]
            assert min(inside) >= min_leaf * (1 - 1e-6)


def test_min_leaf_is_reached_exactly_by_unweighted_patients() -> None:
    grid = Grid((ordered(2),))
    codes = np.repeat([0, 1], 10).astype(np.uint8)[:, None]
    data = codes, codes[:, 0].astype(float), np.ones(20)
    assert len(extract_rules(grow(data, grid, n_trees=1, min_leaf=10.0), grid)) == 2
    assert extract_rules(grow(data, grid, n_trees=1, min_leaf=10.001), grid) == set()


# --- nothing to grow on -----------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_outcome_class_grows_no_tree(value: float) -> None:
    grid = GRIDS["numbers"]
    codes, _, weights = make_data(grid, 50, seed=8)
    assert grow((codes, np.full(50, value), weights), grid) == []


def test_an_event_of_weight_zero_is_no_second_class() -> None:
    grid = GRIDS["numbers"]
    codes, _, weights = make_data(grid, 50, seed=8)
    outcome = np.zeros(50)
    outcome[0], weights[0] = 1.0, 0.0
    assert grow((codes, outcome, weights), grid) == []


def test_fewer_patients_than_two_leaves_need_grow_no_tree() -> None:
    grid = GRIDS["numbers"]
    data = make_data(grid, 19, seed=9, weighted=False)
    assert grow(data, grid, min_leaf=10.0) == []
    assert grow(data, grid, n_trees=0, min_leaf=1.0) == []


def test_a_constant_covariate_is_never_split() -> None:
    grid = Grid((ordered(5), ordered(5)))
    codes, outcome, weights = make_data(grid, 200, seed=10)
    codes[:, 1] = 3
    rules = extract_rules(grow((codes, outcome, weights), grid), grid)
    assert {rule.features for rule in rules} == {(0,)}
    codes[:, 0] = 2
    assert extract_rules(grow((codes, outcome, weights), grid), grid) == set()


@pytest.mark.parametrize("code", [0, 3, MISSING])
def test_patients_who_are_all_the_same_grow_no_tree(code: int) -> None:
    """LightGBM once ended a fit on a single constant column with a failed check of its own."""
    grid = Grid((ordered(5),))
    codes, outcome, weights = make_data(grid, 200, seed=10)
    codes[:] = code
    assert grow((codes, outcome, weights), grid) == []


# --- missing values and categories ------------------------------------------------------


@pytest.mark.parametrize("like_high", [False, True])
def test_missing_values_go_to_the_side_they_resemble(like_high: bool) -> None:
    codes = np.repeat([0, 1, 2, 3, MISSING], 20).astype(np.uint8)[:, None]
    outcome = np.isin(codes[:, 0], [2, 3, MISSING] if like_high else [2, 3]).astype(float)
    grid = Grid((ordered(4),))
    (tree,) = grow((codes, outcome, np.ones(100)), grid, n_trees=1, mean_leaves=2.0)
    assert extract_rules([tree], grid) == {
        Rule((Condition(0, interval(0, 2, missing=not like_high)),)),
        Rule((Condition(0, interval(2, 4, missing=like_high)),)),
    }


def test_missingness_itself_can_be_a_rule() -> None:
    codes = np.repeat([0, 1, 2, 3, MISSING], 20).astype(np.uint8)[:, None]
    outcome = (codes[:, 0] == MISSING).astype(float)
    for axis in (ordered(4), category(4)):
        grid = Grid((axis,))
        (tree,) = grow((codes, outcome, np.ones(100)), grid, n_trees=1, mean_leaves=2.0)
        assert extract_rules([tree], grid) == {
            Rule((Condition(0, interval(0, 4)),)),
            Rule((Condition(0, 1 << MISSING),)),
        }


def test_a_side_that_was_never_learned_is_not_made_up() -> None:
    """Without missing values here, a missing value elsewhere satisfies neither side."""
    grid = Grid((ordered(6), category(3)))
    rules = extract_rules(grow(make_data(grid, 300, seed=11), grid), grid)
    assert rules
    assert not any(condition.missing for rule in rules for condition in rule)


def test_a_rare_missing_value_among_very_many_patients_is_still_learned() -> None:
    """LightGBM made its bins from 200,000 patients, and took the others' missing value for 0."""
    n_rows = 400_000
    codes = np.tile([0, 1], n_rows // 2).astype(np.uint8)[:, None]
    outcome = np.tile([0.0, 0.0, 1.0, 1.0], n_rows // 4)
    rare = [3, 7, 200_001]
    codes[rare], outcome[rare] = MISSING, 1.0
    grid = Grid((ordered(2),))
    data = codes, outcome, np.ones(n_rows)
    (tree,) = grow(data, grid, n_trees=1, mean_leaves=2.0, min_leaf=1.0)
    assert Rule((Condition(0, 1 << MISSING),)) in extract_rules([tree], grid)


def test_a_category_is_split_one_level_against_the_rest() -> None:
    codes = np.repeat([0, 1, 2, 3], 25).astype(np.uint8)[:, None]
    outcome = (codes[:, 0] == 2).astype(float)
    outcome[::10] = 1 - outcome[::10]
    grid = Grid((category(4),))
    (tree,) = grow((codes, outcome, np.ones(100)), grid, n_trees=1, mean_leaves=2.0)
    assert extract_rules([tree], grid) == {
        Rule((Condition(0, 0b0100),)),
        Rule((Condition(0, 0b1011),)),
    }


# --- weights, randomness, threads -------------------------------------------------------


def test_weights_are_repeated_patients() -> None:
    grid = GRIDS["with a category"]
    codes, outcome, _ = make_data(grid, 150, seed=12, missing=0.1)
    weights = np.random.default_rng(13).integers(0, 4, 150)
    weighted = grow((codes, outcome, weights.astype(float)), grid, n_trees=10)
    rows = np.repeat(np.arange(150), weights)
    repeated = grow((codes[rows], outcome[rows], np.ones(len(rows))), grid, n_trees=10)
    patients = [
        [{fires(r, codes[rows]).tobytes() for r in extract_rules([tree], grid)} for tree in trees]
        for trees in (weighted, repeated)
    ]
    assert sum(len(tree) for tree in patients[0]) > 20
    assert patients[0] == patients[1]


@pytest.mark.parametrize("subsample", [1.0, 0.5])
def test_weight_zero_is_no_patient(subsample: float) -> None:
    grid = GRIDS["numbers"]
    codes, outcome, weights = make_data(grid, 200, seed=14)
    weights[::3] = 0.0
    kept = weights > 0
    trees = grow((codes, outcome, weights), grid, subsample=subsample)
    assert trees
    assert trees == grow((codes[kept], outcome[kept], weights[kept]), grid, subsample=subsample)


def test_trees_do_not_depend_on_the_number_of_threads() -> None:
    grid = Grid(tuple(ordered(40) for _ in range(6)))
    data = make_data(grid, 1500, seed=15, missing=0.05)
    one, two = (
        grow(data, grid, n_trees=12, subsample=0.5, n_threads=n_threads) for n_threads in (1, 2)
    )
    assert one == two


def test_the_generator_alone_decides_subsamples_and_sizes() -> None:
    grid = GRIDS["numbers"]
    data = make_data(grid, 300, seed=16)
    first = grow(data, grid, seed=3, subsample=0.5)
    assert first == grow(data, grid, seed=3, subsample=0.5)
    assert first != grow(data, grid, seed=4, subsample=0.5)
    stumps = [grow(data, grid, seed=s, subsample=0.5, mean_leaves=2.0) for s in (3, 4)]
    assert stumps[0] != stumps[1]


def test_a_subsample_holds_its_share_of_the_patients() -> None:
    # min_leaf of 60 among 200 patients: two leaves fit in all of them, not in half of them.
    grid = Grid((ordered(2),))
    codes = np.repeat([0, 1], 100).astype(np.uint8)[:, None]
    data = codes, codes[:, 0].astype(float), np.ones(200)
    assert extract_rules(grow(data, grid, min_leaf=60.0), grid)
    assert not extract_rules(grow(data, grid, min_leaf=60.0, subsample=0.5), grid)


# --- what LightGBM is told ------------------------------------------------------------------


class CaughtError(Exception):
    """Instead of trees."""


def told(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[Any, dict[str, Any]]:
    """Return the first guess and the settings that the trees would be grown with."""
    seen: list[Any] = []

    def catch(matrix: Any, init_score: Any, params: Any) -> Any:
        seen.extend((init_score, params))
        raise CaughtError

    monkeypatch.setattr(boosting, "_make_booster", catch)
    grid = Grid((ordered(4), category(3)))
    with pytest.raises(CaughtError):
        grow(make_data(grid, 60, seed=1), grid, seed=3, **changes)
    return seen[0], seen[1]


def test_settings_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    _, outcome, weights = make_data(Grid((ordered(4), category(3))), 60, seed=1)
    score, params = told(monkeypatch, subsample=0.5, min_leaf=7.0, learning_rate=0.3)
    rng = np.random.default_rng(3)
    rng.exponential(2.0, size=8)
    assert params == {
        "learning_rate": 0.3,
        "min_sum_hessian_in_leaf": 7.0 * (1 - 1e-6),
        "min_gain_to_split": 1e-9 * weights.sum(),
        "bagging_fraction": 0.5,
        "bagging_freq": 1,
        "bagging_seed": int(rng.integers(2**31 - 1)),
        "num_threads": 1,
    }
    events = weights @ outcome
    np.testing.assert_allclose(score, np.log(events / (weights.sum() - events)))
    assert told(monkeypatch, subsample=1.0)[1]["bagging_freq"] == 0


def test_constants_are_frozen() -> None:
    """Another grid of residuals, other trees: on another machine, too."""
    assert boosting.RESIDUAL_STEP == 2.0**-20


@pytest.mark.parametrize(
    ("threshold", "left", "right"),
    [(-0.5, 0b0000, 0b1111), (0.5, 0b0001, 0b1110), (1.0, 0b0011, 0b1100), (2.99, 0b0111, 0b1000),
     (3.5, 0b1111, 0b0000), (1e300, 0b1111, 0b0000)],
)  # fmt: skip
@pytest.mark.parametrize(
    ("has_missing", "default_left"), [(False, True), (True, True), (True, False)]
)
def test_a_threshold_becomes_two_sets_of_codes(
    threshold: float, left: int, right: int, has_missing: bool, default_left: bool
) -> None:
    column = boosting._Column(0, None, has_missing)
    found = boosting._read_split([column], Grid((ordered(4),)), 0, threshold, default_left)
    missing = 1 << MISSING if has_missing else 0
    assert found == (
        Condition(0, left | missing * default_left),
        Condition(0, right | missing * (not default_left)),
    )


@pytest.mark.parametrize(
    ("threshold", "left", "right"), [(0.5, 0b101, 0b010), (0.99, 0b101, 0b010), (1.0, 0b111, 0)]
)
def test_a_level_is_split_from_the_others(threshold: float, left: int, right: int) -> None:
    column = boosting._Column(0, 1, False)
    found = boosting._read_split([column], Grid((category(3),)), 0, threshold, False)
    assert found == (Condition(0, left), Condition(0, right))


@pytest.mark.parametrize(
    ("weights", "min_leaf", "grows"),
    [([0.4, 0.4, 0.4, 0.4], 0.1, True), ([1.0] * 4, 2.0, True), ([1.0] * 4, 2.1, False)],
)
def test_what_it_takes_to_grow(weights: list[float], min_leaf: float, grows: bool) -> None:
    """Weights may be small: less than one patient of each outcome is still some."""
    codes = np.array([[0], [0], [1], [1]], np.uint8)
    outcome = np.array([0.0, 0.0, 1.0, 1.0])
    data = (codes, outcome, np.array(weights))
    assert bool(grow(data, Grid((ordered(2),)), min_leaf=min_leaf)) is grows
    assert grow(data, Grid((ordered(2),)), min_leaf=min_leaf, n_trees=0) == []
