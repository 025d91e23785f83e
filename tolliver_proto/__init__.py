"""tolliver: brokerless messaging as a pure state machine, without I/O.

This file is the public surface; every other module of the package is private but `layouts`, `recording` and `testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._common.lazy_names import lazy_names

__version__ = "0.1.0"
"""Version of the distribution, and of all packages in it: nowhere else is it written."""

if TYPE_CHECKING:
    from ._common.certificate_watch import CertificateExpires
    from ._common.counters import Snapshot, counter, gauge
    from ._common.derived_ids import is_derive_prefix, is_derived
    from ._common.dial_causes import DialCause
    from ._common.dial_failures import DialFailure, failure_of
    from ._common.errors import (
        AccessDenied,
        AlreadyClosed,
        Blocked,
        BodyNotDecoded,
        BodyNotEncoded,
        CannotListen,
        CertificateError,
        ConnectionClosing,
        ConnectionLost,
        DiskFull,
        ForkedProcess,
        HandshakeRejected,
        IdentityConflict,
        LimitExceeded,
        LocalProtocolError,
        MalformedFrame,
        NoResponders,
        NotOpenYet,
        OutboxFull,
        OutOfThreads,
        OwnLimitExceeded,
        ProtocolError,
        RemoteProtocolError,
        RequestFailed,
        ReservedChannel,
        SelfConnection,
        StoreError,
        TolliverError,
        TooFewRecipients,
        Unconfirmed,
        Undelivered,
        UndeliveredReason,
        UnexpectedEOF,
        UnexpectedFrame,
    )
    from ._common.histogram import Histogram
    from ._common.intervals import Span
    from ._common.owner_ids import VALUES, is_keeper, is_queue, queue_id
    from ._common.transport import Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit
    from ._node.access import Acl, Rights
    from ._node.actions import (
        Acked,
        Action,
        Answered,
        Asked,
        Commit,
        Deliver,
        Delivery,
        DialEnded,
        DialFailed,
        Fetch,
        Find,
        GiveUp,
        HandleAgain,
        Notice,
        NoticeKind,
        PeerDown,
        PeersMoved,
        PeerUp,
        Receipt,
        Reply,
        Stored,
        SubscriptionsChanged,
        TakeBack,
        Verdict,
    )
    from ._node.links.dialing import RemoteInfo, RemoteState
    from ._node.node import Node
    from ._node.numbers import EndCause, NodeStats, PeerInfo, PeerNumbers
    from ._node.ordered_handling import Lanes
    from ._node.outboxes.ids import Randomness, begin_elsewhere
    from ._node.policy import Policy, Probe, QuotaPolicy
    from ._node.store import (
        STORING,
        AddDeadLetter,
        AddDeliveries,
        AddOwnSubscription,
        AddPeerSubscription,
        CorruptMessage,
        DeadLetter,
        ForgetPeer,
        ForgetUnsubscribe,
        Found,
        KeepUnsubscribe,
        Loaded,
        LoadedPeer,
        Operation,
        ParkDelivery,
        PinPeer,
        RememberHandled,
        RemoveDeadLetters,
        RemoveDeliveries,
        RemoveMessages,
        RemoveOwnSubscription,
        RemovePeerSubscription,
        ReplacePeerSubscriptions,
        ReserveIds,
        Row,
        Store,
        StoredMessage,
        StoreMessages,
        UnparkDeliveries,
        UnpinPeer,
        bytes_of,
    )
    from ._patterns.envelopes import Request
    from ._patterns.kinds import PATTERNS
    from ._patterns.last_values import LastValues, RetainedValue, ValueList
    from ._patterns.queues import Queues
    from ._patterns.requests import Requests
    from ._patterns.work import QueueWork
    from ._patterns.work_queue import Job, JobList, QueueNumbers
    from ._wire.connection import Connection
    from ._wire.dialect import Dialect
    from ._wire.events import (
        PROBE_CHANNEL,
        RESERVED_CHANNEL,
        Ack,
        Closed,
        Decoded,
        Established,
        Event,
        Frame,
        HandshakeFinal,
        HandshakeRequest,
        HandshakeResponse,
        HandshakeStatus,
        Ignored,
        IgnoreReason,
        Message,
        Refusal,
        Revision,
        Subscribe,
        SubscribeMany,
        Subscription,
        Unsubscribe,
        UnsubscribeMany,
    )
    from ._wire.frames import Decoder, decode, encode
    from ._wire.limits import Limits
    from ._wire.state import State
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "._common.dial_causes": "DialCause",
            "._common.intervals": "Span",
            "._common.certificate_watch": "CertificateExpires",
            "._common.derived_ids": "is_derive_prefix, is_derived",
            "._common.histogram": "Histogram",
            "._common.owner_ids": "VALUES, is_keeper, is_queue, queue_id",
            "._common.errors": (
                "AccessDenied, AlreadyClosed, Blocked, BodyNotDecoded, BodyNotEncoded, CannotListen, CertificateError, "
                "ConnectionClosing, ConnectionLost, DiskFull, ForkedProcess, HandshakeRejected, IdentityConflict, "
                "LimitExceeded, LocalProtocolError, MalformedFrame, NoResponders, NotOpenYet, OutboxFull, "
                "OutOfThreads, OwnLimitExceeded, ProtocolError, RemoteProtocolError, RequestFailed, ReservedChannel, "
                "SelfConnection, StoreError, TolliverError, TooFewRecipients, Unconfirmed, Undelivered, "
                "UndeliveredReason, UnexpectedEOF, UnexpectedFrame"
            ),
            "._common.dial_failures": "DialFailure, failure_of",
            "._common.counters": "Snapshot, counter, gauge",
            "._common.transport": (
                "Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit"
            ),
            "._node.access": "Acl, Rights",
            "._node.actions": (
                "Acked, Action, Answered, Asked, Commit, Deliver, Delivery, DialEnded, DialFailed, Fetch, Find, "
                "GiveUp, HandleAgain, Notice, NoticeKind, PeerDown, PeersMoved, PeerUp, Receipt, Reply, "
                "Stored, SubscriptionsChanged, TakeBack, Verdict"
            ),
            "._node.links.dialing": "RemoteInfo, RemoteState",
            "._node.outboxes.ids": "Randomness, begin_elsewhere",
            "._node.ordered_handling": "Lanes",
            "._node.node": "Node",
            "._node.numbers": "EndCause, NodeStats, PeerInfo, PeerNumbers",
            "._node.policy": "Policy, Probe, QuotaPolicy",
            "._node.store": (
                "STORING, AddDeadLetter, AddDeliveries, AddOwnSubscription, AddPeerSubscription, CorruptMessage, "
                "DeadLetter, ForgetPeer, ForgetUnsubscribe, Found, KeepUnsubscribe, Loaded, LoadedPeer, Operation, "
                "ParkDelivery, PinPeer, RememberHandled, RemoveDeadLetters, RemoveDeliveries, RemoveMessages, "
                "RemoveOwnSubscription, RemovePeerSubscription, ReplacePeerSubscriptions, ReserveIds, "
                "Row, Store, StoredMessage, StoreMessages, UnparkDeliveries, "
                "UnpinPeer, bytes_of"
            ),
            "._patterns.envelopes": "Request",
            "._patterns.kinds": "PATTERNS",
            "._patterns.last_values": "LastValues, RetainedValue, ValueList",
            "._patterns.queues": "Queues",
            "._patterns.requests": "Requests",
            "._patterns.work": "QueueWork",
            "._patterns.work_queue": "Job, JobList, QueueNumbers",
            "._wire.connection": "Connection",
            "._wire.dialect": "Dialect",
            "._wire.events": (
                "PROBE_CHANNEL, RESERVED_CHANNEL, Ack, Closed, Decoded, Established, Event, Frame, HandshakeFinal, "
                "HandshakeRequest, HandshakeResponse, HandshakeStatus, Ignored, IgnoreReason, Message, Refusal, "
                "Revision, Subscribe, SubscribeMany, Subscription, Unsubscribe, UnsubscribeMany"
            ),
            "._wire.frames": "Decoder, decode, encode",
            "._wire.limits": "Limits",
            "._wire.state": "State",
        },
    )

__all__ = [
    "PATTERNS",
    "PROBE_CHANNEL",
    "RESERVED_CHANNEL",
    "STORING",
    "VALUES",
    "Abort",
    "AccessDenied",
    "Ack",
    "Acked",
    "Acl",
    "Action",
    "AddDeadLetter",
    "AddDeliveries",
    "AddOwnSubscription",
    "AddPeerSubscription",
    "AlreadyClosed",
    "Answered",
    "Asked",
    "Blocked",
    "BodyNotDecoded",
    "BodyNotEncoded",
    "CannotListen",
    "CertificateError",
    "CertificateExpires",
    "Closed",
    "Commit",
    "Connection",
    "ConnectionClosing",
    "ConnectionLost",
    "CorruptMessage",
    "DeadLetter",
    "Decoded",
    "Decoder",
    "Deliver",
    "Delivery",
    "Dial",
    "DialCause",
    "DialEnded",
    "DialFailed",
    "DialFailure",
    "Dialect",
    "DiskFull",
    "EndCause",
    "Established",
    "Event",
    "Fetch",
    "Find",
    "ForgetPeer",
    "ForgetUnsubscribe",
    "ForkedProcess",
    "Found",
    "Frame",
    "GiveUp",
    "HandleAgain",
    "HandshakeFinal",
    "HandshakeRejected",
    "HandshakeRequest",
    "HandshakeResponse",
    "HandshakeStatus",
    "Histogram",
    "IdentityConflict",
    "IgnoreReason",
    "Ignored",
    "Job",
    "JobList",
    "KeepUnsubscribe",
    "Lanes",
    "LastValues",
    "LimitExceeded",
    "Limits",
    "Loaded",
    "LoadedPeer",
    "LocalProtocolError",
    "MalformedFrame",
    "Message",
    "NoResponders",
    "Node",
    "NodeStats",
    "NotOpenYet",
    "Notice",
    "NoticeKind",
    "Operation",
    "OutOfThreads",
    "OutboxFull",
    "OwnLimitExceeded",
    "ParkDelivery",
    "PauseReading",
    "PeerDown",
    "PeerIdentity",
    "PeerInfo",
    "PeerNumbers",
    "PeerUp",
    "PeersMoved",
    "PinPeer",
    "Policy",
    "Probe",
    "ProtocolError",
    "QueueNumbers",
    "QueueWork",
    "Queues",
    "QuotaPolicy",
    "Randomness",
    "Receipt",
    "Refusal",
    "RememberHandled",
    "RemoteInfo",
    "RemoteProtocolError",
    "RemoteState",
    "RemoveDeadLetters",
    "RemoveDeliveries",
    "RemoveMessages",
    "RemoveOwnSubscription",
    "RemovePeerSubscription",
    "ReplacePeerSubscriptions",
    "Reply",
    "Request",
    "RequestFailed",
    "Requests",
    "ReserveIds",
    "ReservedChannel",
    "ResumeReading",
    "RetainedValue",
    "Revision",
    "Rights",
    "Role",
    "Row",
    "SelfConnection",
    "ShutdownWrite",
    "Snapshot",
    "Span",
    "State",
    "Store",
    "StoreError",
    "StoreMessages",
    "Stored",
    "StoredMessage",
    "Subscribe",
    "SubscribeMany",
    "Subscription",
    "SubscriptionsChanged",
    "TakeBack",
    "TolliverError",
    "TooFewRecipients",
    "Transmit",
    "Unconfirmed",
    "Undelivered",
    "UndeliveredReason",
    "UnexpectedEOF",
    "UnexpectedFrame",
    "UnparkDeliveries",
    "UnpinPeer",
    "Unsubscribe",
    "UnsubscribeMany",
    "ValueList",
    "Verdict",
    "begin_elsewhere",
    "bytes_of",
    "counter",
    "decode",
    "encode",
    "failure_of",
    "gauge",
    "is_derive_prefix",
    "is_derived",
    "is_keeper",
    "is_queue",
    "queue_id",
]
