"""World of one hub: it takes actions until None, as an adapter does, and its peers say what they are told."""

from __future__ import annotations

from typing import Any

from tolliver_proto import PauseReading, PeerIdentity, Transmit
from tolliver_proto.node import DialCause
from tolliver_proto.reactive import (
    UNBOUNDED,
    ClientHello,
    Decoder,
    Hub,
    Limits,
    OnNext,
    PeerDown,
    PeerUp,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)

NO_FAILURES = dict.fromkeys(DialCause, 0)
IDENTITY = PeerIdentity(address="192.0.2.1")
HELLO = {Role.CLIENT: ServerHello(), Role.SERVER: ClientHello()}
ROLES = tuple(Role)
TIGHT = Limits(high_water=100, low_water=20)


class Wires:
    """One hub, all its actions in order, and peers that say what they are told."""

    def __init__(self, **options: Any) -> None:
        self.hub = Hub(now=0.0, **options)
        self.now = 0.0
        self.sizes: dict[int, int] = {}
        self.decoders: dict[int, Decoder] = {}

    def actions(self) -> list[Any]:
        return list(iter(self.hub.next_action, None))

    def link(self, role: Role = Role.CLIENT) -> int:
        """A connection on which nothing was said yet, but our hello where we are the client."""
        cid = self.hub.connect("there", self.now) if role is Role.CLIENT else self.hub.new_cid(self.now, "192.0.2.1")
        assert cid is not None
        self.hub.opened(cid, role, IDENTITY, self.now)
        self.decoders[cid] = Decoder()
        return cid

    def up(self, role: Role = Role.CLIENT) -> int:
        """A connection whose peer has said hello, with nothing in transit."""
        cid = self.link(role)
        self.said(cid)
        assert PeerUp(cid, IDENTITY, "there" if role is Role.CLIENT else None) in self.feed(cid, HELLO[role])
        self.hub.sent(cid, self.now)  # a server's hello
        return cid

    def feed(self, cid: int, *frames: Any) -> list[Any]:
        """The actions of the hub when the peer says this."""
        self.hub.receive_data(cid, b"".join(encode(frame, self.sizes) for frame in frames), self.now)
        return self.actions()

    def said(self, cid: int) -> list[Any]:
        """The frames that are to be sent, until there is nothing more; each Transmit is reported."""
        frames: list[Any] = []
        while transmits := [action for action in self.actions() if isinstance(action, Transmit)]:
            for unit in transmits[0].units:
                self.decoders[cid].feed(unit)
            frames += iter(self.decoders[cid].next_frame, None)
            self.hub.sent(cid, self.now)
        return frames

    def wait(self, seconds: float) -> list[Any]:
        self.now += seconds
        self.hub.handle_timeout(self.now)
        return self.actions()

    def giving(self, cid: int, demand: int = 0, subscriber_id: int = 1) -> None:
        """A stream that we give is accepted."""
        self.feed(cid, Subscribe("p", subscriber_id, demand))
        self.hub.subscribed(cid, subscriber_id)
        self.said(cid)

    def taking(self, cid: int, demand: int = UNBOUNDED, size: int = 0) -> int:
        """A stream that we take is accepted."""
        subscriber_id = self.hub.subscribe(cid, "p", demand)
        self.said(cid)
        self.feed(cid, Subscribed(subscriber_id, size))
        self.sizes[subscriber_id] = size
        return subscriber_id


def downs(actions: list[Any]) -> list[PeerDown]:
    return [action for action in actions if isinstance(action, PeerDown)]


def paused() -> tuple[Wires, int, int]:
    wires = Wires(limits=Limits(max_unread=1))
    cid = wires.up()
    stream = wires.taking(cid)
    assert PauseReading(cid) in wires.feed(cid, OnNext(stream, b"x"))
    return wires, cid, stream
