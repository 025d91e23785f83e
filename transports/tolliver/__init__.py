"""tolliver: brokerless messaging over mutual TLS.

This package has the values and errors of a program's calls. Import the rest from its modules:

- `anyio`, `twisted`, `blocking`: instances and streams on asyncio and trio, on Twisted, on threads
- `events`: types of the events of `events()` and `on_event`
- `codecs`: typed values as bodies of messages and elements of streams
- `reactive`: names for programs with streams, in addition to an adapter's
- `spark`: data sources, sink, streams with demand and delivery audit in PySpark
- `staging`: messages in files, each once, before they are acknowledged
- `status`, `otel`, `prometheus`: an instance's state and numbers
- `certs`: a private CA and certificates in PEM files
- `inbox`, `outbox`: effects and messages that are committed with the program's own rows
- `local`: programs of this machine, which hand messages over to a running instance
- `derived`: identities derived from a label, for jobs with many short-lived writers
- `sqlite`: the durable store, for programs that drive a node themselves
- `testing`: two connected instances, and a simulated network, for tests of your own programs
- `cli`: the `tolliver` command

Some need an extra, and nothing is loaded before its first use. The protocol without I/O is in `tolliver_proto`.
docs/architecture.md shows the internal packages.
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
        JobFailed,
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
        Retry,
        SendState,
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
                "ForkedProcess, JobFailed, NoResponders, NotOpenYet, OutOfThreads, RequestFailed, TooFewRecipients, "
                "Undelivered, UndeliveredReason"
            ),
            "tolliver_proto.layouts": "Dialect",
            "tolliver_proto.node": (
                "Job, NodeStats, PeerInfo, Probe, QuotaPolicy, RemoteInfo, Reply, Request, RetainedValue, Retry, "
                "SendState"
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
    "JobFailed",
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
    "Retry",
    "Revision",
    "Rights",
    "SelfConnection",
    "SendState",
    "StoreError",
    "Subscription",
    "TolliverError",
    "TooFewRecipients",
    "Undelivered",
    "UndeliveredReason",
]
