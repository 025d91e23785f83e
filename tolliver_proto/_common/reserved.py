"""Prefixes of channels that patterns above the kernel have for themselves (P-10, P-11)."""

from __future__ import annotations

REQUESTS = "tolliver.request/"
"""A request for `channel` travels on this and the channel's name."""
REPLIES = "tolliver.reply/"
"""A reply travels on this and the requester's UUID."""


def is_envelope(channel: str) -> bool:
    """True for a channel of requests or of replies, which no wildcard channel has (P-11)."""
    return channel.startswith((REQUESTS, REPLIES))
