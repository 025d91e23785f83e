"""Requests and replies by codecs (P-46).

There is one for the question and, if that is another, one for the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar, cast

from tolliver_proto import BodyNotDecoded, Delivery, Reply, Request, RequestFailed

from ._bodies import Opener, encoded, opening
from ._codec import AnyCodec, coding_of

T = TypeVar("T")
R = TypeVar("R")


class TypedRequest(Request, Generic[T]):
    """A request with the `value` that its codec made of its body."""

    __slots__ = ("value",)

    def __init__(self, request: Request, value: T) -> None:
        super().__init__(request._delivery)
        self.value = value

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


class Asking(Generic[T, R]):
    """A typed request: its body, and its replies when they have come."""

    def __init__(self, codec: AnyCodec[T] | None, reply_codec: AnyCodec[R] | None, channel: str, key: str) -> None:
        self._codec = codec
        self._reply_codec = reply_codec
        self._names = channel, key

    def body(self, value: T) -> bytes:
        """Raises BodyNotEncoded, and TypeError where a codec is none."""
        codec, reply_codec = both(self._codec, self._reply_codec)
        self._opener = Opener(reply_codec)
        return encoded(codec, *self._names, value)

    def first(self, reply: Reply) -> TypedReply[R]:
        """Raises RequestFailed where it does not decode."""
        typed = self._opened(reply)
        if typed.error is not None:
            raise typed.error
        return typed

    def each(self, replies: list[Reply]) -> list[TypedReply[R]]:
        """One that does not decode has an error, as one whose handler failed."""
        return [self._opened(reply) for reply in replies]

    def _opened(self, reply: Reply) -> TypedReply[R]:
        if reply.error is not None:
            return TypedReply(reply, None, reply.error)
        try:
            return TypedReply(reply, self._opener.value(*self._names, reply.peer_id, reply.body))
        except BodyNotDecoded as error:
            failure = RequestFailed(reply.peer_id, f"the reply does not decode: {error}")
            failure.__cause__ = error
            return TypedReply(reply, None, failure)


def answering(
    handler: TypedResponding[T, R], codec: AnyCodec[T] | None, reply_codec: AnyCodec[R] | None
) -> tuple[Callable[[Request], object], Callable[[Delivery, R], bytes]]:
    """The handler as one of requests, and the bodies of what it returns. Raises TypeError where one of them is none."""
    codec, other = both(codec, reply_codec)
    opener = Opener(codec)

    def opened(request: Request) -> TypedRequest[T]:
        return TypedRequest(request, opener.value(request.channel, request.key, request.peer_id, request.body))

    return opening(opened, handler), partial(_reply_body, other)


def _reply_body(codec: AnyCodec[R], delivery: Delivery, value: R) -> bytes:
    """Raises BodyNotEncoded."""
    request = Request(delivery)
    return encoded(codec, request.channel, request.key, value)


def both(codec: AnyCodec[T] | None, reply_codec: AnyCodec[R] | None) -> tuple[AnyCodec[T], AnyCodec[R]]:
    """The codec of a request, and that of its reply, which is the same where no other is given. Raises TypeError."""
    if codec is None:
        raise TypeError("reply_codec is given alone: give codec, too")
    other = cast("AnyCodec[R]", codec) if reply_codec is None else reply_codec
    coding_of(other)
    return codec, other
