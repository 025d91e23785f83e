"""Hub: all connections of one program over the Reactive Streams protocol.

A hub is a table of connections, as is the messaging protocol's node: inputs come by cid, actions go out. Connections
know nothing of each other. They share the clock, the bound on strangers (D-7), the turns, and `close`.

State: for each link the cost of the elements that were handed out and not taken (`unread`), the events that are left in
this turn (`share`), and two facts that the application was or is to be told (`told`, `above_high_water`).

Invariants: a connection has at most one Transmit outstanding, and frames gather meanwhile. Reading pauses for elements
that the application has not taken, and for links that wait for their next turn, never for the bytes that we write
(D-9): else two peers that write to each other could wait for each other for ever. After `max_turn` events the
other connections have their turn (D-12), because the work that an event causes counts in no bound on bytes. PeerDown
comes once for each cid that was dialled or came up, after the last event of its streams.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from .._common.base_link import HANDING_OUT, BaseLink, LinkSignal, LinkState
from .._common.certificate_watch import CertificateWatch, new_one
from .._common.connection_table import ConnectionTable, TableState
from .._common.dial_causes import DialCause
from .._common.dial_failures import DialFailure, failure_of
from .._common.errors import ConnectionClosing, ConnectionLost, TolliverError, UnexpectedEOF
from .._common.handshake_limiter import HandshakeLimiter
from .._common.transport import PeerIdentity, Remote, Role
from .._wire.events import Closed
from ._actions import Action, Drained, Happened, PeerDown, PeerUp
from ._connection import Connection
from ._events import ClientHello, Elements, Goodbye, OnError, ServerHello
from ._layout import Extension
from ._limits import Limits
from ._sign_of_life import announced
from ._state import State
from ._stats import HubStats

_CERTIFICATE = "certificate", None  # the timer
ELEMENT_COST = 128
"""Bytes that an element costs in addition to its own: a flood of empty elements is bounded too."""


class _Link(BaseLink[Connection]):
    """Record of one connection of a hub: its transport, its machine, and the elements that its application has not
    taken.
    """

    __slots__ = ("above_high_water", "full", "reason", "share", "told", "unread", "up")

    def __init__(self, cid: int, role: Role, remote: Remote | None, share: int) -> None:
        super().__init__(cid, role, remote)
        self.told = remote is not None  # the application is to get a PeerDown
        self.up = False  # the peer has said hello
        self.above_high_water = False  # `wanted` was 0 because of unsent bytes: a Drained is to follow
        self.unread = 0  # cost of the elements that were handed out and not taken, in bytes
        self.full = False  # reading pauses until half of `max_unread` is taken
        self.share = share  # events that may be handed out in this turn
        self.reason = ""


class Hub(ConnectionTable[_Link, Action]):
    """Connections and their streams. Every input takes `now`, monotonic seconds; None means the last time seen.

    Inputs from a transport are `new_cid`, `opened`, `receive_data`, `receive_eof`, `sent` and `lost`. After each input
    take actions with `next_action` until None, and call `handle_timeout` at `next_timeout()`. The calls for streams are
    those of a `Connection`, with the cid in front; if the connection has ended, all but `subscribe` do nothing.

    The sign of life is announced beside `extensions`, unless `limits.sign_of_life` is None (R-40). Raises
    LocalProtocolError for extensions that cannot be announced together.
    """

    _CLOSED = State.CLOSED

    def __init__(
        self, *, extensions: Iterable[Extension] = (), limits: Limits | None = None, now: float | None = None
    ) -> None:
        limits = limits or Limits()
        self.limits: Limits = limits
        limiter = HandshakeLimiter(limits.max_handshakes, limits.max_handshakes_per_address)
        super().__init__(TableState(now), partial(_Link, share=limits.max_turn), limiter, limits.handshake_timeout)
        self._extensions = announced(extensions, limits.sign_of_life)
        Connection(Role.CLIENT, extensions=self._extensions, limits=limits)  # raises for extensions that clash
        self._resting: dict[_Link, None] = {}  # links without a share left: they go on in the next turn
        self._certificates = CertificateWatch(self._timers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, {len(self._links)} connections{', closing' if self.closing else ''}>"

    # Inputs from the transport.

    def connect(self, remote: Remote, now: float | None = None) -> int:
        """Dials the remote once; returns the cid. PeerUp or PeerDown follows. Raises ConnectionClosing after
        `close`."""
        self._state.tick(now)
        if self.closing:
            raise ConnectionClosing(f"{remote} is not dialled: everything is being closed")
        self._counts["dials"] += 1
        return self._dial(remote)

    def why_not_up(self, cid: int) -> DialFailure | None:
        """Returns the reason for which a dial has not reached its peer yet; None if it has, or has ended."""
        link = self._links.get(cid)
        if link is None or link.up:
            return None
        stands = (
            "it is connected, and has said no hello: is it a port of streams?"
            if link.connection
            else "no connection stands yet"
        )
        return failure_of(ConnectionLost(stands, DialCause.NO_ANSWER), link.first, DialCause.STREAMS)

    def give_up(self, cid: int, now: float | None = None) -> None:
        """Ends the dial of the connection `cid`, for which the application waits no longer; PeerDown has the reason of
        `why_not_up`.
        """
        self._state.tick(now)
        failure = self.why_not_up(cid)
        if failure is not None:
            link = self._links[cid]
            link.error = ConnectionLost(f"given up: {failure.detail}", failure.cause)
            self._tell(link)
        self.goodbye(cid, "given up")

    def opened(self, cid: int, role: Role, identity: PeerIdentity, now: float | None = None) -> None:
        """Begins the connection `cid`, whose transport stands and has proved this identity."""
        self._state.tick(now)
        link = self._links.get(cid)
        if link is None or link.state is not LinkState.CONNECTING:
            return
        link.move(LinkSignal.OPENED)
        link.identity = identity
        link.connection = Connection(role, extensions=self._extensions, limits=self.limits, now=self._state.now)
        self._go_on(link)

    def close(self, now: float | None = None) -> None:
        """Says goodbye to all peers, and refuses new connections from now on. The hub is closed when `idle`."""
        self._state.tick(now)
        self._state.closing = True
        for cid in list(self._links):
            self.goodbye(cid, "the peer is closing")

    @property
    def idle(self) -> bool:
        """True if there is no connection."""
        return not self._links

    # As a subscriber.

    def subscribe(self, cid: int, name: str, initial_demand: int = 0) -> int:
        """Subscribes as `Connection.subscribe` does. Raises ConnectionClosing if the connection has ended."""
        connection = self._use(cid)
        if connection is None:
            raise ConnectionClosing("the connection is over: make another one, and subscribe there")
        subscriber_id = connection.subscribe(name, initial_demand)
        self._rearm(self._links[cid])  # a subscriber waits
        self._read_if_told(cid, connection)
        return subscriber_id

    def request(self, cid: int, subscriber_id: int, count: int) -> None:
        if (connection := self._use(cid)) is not None:
            connection.request(subscriber_id, count)
            self._read_if_told(cid, connection)

    def cancel(self, cid: int, subscriber_id: int) -> None:
        if (connection := self._use(cid)) is not None:
            connection.cancel(subscriber_id)

    def took(self, cid: int, size: int, count: int) -> bool:
        """Notes that the application has taken `count` elements, of `size` bytes in all; returns True if reading, which
        was paused, goes on.
        """
        link = self._links.get(cid)
        if link is None:
            return False
        link.unread -= size + ELEMENT_COST * count
        goes_on = link.full and link.unread <= self.limits.max_unread // 2
        if goes_on:
            self._read_on(link)
        return goes_on

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
        """Returns the number of elements to pull from the source now. After 0, Happened(Request) or Drained follows."""
        link = self._links.get(cid)
        if link is None or link.connection is None:
            return 0
        count = link.connection.wanted(subscriber_id, link.in_transit)
        if not count and link.connection.demand(subscriber_id):
            link.above_high_water = True
        return count

    # As a peer.

    def send(self, cid: int, frame: object) -> None:
        """Sends a frame of an extension as `Connection.send` does. Raises ConnectionClosing if the connection has
        ended."""
        connection = self._use(cid)
        if connection is None:
            raise ConnectionClosing("the connection is over: make another one")
        connection.send(frame)

    def goodbye(self, cid: int, reason: str = "", now: float | None = None) -> None:
        """Ends the connection `cid` in order, with this reason for the peer; a transport that does not stand yet is
        aborted.
        """
        self._state.tick(now)
        link = self._links.get(cid)
        if link is None:
            return
        if link.connection is None:
            link.error = link.error or ConnectionClosing("it was closed before it was open")
            link.reason = reason
            self._abort(link)
            return
        link.move(LinkSignal.END)
        link.connection.goodbye(reason, self._state.now)
        link.reason = link.reason or reason
        self._read_on(link)  # all frames up to the peer's goodbye are read and dropped
        self._go_on(link)

    # Actions.

    def next_action(self) -> Action | None:
        """Returns the next action, or None until there is another input."""
        while not self._actions:
            if self._readable:
                self._read(next(iter(self._readable)))
            elif self._writable:
                self._write(self._writable.popitem()[0])
            else:
                return None
        return self._actions.popleft()

    def _read(self, link: _Link) -> None:
        """Takes the next event of a connection, if it has not had its share of this turn: an upper bound of events."""
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
            link.told = link.up = True
            self._limiter.remove(link.cid)
            assert connection is not None
            self._actions.append(PeerUp(link.cid, link.identity, link.remote, connection.extensions))
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
        """Counts elements that the application has not taken yet; pauses reading if they are too many: a peer may have
        more demand than we can hold.
        """
        link.unread += sum(map(len, run.elements)) + ELEMENT_COST * len(run.elements)
        if link.unread > self.limits.max_unread and not link.full:
            link.full = True
            self._counts["paused"] += 1
            self._pace(link)

    def _rest(self, link: _Link) -> None:
        if link not in self._resting:
            self._resting[link] = None
            self._timers.first = min(self._timers.first, self._state.now)
            self._counts["rested"] += 1
        self._leave(link)

    def _leave(self, link: _Link) -> None:
        """Goes on to the next connection: this one has no event, or no share left in this turn."""
        self._readable.pop(link, None)
        self._writable[link] = None
        self._pace(link)

    def _read_on(self, link: _Link) -> None:
        if link.full and link.connection is not None:
            link.connection.excuse(self._state.now)
        link.full = False
        self._pace(link)

    def _pace(self, link: _Link) -> None:
        """Pauses reading for elements that are not taken, and for a link that waits for its turn; else resumes it."""
        waits = link in self._resting and link.connection is not None and link.connection.buffered_bytes > 0
        self._set_paused(link, link.full or waits)

    def _explained(self, link: _Link, event: Any) -> Any:
        """Gives the OnError of a connection's end the connection's own cause, which the transport may know better."""
        cause = _cause(event.cause, link.error) if type(event) is OnError else None
        return event if cause is None else OnError(event.subscriber_id, str(cause), cause)

    def _on_closed(self, link: _Link, event: Closed) -> None:
        was_lost = link.state is LinkState.DRAINING
        link.move(LinkSignal.CLOSED)
        link.error = _cause(event.error, link.error)
        self._tell(link)
        if was_lost:
            self._forget(link)
        else:
            self._read_on(link)  # only the end of the stream is left to read
            self._go_on(link)

    def _tell(self, link: _Link) -> None:
        if link.told:
            link.told = False
            failure = None if link.up else failure_of(link.error, link.first, DialCause.STREAMS)
            if failure is not None:
                self._counts[f"dials_failed_{failure.cause}"] += 1
            self._actions.append(PeerDown(link.cid, link.remote, link.error, link.reason, failure))

    def _on_sent(self, link: _Link) -> None:
        assert link.connection is not None
        if link.above_high_water and link.connection.unsent_bytes <= self.limits.low_water:
            link.above_high_water = False
            self._actions.append(Drained(link.cid))

    # Time.

    def next_timeout(self) -> float | None:
        """Returns the time to call `handle_timeout`, or None; that is now if links wait for their next turn."""
        return self._state.now if self._resting else super().next_timeout()

    def handle_timeout(self, now: float | None = None) -> None:
        """Begins the next turn, and handles the deadlines that have passed."""
        self._state.tick(now)
        for link in self._resting:
            link.share = self.limits.max_turn
        self._readable.update(self._resting)
        self._resting.clear()
        due = list(iter(partial(self._timers.pop_due, self._state.now), None))
        for key in due:  # one deadline of each key: a deadline set here is due in the next call at the earliest
            if key == _CERTIFICATE:
                self._on_certificate_timeout()
            else:
                self._on_link_timeout(self._links[cast(int, key)])

    def watch_certificate(
        self, seconds_left: float, what: str, now: float | None = None, *, has_uuid: bool = True
    ) -> None:
        """Watches our certificate, `what` in words, which is valid for `seconds_left`: CertificateExpires comes once a
        day in its last 30 days. The text asks for one with the same UUID where the certificate `has_uuid`."""
        self._state.tick(now)
        remedy = f"make {new_one(has_uuid)}, and open the streams again"
        self._certificates.watch(
            None, self._state.now + seconds_left, f"our certificate {what}", remedy, self._state.now
        )

    def _on_certificate_timeout(self) -> None:
        told = self._certificates.check(None, self._state.now)
        if told is not None:
            self._actions.append(told)

    def _on_link_timeout(self, link: _Link) -> None:
        connection = link.connection
        if connection is not None and connection.state is State.CLOSED and link.state in HANDING_OUT:
            self._timers.set(link.cid, self._state.now)  # Closed is not handed out yet
            return
        if connection is not None and (link.paused or link.in_transit):
            connection.excuse(self._state.now)
        super()._on_link_timeout(link)

    # Introspection.

    def stats(self) -> HubStats:
        """Returns the totals since the start, and the present sizes."""
        return HubStats(
            paused=self._counts["paused"],
            rested=self._counts["rested"],
            refused_connections=self._counts["refused_connections"],
            dials=self._counts["dials"],
            dials_failed={cause: self._counts[f"dials_failed_{cause}"] for cause in DialCause},
            connections=len(self._links),
            unread_bytes=sum(link.unread for link in self._links.values()),
            unsent_bytes=sum(link.unsent for link in self._links.values()),
        )

    # Links.

    def _on_refused(self, _full: str | None) -> None:
        self._counts["refused_connections"] += 1

    def _use(self, cid: int) -> Connection | None:
        link = self._links.get(cid)
        if link is None or link.connection is None:
            return None
        self._writable[link] = None
        return link.connection

    def _read_if_told(self, cid: int, connection: Connection) -> None:
        """Has the events of this connection read in the next turn if a call has made one."""
        if connection.has_events:
            self._readable[self._links[cid]] = None

    def _forget(self, link: _Link) -> None:
        super()._forget(link)
        self._resting.pop(link, None)
        self._tell(link)


def _cause(seen: TolliverError | None, known: TolliverError | None) -> TolliverError | None:
    """Returns the error of a connection's end: `known`, the transport's, if the connection has seen only that the
    stream ended."""
    return known or seen if isinstance(seen, ConnectionLost | UnexpectedEOF) else seen
