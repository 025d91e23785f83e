"""Events of a connection: its frames, Established and Closed.

Each frame has one small class, the same in both directions. The classes are slotted, and frozen for the type checker
alone: freezing at run time costs more than parsing (docs/architecture.md, "Speed").
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from .._common.errors import TolliverError
from .._common.records import record
from .codes import HandshakeStatus as HandshakeStatus
from .codes import IgnoreReason as IgnoreReason
from .codes import Revision as Revision


class Subscription(NamedTuple):
    """Subscription to a channel and a key. "" is a wildcard in subscriptions alone (T-24)."""

    channel: str
    key: str


@record
class HandshakeRequest:
    """First frame of a client."""

    version: int
    instance_id: UUID
    subscriptions: tuple[Subscription, ...] = ()


@record
class HandshakeResponse:
    """Answer of a server to the request."""

    version: int
    instance_id: UUID
    status: HandshakeStatus
    subscriptions: tuple[Subscription, ...] = ()


@record
class HandshakeFinal:
    """Decision of a client after the status OLDER. The byte on the wire differs by revision (C1)."""

    compatible: bool


@record
class Message:
    """Message of an application. `message_id` is None for an unreliable message (T-42)."""

    channel: str
    key: str
    body: bytes
    message_id: int | None = None

    @property
    def reliable(self) -> bool:
        return self.message_id is not None


@record
class Ack:
    """Tells that the message was handled: the sender may delete it."""

    message_id: int


@record
class Refusal:
    """Tells that the message was not handled: the sender keeps it. The drafts have no such frame."""

    message_id: int


@record
class Subscribe:
    """Control message on the reserved channel: the sender subscribes to a channel and a key."""

    channel: str
    key: str
    message_id: int | None = None


@record
class Unsubscribe:
    """Control message on the reserved channel: the sender unsubscribes. DRAFT_1 has no such frame (T-21)."""

    channel: str
    key: str
    message_id: int | None = None


@record
class SubscribeMany:
    """Control message with no entry or several; a body with one entry is read as Subscribe. Not in the drafts."""

    subscriptions: tuple[Subscription, ...]
    message_id: int | None = None


@record
class UnsubscribeMany:
    """Control message with no entry or several; a body with one entry is read as Unsubscribe. Not in the drafts."""

    subscriptions: tuple[Subscription, ...]
    message_id: int | None = None


@record
class Ignored:
    """Whole frame that cannot be understood. Acknowledge the frame if it has an id: else the peer sends it again
    (T-10, T-20, T-27)."""

    message_id: int | None
    reason: IgnoreReason


@record
class Established:
    """End of the handshake. `version` is the one that both sides speak (T-60), `subscriptions` is the peer's list."""

    version: int
    peer_id: UUID
    subscriptions: tuple[Subscription, ...]
    status: HandshakeStatus


@record
class Closed:
    """Last event of a connection. `error` is None after an orderly end."""

    error: TolliverError | None = None


Control = Subscribe | Unsubscribe | SubscribeMany | UnsubscribeMany
Sendable = Message | Ack | Refusal | Control
Frame = HandshakeRequest | HandshakeResponse | HandshakeFinal | Sendable
Decoded = Frame | Ignored
Event = Decoded | Established | Closed

RESERVED_CHANNEL = "tolliver"
"""Channel of control messages; the name is exact and case-sensitive (T-27)."""
PROBE_CHANNEL = "tolliver.probe"
"""Channel of probes, with an empty key and body; only peers that do not subscribe to the channel get probes (T-80)."""
PRIVATE_CHANNELS = frozenset((RESERVED_CHANNEL, PROBE_CHANNEL))
"""Channels that no application may use."""
