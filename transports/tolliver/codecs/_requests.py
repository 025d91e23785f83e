"""Requests and replies by codecs (P-46).

There is one for the question and, if that is another, one for the answer.
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
    """A request with the `value` that its codec made of its body."""

    __slots__ = ("value",)

    def __init__(self, request: Request, value: T) -> None:
        super().__init__(request._delivery)
        self.value: T = value

    def __repr__(self) -> str:
        return f"Typed{super().__repr__()}"


TypedResponding = Callable[[TypedRequest[T]], R | Awaitable[R]]
"""A function of a typed request that returns the reply's value. On a loop, its result may be awaitable."""


class TypedReply(Reply, Generic[T]):
    """A reply with the `value` that its codec made of its body."""

    __slots__ = ("_value",)

    def __init__(self, reply: Reply, value: T | None, error: RequestFailed | None = None) -> None:
        super().__init__(reply.peer_id, reply.body, error)
        self._value = value

    @property
    def value(self) -> T:
        """Raises the reply's `error` where it has one: its handler failed, or it did not decode."""
        if self.error is not None:
            raise self.error
        return cast(T, self._value)


def opened_reply(codec: AnyCodec[R], channel: str, key: str, reply: Reply) -> TypedReply[R]:
    """The reply with its value. Raises RequestFailed where it does not decode."""
    (typed,) = opened_replies(codec, channel, key, [reply])
    if typed.error is not None:
        raise typed.error
    return typed


def opened_replies(codec: AnyCodec[R], channel: str, key: str, replies: Iterable[Reply]) -> list[TypedReply[R]]:
    """Replies with their values. One that does not decode has an error, as one whose handler failed."""
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
    """The handler as one of requests, plain or async as it is itself, such as `InstanceOptions(responders=...)` takes.

    The reply's codec is the request's, where no other is given. A request that does not decode fails at its requester,
    and so does a value that does not encode. Raises TypeError where one of them is none.
    """
    opener = Opener(codec)
    replies = cast("AnyCodec[R]", codec) if reply_codec is None else reply_codec
    coding_of(replies)

    def opened(request: Request) -> TypedRequest[T]:
        return TypedRequest(request, opener.value(request.channel, request.key, request.peer_id, request.body))

    def body(request: Request, value: R) -> bytes:
        return encoded(replies, request.channel, request.key, value)

    return wrapped(handler, opened, body, "give a function of a request")
