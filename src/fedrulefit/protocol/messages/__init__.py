"""Everything that can leave a hospital, and everything it can be asked.

One frozen class per arrow; together they are a closed set (:data:`MESSAGES`). What the words of
a message are, who may send it and when, is declared in the class itself
(:mod:`fedrulefit.protocol.messages.base`).
"""

from typing import Final

from fedrulefit.protocol.messages.agreement import (
    Ballot,
    GridReply,
    GridRequest,
    Histogram,
    JoinReply,
    JoinRequest,
    KeyReply,
    KeyRequest,
    Peer,
    PeersReply,
    PeersRequest,
    RulesReply,
    RulesRequest,
    Sender,
    TermsReply,
    TermsRequest,
    VoteReply,
    VoteRequest,
)
from fedrulefit.protocol.messages.base import (
    NO_PATIENT_DATA,
    PROTOCOL_VERSION,
    Header,
    Message,
    Refusal,
    Reply,
    Request,
    Turn,
    blank_header,
)
from fedrulefit.protocol.messages.fit import (
    CurvatureRequest,
    DualRequest,
    SlopesRequest,
    SpreadsRequest,
    SummaryRequest,
)
from fedrulefit.protocol.messages.results import (
    EvaluateRequest,
    OfferRequest,
    OfferSums,
    ResultsReply,
    ResultsRequest,
)
from fedrulefit.protocol.messages.sums import OpenReply, OpenRequest, SumReply, SumRequest

__all__ = [
    "MESSAGES",
    "NO_PATIENT_DATA",
    "PROTOCOL_VERSION",
    "REQUESTS",
    "SUM_REQUESTS",
    "Ballot",
    "CurvatureRequest",
    "DualRequest",
    "EvaluateRequest",
    "GridReply",
    "GridRequest",
    "Header",
    "Histogram",
    "JoinReply",
    "JoinRequest",
    "KeyReply",
    "KeyRequest",
    "Message",
    "OfferRequest",
    "OfferSums",
    "OpenReply",
    "OpenRequest",
    "Peer",
    "PeersReply",
    "PeersRequest",
    "Refusal",
    "Reply",
    "Request",
    "ResultsReply",
    "ResultsRequest",
    "RulesReply",
    "RulesRequest",
    "Sender",
    "SlopesRequest",
    "SpreadsRequest",
    "SumReply",
    "SumRequest",
    "SummaryRequest",
    "TermsReply",
    "TermsRequest",
    "Turn",
    "VoteReply",
    "VoteRequest",
    "blank_header",
]

SUM_REQUESTS: Final = tuple(SumRequest.__subclasses__())
"""Every question whose answers add up."""

REQUESTS: Final[tuple[type[Request], ...]] = tuple(
    sorted(
        [kind for kind in (*Request.__subclasses__(), *SUM_REQUESTS) if kind is not SumRequest],
        key=lambda kind: len(Turn) if kind.turn is None else kind.turn,
    )
)
"""Every question, in the order in which they come."""

MESSAGES: Final[tuple[type[Message], ...]] = (*REQUESTS, *Reply.__subclasses__())
"""The closed set: nothing else is read or sent."""
