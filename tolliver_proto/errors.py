"""All errors, of the machines and of the adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._common.lazy_names import lazy_names

if TYPE_CHECKING:
    from tolliver_proto._common.errors import (
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
        JobFailed,
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
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        globals(),
        {
            "tolliver_proto._common.errors": (
                "AccessDenied, AlreadyClosed, Blocked, BodyNotDecoded, BodyNotEncoded, CannotListen, "
                "CertificateError, ConnectionClosing, ConnectionLost, DiskFull, ForkedProcess, HandshakeRejected, "
                "IdentityConflict, JobFailed, LimitExceeded, LocalProtocolError, MalformedFrame, NoResponders, "
                "NotOpenYet, OutOfThreads, OutboxFull, OwnLimitExceeded, ProtocolError, RemoteProtocolError, "
                "RequestFailed, ReservedChannel, SelfConnection, StoreError, TolliverError, TooFewRecipients, "
                "Unconfirmed, Undelivered, UndeliveredReason, UnexpectedEOF, UnexpectedFrame"
            ),
        },
    )

__all__ = [
    "AccessDenied",
    "AlreadyClosed",
    "Blocked",
    "BodyNotDecoded",
    "BodyNotEncoded",
    "CannotListen",
    "CertificateError",
    "ConnectionClosing",
    "ConnectionLost",
    "DiskFull",
    "ForkedProcess",
    "HandshakeRejected",
    "IdentityConflict",
    "JobFailed",
    "LimitExceeded",
    "LocalProtocolError",
    "MalformedFrame",
    "NoResponders",
    "NotOpenYet",
    "OutOfThreads",
    "OutboxFull",
    "OwnLimitExceeded",
    "ProtocolError",
    "RemoteProtocolError",
    "RequestFailed",
    "ReservedChannel",
    "SelfConnection",
    "StoreError",
    "TolliverError",
    "TooFewRecipients",
    "Unconfirmed",
    "Undelivered",
    "UndeliveredReason",
    "UnexpectedEOF",
    "UnexpectedFrame",
]
