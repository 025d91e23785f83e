"""Core of streams on threads.

Calls may come from any thread, and hold the machine's lock only while they make their request, not while they wait.
Each outbound stream has a thread for its source, so sources may block; subscribers iterate on threads of their own. No
application code runs on the thread of the sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from tolliver_proto import ConnectionClosing
from tolliver_proto.reactive import OnError, Subscribe

from .._driver import logs
from .._driver.events import OnEvent
from .._driver.pending import PendingCall
from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.peers import BasePeer
from .._streams.publishing import Catalogue, Publication
from .._streams.streams import BaseStreamsCore, Key
from ..codecs._codec import coding_of
from .endpoint import Endpoint, Worker
from .events import call_on_thread
from .feed import ThreadOutboundStream, is_async
from .interrupts import made, undisturbed
from .process import thread_of
from .subscription import Subscription

P = TypeVar("P", bound=BasePeer)
T = TypeVar("T")
_FRAMES_WAITING = 1000  # most frames of extensions that wait for the application
_LEFT = 16  # sources that go on after their streams, up to which nobody is told


class _Refused(Exception):
    """A subscription that is refused, with the text for the subscriber."""


class _Names(Catalogue):
    """A catalogue from which any thread may withdraw a publication."""

    def __init__(self, owner: Endpoint) -> None:
        super().__init__()
        self._owner = owner

    def remove(self, publication: Publication) -> None:
        with self._owner.lock:
            super().remove(publication)


class _Frames:
    """Queue of received frames of extensions, and the thread that passes them to the application."""

    def __init__(self, hand_over: Callable[[Any, Any], None]) -> None:
        self._hand_over = hand_over
        self._waiting: SimpleQueue[tuple[Any, Any] | None] = SimpleQueue()
        self._stopped = False

    def put(self, peer: object, frame: Any) -> bool:
        """Queue a frame of this peer; returns False if too many wait."""
        if self._waiting.qsize() >= _FRAMES_WAITING:
            return False
        self._waiting.put((peer, frame))
        return True

    def run(self) -> None:
        while (one := self._waiting.get()) is not None and not self._stopped:
            self._hand_over(*one)

    def stop(self) -> None:
        self._stopped = True
        self._waiting.put(None)


class StreamsCore(Endpoint, BaseStreamsCore[P]):
    """Running streams for a program with threads, without their public calls, which `Streams` has. Owns the hub, and
    the threads that read sources.
    """

    def __init__(self, options: StreamsOptions) -> None:  # for the type checker: an endpoint accepts any options
        super().__init__(options)
        self._catalogue = _Names(self)
        self._sources = 0  # number of threads of sources, also of those whose streams are over
        self._told_left = _LEFT  # number of the latter at which the log says so
        self._frames: _Frames | None = None

    def call_on_event(self, function: OnEvent) -> None:
        call_on_thread(self, self.feed, function)

    def connected(self, remote: str | Remote, timeout: float | None) -> P:
        cids: list[int] = []

        def begin() -> PendingCall[P]:
            cid, call = self.connect(remote)
            cids.append(cid)
            return call

        with undisturbed:
            try:
                return self.ask(begin, timeout)
            except BaseException:
                with self.lock:
                    for cid in cids:
                        self.give_up(cid)
                raise

    def reload_tls(self) -> None:
        self.check_open()
        pumps = self.read_tls()
        with self.lock:
            self.check_open()
            self.use_tls(pumps)

    def publication(self, name: str, source: object, codec: object, element_size: int) -> Publication:
        if is_async(source):
            raise TypeError(
                f"the source of {name!r:.100} is async: give a plain iterable or function, it may block; or use the "
                "adapter of your event loop"
            )

        def publish() -> Publication:
            with self.lock:
                return super(StreamsCore, self).publication(name, source, codec, element_size)

        return made(publish, Publication.close)

    def subscription(
        self,
        name: str,
        demand: int | None,
        prefetch: int | None,
        codec: object,
        peer: P | None,
        timeout: float | None,
    ) -> Subscription[T]:
        coding = coding_of(codec)

        def begin() -> Subscription[T]:
            with self.lock:
                wakeup = self.wakeup()
                stream = self.subscribe(name, demand, prefetch, coding._replace(decode=None), peer, wakeup)
            return Subscription(self, stream, wakeup, coding, timeout)

        return made(begin, Subscription.cancel)

    def outbound(self, key: Key, name: str, publication: Publication, grant: int) -> ThreadOutboundStream:
        self._check_feeds()
        stream = ThreadOutboundStream(self, key, name, publication, grant)
        try:
            thread_of(f"reads {name!r:.100}", lambda: self._run(stream), self._fail).start()
        except RuntimeError as error:
            raise _Refused("there is no room for another thread here: ask again later") from error
        self._sources += 1
        return stream

    def _check_feeds(self) -> None:
        """Raises _Refused if no further source may be read. Sources whose streams are over count apart from the others:
        they may block for ever, which must not keep every further subscriber out.
        """
        most, running = self.options.max_feeds, len(self._outbound)
        left = self._sources - running
        if left >= self._told_left:
            self._told_left = 2 * left
            logs.streams.warning(
                "%d sources that are read for subscribers that left have not returned: let them wait with a timeout, "
                "as each keeps a thread, and beyond %d further subscribers are refused",
                left,
                most,
            )
        if running >= most:
            raise _Refused(f"{most} streams are given here at once, which is the limit: ask again later")
        if left >= most:
            raise _Refused(
                f"{left} sources have not returned since their subscribers left, which is the limit: ask again later"
            )

    def _run(self, stream: ThreadOutboundStream) -> None:
        try:
            stream.run()
        finally:
            with self._lock:
                self._sources -= 1

    def _on_subscribe(self, cid: int, event: Subscribe) -> None:
        try:
            super()._on_subscribe(cid, event)
        except _Refused as refusal:
            self.hub.error(cid, event.subscriber_id, f"{event.name!r:.200} is not given: {refusal} (R-14)")

    def flush_soon(self, stream: Any) -> None:
        self._unflushed.append(stream)
        self._loop.wake()  # from a source's thread, without the lock: so whatever turn is running may not see it

    def _more_workers(self) -> dict[str, Worker]:
        return {}

    def _start_work(self) -> None:
        super()._start_work()
        if self.options.on_frame is not None:
            self._frames = _Frames(super().hand_over)
            thread_of("frames of extensions", self._frames.run, self._fail).start()

    def hand_over(self, peer: P, frame: Any) -> None:
        assert self._frames is not None
        if not self._frames.put(peer, frame):
            self.hub.goodbye(peer.cid, "frames of extensions are not taken")

    def _end_work(self) -> None:
        if self._frames is not None:
            self._frames.stop()
        if self.hub.closing:
            return  # each connection's end is that of its streams
        for outbound in self._outbound.values():
            outbound.cancelled()
        error = ConnectionClosing("the streams have failed, as the log says: report this")
        for inbound in list(self._inbound.values()):
            inbound.on_error(OnError(inbound.key[1], str(error), error))
