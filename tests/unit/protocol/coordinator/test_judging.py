"""How well the model predicts, and what single sites tell of themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedrulefit.errors import ProtocolError
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.site import Site
from tests.samples import SOLVERS, make_study, make_tables
from tests.tampered import change, run


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        (m.ResultsReply, {"known": np.arange(1, 16), "measures": np.ones(15)}, "other results"),
        (m.ResultsReply, {"measures": np.full(16, 7.0)}, "between 0 and 1"),
        (m.ResultsReply, {"totals": np.ones(3)}, "other results than were asked for"),
        (m.ResultsReply, {"inside": np.ones(77)}, "other results than were asked for"),
        (m.ResultsReply, {"events_inside": np.empty(0)}, "other results than were asked for"),
        (m.ResultsReply, {"measures": np.ones(3)}, "other results than were asked for"),
        (m.ResultsReply, {"known": np.zeros(16, np.int64)}, "other results than were asked for"),
        (m.ResultsReply, {"known": np.r_[0:15, 16]}, "a measure that does not exist"),
        (m.ResultsReply, {"totals": np.array([10.0, 11.0])}, "more patients in a part"),
        (m.ResultsReply, {"totals": np.array([3.0, -1.0])}, "more patients in a part"),
    ],
)
def test_results_that_were_not_asked_for_are_refused(kind: type, fields: Any, why: Any) -> None:
    study = make_study(**SOLVERS["exact"], holdout=0.3, per_site=True)
    tables = make_tables(study, sizes=(200, 150, 150))
    sites = {name: Site(name, table, study) for name, table in tables.items()}
    with pytest.raises(ProtocolError, match=why):
        run(study, sites, tamper=change("west", kind, **fields))
