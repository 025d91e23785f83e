"""Every connection of one program, without I/O: what an adapter drives.

The idea: as the node of the other protocol, a hub takes inputs by connection (a cid, which it mints) and gives actions;
at most one Transmit is outstanding for each connection, and frames gather meanwhile. Connections of this protocol know
nothing of each other. What they share is the clock, the bound on strangers (D-7), and an end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from .._common.errors import ConnectionClosing, ConnectionLost, TolliverError, UnexpectedEOF
from .._common.handshake_limiter import HandshakeLimiter
from .._common.timers import Timers
from .._common.transport import (
    Abort,
    Dial,
    PauseReading,
    PeerIdentity,
    Remote,
    ResumeReading,
    Role,
    ShutdownWrite,
    Transmit,
)
from .._wire.events import Closed
from ._actions import Action, Drained, Happened, PeerDown, PeerUp
from ._connection import Connection
from ._events import ClientHello, Elements, Goodbye, OnError, ServerHello
from ._layout import Extension
from ._limits import Limits
from ._state import State
from ._stats import HubStats

ELEMENT_COST = 128
"""What an element takes beside its own bytes: a flood of empty ones is bounded too."""


class _Link:
    """One connection, from its cid on."""

    __slots__ = (
        "above_high_water",
        "cid",
        "closed",
        "connection",
        "error",
        "full",
        "identity",
        "in_transit",
        "paused",
        "reason",
        "remote",
        "share",
        "shut",
        "told",
        "transport_lost",
        "unread",
    )

    def __init__(self, cid: int, remote: Remote | None, share: int) -> None:
        self.cid = cid
        self.remote = remote  # None where the peer dialled us
        self.identity = PeerIdentity()
        self.connection: Connection | None = None  # once TLS is done
        self.told = remote is not None  # somebody waits to hear of its end
        self.in_transit = 0  # bytes of the Transmit that is outstanding
        self.above_high_water = False  # somebody was told that nothing is wanted, as too much is unsent
        self.unread = 0  # what elements take that were handed out and not taken
        self.full = False  # that is too much: nothing of it is read for a while
        self.share = share  # events that may be handed out in this turn
        self.paused = False
        self.closed = False  # the connection has said its last
        self.shut = False
        self.transport_lost = False  # the transport is
        self.error: TolliverError | None = None  # why, where the transport knows
        self.reason = ""


class Hub:
    """Connections and their streams. Every input takes `now`, monotonic seconds; None means the last one seen.

    Inputs from a transport are `new_cid`, `opened`, `receive_data`, `receive_eof`, `sent` and `lost`; after each take
    actions with `next_action` until None, and call `handle_timeout` at `next_timeout()`. The calls for streams are
    those of a `Connection`, with the cid in front; where the connection is over, all but `subscribe` do nothing.
    """

    def __init__(
        self, *, extensions: Iterable[Extension] = (), limits: Limits | None = None, now: float | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.closing = False
        self._extensions = tuple(extensions)
        self._now = now or 0.0
        self._last_cid = 0
        self._links: dict[int, _Link] = {}
        self._arrivals = HandshakeLimiter(self.limits.max_handshakes, self.limits.max_handshakes_per_address)
        self._timers = Timers()
        self._actions: deque[Action] = deque()
        self._readable: dict[_Link, None] = {}
        self._resting: dict[_Link, None] = {}  # they have had their share, and go on in the next turn
        self._writable: dict[_Link, None] = {}
        self._counts: Counter[str] = Counter()

    # Inputs from the transport.

    def connect(self, remote: Remote, now: float | None = None) -> int:
        """Dial it, once; returns the cid. PeerUp or PeerDown follow. Raises ConnectionClosing after `close`."""
        self._tick(now)
        if self.closing:
            raise ConnectionClosing(f"{remote} is not dialled: everything is being closed")
        link = self._new_link(remote)
        self._actions.append(Dial(link.cid, remote))
        return link.cid

    def new_cid(self, now: float | None = None, address: str = "") -> int | None:
        """For a connection that came in from that address; None where it has to be refused (D-7)."""
        self._tick(now)
        if self.closing or self._arrivals.full(address) is not None:
            self._counts["refused_connections"] += 1
            return None
        link = self._new_link(None)
        self._arrivals.add(link.cid, address)
        return link.cid

    def opened(self, cid: int, role: Role, identity: PeerIdentity, now: float | None = None) -> None:
        """Its transport stands, and proved this identity."""
        self._tick(now)
        link = self._links.get(cid)
        if link is None:
            return
        link.identity = identity
        link.connection = Connection(role, extensions=self._extensions, limits=self.limits, now=self._now)
        self._go_on(link)

    def receive_data(self, cid: int, data: bytes, now: float | None = None) -> None:
        self._tick(now)
        link = self._links.get(cid)
        if link is not None and link.connection is not None:
            link.connection.receive_data(data, self._now)
            self._readable[link] = None

    def receive_eof(self, cid: int, now: float | None = None) -> None:
        """The peer has ended its half in order."""
        self._tick(now)
        link = self._links.get(cid)
        if link is not None and link.connection is not None:
            link.connection.receive_eof(self._now)
            self._readable[link] = None

    def sent(self, cid: int, now: float | None = None) -> None:
        """The Transmit that was outstanding is with the system."""
        self._tick(now)
        link = self._links.get(cid)
        if link is None or link.connection is None:
            return
        link.in_transit = 0
        self._writable[link] = None
        if link.above_high_water and link.connection.unsent_bytes <= self.limits.low_water:
            link.above_high_water = False
            self._actions.append(Drained(cid))

    def lost(self, cid: int, error: TolliverError | None, now: float | None = None) -> None:
        """The transport is gone. What was received before is still handed out."""
        self._tick(now)
        link = self._links.get(cid)
        if link is None:
            return
        link.transport_lost = True
        link.error = link.error or error
        if link.connection is None:
            link.error = link.error or ConnectionLost("the connection was lost before it was open")
            self._forget(link)
        elif link.closed:
            self._forget(link)
        else:
            link.connection.receive_eof(self._now)
            self._readable[link] = None

    def close(self, now: float | None = None) -> None:
        """Goodbye to everybody; no new connection from now on. It is done when `idle`."""
        self._tick(now)
        self.closing = True
        for cid in list(self._links):
            self.goodbye(cid, "the peer is closing")

    @property
    def idle(self) -> bool:
        """Whether there is no connection."""
        return not self._links

    # As a subscriber.

    def subscribe(self, cid: int, name: str, initial_demand: int = 0) -> int:
        """As `Connection.subscribe`. Raises ConnectionClosing where the connection is over."""
        connection = self._use(cid)
        if connection is None:
            raise ConnectionClosing("the connection is over: make another one, and subscribe there")
        return connection.subscribe(name, initial_demand)

    def request(self, cid: int, subscriber_id: int, count: int) -> None:
        if (connection := self._use(cid)) is not None:
            connection.request(subscriber_id, count)

    def cancel(self, cid: int, subscriber_id: int) -> None:
        if (connection := self._use(cid)) is not None:
            connection.cancel(subscriber_id)

    def took(self, cid: int, size: int, count: int) -> None:
        """`count` elements of `size` bytes together that were handed out are done with: reading may go on."""
        link = self._links.get(cid)
        if link is None:
            return
        link.unread -= size + ELEMENT_COST * count
        if link.unread <= self.limits.max_unread // 2:
            self._read_on(link)

    # As a publisher.

    def subscribed(self, cid: int, subscriber_id: int, element_size: int = 0) -> bool:
        connection = self._use(cid)
        return connection is not None and connection.subscribed(subscriber_id, element_size)

    def next_many(self, cid: int, subscriber_id: int, elements: Sequence[bytes]) -> int:
        connection = self._use(cid)
        return 0 if connection is None else connection.next_many(subscriber_id, elements)

    def complete(self, cid: int, subscriber_id: int) -> bool:
        connection = self._use(cid)
        return connection is not None and connection.complete(subscriber_id)

    def error(self, cid: int, subscriber_id: int, text: str) -> bool:
        connection = self._use(cid)
        return connection is not None and connection.error(subscriber_id, text)

    def wanted(self, cid: int, subscriber_id: int) -> int:
        """How many elements to pull from the source now. Where that is 0, Happened(Request) or Drained tell of more."""
        link = self._links.get(cid)
        if link is None or link.connection is None:
            return 0
        count = link.connection.wanted(subscriber_id, link.in_transit)
        if not count and link.connection.demand(subscriber_id):
            link.above_high_water = True
        return count

    # As a peer.

    def send(self, cid: int, frame: object) -> None:
        """The frame of an extension, as `Connection.send`. Raises ConnectionClosing where the connection is over."""
        connection = self._use(cid)
        if connection is None:
            raise ConnectionClosing("the connection is over: make another one")
        connection.send(frame)

    def goodbye(self, cid: int, reason: str = "", now: float | None = None) -> None:
        """End a connection in order; one that is still being made is given up."""
        self._tick(now)
        link = self._links.get(cid)
        if link is None:
            return
        if link.connection is None:
            link.error = ConnectionClosing("it was closed before it was open")
            link.reason = reason
            self._abort(link)
            return
        link.connection.goodbye(reason, self._now)
        link.reason = link.reason or reason
        self._read_on(link)  # what comes is dropped, until the peer's goodbye
        self._go_on(link)

    # Actions.

    def next_action(self) -> Action | None:
        """What to do next, or None until there is another input."""
        while not self._actions:
            if self._readable:
                self._read(next(iter(self._readable)))
            elif self._writable:
                self._write(self._writable.popitem()[0])
            else:
                return None
        return self._actions.popleft()

    def _read(self, link: _Link) -> None:
        """One event. What is begun for it is work that no bound on bytes sees: hence a share for each turn."""
        if not link.share:
            self._rest(link)
            return
        connection = link.connection
        event = None if connection is None else connection.next_run()
        if event is None:
            self._leave(link)
            return
        if type(event) is Elements:
            self._count(link, event)
            self._tell_event(link, event)
        elif isinstance(event, ClientHello | ServerHello):
            link.told = True
            self._arrivals.remove(link.cid)
            self._actions.append(PeerUp(link.cid, link.identity, link.remote))
        elif isinstance(event, Goodbye):
            link.reason = link.reason or event.reason
        elif isinstance(event, Closed):
            self._on_closed(link, event)
        else:
            self._tell_event(link, self._explained(link, event))

    def _tell_event(self, link: _Link, event: Any) -> None:
        link.share -= 1
        self._actions.append(Happened(link.cid, event))

    def _count(self, link: _Link, run: Elements) -> None:
        """The peer may be granted more than we can hold: then nothing of it is read for a while."""
        link.unread += sum(map(len, run.elements)) + ELEMENT_COST * len(run.elements)
        if link.unread > self.limits.max_unread and not link.full:
            link.full = True
            self._counts["paused"] += 1
            self._pace(link)

    def _rest(self, link: _Link) -> None:
        if link not in self._resting:
            self._resting[link] = None
            self._counts["rested"] += 1
        self._leave(link)

    def _leave(self, link: _Link) -> None:
        """There is nothing more to hand out for it, or not in this turn."""
        self._readable.pop(link, None)
        self._writable[link] = None
        self._pace(link)

    def _read_on(self, link: _Link) -> None:
        link.full = False
        self._pace(link)

    def _pace(self, link: _Link) -> None:
        """Reading pauses for what is not taken, and for what waits for its turn: never for what we write (D-9)."""
        waits = link in self._resting and link.connection is not None and link.connection.buffered_bytes > 0
        pausing = link.full or waits
        if pausing is not link.paused:
            link.paused = pausing
            self._actions.append((PauseReading if pausing else ResumeReading)(link.cid))

    def _explained(self, link: _Link, event: Any) -> Any:
        """Streams end with what the connection ends with."""
        cause = _cause(event.cause, link.error) if type(event) is OnError else None
        return event if cause is None else OnError(event.subscriber_id, str(cause), cause)

    def _on_closed(self, link: _Link, event: Closed) -> None:
        link.closed = True
        link.error = _cause(event.error, link.error)
        self._tell(link)
        if link.transport_lost:
            self._forget(link)
        else:
            self._read_on(link)  # there is nothing to read but the end
            self._go_on(link)

    def _tell(self, link: _Link) -> None:
        if link.told:
            link.told = False
            self._actions.append(PeerDown(link.cid, link.remote, link.error, link.reason))

    def _write(self, link: _Link) -> None:
        connection = link.connection
        if connection is None or link.in_transit or link.transport_lost:
            return
        if connection.unsent_bytes:
            link.in_transit = connection.unsent_bytes
            self._actions.append(Transmit(link.cid, connection.data_to_send()))
        elif connection.wants_write_shutdown and not link.shut:
            link.shut = True
            self._actions.append(ShutdownWrite(link.cid))
        self._rearm(link)

    # Time.

    def next_timeout(self) -> float | None:
        """When to call `handle_timeout`, or None. Now, where connections wait for their next turn."""
        if self._resting:
            return self._now
        first = self._timers.earliest()
        return first[0] if first else None

    def handle_timeout(self, now: float | None = None) -> None:
        """Do what is due, and begin the next turn. At another time it does nothing."""
        self._tick(now)
        for link in self._resting:
            link.share = self.limits.max_turn
        self._readable.update(self._resting)
        self._resting.clear()
        due = [cast(int, cid) for cid in iter(partial(self._timers.pop_due, self._now), None)]
        for cid in due:  # one step each: what it leads to is taken before another one may be due
            self._on_timeout(self._links[cid])

    def _on_timeout(self, link: _Link) -> None:
        connection = link.connection
        if connection is None:
            seconds = self.limits.handshake_timeout
            link.error = ConnectionLost(f"no connection within {seconds:g} s (TCP and TLS, T-68): is the peer there?")
            self._abort(link)
        elif connection.state is not State.CLOSED:
            connection.handle_timeout(self._now)
            self._go_on(link)
        elif link.closed:  # and the peer, or the system, still does not let go
            self._abort(link)
        else:
            self._timers.set(link.cid, self._now)  # its end is still to be told

    def _rearm(self, link: _Link) -> None:
        due = link.connection.next_timeout() if link.connection else None
        if due is not None:
            self._timers.set(link.cid, due)
        else:
            self._timers.cancel(link.cid)

    # What there is to see.

    def stats(self) -> HubStats:
        """Counters since the start, and sizes now."""
        return HubStats(
            paused=self._counts["paused"],
            rested=self._counts["rested"],
            refused_connections=self._counts["refused_connections"],
            connections=len(self._links),
            unread_bytes=sum(link.unread for link in self._links.values()),
            unsent_bytes=sum(
                link.in_transit + (link.connection.unsent_bytes if link.connection else 0)
                for link in self._links.values()
            ),
        )

    # Links.

    def _new_link(self, remote: Remote | None) -> _Link:
        self._last_cid += 1
        link = self._links[self._last_cid] = _Link(self._last_cid, remote, self.limits.max_turn)
        self._timers.set(link.cid, self._now + self.limits.handshake_timeout)
        return link

    def _use(self, cid: int) -> Connection | None:
        link = self._links.get(cid)
        if link is None or link.connection is None:
            return None
        self._readable[link] = None  # a call may lead to an event
        self._writable[link] = None
        return link.connection

    def _go_on(self, link: _Link) -> None:
        self._readable[link] = None
        self._writable[link] = None
        self._rearm(link)

    def _abort(self, link: _Link) -> None:
        self._actions.append(Abort(link.cid))
        self._forget(link)

    def _forget(self, link: _Link) -> None:
        """The transport is gone, or as good as: nothing comes of this cid any more."""
        del self._links[link.cid]
        self._readable.pop(link, None)
        self._writable.pop(link, None)
        self._resting.pop(link, None)
        self._timers.cancel(link.cid)
        self._arrivals.remove(link.cid)
        self._tell(link)

    def _tick(self, now: float | None) -> None:
        if now is not None and now > self._now:
            self._now = now


def _cause(seen: TolliverError | None, known: TolliverError | None) -> TolliverError | None:
    """Why a connection is over: it only sees that bytes end, the transport may know why."""
    return known or seen if isinstance(seen, ConnectionLost | UnexpectedEOF) else seen
