"""Channel prefixes that are reserved for requests and replies (P-10, P-11)."""

from __future__ import annotations

REQUESTS = "tolliver.request/"
"""Prefix of a request's channel; the name of the requested channel follows."""
REPLIES = "tolliver.reply/"
"""Prefix of a reply's channel; the requester's UUID follows."""


def is_envelope(channel: str) -> bool:
    """True for a channel of requests or replies: a wildcard subscription does not match it (P-11)."""
    return channel.startswith((REQUESTS, REPLIES))
