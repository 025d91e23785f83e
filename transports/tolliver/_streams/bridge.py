"""Bridge: messages of an instance as the source of a stream.

A subscriber's demand tells how many elements it has processed (`OutboundStream.requested`), which is what an
acknowledgement needs. So a message is taken from the instance when the subscriber wants one more, held while it is in
flight, and acknowledged when the subscriber has processed it. Messages still held at the end of the stream are failed,
and their senders resend them. Only the instance's own iterator waits, so event loops and threads share all state, and
differ in a small source class.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Protocol, Self
from urllib.parse import unquote_to_bytes

from tolliver_proto import ConnectionClosing, Delivery, Subscription

from .._messages.run import Run
from .publishing import OutboundStream

SCHEME = "tolliver://"
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_FORM = f'write "{SCHEME}channel/key", percent-encoded as in a URL; without a key it is every key of the channel'


class AsyncRuns(Protocol):
    """An instance's iterator over runs of messages, on an event loop."""

    async def __anext__(self) -> Run: ...

    def be_patient(self) -> None: ...

    def close(self) -> None: ...


class ThreadRuns(Protocol):
    """An instance's iterator over runs of messages, on threads."""

    def __next__(self) -> Run: ...

    def be_patient(self) -> None: ...

    def close(self) -> None: ...


class _Instance(Protocol):
    def subscriptions(self) -> list[Subscription]: ...


class AsyncInstance(_Instance, Protocol):
    """The part of an instance on an event loop that a bridge uses."""

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> AsyncRuns: ...


class ThreadInstance(_Instance, Protocol):
    """The part of an instance on threads that a bridge uses."""

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> ThreadRuns: ...


def async_bridge(instance: AsyncInstance, *, subscribe: bool = False) -> Callable[[str], AwaitedSource]:
    """Source of an instance's messages for streams: `streams.publish("tolliver://*", bridge(instance))`.

    A subscriber asks for "tolliver://channel/key", percent-encoded as in a URL, and gets the bodies of the messages.
    "tolliver://channel" means every key of the channel, "tolliver:///" every channel. Reliable messages are
    acknowledged when the subscriber has processed them: at least once, in order of arrival (docs/streams.md).

    - `instance`: must be of the same adapter, and on the same loop, as the streams.
    - `subscribe`: True: each stream subscribes the instance, for good, to the channel and key that it asks for (T-24).
      False: a peer gets only what the instance subscribes to already, and any other request is refused.

    A subscriber that asks for another name gets the text of a ValueError, or of a LookupError if the instance does not
    subscribe to it; and of a ConnectionClosing when the instance is closed while the stream runs.
    """

    def source(name: str) -> AwaitedSource:
        return AwaitedSource(instance.message_runs(*_checked(instance, name, subscribe), subscribe=subscribe))

    return source


def thread_bridge(instance: ThreadInstance, *, subscribe: bool = False) -> Callable[[str], ThreadSource]:
    """Source of an instance's messages for streams: `streams.publish("tolliver://*", bridge(instance))`.

    A subscriber asks for "tolliver://channel/key", percent-encoded as in a URL, and gets the bodies of the messages.
    "tolliver://channel" means every key of the channel, "tolliver:///" every channel. Reliable messages are
    acknowledged when the subscriber has processed them: at least once, in order of arrival (docs/streams.md).

    - `instance`: must be of the same adapter as the streams.
    - `subscribe`: True: each stream subscribes the instance, for good, to the channel and key that it asks for (T-24).
      False: a peer gets only what the instance subscribes to already, and any other request is refused.

    A subscriber that asks for another name gets the text of a ValueError, or of a LookupError if the instance does not
    subscribe to it; and of a ConnectionClosing when the instance is closed while the stream runs.
    """

    def source(name: str) -> ThreadSource:
        return ThreadSource(instance.message_runs(*_checked(instance, name, subscribe), subscribe=subscribe))

    return source


def _checked(instance: _Instance, name: str, subscribe: bool) -> Subscription:
    """Channel and key of a stream's name. Raises ValueError, and LookupError if the instance does not subscribe to
    them."""
    wanted = wanted_by(name)
    if not subscribe and not any(_overlap(wanted, own) for own in instance.subscriptions()):
        raise LookupError(
            f"the instance behind {name!r:.200} is not subscribed to any of that: ask for what it is subscribed to"
        )
    return wanted


def wanted_by(name: str) -> Subscription:
    """Channel and key that a stream's name, "tolliver://channel/key", stands for. Raises ValueError."""
    channel, _, key = name.removeprefix(SCHEME).partition("/")
    if not name.startswith(SCHEME) or name == SCHEME:
        raise ValueError(f'{name!r:.200} names no channel: {_FORM}, and "{SCHEME}/" is everything')
    return Subscription(_decoded(channel, name), _decoded(key, name))


def _decoded(part: str, name: str) -> str:
    if _BAD_ESCAPE.search(part):
        raise ValueError(f'{name!r:.200} has a "%" without two hexadecimal digits behind it: {_FORM}')
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name!r:.200} is no UTF-8 behind its percent signs: {_FORM}") from None


def _overlap(one: Subscription, other: Subscription) -> bool:
    """True if a message can match both subscriptions; "" is a wildcard (T-24)."""
    return all(not a or not b or a == b for a, b in zip(one, other, strict=True))


class _Held:
    """Messages that a bridge passes to one stream's subscriber: those not passed on yet, and those in flight, to be
    acknowledged.
    """

    def __init__(self) -> None:
        self._came: Iterator[tuple[Delivery, Run]] = iter(())
        self._held: deque[tuple[Delivery, Run]] = deque()

    def _attach_outbound(self, outbound: OutboundStream) -> None:
        outbound.on_taken = self.taken

    def taken(self, count: int) -> None:
        """Acknowledge the `count` oldest messages in flight, which the subscriber has processed."""
        through = [self._held.popleft() for _ in range(min(count, len(self._held)))]
        for run, of_run in groupby(through, itemgetter(1)):
            run.settle([delivery for delivery, _ in of_run], True)

    def _take_in(self, run: Run) -> None:
        self._came = iter([(delivery, run) for delivery in run])

    def _next(self) -> bytes | None:
        """Body of the next message; None if none is waiting."""
        for pair in self._came:
            self._held.append(pair)
            return pair[0].body
        return None

    def _close(self) -> None:
        """Fail all messages that the subscriber has not processed."""
        self._came = iter(())


class AwaitedSource(_Held):
    """Async source of a stream: the bodies of an instance's messages, which are acknowledged when the subscriber has
    processed them.
    """

    def __init__(self, runs: AsyncRuns) -> None:
        super().__init__()
        runs.be_patient()
        self._runs = runs

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while (body := self._next()) is None:
            try:
                self._take_in(await anext(self._runs))
            except StopAsyncIteration:
                raise _closed() from None
        return body

    async def aclose(self) -> None:
        self._close()
        self._runs.close()


class ThreadSource(_Held):
    """Blocking source of a stream: the bodies of an instance's messages, acknowledged when the subscriber has processed
    them. `taken` and `close` may be called from other threads.
    """

    def __init__(self, runs: ThreadRuns) -> None:
        super().__init__()
        runs.be_patient()
        self._runs = runs
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        while (body := self._next()) is None:
            try:
                self._take_in(next(self._runs))
            except StopIteration:
                raise StopIteration if self._ended else _closed() from None
        return body

    def _attach_outbound(self, outbound: OutboundStream) -> None:
        super()._attach_outbound(outbound)
        outbound.on_over = self.close  # ends a wait for the next message

    def close(self) -> None:
        self._ended = True
        self._close()
        self._runs.close()


def _closed() -> ConnectionClosing:
    """Error at the end of the instance. The stream must fail: completing would say that all messages were sent."""
    return ConnectionClosing("the instance behind this stream was closed: subscribe again when it is back")
