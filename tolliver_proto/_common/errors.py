"""Error tree of the project, with TolliverError as its root.

The class of an error tells who has to act. A `LocalProtocolError` is a bug of the calling program, and is raised before
anything changes. A `RemoteProtocolError` is a fault of the peer, and ends the connection. All other errors are states
of the world that a correct program meets: a lost race, a full disk, a refused certificate.

Invariants: an error's text says what happened, to what, and what to do next. A text that a peer chose is escaped and
cut before it is shown (D-14). The broken rule is named by `code`, and the reason of a failed dial by `cause`, so that
no program has to read a text.
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from .dial_causes import DialCause

SHOWN = 1000
"""Number of characters that are shown of a text that a peer chose."""


def shown(text: str) -> str:
    """Returns a peer's text for people and logs: control characters escaped, long texts cut (D-14)."""
    start = text[: SHOWN + 1]
    if not start.isprintable():
        start = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in start)
    return start if len(start) <= SHOWN else f"{start[:SHOWN]}..."


class TolliverError(Exception):
    """Root of the tree: `except TolliverError` catches all errors that this project raises."""

    cause: DialCause | None = None
    """Cause of a failed dial, if known."""


class ProtocolError(TolliverError):
    """A rule of the protocol was broken.

    `code` is a short stable word for programs, `detail` a sentence for people. `frame` names the kind of frame,
    `offset` is its first byte (counted since the connection opened), `state` is the connection's state at the fault.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        frame: str | None = None,
        offset: int | None = None,
        state: str | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        self.frame = frame
        self.offset = offset
        self.state = state

    def __str__(self) -> str:
        context = [
            f"{name} {value}"
            for name, value in (("frame", self.frame), ("at byte", self.offset), ("in state", self.state))
            if value is not None
        ]
        return f"{self.detail} [{self.code}{': ' if context else ''}{', '.join(context)}]"


class LocalProtocolError(ProtocolError):
    """The calling program broke a rule. The error is raised before anything changes: the connection stays usable."""


class ReservedChannel(LocalProtocolError):
    """The channel is the protocol's own: "tolliver" (reserved, T-27) or "tolliver.probe" (probes, T-80)."""


class RemoteProtocolError(ProtocolError):
    """The peer broke a rule; its connection ends."""


class MalformedFrame(RemoteProtocolError):
    """Bytes that are no frame of this revision: an unknown type or status, bad text in a handshake (T-05, T-10)."""


class UnexpectedFrame(RemoteProtocolError):
    """A good frame at a time when it is not allowed (T-63, T-65, T-66)."""


class LimitExceeded(RemoteProtocolError):
    """A length or count above the bound, refused at the header (T-06 to T-08)."""


class OwnLimitExceeded(LocalProtocolError, LimitExceeded):
    """The value passes a bound that peers enforce too (T-06, T-07, T-19): make it smaller."""


class UnexpectedEOF(RemoteProtocolError):
    """The stream ended inside a frame or inside the handshake."""


class HandshakeRejected(TolliverError):
    """The two versions are not compatible (version table, T-60; of streams, R-26).

    `status` is the handshake's status from the responder's point of view, `peer_version` is the version that the peer
    announced. `is_failure` is True if the peer refused for another reason than the versions.
    """

    cause: DialCause | None = DialCause.VERSION

    def __init__(self, status: int, peer_version: int, is_failure: bool = False) -> None:
        super().__init__(status, peer_version)
        self.status = status
        self.peer_version = peer_version
        self.is_failure = is_failure

    def __str__(self) -> str:
        if self.is_failure:
            return (
                f"the peer, of protocol version {self.peer_version}, answered that the handshake failed there: its log "
                "says why"
            )
        return (
            f"the peer announces protocol version {self.peer_version} and one side cannot speak the other's "
            f"(status {int(self.status)}): upgrade the older side, or let the newer one's `speaks` accept it"
        )


class IdentityConflict(TolliverError):
    """Two sources disagree about the identity of an instance or a peer (D-3, T-72)."""

    cause: DialCause | None = DialCause.IDENTITY


class AccessDenied(TolliverError):
    """Our own access rules refuse this peer (D-4, T-77). Further tries fail until the rules are changed."""

    cause: DialCause | None = DialCause.ACCESS


class SelfConnection(TolliverError):
    """A connection that leads back to the instance that made it (T-71)."""

    cause: DialCause | None = DialCause.SELF


class CertificateError(TolliverError):
    """We or the peer refused a certificate. Further tries fail until the certificate is replaced (T-73, T-74)."""

    cause: DialCause | None = DialCause.CERTIFICATE


class ConnectionClosing(TolliverError):
    """The call lost a race with the close: nothing was sent. A correct program meets this error too."""


class NotOpenYet(ConnectionClosing):
    """The instance, or the streams object, was never opened."""


class AlreadyClosed(ConnectionClosing):
    """The instance, or the streams object, is closing or closed."""


class ForkedProcess(ConnectionClosing):
    """This process is a fork of the process that opened the instance or the streams object (T-79)."""


class ConnectionLost(TolliverError):
    """The transport went away or fell silent. `cause` is the cause of a failed dial, if known."""

    def __init__(self, text: str = "", cause: DialCause | None = None) -> None:
        super().__init__(text)
        self.cause = cause


class CannotListen(ConnectionLost, OSError):
    """The address to listen on is taken, not ours or not allowed; `errno` tells the case, as in every OSError."""

    def __init__(self, number: int | None, text: str) -> None:
        OSError.__init__(self, number, text)

    def __str__(self) -> str:
        return str(self.strerror)


class Blocked(TolliverError):
    """A send has no room (backpressure): nothing was stored. Try again when peers have acknowledged messages."""


class OutboxFull(Blocked):
    """A peer's outbox is at its quota, or all message ids are outstanding (D-10, T-41): nothing was stored."""


class TooFewRecipients(TolliverError):
    """A message of the send has `found` recipients, fewer than `required`: nothing was stored (T-54)."""

    def __init__(self, channel: str, key: str, required: int, found: int) -> None:
        super().__init__(channel, key, required, found)
        self.channel = channel
        self.key = key
        self.required = required
        self.found = found

    def __str__(self) -> str:
        return (
            f"{self.channel!r:.100} {self.key!r:.100} has {self.found} recipients, and the send requires "
            f"{self.required}: nothing was stored. Wait until they have subscribed, or require fewer (T-54)"
        )


class NoResponders(TolliverError):
    """No peer answers requests for this channel and key: none was connected, or the peer asked had no handler
    (P-13)."""

    def __init__(self, channel: str, key: str) -> None:
        super().__init__(channel, key)
        self.channel = channel
        self.key = key
        self.not_connected: str = ""
        """Remotes whose last dial failed, as a possible reason: an adapter appends them to the text."""

    def __str__(self) -> str:
        arguments = ", ".join(f"{one!r:.100}" for one in ((self.channel, self.key) if self.key else (self.channel,)))
        return (
            f"no connected peer answers requests for {self.channel!r:.100} {self.key!r:.100}, nothing was handled: is "
            f"the peer connected, and does it call `respond`? wait_responder({arguments}) waits "
            f"until one does, and so does the request itself, for as long as its timeout (P-13){self.not_connected}"
        )


class RequestFailed(TolliverError):
    """The handler of the responder `peer` failed (P-12). `text` is the peer's own reason, escaped and cut (D-14)."""

    def __init__(self, peer: UUID, text: str) -> None:
        text = shown(text)
        super().__init__(peer, text)
        self.peer = peer
        self.text = text

    def __str__(self) -> str:
        return self.text


class JobFailed(RequestFailed):
    """The worker `peer` gave up the job of a call (P-82). `text` is the worker's own reason, escaped and cut (D-14)."""


class UndeliveredReason(StrEnum):
    """Reason for which a message was given up."""

    EXPIRED = "expired"  # the time of `expire_after` has passed (D-10)
    FORGOTTEN = "forgotten"  # `forget_peer` was called, or the time of `forget_after` has passed (T-77)
    DROPPED = "dropped"  # `drop_parked` was called (T-09)
    DROPPED_OLDEST = "dropped_oldest"  # the policy drops the oldest messages at the quota (D-10)
    SKIPPED = "skipped"  # the policy skips peers at their quota (D-10)
    UNSUBSCRIBED = "unsubscribed"  # the peer did not subscribe again in time (T-61)
    CANCELLED = "cancelled"
    NO_RECIPIENTS = "no_recipients"  # no peer was subscribed, so the message is not kept (T-53)


class Undelivered(TolliverError):
    """`count` messages of a send were given up for `peer`, which will not acknowledge them (T-54).

    `peer` is None if the messages had no recipient; the reason is `no_recipients` then (T-53). It is None, too, where
    the message of an earlier send with the same message key was given up for some peer (P-61).
    """

    def __init__(self, peer: UUID | None, reason: UndeliveredReason, count: int) -> None:
        super().__init__(peer, reason, count)
        self.peer = peer
        self.reason = reason
        self.count = count

    def __str__(self) -> str:
        if self.peer is None and self.reason is not UndeliveredReason.NO_RECIPIENTS:
            return f"the message that was sent with this message_key was given up: {self.reason} (T-54)"
        if self.peer is None:
            return (
                f"{self.count} messages of this send had no recipients, and are not kept: {self.reason}. Wait until a "
                "peer subscribes, wait_subscribed, or send with require_recipients=1 to have an error first (T-53)"
            )
        return f"{self.count} messages of this send were given up for peer {self.peer}: {self.reason} (T-54)"


class BodyNotEncoded(TolliverError):
    """A codec could not encode a value: nothing was stored or sent (P-41)."""

    def __init__(self, channel: str, key: str, why: str) -> None:
        super().__init__(channel, key, why)
        self.channel = channel
        self.key = key
        self.why = why

    def __str__(self) -> str:
        return f"the value for {self.channel!r:.100} {self.key!r:.100} has no body: {self.why}"


class BodyNotDecoded(TolliverError):
    """A codec could not decode a peer's body: the message fails, as if its handler had failed (P-42)."""

    def __init__(self, channel: str, key: str, peer: UUID, why: str) -> None:
        super().__init__(channel, key, peer, why)
        self.channel = channel
        self.key = key
        self.peer = peer
        self.why = why

    def __str__(self) -> str:
        return f"the body of {self.channel!r:.100} {self.key!r:.100} from peer {self.peer} has no value: {self.why}"


class OutOfThreads(TolliverError):
    """The system starts no further thread for this process, so that work of an extra thread was not done."""


class StoreError(TolliverError):
    """The store failed (disk full, locked, corrupt). No write is half done: try again when the cause is gone."""


class Unconfirmed(StoreError):
    """The disk failed at the end of a commit, or the file was removed, so that the commit may or may not be stored
    (D-13). The next opening sends the messages that are stored."""


class DiskFull(StoreError):
    """The disk has no room for the messages: none was stored. Commits without a message may still succeed (D-13)."""
