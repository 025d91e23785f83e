"""Encoding and decoding of message bodies by a codec.

Every call of a channel with a codec uses this module. A value is encoded before anything is stored, and a body decoded
before the program gets its delivery. Codecs and the bytes that they read are foreign, so any exception of a codec
becomes an error of ours that names the message.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from tolliver_proto import Delivery
from tolliver_proto.errors import BodyNotDecoded, BodyNotEncoded

from ._codec import BYTES, AnyCodec, coding_of

T = TypeVar("T")
R = TypeVar("R")


class TypedDelivery(Delivery, Generic[T]):
    """A delivery with the `value` decoded from its body. `ack()`, `fail()` and `give_up()` settle the `delivery`."""

    __slots__ = ("delivery", "value")

    def __init__(self, delivery: Delivery, value: T) -> None:
        super().__init__(delivery.cid, delivery.peer_id, delivery.message, delivery.attempt)
        self.delivery: Delivery = delivery
        self.value: T = value

    def ack(self) -> None:
        """Report success: the sender may delete the message (T-45). A second call does nothing."""
        self.delivery.ack()

    def fail(self, retry_in: float | None = None) -> None:
        """Report failure: the sender keeps the message, and resends it after its resend interval (T-50).

        With `retry_in` it is handed out here again after that many seconds (P-22). Raises ValueError.
        """
        self.delivery.fail(retry_in)

    def give_up(self, reason: str) -> None:
        """Store the message as a dead letter, with this reason, and acknowledge it: retrying is no use (T-47, P-23)."""
        self.delivery.give_up(reason)

    def __repr__(self) -> str:
        return f"Typed{super().__repr__()}"


class TypedJob(TypedDelivery[T], Generic[T, R]):
    """A job with the `value` decoded from its body. `answer(value)` gives its caller a value."""

    __slots__ = ("_reply_codec",)

    def __init__(self, delivery: Delivery, value: T, reply_codec: AnyCodec[R]) -> None:
        super().__init__(delivery, value)
        self._reply_codec = reply_codec

    def answer(self, value: R) -> None:  # type: ignore[override]  # a value in place of bytes
        """Report success, with an answer for the call that waits for this job (P-81). Raises BodyNotEncoded, and the
        job is not settled then."""
        self.delivery.answer(encoded(self._reply_codec, self.channel, self.key, value))


TypedHandler = Callable[[TypedDelivery[T]], object]
"""A callback for typed deliveries. Like any handler, it returns None or a true value for success."""


def encoded(codec: AnyCodec[T], channel: str, key: str, value: T) -> bytes:
    """Encode a value. Raises BodyNotEncoded, and TypeError for an invalid codec."""
    return _encoded(coding_of(codec).encode, codec, channel, key, value)


def encoded_items(codec: AnyCodec[T], items: Iterable[tuple[str, str, T]]) -> list[tuple[str, str, bytes]]:
    """Encode (channel, key, value) items. Raises like `encoded`."""
    encode = coding_of(codec).encode
    return [(channel, key, _encoded(encode, codec, channel, key, value)) for channel, key, value in items]


def _encoded(encode: Any, codec: object, channel: str, key: str, value: Any) -> bytes:
    if codec is BYTES:
        return cast(bytes, value)
    try:
        body = encode(value)
    except Exception as error:
        raise BodyNotEncoded(channel, key, f"{_shown(codec)} raised {_told(error)}") from error
    if not isinstance(body, bytes):
        raise BodyNotEncoded(channel, key, f"{_shown(codec)} made {type(body).__name__} of it, not bytes")
    return body


class Opener(Generic[T]):
    """Decodes bodies with one codec. Raises TypeError for an invalid codec."""

    def __init__(self, codec: AnyCodec[T]) -> None:
        self._codec = codec
        decode = coding_of(codec).decode
        if decode is None:
            raise TypeError("codec is None: give one, or leave it out")
        self._decode = decode

    def __call__(self, delivery: Delivery) -> TypedDelivery[T]:
        """Decode a delivery. Raises BodyNotDecoded."""
        return TypedDelivery(delivery, self.value(delivery.channel, delivery.key, delivery.peer_id, delivery.body))

    def value(self, channel: str, key: str, peer: UUID, body: bytes) -> T:
        """Decode a body. Raises BodyNotDecoded, which names channel, key and peer."""
        try:
            return cast(T, self._decode(body))
        except Exception as error:
            why = f"{_shown(self._codec)} raised {_told(error)}"
            raise BodyNotDecoded(channel, key, peer, why) from error


def decoding(codec: AnyCodec[T], handler: TypedHandler[T]) -> Callable[[Delivery], object]:
    """Wrap a typed handler as a handler of deliveries, async if it is, for `InstanceOptions(handlers=...)`.

    A body that does not decode is a failure of the handler (T-45). Raises TypeError for an invalid codec or handler.
    """
    return wrapped(handler, Opener(codec), None, "give a function of a delivery")


def wrapped(
    handler: Callable[[Any], object],
    opened: Callable[[Any], Any],
    closed: Callable[[Any, Any], object] | None,
    give: str,
) -> Callable[[Any], object]:
    """Wrap a handler, async if it is: it is called with `opened(argument)`, and its result passed through `closed` if
    given.

    Raises TypeError, with the advice `give`, if the handler is not callable.
    """
    if not callable(handler):
        raise TypeError(f"the handler {handler!r:.200} cannot be called: {give}")

    is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
    if closed is None and not is_async:
        return _named(handler)(lambda given: handler(opened(given)))

    async def later(given: Any, result: Awaitable[object]) -> object:
        return await result if closed is None else closed(given, await result)

    @_named(handler)
    async def handle_async(given: Any) -> object:
        return await later(given, cast("Awaitable[object]", handler(opened(given))))

    @_named(handler)
    def handle(given: Any) -> object:
        assert closed is not None
        result = handler(opened(given))
        return later(given, result) if isinstance(result, Awaitable) else closed(given, result)

    return handle_async if is_async else handle


def _named(handler: object) -> Callable[[Callable[[Any], T]], Callable[[Any], T]]:
    """Decorator that gives a wrapper the name of the program's handler, for texts."""

    def named(function: Callable[[Any], T]) -> Callable[[Any], T]:
        kind = type(handler)
        function.__name__ = getattr(handler, "__name__", kind.__name__)
        function.__qualname__ = getattr(handler, "__qualname__", kind.__qualname__)
        return function

    return named


def _shown(codec: object) -> str:
    return _text(lambda: codec.__name__ if isinstance(codec, type) else f"{codec!r:.100}", type(codec))


def _told(error: Exception) -> str:
    """Type and text of an error, escaped and cut, as the text may quote a peer's bytes (D-14)."""
    kind = type(error).__name__
    return _text(lambda: f"{kind}: {ascii(str(error))[1:-1]:.200}" if str(error) else kind, type(error))


def _text(say: Callable[[], str], kind: type) -> str:
    try:
        return say()
    except Exception as error:
        return f"a {kind.__name__} whose words raise {type(error).__name__}"
