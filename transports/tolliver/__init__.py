"""tolliver: brokerless messaging over mutual TLS.

Values and errors of a program's calls are here. Import one of the doors beside them:

- `anyio`, `twisted`, `blocking`: instances and streams on asyncio and trio, on Twisted, on threads
- `events`: what `events()` and `on_event` of these tell
- `codecs`: typed values as bodies of messages and elements of streams
- `reactive`: what programs with streams need beside an adapter
- `spark`: data sources, sink, streams with demand and delivery audit in PySpark
- `staging`: messages in files, each once, before they are acknowledged
- `status`, `otel`, `prometheus`: an instance's state and numbers
- `certs`: a private CA and certificates in PEM files
- `derived`: identities derived from a label, for jobs with many short-lived writers
- `sqlite`: the durable store, for programs that drive a node themselves
- `testing`: two connected instances, and a simulated network, for tests of your own programs
- `cli`: the `tolliver` command

Each needs its own extra, and nothing is loaded before it is asked for. The machines without I/O are in
`tolliver_proto`. docs/architecture.md draws the rooms behind the doors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolliver_proto import __version__ as __version__

from ._extras import door

if TYPE_CHECKING:
    from tolliver_proto import (
        Acl,
        ConnectionClosing,
        ConnectionLost,
        Delivery,
        HandshakeRejected,
        IdentityConflict,
        Limits,
        LocalProtocolError,
        Notice,
        NoticeKind,
        OutboxFull,
        OwnLimitExceeded,
        Policy,
        ProtocolError,
        Receipt,
        RemoteProtocolError,
        ReservedChannel,
        Revision,
        Rights,
        SelfConnection,
        StoreError,
        Subscription,
        TolliverError,
    )
    from tolliver_proto.errors import (
        AccessDenied,
        AlreadyClosed,
        BodyNotDecoded,
        BodyNotEncoded,
        CannotListen,
        CertificateError,
        ForkedProcess,
        NoResponders,
        NotOpenYet,
        OutOfThreads,
        RequestFailed,
        TooFewRecipients,
        Undelivered,
        UndeliveredReason,
    )
    from tolliver_proto.layouts import Dialect
    from tolliver_proto.node import (
        Job,
        NodeStats,
        PeerInfo,
        Probe,
        QuotaPolicy,
        RemoteInfo,
        Reply,
        Request,
        RetainedValue,
    )
    from tolliver_proto.store import DeadLetter
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto": (
                "Acl, ConnectionClosing, ConnectionLost, Delivery, HandshakeRejected, IdentityConflict, Limits, "
                "LocalProtocolError, Notice, NoticeKind, OutboxFull, OwnLimitExceeded, Policy, ProtocolError, "
                "Receipt, RemoteProtocolError, ReservedChannel, Revision, Rights, SelfConnection, StoreError, "
                "Subscription, TolliverError"
            ),
            "tolliver_proto.errors": (
                "AccessDenied, AlreadyClosed, BodyNotDecoded, BodyNotEncoded, CannotListen, CertificateError, "
                "ForkedProcess, NoResponders, NotOpenYet, OutOfThreads, RequestFailed, TooFewRecipients, "
                "Undelivered, UndeliveredReason"
            ),
            "tolliver_proto.layouts": "Dialect",
            "tolliver_proto.node": (
                "Job, NodeStats, PeerInfo, Probe, QuotaPolicy, RemoteInfo, Reply, Request, RetainedValue"
            ),
            "tolliver_proto.store": "DeadLetter",
        },
    )

__all__ = [
    "AccessDenied",
    "Acl",
    "AlreadyClosed",
    "BodyNotDecoded",
    "BodyNotEncoded",
    "CannotListen",
    "CertificateError",
    "ConnectionClosing",
    "ConnectionLost",
    "DeadLetter",
    "Delivery",
    "Dialect",
    "ForkedProcess",
    "HandshakeRejected",
    "IdentityConflict",
    "Job",
    "Limits",
    "LocalProtocolError",
    "NoResponders",
    "NodeStats",
    "NotOpenYet",
    "Notice",
    "NoticeKind",
    "OutOfThreads",
    "OutboxFull",
    "OwnLimitExceeded",
    "PeerInfo",
    "Policy",
    "Probe",
    "ProtocolError",
    "QuotaPolicy",
    "Receipt",
    "RemoteInfo",
    "RemoteProtocolError",
    "Reply",
    "Request",
    "RequestFailed",
    "ReservedChannel",
    "RetainedValue",
    "Revision",
    "Rights",
    "SelfConnection",
    "StoreError",
    "Subscription",
    "TolliverError",
    "TooFewRecipients",
    "Undelivered",
    "UndeliveredReason",
]
