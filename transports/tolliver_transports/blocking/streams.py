"""Reactive Streams on threads: the calls in the form that threads know.

The idea: as for an instance (`blocking`), a call takes the machine's lock for the moment in which it says what it wants
and waits without it. Each stream that is given has a thread for its source, so sources may block; so may whoever takes
elements, on whatever thread it likes. None of the application's code runs on the thread of the sockets.
"""

from __future__ import annotations

from typing import Any, cast

from tolliver_proto import ConnectionClosing
from tolliver_proto.reactive import OnError, Subscribe

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.codecs import codec_of
from .._streams.publishing import Catalogue, Publication
from .._streams.streams import BaseStreams, Key, Peer
from .endpoint import Endpoint, Worker
from .feed import ThreadOutboundStream, is_async
from .process import thread_of
from .subscription import Subscription


class _Refused(Exception):
    """The subscriber is told so."""


class _Names(Catalogue):
    """A catalogue that any thread may withdraw a publication from."""

    def __init__(self, owner: Endpoint) -> None:
        super().__init__()
        self._owner = owner

    def remove(self, publication: Publication) -> None:
        with self._owner.lock:
            super().remove(publication)


class Streams(Endpoint, BaseStreams):
    """Running streams: use `with create_streams(options) as streams`. Every call may come from any thread.

    `timeout` is in seconds, None waits for as long as it takes.
    """

    max_feeds = 256
    """How many threads read from sources at once, one for each stream that is given. A subscription beyond it is
    refused with an error (R-14). A source that blocks keeps its thread after a cancel, too, until it returns."""

    def __init__(self, options: StreamsOptions) -> None:  # for the type: an endpoint takes any options
        super().__init__(options)
        self._catalogue = _Names(self)
        self._feeding = 0  # threads

    # The calls, each explained where BaseStreams has it.

    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Peer:
        with self.lock:
            cid, promise = self._dial(remote)
        try:
            return cast(Peer, promise.wait(timeout, f"there is no connection to {remote}: it is given up"))
        except BaseException:
            with self.lock:
                self._give_up(cid)
            raise

    def publish(self, name: str, source: Any, *, codec: Any = None, element_size: int = 0) -> Publication:
        """As BaseStreams has it. Raises TypeError for an async source, too."""
        if is_async(source):
            raise TypeError(
                f"the source of {name!r:.100} is async: give a plain iterable or function, it may block; or use the "
                "adapter of your event loop"
            )
        with self.lock:
            return super().publish(name, source, codec=codec, element_size=element_size)

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: Any = None,
        peer: Peer | None = None,
        timeout: float | None = None,
    ) -> Subscription:
        """As BaseStreams has it. A loop over it ends when no element has come for `timeout` seconds."""
        functions = codec_of(codec)
        with self.lock:
            intake = super().subscribe(name, demand=demand, prefetch=prefetch, peer=peer)
        return Subscription(self, intake, functions, timeout)

    def goodbye(self, peer: Peer, reason: str = "") -> None:
        with self.lock:
            super().goodbye(peer, reason)

    def peers(self) -> list[Peer]:
        with self.lock:
            return super().peers()

    def stats(self) -> dict[str, int]:
        with self.lock:
            return super().stats()

    # Feeds.

    def feed(self, key: Key, name: str, publication: Publication, grant: int) -> ThreadOutboundStream:
        if self._feeding >= self.max_feeds:
            raise _Refused(f"{self.max_feeds} streams are given here at once, which is the limit: ask again later")
        feed = ThreadOutboundStream(self, key, name, publication, grant)
        try:
            thread_of(f"feeds {name!r:.100}", lambda: self._run(feed), self._fail).start()
        except RuntimeError as error:
            raise _Refused("there is no room for another thread here: ask again later") from error
        self._feeding += 1
        return feed

    def _run(self, feed: ThreadOutboundStream) -> None:
        try:
            feed.run()
        finally:
            with self._lock:
                self._feeding -= 1

    def _on_subscribe(self, cid: int, event: Subscribe) -> None:
        try:
            super()._on_subscribe(cid, event)
        except _Refused as refusal:
            self.hub.error(cid, event.subscriber_id, f"{event.name!r:.200} is not given: {refusal} (R-14)")

    def flush_soon(self, feed: Any) -> None:
        self._unflushed.append(feed)
        self._loop.wake()  # from a feed's thread, without the lock: so whatever turn is under way may not see it

    # The life of it.

    def _more_workers(self) -> dict[str, Worker]:
        return {}

    def _end_work(self) -> None:
        if self.hub.closing:
            return  # each connection's end is that of its streams
        for feed in self._feeds.values():
            feed.cancelled()
        error = ConnectionClosing("the streams have failed, as the log says: report this")
        for intake in list(self._intakes.values()):
            intake.on_error(OnError(intake.key[1], str(error), error))


def create_streams(options: StreamsOptions) -> Streams:
    """`with create_streams(options) as streams:` listens, and closes in order.

    Entering raises CertificateError, and ConnectionLost where it cannot listen.
    """
    return Streams(options)
