"""Error tree of the project, with TolliverError as its root.

An error tells who has to act. `LocalProtocolError` is a bug in the calling program and leaves everything as it was;
`RemoteProtocolError` is the peer's and ends its connection; the rest are states of the world that a correct program
meets (a lost race, a full disk, a refused certificate).
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from .dial_causes import DialCause

SHOWN = 1000
"""Characters that are shown of a text of somebody else."""


def shown(text: str) -> str:
    """A text that somebody else chose, for people and logs: control characters escaped, and cut off (D-14)."""
    start = text[: SHOWN + 1]
    if not start.isprintable():
        start = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in start)
    return start if len(start) <= SHOWN else f"{start[:SHOWN]}..."


class TolliverError(Exception):
    """The root: `except TolliverError` catches all that this project raises."""

    cause: DialCause | None = None
    """Why a dial came to nothing, where that is known."""


class ProtocolError(TolliverError):
    """A rule of the protocol was broken.

    `code` is a short stable word for programs, `detail` a sentence for people. `frame` names the kind of frame,
    `offset` is where it begins (bytes since the connection opened), `state` is the connection's state then.
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
    """You broke the rules. Raised before anything changed: the connection is still usable."""


class ReservedChannel(LocalProtocolError):
    """The channels "tolliver" and "tolliver.probe" belong to the protocol (T-27, T-80)."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules; its connection is over."""


class MalformedFrame(RemoteProtocolError):
    """Bytes that are no frame of this revision: an unknown type or status, bad text in a handshake (T-05, T-10)."""


class UnexpectedFrame(RemoteProtocolError):
    """A good frame at a time when it is not allowed (T-63, T-65, T-66)."""


class LimitExceeded(RemoteProtocolError):
    """A length or count above the bound, refused at the header (T-06 to T-08)."""


class OwnLimitExceeded(LocalProtocolError, LimitExceeded):
    """The value passes a bound that peers enforce too (T-06, T-07, T-19): make it smaller."""


class UnexpectedEOF(RemoteProtocolError):
    """The stream ended inside a frame or before the handshake was over."""


class HandshakeRejected(TolliverError):
    """The two versions are not compatible (T-60; of streams, R-26).

    `status` is the handshake's status from the responder's point of view, `peer_version` what the peer announced.
    """

    cause = DialCause.VERSION

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
    """Two sources disagree about who an instance or a peer is (D-3, T-72)."""

    cause = DialCause.IDENTITY


class AccessDenied(TolliverError):
    """Our own access rules keep this peer out (D-4, T-77). Trying again will not help until they are changed."""

    cause = DialCause.ACCESS


class SelfConnection(TolliverError):
    """A connection that leads back to the instance that made it (T-71)."""

    cause = DialCause.SELF


class CertificateError(TolliverError):
    """A certificate was refused, by us or by the peer. Trying again will not help (T-73, T-74)."""

    cause = DialCause.CERTIFICATE


class ConnectionClosing(TolliverError):
    """The call lost a race with the close. Not a bug: nothing was sent."""


class NotOpenYet(ConnectionClosing):
    """The instance, or the streams, were never opened."""


class AlreadyClosed(ConnectionClosing):
    """The instance, or the streams, are closing or closed."""


class ForkedProcess(ConnectionClosing):
    """This process is a fork of the one that opened it (T-79)."""


class ConnectionLost(TolliverError):
    """The transport went away or fell silent. `cause` says why a dial came to nothing, where that is known."""

    def __init__(self, text: str = "", cause: DialCause | None = None) -> None:
        super().__init__(text)
        self.cause = cause


class CannotListen(ConnectionLost, OSError):
    """The address to listen on is taken, not ours or not allowed; `errno` says which, as of any OSError."""

    def __init__(self, number: int | None, text: str) -> None:
        OSError.__init__(self, number, text)
        self.cause = None

    def __str__(self) -> str:
        return str(self.strerror)


class Blocked(TolliverError):
    """A send has no room: backpressure. Nothing was stored; try again when peers have acknowledged something."""


class OutboxFull(Blocked):
    """A peer's outbox is at its quota, or all message ids are outstanding (D-10, T-41). Nothing was stored."""


class TooFewRecipients(TolliverError):
    """Fewer peers than `required` are subscribed to a message of the send: nothing was stored (T-54)."""

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


def _names(channel: str, key: str) -> str:
    """As they are written in a call."""
    return ", ".join(f"{one!r:.100}" for one in ((channel, key) if key else (channel,)))


class NoResponders(TolliverError):
    """Nobody answers requests for these names: nobody was there, or whoever was asked had no handler (P-13)."""

    def __init__(self, channel: str, key: str) -> None:
        super().__init__(channel, key)
        self.channel = channel
        self.key = key

    def __str__(self) -> str:
        return (
            f"no connected peer answers requests for {self.channel!r:.100} {self.key!r:.100}, nothing was handled: is "
            f"the peer connected, and does it call `respond`? wait_responder({_names(self.channel, self.key)}) waits "
            "until one does, and so does the request itself, for as long as its timeout (P-13)"
        )


class RequestFailed(TolliverError):
    """A responder's handler failed, and this is why, in its own words, escaped and cut (D-14). `peer` is whose it was
    (P-12)."""

    def __init__(self, peer: UUID, text: str) -> None:
        text = shown(text)
        super().__init__(peer, text)
        self.peer = peer
        self.text = text

    def __str__(self) -> str:
        return self.text


class UndeliveredReason(StrEnum):
    """Reason for which a message was given up."""

    EXPIRED = "expired"  # expire_after is over (D-10)
    FORGOTTEN = "forgotten"  # forget_peer, or forget_after is over (T-77)
    DROPPED = "dropped"  # drop_parked (T-09)
    DROPPED_OLDEST = "dropped_oldest"  # to make room for newer ones, as the policy says (D-10)
    SKIPPED = "skipped"  # the peer was at its quota, as the policy says (D-10)
    UNSUBSCRIBED = "unsubscribed"  # the peer did not subscribe again in time (T-61)
    CANCELLED = "cancelled"
    NO_RECIPIENTS = "no_recipients"  # no peer was to have it, so nothing of it is kept (T-53)


class Undelivered(TolliverError):
    """`count` messages of a send were given up for `peer`: it will not acknowledge them (T-54).

    `peer` is None where they had no recipient at all, for the reason `no_recipients` (T-53).
    """

    def __init__(self, peer: UUID | None, reason: UndeliveredReason, count: int) -> None:
        super().__init__(peer, reason, count)
        self.peer = peer
        self.reason = reason
        self.count = count

    def __str__(self) -> str:
        if self.peer is None:
            return (
                f"{self.count} messages of this send had no recipients, and are not kept: {self.reason}. Wait until a "
                "peer subscribes, wait_subscribed, or send with require_recipients=1 to have an error first (T-53)"
            )
        return f"{self.count} messages of this send were given up for peer {self.peer}: {self.reason} (T-54)"


class BodyNotEncoded(TolliverError):
    """A codec made no body of a value: nothing was stored or sent (P-41)."""

    def __init__(self, channel: str, key: str, why: str) -> None:
        super().__init__(channel, key, why)
        self.channel = channel
        self.key = key
        self.why = why

    def __str__(self) -> str:
        return f"the value for {self.channel!r:.100} {self.key!r:.100} has no body: {self.why}"


class BodyNotDecoded(TolliverError):
    """A codec made no value of a peer's body: the message has failed, as if its handler had (P-42)."""

    def __init__(self, channel: str, key: str, peer: UUID, why: str) -> None:
        super().__init__(channel, key, peer, why)
        self.channel = channel
        self.key = key
        self.peer = peer
        self.why = why

    def __str__(self) -> str:
        return f"the body of {self.channel!r:.100} {self.key!r:.100} from peer {self.peer} has no value: {self.why}"


class OutOfThreads(TolliverError):
    """The system starts no further thread for this process: work that must not hold up others could not be done."""


class StoreError(TolliverError):
    """The store failed: disk full, locked, corrupt. Nothing is half-written; try again when the cause is gone."""


class Unconfirmed(StoreError):
    """The disk failed at the end of a commit, or its file was taken away: the next opening shows whether it was stored
    (D-13). Messages that are there are sent then."""


class DiskFull(StoreError):
    """No room for what was to be stored: nothing of it was. Commits without a message may still find room (D-13)."""
