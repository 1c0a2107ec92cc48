"""Cut-offs, candidate rules and terms: what the sites sent, and what follows from it."""

from __future__ import annotations

import numpy as np
import pytest

from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.rules import Condition, Rule, interval
from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.coordinator.agreeing import FORBIDDEN, _forbid
from fedrulefit.protocol.public import Public
from fedrulefit.protocol.site import Site
from tests.samples import make_study, make_tables, record
from tests.tampered import STUDY, change, run


def test_histograms_of_another_length_are_refused() -> None:
    with pytest.raises(ProtocolError, match=r"where .* were due"):
        run(tamper=change("west", m.GridReply, counts=np.ones(99, np.int64)))


def test_sites_that_disagree_on_the_terms_are_refused() -> None:
    with pytest.raises(ProtocolError, match="disagree on the number of terms"):
        run(tamper=change("west", m.TermsReply, n_terms=2))


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([(9, 1)], "names covariate 9"),
        ([(3, 1 << 20)], "a code that its covariate does not have"),
        ([(0, 0b101)], "must be an interval"),
        ([(3, 1), (0, 1)], "canonical"),
        ([(0, 1), (0, 3)], "canonical"),
        ([(3, 0b1111 | 1 << 255)], "canonical"),
        ([(3, 0)], "canonical"),
        ([], "canonical"),
    ],
)
def test_rules_that_are_not_canonical_are_refused(
    conditions: list[tuple[int, int]], words: str
) -> None:
    rule = Rule(tuple(Condition(*c) for c in conditions))
    with pytest.raises(ProtocolError, match=f"site 'south': .*{words}"):
        run(tamper=change("south", m.RulesReply, rules=(rule,)))


def test_a_rule_grown_on_a_folds_patients_is_forbidden_where_that_fold_judges() -> None:
    """Else the held-out deviance would be too good, and too many rules would stay."""
    axes = tuple(Axis("number", np.array([1.0, 2.0]), 3, True) for _ in range(2))
    grid = Grid(axes)
    first, second = (Rule((Condition(0, interval(0, k)),)) for k in (1, 2))
    opposite = Rule((Condition(0, interval(2, 3)),))
    public = Public(STUDY).with_grid(grid).with_rules((first, second))
    factors = _forbid(public, {opposite})
    # `second` stays: its negation was grown, which carries the same information.
    assert factors.tolist() == [0.0, FORBIDDEN, 1.0]


def test_each_fold_is_fitted_with_the_rules_grown_without_it() -> None:
    study = make_study(
        solver="exact", penalty="cv", folds=3, path_length=10, n_trees=20, epsilon=None
    )
    tables = make_tables(study)
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    _, seen = record(Coordinator(study, list(sites)), sites)
    (merged,) = {r.rules for _, r, _ in seen if isinstance(r, m.TermsRequest)}
    sent = [reply for _, _, reply in seen if isinstance(reply, m.RulesReply)]
    grown = [{rule for reply in sent for rule in reply.rules}]
    grown += [{rule for reply in sent for rule in reply.fold_rules[k]} for k in range(3)]
    used: dict[int, set[Rule]] = {fold: set() for fold in range(-1, 3)}
    for _, request, _ in seen:
        for query in request.queries if isinstance(request, m.CurvatureRequest) else ():
            places = {*query.terms.tolist(), *query.active.tolist()} - {0}
            used[query.fold] |= {merged[k - 1] for k in places if k <= len(merged)}
    for fold, rules in used.items():
        several = {rule for rule in rules if len(rule) > 1}
        assert several
        assert several <= grown[fold + 1]
        # Some rules are only of other folds, so that the check means something.
        assert {rule for rule in merged if len(rule) > 1} - grown[fold + 1]
