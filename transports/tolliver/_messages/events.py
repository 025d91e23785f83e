"""Events of an instance: what `events()` and `on_event` tell."""

from __future__ import annotations

from tolliver_proto import Notice, PeerDown, PeerUp
from tolliver_proto.node import CertificateExpires, DialFailed, SubscriptionsChanged

from .._driver.events import EventsMissed

Event = PeerUp | PeerDown | SubscriptionsChanged | DialFailed | CertificateExpires | Notice | EventsMissed
"""Every type of event."""
