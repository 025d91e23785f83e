"""Stage for the Reactive Streams tests: scripted peers and joined engines.

Everything runs over a `ConnectionPair`, so the wire monitor judges the engine in every test. A `Script` takes the place
of one side: it has the calls of a `Connection` and sends what it is told. A scenario that only uses those calls runs on
the bare engine (its peer is a script) and on two engines alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Literal, cast

from tolliver_proto.reactive import (
    Cancel,
    ClientHello,
    Closed,
    Connection,
    Decoder,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)
from tolliver_proto.reactive.testing import ConnectionPair, Side

HELLOS = {Role.CLIENT: ClientHello, Role.SERVER: ServerHello}
OTHER = {Role.CLIENT: Role.SERVER, Role.SERVER: Role.CLIENT}
ROLES = tuple(Role)


class Script:
    """A peer without rules, in the form of a connection. Its hello is said at once unless `silent`."""

    def __init__(self, role: Role, *, silent: bool = False) -> None:
        self.role = role
        self.sizes: dict[int, int] = {}
        self.wants_write_shutdown = False
        self._decoder = Decoder()
        self._out: list[bytes] = []
        self._next_id = 0
        if not silent:
            self.say(HELLOS[role]())

    def say(self, *frames: Any) -> None:
        """Send frames, or raw bytes."""
        for frame in frames:
            self._out.append(frame if isinstance(frame, bytes) else encode(frame, self.sizes))
            if isinstance(frame, Subscribed):
                self.sizes[frame.subscriber_id] = frame.element_size

    def receive_data(self, data: bytes) -> None:
        self._decoder.feed(data)

    def receive_eof(self) -> None:
        self._decoder.finish()

    @property
    def buffered_bytes(self) -> int:
        return self._decoder.buffered

    def events(self) -> Iterator[Any]:
        while (frame := self._decoder.next_frame()) is not None:
            yield frame

    def data_to_send(self) -> list[bytes]:
        out, self._out = self._out, []
        return out

    # The calls of a connection, as far as scenarios use them.

    def subscribe(self, name: str, initial_demand: int = 0) -> int:
        self._next_id += 1
        self.say(Subscribe(name, self._next_id, initial_demand))
        return self._next_id

    def request(self, subscriber_id: int, count: int) -> None:
        self.say(Request(subscriber_id, count))

    def cancel(self, subscriber_id: int) -> None:
        self.say(Cancel(subscriber_id))

    def subscribed(self, subscriber_id: int, element_size: int = 0) -> None:
        self.say(Subscribed(subscriber_id, element_size))

    def next(self, subscriber_id: int, element: bytes) -> None:
        self.say(OnNext(subscriber_id, element))

    def next_many(self, subscriber_id: int, elements: Sequence[bytes]) -> None:
        self.say(*(OnNext(subscriber_id, element) for element in elements))

    def complete(self, subscriber_id: int) -> None:
        self.say(OnComplete(subscriber_id))

    def error(self, subscriber_id: int, text: str) -> None:
        self.say(OnError(subscriber_id, text))

    def goodbye(self, reason: str = "") -> None:
        self.say(Goodbye(reason))


def pair_of(*sides: Connection | Script, **options: Any) -> ConnectionPair:
    """These two on a pair; the monitor judges those that are engines."""
    by_role = {side.role: cast(Connection, side) for side in sides}
    checked = [side.role for side in sides if isinstance(side, Connection)]
    return ConnectionPair(by_role[Role.CLIENT], by_role[Role.SERVER], checked=checked, **options)


class Engine:
    """One engine and a script, under the monitor."""

    def __init__(
        self,
        role: Role = Role.SERVER,
        *,
        silent: bool = False,
        cut: Literal["whole", "bytes"] = "whole",
        **options: Any,
    ) -> None:
        self.conn = Connection(role, **options)
        self.peer = Script(OTHER[role], silent=silent)
        self.pair = pair_of(self.conn, self.peer, cut=cut)
        own, other = (self.pair.client, self.pair.server)
        self.own, self.other = (own, other) if role is Role.CLIENT else (other, own)
        self._events = self._frames = 0
        if not silent:
            self.feed()
            self.said()

    def feed(self, *frames: Any) -> list[Any]:
        """The events that the engine hands out for these frames of its peer's, or raw bytes."""
        self.pair.run()  # the engine's own words come first
        self.peer.say(*frames)
        self.pair.run()
        events = self.own.events[self._events :]
        self._events += len(events)
        return events

    def said(self) -> list[Any]:
        """The frames that the engine has sent since the last call."""
        self.pair.run()
        frames = self.other.events[self._frames :]
        self._frames += len(frames)
        return frames

    def opened(self, demand: int = 0, size: int = 0) -> int:
        """A stream that the engine publishes."""
        subscriber_id = self.peer.subscribe("p", demand)
        self.feed()
        self.conn.subscribed(subscriber_id, size)
        self.said()
        return subscriber_id

    def joined(self, demand: int = 0, size: int = 0) -> int:
        """A stream that the engine takes."""
        subscriber_id = self.conn.subscribe("p", demand)
        self.feed(Subscribed(subscriber_id, size))
        self.said()
        return subscriber_id

    @property
    def closed(self) -> Closed:
        """The last event, which must be Closed."""
        last = self.own.events[-1]
        assert isinstance(last, Closed)
        return last


Layer = Literal["bare publisher", "bare subscriber", "pair", "pair by bytes", "pair by chance"]
PAIRS: tuple[Layer, ...] = ("pair", "pair by bytes", "pair by chance")


class World:
    """A publisher and a subscriber, which are engines or scripts by the layer."""

    def __init__(self, layer: Layer, publishes: Role) -> None:
        self.layer = layer
        self.publisher: Any = Script(publishes) if layer == "bare subscriber" else Connection(publishes)
        takes = OTHER[publishes]
        self.subscriber: Any = Script(takes) if layer == "bare publisher" else Connection(takes)
        cut = {"pair by bytes": "bytes", "pair by chance": Random(1)}.get(layer, "whole")
        self.pair = pair_of(self.publisher, self.subscriber, cut=cut)
        sides = {Role.CLIENT: self.pair.client, Role.SERVER: self.pair.server}
        self.giving, self.taking = sides[publishes], sides[takes]
        self.run()

    def run(self) -> World:
        self.pair.run()
        return self

    def react(self, react: Any) -> None:
        """`react(world, event)` for what the subscriber gets, while it gets it."""
        self.pair._react = lambda side, event: react(self, event) if side is self.taking else None

    def open(self, demand: int = 0, size: int = 0, name: str = "p") -> int:
        subscriber_id = int(self.subscriber.subscribe(name, demand))
        self.run()
        self.publisher.subscribed(subscriber_id, size)
        self.run()
        return subscriber_id

    @property
    def asked(self) -> list[Any]:
        """The events that the publisher heard."""
        return _streams(self.giving)

    def heard(self, subscriber_id: int) -> list[Any]:
        """The events that the subscriber heard for an id, packed elements one by one."""
        found: list[Any] = []
        for event in _streams(self.taking):
            if event.subscriber_id == subscriber_id:
                unpacked = isinstance(event, OnNextPacked)
                found += [OnNext(subscriber_id, one) for one in event.elements] if unpacked else [event]
        return found

    def elements(self, subscriber_id: int) -> list[bytes]:
        return [event.element for event in self.heard(subscriber_id) if isinstance(event, OnNext)]

    def ends(self, subscriber_id: int) -> list[Any]:
        return [event for event in self.heard(subscriber_id) if isinstance(event, OnComplete | OnError)]


def _streams(side: Side) -> list[Any]:
    return [event for event in side.events if hasattr(event, "subscriber_id")]
