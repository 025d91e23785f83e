"""Errors of the Reactive Streams protocol that messaging does not have."""

from __future__ import annotations

from .._common.dial_causes import DialCause
from .._common.errors import HandshakeRejected, TolliverError, shown
from .._wire.events import HandshakeStatus


class VersionMismatch(HandshakeRejected):
    """The peer's hello announces a version that we do not speak (R-26). Further tries fail until one side changes."""

    def __init__(self, peer_version: int) -> None:
        super().__init__(HandshakeStatus.OLDER, peer_version)  # our version is 0, the oldest one

    def __str__(self) -> str:
        return (
            f"the peer speaks version {self.peer_version} of the Reactive Streams protocol, this side only version 0: "
            "use the port of a peer that speaks version 0"
        )


class ConnectionClosed(TolliverError):
    """One side said goodbye, which ended every stream (R-29). `reason` is the goodbye's."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the connection was closed in order, with the reason {self.reason!r:.200}"


class HelloRefused(ConnectionClosed):
    """The peer said goodbye before its hello, which means that it does not support our version (R-25). Further tries
    fail until one side changes. `reason` is the goodbye's."""

    cause: DialCause | None = DialCause.VERSION

    def __str__(self) -> str:
        return (
            f"the peer refused our hello, of version 0 of the Reactive Streams protocol, with the reason "
            f"{self.reason!r:.200}: use the port of a peer that speaks version 0"
        )


class StreamError(TolliverError):
    """The publisher ended or refused the stream with an error, or one side broke a rule. `text` tells what happened."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.name = name
        self.text = text

    def __str__(self) -> str:
        return f"the stream {self.name!r:.200} ended with an error: {shown(self.text)}"
