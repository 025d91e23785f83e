"""Events of a connection: its frames, and two beside them.

Each frame has one small class, the same in both directions. They are slotted and, for the type checker, frozen; at run
time they are not, because freezing costs more than parsing (docs/architecture.md, "Speed").
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple
from uuid import UUID

from .._common.errors import TolliverError
from .._common.records import record


class Revision(IntEnum):
    """Revision of the wire layout: configuration, never negotiated (C6). The Go and Rust ones are other programs'."""

    DRAFT_1 = 1
    DRAFT_2 = 2
    GO_SEED = 3
    GO_D05F89B = 4
    GO_499B76D = 5
    GO_2026 = 6
    RUST_2026 = 7


class HandshakeStatus(IntEnum):
    """A handshake response's status, from the responder's point of view (T-60)."""

    SAME_VERSION = 0
    NEWER_COMPATIBLE = 1
    NEWER_INCOMPATIBLE = 2
    OLDER = 3
    FAILED = 4
    """A failure for another reason than the versions. The drafts have no code for it."""


class IgnoreReason(StrEnum):
    """Why a whole frame was not understood."""

    BAD_TEXT = "bad_text"  # T-10: channel or key is not UTF-8
    BAD_CONTROL = "bad_control"  # T-20: unknown code, wrong length, or not UTF-8
    CONTROL_KEY = "control_key"  # T-27: a control message with a key


class Subscription(NamedTuple):
    """Subscription to a channel and a key. "" is a wildcard here, and only here (T-24)."""

    channel: str
    key: str


@record
class HandshakeRequest:
    """The client's first frame."""

    version: int
    instance_id: UUID
    subscriptions: tuple[Subscription, ...] = ()


@record
class HandshakeResponse:
    """The server's answer."""

    version: int
    instance_id: UUID
    status: HandshakeStatus
    subscriptions: tuple[Subscription, ...] = ()


@record
class HandshakeFinal:
    """The client's last word after OLDER. The byte on the wire differs by revision (C1)."""

    compatible: bool


@record
class Message:
    """An application's message. `message_id` is None where it is unreliable (T-42)."""

    channel: str
    key: str
    body: bytes
    message_id: int | None = None

    @property
    def reliable(self) -> bool:
        return self.message_id is not None


@record
class Ack:
    """`message_id` was handled: the sender may forget it."""

    message_id: int


@record
class Refusal:
    """`message_id` was not handled: the sender keeps it. Not expressible in the drafts, whose acks have no status."""

    message_id: int


@record
class Subscribe:
    """A control message on the reserved channel: the sender wants this."""

    channel: str
    key: str
    message_id: int | None = None


@record
class Unsubscribe:
    """A control message on the reserved channel: no longer. Not expressible in DRAFT_1 (T-21)."""

    channel: str
    key: str
    message_id: int | None = None


@record
class SubscribeMany:
    """A control message with none or several entries: one with one entry is read as Subscribe. Not in the drafts."""

    subscriptions: tuple[Subscription, ...]
    message_id: int | None = None


@record
class UnsubscribeMany:
    """The same of Unsubscribe."""

    subscriptions: tuple[Subscription, ...]
    message_id: int | None = None


@record
class Ignored:
    """A whole frame that cannot be understood. Acknowledge it if it has an id, or it is sent again (T-10, T-20,
    T-27)."""

    message_id: int | None
    reason: IgnoreReason


@record
class Established:
    """The handshake is over. `version` is what both speak (T-60), `subscriptions` the peer's list."""

    version: int
    peer_id: UUID
    subscriptions: tuple[Subscription, ...]
    status: HandshakeStatus


@record
class Closed:
    """The last event. `error` is None after an orderly end."""

    error: TolliverError | None = None


Control = Subscribe | Unsubscribe | SubscribeMany | UnsubscribeMany
Sendable = Message | Ack | Refusal | Control
Frame = HandshakeRequest | HandshakeResponse | HandshakeFinal | Sendable
Decoded = Frame | Ignored
Event = Decoded | Established | Closed

RESERVED_CHANNEL = "tolliver"
PROBE_CHANNEL = "tolliver.probe"
"""Channel of probes, with an empty key and body: only to peers that do not subscribe to it (T-80)."""
PRIVATE_CHANNELS = frozenset((RESERVED_CHANNEL, PROBE_CHANNEL))
"""No application's."""
"""Exact and case-sensitive (T-27)."""
