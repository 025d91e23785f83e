"""Envelopes: ids and status of requests and replies (P-10, P-11).

Requests and replies are messages on channels of their own; the envelope is at the beginning of their body.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from uuid import UUID

from .._common.reserved import ANSWERS, REPLIES, REQUESTS
from .._node.actions import Delivery

LAST_REQUEST_ID = 2**64 - 1

_REQUEST = Struct(">Q")
_REPLY = Struct(">QB")


class Status(IntEnum):
    """Result of a request: the byte that follows the id in a reply."""

    ANSWER = 0
    FAILED = 1  # the body is the reason, in UTF-8
    NOBODY = 2  # no handler is there


def reply_channel(requester: UUID) -> str:
    return f"{REPLIES}{requester}"


def answer_channel(producer: UUID) -> str:
    return f"{ANSWERS}{producer}"


def request_body(request_id: int, body: bytes) -> bytes:
    return _REQUEST.pack(request_id) + body


def reply_body(request_id: int, status: Status, body: bytes) -> bytes:
    return _REPLY.pack(request_id, status) + body


def id_in(body: bytes) -> int | None:
    """Returns the id in the body of a request; None if the body is too short for one."""
    return int.from_bytes(body[: _REQUEST.size], "big") if len(body) >= _REQUEST.size else None


def body_in(body: bytes) -> bytes:
    """Returns the application's body of a request, without the id before it."""
    return body[_REQUEST.size :]


def read_reply(body: bytes) -> tuple[int, int, bytes] | None:
    """Returns id, status and body of a reply; None if it is too short for one."""
    if len(body) < _REPLY.size:
        return None
    request_id, status = _REPLY.unpack_from(body)
    return request_id, status, body[_REPLY.size :]


class Request:
    """A request for a responder's handler, which returns the reply's body. The id is the requester's."""

    __slots__ = ("_delivery", "body")

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self.body: bytes = body_in(delivery.message.body)

    @property
    def channel(self) -> str:
        """The channel of the request."""
        return self._delivery.message.channel.removeprefix(REQUESTS)

    @property
    def key(self) -> str:
        """The key within the channel; it may be empty."""
        return self._delivery.message.key

    @property
    def peer_id(self) -> UUID:
        """The requester."""
        return self._delivery.peer_id

    @property
    def request_id(self) -> int:
        """The requester's id of the request: the same if it is repeated or redelivered (P-16)."""
        return id_in(self._delivery.message.body) or 0

    @property
    def durable(self) -> bool:
        """True if the requester stores the request, and resends it until its reply is stored here."""
        return self._delivery.reliable

    def __repr__(self) -> str:
        return f"Request({self.channel!r:.100}, {self.key!r:.100}, {len(self.body)} bytes, id={self.request_id})"
