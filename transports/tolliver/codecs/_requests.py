"""Requests and replies with codecs (P-46).

A reply may have another codec than its request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar, cast

from tolliver_proto.errors import BodyNotDecoded, RequestFailed
from tolliver_proto.node import Reply, Request

from ._bodies import Opener, encoded, wrapped
from ._codec import AnyCodec, coding_of

T = TypeVar("T")
R = TypeVar("R")


class TypedRequest(Request, Generic[T]):
    """A request with the `value` decoded from its body."""

    __slots__ = ("value",)

    def __init__(self, request: Request, value: T) -> None:
        super().__init__(request._delivery)
        self.value: T = value

    def __repr__(self) -> str:
        return f"Typed{super().__repr__()}"


TypedResponding = Callable[[TypedRequest[T]], R | Awaitable[R]]
"""A callback for a typed request that returns the reply's value. On a loop its result may be awaitable."""


class TypedReply(Reply, Generic[T]):
    """A reply with the `value` decoded from its body."""

    __slots__ = ("_value",)

    def __init__(self, reply: Reply, value: T | None, error: RequestFailed | None = None) -> None:
        super().__init__(reply.peer_id, reply.body, error)
        self._value = value

    @property
    def value(self) -> T:
        """The decoded value. Raises the reply's `error` if the responder failed or the reply does not decode."""
        if self.error is not None:
            raise self.error
        return cast(T, self._value)


def opened_reply(codec: AnyCodec[R], channel: str, key: str, reply: Reply) -> TypedReply[R]:
    """Decode a reply. Raises RequestFailed if it does not decode."""
    (typed,) = opened_replies(codec, channel, key, [reply])
    if typed.error is not None:
        raise typed.error
    return typed


def opened_replies(codec: AnyCodec[R], channel: str, key: str, replies: Iterable[Reply]) -> list[TypedReply[R]]:
    """Decode replies. One that does not decode gets an error, like one of a failed responder."""
    opener = Opener(codec)
    return [_opened(opener, channel, key, reply) for reply in replies]


def _opened(opener: Opener[R], channel: str, key: str, reply: Reply) -> TypedReply[R]:
    if reply.error is not None:
        return TypedReply(reply, None, reply.error)
    try:
        return TypedReply(reply, opener.value(channel, key, reply.peer_id, reply.body))
    except BodyNotDecoded as error:
        failure = RequestFailed(reply.peer_id, f"the reply does not decode: {error}")
        failure.__cause__ = error
        return TypedReply(reply, None, failure)


def answering(
    codec: AnyCodec[T], handler: TypedResponding[T, R], reply_codec: AnyCodec[R] | None = None
) -> Callable[[Request], object]:
    """Wrap a typed responder as a handler of requests, async if it is, for `InstanceOptions(responders=...)`.

    The reply's codec is by default the request's. If the request does not decode or the result does not encode, the
    request fails at its requester. Raises TypeError for an invalid codec or handler.
    """
    opener = Opener(codec)
    replies = cast("AnyCodec[R]", codec) if reply_codec is None else reply_codec
    coding_of(replies)

    def opened(request: Request) -> TypedRequest[T]:
        return TypedRequest(request, opener.value(request.channel, request.key, request.peer_id, request.body))

    def body(request: Request, value: R) -> bytes:
        return encoded(replies, request.channel, request.key, value)

    return wrapped(handler, opened, body, "give a function of a request")
