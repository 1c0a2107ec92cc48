"""One fixed example of every message."""

from __future__ import annotations

import numpy as np

from fedrulefit.core.curvature import Query
from fedrulefit.core.grid import Axis, Grid
from fedrulefit.core.refit import RefitQuery
from fedrulefit.core.rules import Condition, Rule
from fedrulefit.protocol import messages as m

HEADER = m.Header(m.PROTOCOL_VERSION, "run", 3, "nörth", "ab" * 32)
GRID = Grid(
    (
        Axis("number", np.array([1.5, 2.5]), 3, False, (0.0, 9.0), 2.0, 4.0, 4.0),
        Axis("category", np.empty(0), 4, True),
        Axis("yes/no", np.array([0.5]), 2, True, (0.0, 1.0), 0.5),
    )
)
RULES = (
    Rule((Condition(0, 0b011),)),
    Rule((Condition(0, 1 << 255), Condition(1, 0b1010))),
)
EXAMPLES: dict[str, m.Message] = {
    type(message).__name__: message
    for message in (
        m.JoinRequest(HEADER, ("nörth", "south"), True, "continue"),
        m.JoinReply(HEADER, "fedrulefit 1", 2, 5, 10),
        m.KeyRequest(HEADER),
        m.KeyReply(HEADER, bytes(range(32)), b"certificate \x00\xff", "wait", b""),
        m.PeersRequest(
            HEADER,
            (
                m.Peer("nörth", bytes(32), b"c", "wait", b"s"),
                m.Peer("south", b"\xff" * 32, b"", "continue", b"\x80"),
            ),
        ),
        m.PeersReply(HEADER, 2),
        m.SumReply(HEADER, True, np.array([-(2**63), 0, 2**63 - 1])),
        m.OpenRequest(HEADER, 2),
        m.OpenReply(HEADER, bytes(range(32))),
        m.GridRequest(HEADER),
        m.GridReply(HEADER, "exact", False, np.array([-3, 4]), b"s"),
        m.SpreadsRequest(HEADER),
        m.RulesRequest(HEADER, GRID, (m.Histogram("nörth", np.array([-3, 4]), b"s"),)),
        m.RulesReply(HEADER, RULES, (RULES[:1], ()), b"\xff"),
        m.VoteRequest(HEADER, RULES, (m.Sender("nörth", 2, b"s"), m.Sender("south", 0, b""))),
        m.VoteReply(HEADER, bytes(range(4)), b"s"),
        m.TermsRequest(HEADER, RULES, (m.Ballot("nörth", bytes(4), b"s", bytes(32)),)),
        m.TermsReply(HEADER, 7),
        m.DualRequest(HEADER, 2, np.array([0.0, -1e300])),
        m.CurvatureRequest(
            HEADER,
            (
                Query(-1, np.array([0, 3]), np.zeros(2), np.array([0.5, -1.0]), np.array([0, 3])),
                Query(2, np.array([0]), np.zeros(1), np.ones(1), np.array([0, 1, 2])),
            ),
        ),
        m.VariantVoteRequest(HEADER, np.array([0, 1])),
        m.VariantsRequest(
            HEADER, np.array([0, 1]), 2, (m.Ballot("nörth", bytes(4), b"s", bytes(32)),)
        ),
        m.RefitRequest(
            HEADER,
            (
                RefitQuery(-1, np.array([0, 2]), np.zeros(2), np.array([0.5, -1.0]), np.array([1])),
                RefitQuery(1, np.array([0]), np.zeros(1), np.ones(1), np.empty(0, np.int64)),
            ),
        ),
        m.DispersionRequest(HEADER, np.array([0, 2]), np.array([0.1, 0.2]), 0.5),
        m.ShareDispersionRequest(HEADER, 0.5),
        m.ShareDispersionReply(HEADER, 0.5),
        m.ShareModelRequest(HEADER, np.array([0, 2]), np.array([0.1, 0.2])),
        m.ShareModelReply(HEADER, 2),
        m.SlopesRequest(HEADER, np.array([0, 2]), np.array([0.1, 0.2])),
        m.SummaryRequest(HEADER, np.array([0, 2]), np.array([0.1, 0.2]), np.array([0.5, 1.0])),
        m.BetweenRequest(HEADER, 3, np.array([0, 2]), 150.0, np.array([0.25]), np.empty(0)),
        m.EvaluateRequest(HEADER, np.array([0, 2]), np.array([0.1, 0.2])),
        m.AdjustRequest(HEADER, np.array([0, 2]), np.zeros(2), np.array([0.1, 0.2])),
        m.OfferRequest(HEADER, np.array([0, 2])),
        m.ResultsRequest(
            HEADER,
            np.array([0, 2]),
            np.array([0.1, 0.2]),
            np.array([0]),
            True,
            False,
            np.array([0]),
        ),
        m.ResultsReply(
            HEADER,
            np.array([9.0, 3.0]),
            np.ones(1),
            np.zeros(1),
            np.array([2]),
            np.array([0.8]),
            np.ones(1),
            np.zeros(1),
        ),
        m.Refusal(HEADER, "bad-request", "why"),
    )
}
