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
- `testing`: a simulated network for your own programs
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
        AccessDenied,
        Acl,
        AlreadyClosed,
        BodyNotDecoded,
        BodyNotEncoded,
        CannotListen,
        CertificateError,
        ConnectionClosing,
        ConnectionLost,
        DeadLetter,
        Delivery,
        Dialect,
        ForkedProcess,
        HandshakeRejected,
        IdentityConflict,
        Job,
        Limits,
        LocalProtocolError,
        NodeStats,
        NoResponders,
        Notice,
        NoticeKind,
        NotOpenYet,
        OutboxFull,
        OutOfThreads,
        OwnLimitExceeded,
        PeerInfo,
        Policy,
        Probe,
        ProtocolError,
        QuotaPolicy,
        Receipt,
        RemoteInfo,
        RemoteProtocolError,
        Reply,
        Request,
        RequestFailed,
        ReservedChannel,
        RetainedValue,
        Revision,
        Rights,
        SelfConnection,
        StoreError,
        Subscription,
        TolliverError,
        TooFewRecipients,
        Undelivered,
        UndeliveredReason,
    )
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            "tolliver_proto": (
                "AccessDenied, Acl, AlreadyClosed, BodyNotDecoded, BodyNotEncoded, CannotListen, CertificateError, "
                "ConnectionClosing, ConnectionLost, DeadLetter, Delivery, Dialect, ForkedProcess, "
                "HandshakeRejected, IdentityConflict, Job, Limits, LocalProtocolError, NoResponders, NodeStats, "
                "NotOpenYet, Notice, NoticeKind, OutOfThreads, OutboxFull, OwnLimitExceeded, PeerInfo, Policy, "
                "Probe, ProtocolError, QuotaPolicy, Receipt, RemoteInfo, RemoteProtocolError, Reply, Request, "
                "RequestFailed, ReservedChannel, RetainedValue, Revision, Rights, SelfConnection, StoreError, "
                "Subscription, TolliverError, TooFewRecipients, Undelivered, UndeliveredReason"
            ),
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
