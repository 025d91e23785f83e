"""Verbs of Reactive Streams: one connection, and the sessions of one case."""

from __future__ import annotations

import itertools
import socket
from typing import Any

from tolliver_proto.reactive import (
    Cancel,
    ClientHello,
    Decoder,
    Frame,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)

from .._tls.pump import AnyPump
from .cases import Failed, Role
from .kit import Kit, Session
from .wire import Wire

COUNT, SIZED, FAILS, ENDLESS, NOTHING = (f"conform.{name}" for name in ("count", "sized", "fail", "endless", "nothing"))
IN, OUT = "conform.in", "conform.out"
ALL = 100
"""Elements of the peer's publishers that end."""
_SIGNALS = (Subscribed, OnNext, OnNextPacked, OnComplete, OnError)


class Flow(Wire):
    """A connection of streams. A goodbye is answered, once."""

    def __init__(self, stream: socket.socket, pump: AnyPump, patience: float) -> None:
        self._theirs: dict[int, int] = {}
        super().__init__(stream, pump, Decoder(self._theirs), patience)
        self.sizes: dict[int, int] = {}
        """Element sizes of the streams that the kit publishes."""
        self.said_goodbye = False
        self.shook = False
        self.published = False
        self.ids = itertools.count(1)

    def arrived(self, frame: Any) -> bool:
        if isinstance(frame, Subscribed):
            self._theirs[frame.subscriber_id] = frame.element_size
        elif isinstance(frame, Goodbye) and not self.said_goodbye:
            self.say_later(Goodbye())
        return True

    def say_later(self, frame: Frame) -> None:
        self.said_goodbye |= isinstance(frame, Goodbye)
        self.write(encode(frame, self.sizes))

    def say(self, *parts: Frame | bytes) -> None:
        """Frames, or any bytes, in one write."""
        self.said_goodbye |= any(isinstance(part, Goodbye) for part in parts)
        self.send(b"".join(part if isinstance(part, bytes) else encode(part, self.sizes) for part in parts))

    # As a subscriber.

    def subscribe(self, name: str, demand: int, number: int | None = None) -> int:
        number = next(self.ids) if number is None else number
        self.say(Subscribe(name, number, demand))
        return number

    def signal(self, number: int, what: str) -> Any:
        """The next signal of that stream."""
        return self.expect(what, lambda frame: isinstance(frame, _SIGNALS) and frame.subscriber_id == number)

    def opened(self, number: int) -> int:
        """Subscribed comes first. Returns the element size."""
        found = self.signal(number, f"subscribed for the id {number}")
        if not isinstance(found, Subscribed):
            raise Failed("subscribed first", repr(found)[:200])
        return found.element_size

    def take(self, number: int, count: int) -> list[bytes]:
        """So many elements come next, in frames of any kind, and not one more in them."""
        found: list[bytes] = []
        while len(found) < count:
            frame = self.signal(number, f"{count} elements for the id {number}, after {len(found)}")
            if isinstance(frame, OnNext):
                found.append(frame.element)
            elif isinstance(frame, OnNextPacked):
                found += frame.elements
            else:
                raise Failed(f"{count} elements", f"{frame!r} after {len(found)}")
        if len(found) > count:
            raise Failed(f"{count} elements at most", f"{len(found)}")
        return found

    def completes(self, number: int) -> None:
        found = self.signal(number, f"onComplete for the id {number}")
        if not isinstance(found, OnComplete):
            raise Failed("onComplete", repr(found)[:200])

    def fails(self, number: int, text: str = "") -> None:
        found = self.signal(number, f"onError for the id {number}")
        if not isinstance(found, OnError) or text not in found.message:
            raise Failed(f"onError that says {text!r}", repr(found)[:200])

    def still(self, number: int, seconds: float = 0.4) -> None:
        """No signal of that stream."""
        self.quiet(
            f"no signal for the id {number}",
            lambda frame: isinstance(frame, _SIGNALS) and frame.subscriber_id == number,
            seconds,
        )

    def lives(self) -> None:
        """The connection goes on: a new stream is served."""
        number = self.subscribe(COUNT, 2)
        self.opened(number)
        if self.take(number, 2) != [b"0", b"1"]:
            raise Failed("the elements 0 and 1", "others")
        self.say(Cancel(number))

    # As a publisher.

    def wanted(self) -> tuple[int, int]:
        """The peer subscribes to `conform.in`. Returns its id and its demand."""
        found: Subscribe = self.expect(f"a subscription to {IN}", lambda frame: isinstance(frame, Subscribe))
        if found.name != IN or not 1 <= found.initial_demand <= 64:
            raise Failed(f"{IN} with a demand of 1 to 64", repr(found))
        self.published = True
        return found.subscriber_id, found.initial_demand

    def demanded(self, number: int) -> int:
        """The peer asks for more."""
        found: Request = self.expect(
            "a request for more", lambda frame: isinstance(frame, Request) and frame.subscriber_id == number
        )
        return found.count

    def cancelled(self, number: int) -> None:
        self.expect("a cancel", lambda frame: frame == Cancel(number))

    def parted(self) -> None:
        """Goodbye, in either order, and the end of the connection."""
        self.expect("a goodbye", lambda frame: isinstance(frame, Goodbye))
        self.ends("the end after goodbye")


class Streams(Session[Flow]):
    """One case of streams."""

    def __init__(self, kit: Kit, role: Role) -> None:
        super().__init__(kit, role, Flow)

    def stranger(self, **options: Any) -> Flow:
        """TLS stands, and the kit has said nothing."""
        return self.transport(**options)

    def hello(self) -> bytes:
        return encode(ClientHello() if self.role is Role.DIAL else ServerHello())

    def greeted(self, flow: Flow) -> ClientHello | ServerHello:
        """The peer's hello."""
        kind = ServerHello if self.role is Role.DIAL else ClientHello
        found: ClientHello | ServerHello = flow.expect("its hello", lambda frame: isinstance(frame, kind))
        if found.version:
            raise Failed("version 0", f"{found.version}")
        flow.shook = True
        return found

    def meet(self) -> Flow:
        """A new connection, both hellos said."""
        flow = self.stranger()
        flow.say(self.hello())
        self.greeted(flow)
        return flow

    def live(self) -> Flow:
        """Any connection with the hellos over; the one that stands, where the peer dials."""
        stands = self.kit.standing
        if isinstance(stands, Flow) and stands.end is None:
            self.kit.standing = None
            self.opened.append(stands)
            return stands
        return self.meet()

    def goes_on(self) -> None:
        """The peer is as before: it can be met anew, and serves a stream."""
        for flow in self.opened:
            flow.close()
        self.meet().lives()

    def keep(self) -> None:
        """A connection that the peer dialled and that only served the kit stands on."""
        last = self.opened[-1] if self.opened else None
        if (
            self.role is Role.LISTEN
            and last is not None
            and last.shook
            and not last.said_goodbye
            and not last.published
        ):
            last.wait(lambda: last.end is not None, 0.0)
            if last.end is None:
                self.kit.standing = last
