"""Types of the events of instances and of streams."""

from __future__ import annotations

from tolliver_proto import Notice, PeerDown, PeerUp
from tolliver_proto.node import CertificateExpires, DialFailed, SubscriptionsChanged

from ._driver.events import EventsMissed
from ._messages.events import Event
from ._streams.events import StreamsDialFailed, StreamsEvent, StreamsPeerDown, StreamsPeerUp

__all__ = [
    "CertificateExpires",
    "DialFailed",
    "Event",
    "EventsMissed",
    "Notice",
    "PeerDown",
    "PeerUp",
    "StreamsDialFailed",
    "StreamsEvent",
    "StreamsPeerDown",
    "StreamsPeerUp",
    "SubscriptionsChanged",
]
