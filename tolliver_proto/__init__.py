"""tolliver: brokerless messaging as a pure state machine, without I/O.

This file is the public surface; every other module of the package is private but `layouts`, `recording` and `testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._common.door import door

if TYPE_CHECKING:
    from ._common.causes import DialCause
    from ._common.certificates import CertificateExpires
    from ._common.derived import is_derive_prefix, is_derived
    from ._common.errors import (
        AccessDenied,
        AlreadyClosed,
        Blocked,
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
        NotOpenYet,
        OutboxFull,
        OutOfThreads,
        OwnLimitExceeded,
        ProtocolError,
        RemoteProtocolError,
        ReservedChannel,
        SelfConnection,
        StoreError,
        TolliverError,
        TooFewRecipients,
        Undelivered,
        UndeliveredReason,
        UnexpectedEOF,
        UnexpectedFrame,
    )
    from ._common.queue_ids import is_queue, queue_id
    from ._common.snapshot import Snapshot, counter, gauge
    from ._common.transport import Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit
    from ._node.access import Acl, Rights
    from ._node.actions import (
        Acked,
        Action,
        Commit,
        Deliver,
        Delivery,
        DialEnded,
        DialFailed,
        Fetch,
        Find,
        Notice,
        NoticeKind,
        PeerDown,
        PeerUp,
        Receipt,
        Stored,
        SubscriptionsChanged,
        TakeBack,
    )
    from ._node.dialing import RemoteInfo, RemoteState
    from ._node.ids import Randomness, begin_elsewhere
    from ._node.node import Node, PeerInfo
    from ._node.policy import Policy, Probe, QuotaPolicy
    from ._node.queues import Job, JobList
    from ._node.stats import NodeStats
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
        Span,
        Store,
        StoredMessage,
        StoreMessages,
        UnparkDeliveries,
        UnpinPeer,
        bytes_of,
    )
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
        Revision,
        Subscribe,
        Subscription,
        Unsubscribe,
    )
    from ._wire.frames import Decoder, decode, encode
    from ._wire.limits import Limits
    from ._wire.state import State
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "._common.causes": "DialCause",
            "._common.certificates": "CertificateExpires",
            "._common.derived": "is_derive_prefix, is_derived",
            "._common.queue_ids": "is_queue, queue_id",
            "._common.errors": (
                "AccessDenied, AlreadyClosed, Blocked, CannotListen, CertificateError, ConnectionClosing, "
                "ConnectionLost, DiskFull, ForkedProcess, HandshakeRejected, IdentityConflict, LimitExceeded, "
                "LocalProtocolError, MalformedFrame, NotOpenYet, OutboxFull, OutOfThreads, OwnLimitExceeded, "
                "ProtocolError, RemoteProtocolError, ReservedChannel, SelfConnection, StoreError, TolliverError, "
                "TooFewRecipients, Undelivered, UndeliveredReason, UnexpectedEOF, UnexpectedFrame"
            ),
            "._common.snapshot": "Snapshot, counter, gauge",
            "._common.transport": (
                "Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit"
            ),
            "._node.access": "Acl, Rights",
            "._node.actions": (
                "Acked, Action, Commit, Deliver, Delivery, DialEnded, DialFailed, Fetch, Find, Notice, NoticeKind, "
                "PeerDown, PeerUp, Receipt, Stored, SubscriptionsChanged, TakeBack"
            ),
            "._node.dialing": "RemoteInfo, RemoteState",
            "._node.ids": "Randomness, begin_elsewhere",
            "._node.node": "Node, PeerInfo",
            "._node.policy": "Policy, Probe, QuotaPolicy",
            "._node.queues": "Job, JobList",
            "._node.stats": "NodeStats",
            "._node.store": (
                "STORING, AddDeadLetter, AddDeliveries, AddOwnSubscription, AddPeerSubscription, CorruptMessage, "
                "DeadLetter, ForgetPeer, ForgetUnsubscribe, Found, KeepUnsubscribe, Loaded, LoadedPeer, Operation, "
                "ParkDelivery, PinPeer, RememberHandled, RemoveDeadLetters, RemoveDeliveries, RemoveMessages, "
                "RemoveOwnSubscription, RemovePeerSubscription, ReplacePeerSubscriptions, ReserveIds, Row, Span, "
                "Store, StoredMessage, StoreMessages, UnparkDeliveries, UnpinPeer, bytes_of"
            ),
            "._wire.connection": "Connection",
            "._wire.dialect": "Dialect",
            "._wire.events": (
                "PROBE_CHANNEL, RESERVED_CHANNEL, Ack, Closed, Decoded, Established, Event, Frame, HandshakeFinal, "
                "HandshakeRequest, HandshakeResponse, HandshakeStatus, Ignored, IgnoreReason, Message, Revision, "
                "Subscribe, Subscription, Unsubscribe"
            ),
            "._wire.frames": "Decoder, decode, encode",
            "._wire.limits": "Limits",
            "._wire.state": "State",
        },
    )

__all__ = [
    "PROBE_CHANNEL",
    "RESERVED_CHANNEL",
    "STORING",
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
    "Blocked",
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
    "Dialect",
    "DiskFull",
    "Established",
    "Event",
    "Fetch",
    "Find",
    "ForgetPeer",
    "ForgetUnsubscribe",
    "ForkedProcess",
    "Found",
    "Frame",
    "HandshakeFinal",
    "HandshakeRejected",
    "HandshakeRequest",
    "HandshakeResponse",
    "HandshakeStatus",
    "IdentityConflict",
    "IgnoreReason",
    "Ignored",
    "Job",
    "JobList",
    "KeepUnsubscribe",
    "LimitExceeded",
    "Limits",
    "Loaded",
    "LoadedPeer",
    "LocalProtocolError",
    "MalformedFrame",
    "Message",
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
    "PeerUp",
    "PinPeer",
    "Policy",
    "Probe",
    "ProtocolError",
    "QuotaPolicy",
    "Randomness",
    "Receipt",
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
    "ReserveIds",
    "ReservedChannel",
    "ResumeReading",
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
    "Subscription",
    "SubscriptionsChanged",
    "TakeBack",
    "TolliverError",
    "TooFewRecipients",
    "Transmit",
    "Undelivered",
    "UndeliveredReason",
    "UnexpectedEOF",
    "UnexpectedFrame",
    "UnparkDeliveries",
    "UnpinPeer",
    "Unsubscribe",
    "begin_elsewhere",
    "bytes_of",
    "counter",
    "decode",
    "encode",
    "gauge",
    "is_derive_prefix",
    "is_derived",
    "is_queue",
    "queue_id",
]
