"""Parts of a node that only an adapter or a pattern needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._common.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolliver_proto._common.arguments import check_count, check_seconds, check_timeout, check_type, listed
    from tolliver_proto._common.certificate_watch import CertificateExpires
    from tolliver_proto._common.counters import Snapshot, counter, gauge
    from tolliver_proto._common.derived_ids import is_derive_prefix, is_derived
    from tolliver_proto._common.dial_causes import DialCause
    from tolliver_proto._common.dial_failures import DialFailure, failure_of
    from tolliver_proto._common.histogram import Histogram
    from tolliver_proto._common.intervals import Span
    from tolliver_proto._node.actions import (
        Acked,
        Answer,
        Answered,
        Asked,
        DialEnded,
        DialFailed,
        GiveUp,
        HandleAgain,
        PeersMoved,
        Reply,
        SendState,
        SubscriptionsChanged,
        TakeBack,
        Verdict,
    )
    from tolliver_proto._node.links.dialing import RemoteInfo, RemoteState
    from tolliver_proto._node.numbers import EndCause, NodeStats, PeerInfo, PeerNumbers
    from tolliver_proto._node.ordered_handling import Lanes
    from tolliver_proto._node.policy import Probe, QuotaPolicy, Retry
    from tolliver_proto._patterns.answers import JobAnswers
    from tolliver_proto._patterns.calls import JobCalls
    from tolliver_proto._patterns.envelopes import Request
    from tolliver_proto._patterns.for_later import ForLater
    from tolliver_proto._patterns.kinds import PATTERNS
    from tolliver_proto._patterns.last_values import LastValues, RetainedValue, ValueList
    from tolliver_proto._patterns.message_keys import MessageKeys
    from tolliver_proto._patterns.queues import Queues
    from tolliver_proto._patterns.requests import Requests
    from tolliver_proto._patterns.work import QueueWork
    from tolliver_proto._patterns.work_queue import Job, JobList, QueueNumbers
    from tolliver_proto._wire.events import PROBE_CHANNEL, RESERVED_CHANNEL
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "tolliver_proto._common.arguments": "check_count, check_seconds, check_timeout, check_type, listed",
            "tolliver_proto._common.certificate_watch": "CertificateExpires",
            "tolliver_proto._common.counters": "Snapshot, counter, gauge",
            "tolliver_proto._common.derived_ids": "is_derive_prefix, is_derived",
            "tolliver_proto._common.dial_causes": "DialCause",
            "tolliver_proto._common.dial_failures": "DialFailure, failure_of",
            "tolliver_proto._common.histogram": "Histogram",
            "tolliver_proto._common.intervals": "Span",
            "tolliver_proto._node.actions": (
                "Acked, Answer, Answered, Asked, DialEnded, DialFailed, GiveUp, HandleAgain, PeersMoved, Reply, "
                "SendState, SubscriptionsChanged, TakeBack, Verdict"
            ),
            "tolliver_proto._node.links.dialing": "RemoteInfo, RemoteState",
            "tolliver_proto._node.numbers": "EndCause, NodeStats, PeerInfo, PeerNumbers",
            "tolliver_proto._node.ordered_handling": "Lanes",
            "tolliver_proto._node.policy": "Probe, QuotaPolicy, Retry",
            "tolliver_proto._patterns.answers": "JobAnswers",
            "tolliver_proto._patterns.calls": "JobCalls",
            "tolliver_proto._patterns.envelopes": "Request",
            "tolliver_proto._patterns.for_later": "ForLater",
            "tolliver_proto._patterns.kinds": "PATTERNS",
            "tolliver_proto._patterns.last_values": "LastValues, RetainedValue, ValueList",
            "tolliver_proto._patterns.message_keys": "MessageKeys",
            "tolliver_proto._patterns.queues": "Queues",
            "tolliver_proto._patterns.requests": "Requests",
            "tolliver_proto._patterns.work": "QueueWork",
            "tolliver_proto._patterns.work_queue": "Job, JobList, QueueNumbers",
            "tolliver_proto._wire.events": "PROBE_CHANNEL, RESERVED_CHANNEL",
        },
    )

__all__ = [
    "PATTERNS",
    "PROBE_CHANNEL",
    "RESERVED_CHANNEL",
    "Acked",
    "Answer",
    "Answered",
    "Asked",
    "CertificateExpires",
    "DialCause",
    "DialEnded",
    "DialFailed",
    "DialFailure",
    "EndCause",
    "ForLater",
    "GiveUp",
    "HandleAgain",
    "Histogram",
    "Job",
    "JobAnswers",
    "JobCalls",
    "JobList",
    "Lanes",
    "LastValues",
    "MessageKeys",
    "NodeStats",
    "PeerInfo",
    "PeerNumbers",
    "PeersMoved",
    "Probe",
    "QueueNumbers",
    "QueueWork",
    "Queues",
    "QuotaPolicy",
    "RemoteInfo",
    "RemoteState",
    "Reply",
    "Request",
    "Requests",
    "RetainedValue",
    "Retry",
    "SendState",
    "Snapshot",
    "Span",
    "SubscriptionsChanged",
    "TakeBack",
    "ValueList",
    "Verdict",
    "check_count",
    "check_seconds",
    "check_timeout",
    "check_type",
    "counter",
    "failure_of",
    "gauge",
    "is_derive_prefix",
    "is_derived",
    "listed",
]
