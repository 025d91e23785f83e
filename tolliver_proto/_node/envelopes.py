"""Envelopes of requests and replies (P-10, P-11).

They have channels of their own, and stand before a body.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from uuid import UUID

REQUESTS = "tolliver.request/"
"""A request for `channel` travels on this and the channel's name."""
REPLIES = "tolliver.reply/"
"""A reply travels on this and the requester's UUID."""
LAST_REQUEST_ID = 2**64 - 1

_REQUEST = Struct(">Q")
_REPLY = Struct(">QB")


class Status(IntEnum):
    """The byte after a reply's id."""

    ANSWER = 0
    FAILED = 1  # the body is why, in UTF-8
    NOBODY = 2  # no handler is there


def is_envelope(channel: str) -> bool:
    """True for a channel of requests or of replies, which no wildcard channel has (P-11)."""
    return channel.startswith((REQUESTS, REPLIES))


def reply_channel(requester: UUID) -> str:
    return f"{REPLIES}{requester}"


def request_body(request_id: int, body: bytes) -> bytes:
    return _REQUEST.pack(request_id) + body


def reply_body(request_id: int, status: Status, body: bytes) -> bytes:
    return _REPLY.pack(request_id, status) + body


def id_in(body: bytes) -> int | None:
    """The id of a request; None where that is none."""
    return int.from_bytes(body[: _REQUEST.size], "big") if len(body) >= _REQUEST.size else None


def body_in(body: bytes) -> bytes:
    """A request's body without its envelope."""
    return body[_REQUEST.size :]


def read_reply(body: bytes) -> tuple[int, int, bytes] | None:
    """Id, status and body of a reply; None where that is none."""
    if len(body) < _REPLY.size:
        return None
    request_id, status = _REPLY.unpack_from(body)
    return request_id, status, body[_REPLY.size :]
