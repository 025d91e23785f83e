"""Streams of every adapter behind one facade, and their stage.

As in `facade` for instances, each call is carried out in the world of its kind and waited for here. A source is given
as plain data, or as a function that gets the name and returns such; `Stage.source` gives it as it is or in the world's
own form, which is asynchronous where there is a loop. A stage opens streams and scripted peers, and ends all of them
with the test.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Literal, Self

from tolliver._options.streams import StreamsOptions
from tolliver._options.tls import TLS

from tests.certificates import Certificates
from tolliver_proto.reactive import Role

from .facade import PATIENCE, Gate, Handle, Items, Opened, World
from .scripted import Scripted

Form = Literal["plain", "own"]
FORMS: tuple[Form, ...] = ("plain", "own")


class StreamsFacade(Opened):
    """Streams in their world. A call with a codec is the channel's own."""

    options: StreamsOptions

    def start(self, name: str, /, *args: Any, **options: Any) -> Handle:
        if options.get("codec") is None:
            options.pop("codec", None)
            return super().start(name, *args, **options)
        codec, (channel, *given), streams = options.pop("codec"), args, self._instance
        return self.world.start(
            f"{self.world.kind}: {name} of {channel}",
            lambda: getattr(streams.channel(channel, codec=codec), name)(*given, **options),
        )

    def connect(self, remote: StreamsFacade | str, **options: Any) -> PeerFacade:
        return self.peer(self.start_connect(remote, **options).wait())

    def start_connect(self, remote: StreamsFacade | str, **options: Any) -> Handle:
        address = remote if isinstance(remote, str) else remote.address
        return self.start("connect", address, **options)

    def peer(self, peer: Any) -> PeerFacade:
        """The peer that `start_connect` brought, with its calls."""
        return PeerFacade(self.world, peer)

    def publish(self, name: Any, source: Any, **options: Any) -> Published:
        return Published(self.world, self._call("publish", name, source, **options))

    def subscribe(self, name: Any, *, peer: PeerFacade | None = None, **options: Any) -> Taken:
        if peer is not None:
            options["peer"] = peer.itself
        return Taken(self.world, self._call("subscribe", name, **options))

    def goodbye(self, peer: PeerFacade, reason: str) -> None:
        self._call("goodbye", peer.itself, reason)

    def events(self) -> Items:
        return Items(self.world, self._call("events"))

    def reload_tls(self) -> None:
        self._call("reload_tls")

    def peers(self) -> list[PeerFacade]:
        return [PeerFacade(self.world, peer) for peer in self._call("peers")]

    def stats(self) -> dict[str, int]:
        return self._call("stats")  # type: ignore[no-any-return]  # any adapter's

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def mapped(self, peer: PeerFacade, name: str, function: Callable[[Any], Any], **options: Any) -> Any:
        """A source for `publish`: what the function makes of each element of a stream at the peer."""
        return lambda _name: self.world.mapped(peer.itself.subscribe(name, **options), function)

    def passed_on(self, peer: PeerFacade, name: str, **options: Any) -> Any:
        """A source for `publish`: a stream at the peer, as it is."""
        return lambda _name: peer.itself.subscribe(name, **options)


class PeerFacade:
    """A peer, in its streams' world."""

    def __init__(self, world: World, peer: Any) -> None:
        self.world = world
        self.itself = peer

    def subscribe(self, name: Any, **options: Any) -> Taken:
        return Taken(self.world, self._call("subscribe", name, **options))

    def goodbye(self, reason: str) -> None:
        self._call("goodbye", reason)

    @property
    def connected(self) -> bool:
        return bool(self.itself.connected)

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        return self.world.start(f"peer: {name}{args}", lambda: getattr(self.itself, name)(*args, **options)).wait()


class Published:
    """A publication."""

    def __init__(self, world: World, publication: Any) -> None:
        self._world = world
        self._publication = publication

    def close(self) -> None:
        self._world.start("close a publication", self._publication.close).wait()

    def __repr__(self) -> str:
        return repr(self._publication)


class Taken:
    """A subscription, whose calls are carried out in its world."""

    def __init__(self, world: World, subscription: Any) -> None:
        self._world = world
        self._subscription: Any = subscription

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self.start_next().wait()
        except StopAsyncIteration:
            raise StopIteration from None

    def start_next(self) -> Handle:
        return self._start("the next element", self._world.next)

    def take(self, count: int) -> list[Any]:
        return [next(self) for _ in range(count)]

    def runs(self) -> Iterator[list[Any]]:
        runs = self._subscription.runs()
        while True:
            try:
                yield self._world.start("the next run", lambda: self._world.next(runs)).wait()
            except StopAsyncIteration:
                return

    def for_each(self, handler: Any) -> Handle:
        def handle(element: Any) -> Any:
            answer = handler(element)
            return self._world.later(answer) if isinstance(answer, Gate) else answer

        return self._start("for_each", lambda it: it.for_each(handle if callable(handler) else handler))

    def start_outcome(self, handler: Any) -> Handle:
        """As `for_each`: what it returns, or whatever it raises."""

        def handle(element: Any) -> Any:
            answer = handler(element)
            return self._world.later(answer) if isinstance(answer, Gate) else answer

        return self._start("for_each", lambda it: self._world.outcome(lambda: it.for_each(handle)))

    def start_requests(self, count: int, times: int) -> Handle:
        def request(it: Any) -> None:
            for _ in range(times):
                it.request(count)

        return self._start(f"{times} x request({count})", request)

    def request(self, count: int, times: int = 1) -> None:
        self.start_requests(count, times).wait()

    def cancel(self, times: int = 1) -> None:
        def cancel(it: Any) -> None:
            for _ in range(times):
                it.cancel()

        self._start("cancel", cancel).wait()

    def leave(self) -> None:
        """Enter its block, take one element, and leave the block."""
        mapped = self._world.mapped(self._subscription, lambda element: element)
        self._world.start("an element", lambda: self._world.next(mapped)).wait()
        self._world.start("leave", lambda: self._world.left(mapped)).wait()

    def drop(self) -> None:
        """Forget it, in its world as an application would."""

        def drop() -> None:
            self._subscription = None

        self._world.start("drop", drop).wait()

    def look(self, at: Callable[[Any], Any]) -> Any:
        return self._start("a look", at).wait()

    @property
    def itself(self) -> Any:
        """For `publish`: the subscription as a source."""
        return self._subscription

    @property
    def closed(self) -> bool:
        return bool(self._subscription.closed)

    @property
    def element_size(self) -> int | None:
        return self._subscription.element_size  # type: ignore[no-any-return]  # any adapter's

    def _start(self, what: str, call: Callable[[Any], Any]) -> Handle:
        return self._world.start(f"{self._world.kind}: {what}", lambda: call(self._subscription))


class Stage:
    """Stage for the scenarios of streams. Use it as a context manager."""

    def __init__(self, world: World, certs: Certificates, form: Form = "plain") -> None:
        self.world = world
        self.certs = certs
        self.form = form
        self.opened: list[StreamsFacade] = []
        self._streams = ExitStack()
        self._scripts = ExitStack()
        self._gates: list[Gate] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Peers by hand go first: they acknowledge no goodbye."""
        self.open_gates()
        with self._streams, self._scripts:
            pass

    def open(self, world: World | None = None, tls: str | TLS = "", **options: Any) -> StreamsFacade:
        """Streams that listen, with this TLS or the certificate of that name, or in plaintext."""
        security = {"tls": self.certs.tls(tls) if isinstance(tls, str) else tls} if tls else {"plaintext": True}
        made = StreamsOptions(**{"listen": "127.0.0.1:0", **security, **options})
        self.opened.append(self._streams.enter_context(StreamsFacade(world or self.world, made)))
        return self.opened[-1]

    def dial(self, streams: StreamsFacade) -> Scripted:
        """A peer by hand that dials them."""
        return self._scripts.enter_context(Scripted.dial(streams.port))

    def giving(self, **options: Any) -> tuple[StreamsFacade, Scripted]:
        """Streams that are to publish, and a peer by hand to subscribe there."""
        streams = self.open(**options)
        return streams, self.dial(streams)

    def taking(self, streams: StreamsFacade | None = None) -> tuple[StreamsFacade, Scripted]:
        """Streams that have dialled a peer by hand, to subscribe at it."""
        streams = streams or self.open(listen=None)
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(PATIENCE)
            dialled = streams.start_connect(f"127.0.0.1:{server.getsockname()[1]}")
            stream, _ = server.accept()
        script = self._scripts.enter_context(Scripted(Role.SERVER, stream))
        dialled.wait()
        return streams, script

    def pair(self, **options: Any) -> tuple[StreamsFacade, StreamsFacade, PeerFacade]:
        """A publisher, a subscriber, and the peer to subscribe at."""
        publisher, subscriber = self.open(**options), self.open(listen=None)
        return publisher, subscriber, subscriber.connect(publisher)

    def source(self, source: Any) -> Any:
        """In the form of this stage. A Gate among the elements is for the world's own."""
        if self.form == "plain":
            return source
        if callable(source):
            return lambda name: self.world.waiting(source(name))
        if hasattr(source, "__next__"):
            return self.world.waiting(source)
        return lambda _name: self.world.waiting(source)

    def waiting(self, elements: Any, last: Any = ()) -> Any:
        """In the world's own form, whatever that of this stage: for elements among which there are gates, and last
        ones, which its `finally` waits for."""
        return lambda _name: self.world.waiting(elements, last)

    def gate(self) -> Gate:
        """One that is opened at the end of the test, so that nothing waits for ever."""
        self._gates.append(Gate())
        return self._gates[-1]

    def open_gates(self) -> None:
        for gate in self._gates:
            gate.open()
