"""Reserved prefixes of channels and keys, for requests and calls (P-10, P-11, P-80)."""

from __future__ import annotations

REQUESTS = "tolliver.request/"
"""Prefix of a request's channel; the name of the requested channel follows."""
REPLIES = "tolliver.reply/"
"""Prefix of a reply's channel; the requester's UUID follows."""
ANSWERS = "tolliver.answer/"
"""Prefix of the channel of answers to calls; the producer's UUID follows."""
CALL = "tolliver.call="
"""Prefix of the key of a job that is a call: 16 hex digits, its id, a slash and the user's key follow (P-80)."""
_CALL_ID = slice(len(CALL), len(CALL) + 16)
_USERS_KEY = len(CALL) + 17
_HEX = frozenset("0123456789abcdef")


def is_envelope(channel: str) -> bool:
    """True for a channel of requests, replies or answers: a wildcard subscription does not match it (P-11)."""
    return channel.startswith((REQUESTS, REPLIES, ANSWERS))


def call_key(call_id: int, key: str) -> str:
    """Returns the key of a job that is a call with this id, for a user's key."""
    return f"{CALL}{call_id:016x}/{key}"


def users_key(key: str) -> str:
    """Returns the user's part of a job's key."""
    return key if call_in(key) is None else key[_USERS_KEY:]


def call_in(key: str) -> int | None:
    """Returns the id of the call in a job's key; None for a job that nobody called."""
    if not key.startswith(CALL) or key[_USERS_KEY - 1 : _USERS_KEY] != "/":
        return None
    digits = key[_CALL_ID]
    return int(digits, 16) if set(digits) <= _HEX else None
