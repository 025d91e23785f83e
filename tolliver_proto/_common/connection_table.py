"""Table of connections by cid, common to a node and a hub.

Connections of both protocols are accepted or dialled, opened, fed, drained, timed and forgotten in the same way. The
table takes the inputs of the transports, keeps the connections that have something to read or to write, and makes the
actions that move bytes. The subclass has `next_action` and gives the events their meaning.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Generic, TypeVar

from .base_link import HANDING_OUT, SHUTTABLE, BaseLink, Connection, LinkSignal, LinkState
from .compiling import mypyc_attr
from .dial_causes import FIRST_BYTES, DialCause
from .errors import ConnectionLost, TolliverError
from .handshake_limiter import ALL, HandshakeLimiter
from .timers import Timers
from .transport import Abort, Dial, PauseReading, Remote, ResumeReading, Role, ShutdownWrite, Transmit, TransportAction

L = TypeVar("L", bound=BaseLink[Connection])
A = TypeVar("A")

HELLO_TIMEOUT = 2.0  # seconds from the cid until the first message of a stranger's TLS is whole (D-7)


class TableState(Generic[L, A]):
    """State of a table, shared with the parts of the machine: time, timers, actions to hand out, connections."""

    def __init__(self, now: float | None) -> None:
        self.now: float = now or 0.0
        self.closing = False
        self.timers: Timers = Timers()  # the key of a link's own timer is its cid
        self.links: dict[int, L] = {}
        self.readable: dict[L, None] = {}
        self.writable: dict[L, None] = {}
        self.actions: deque[TransportAction | A] = deque()
        self.counts: defaultdict[str, int] = defaultdict(int)  # a Counter takes three times as long to add one

    def tick(self, now: float | None) -> None:
        """Sets the time to `now`, if that is later; None keeps the time."""
        if now is not None and now > self.now:
            self.now = now


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionTable(Generic[L, A]):
    """Connections and their transports. Every input takes `now`, monotonic seconds; None means the last time seen.

    Calls with an unknown cid are ignored: the connection ended before the adapter knew.
    """

    _CLOSED: ClassVar[Enum]  # the last state of the protocol's connections

    def __init__(
        self,
        state: TableState[L, A],
        make_link: Callable[[int, Role, Remote | None], L],
        limiter: HandshakeLimiter,
        handshake_timeout: float,
    ) -> None:
        self._state = state
        self._make_link = make_link
        self._last_cid = 0
        self._limiter = limiter
        self._handshake_timeout = handshake_timeout
        self._links = state.links
        self.timers: Timers = state.timers
        self._timers = self.timers
        self._readable = state.readable
        self._writable = state.writable
        self._actions = state.actions
        self._counts = state.counts

    @property
    def closing(self) -> bool:
        """True after `close`: all connections end, and the table neither dials nor accepts."""
        return self._state.closing

    # Inputs.

    def new_cid(self, now: float | None = None, address: str = "") -> int | None:
        """Returns a cid for an accepted connection, and starts the timeout of its handshake (T-68).

        `address` is the peer's host, without a port. None tells the adapter to close the connection at once: the table
        is closing, or too many handshakes are in progress (limits in all and for each address, D-7). At a limit, the
        oldest connection of the address that has sent nothing yet is aborted to make room; where all places are taken
        and there is none, the least advanced one of any address.
        """
        self._state.tick(now)
        full = self._limiter.full(address)
        if full is not None and (least := self._least_advanced(full, address)) is not None:
            self._on_refused(full)
            self._abort(self._links[least])
            full = self._limiter.full(address)
        if self._state.closing or full is not None:
            self._on_refused(full)
            return None
        link = self._new_link(Role.SERVER, None)
        self._limiter.add(link.cid, address, self._state.now)
        return link.cid

    def shaking(self, cid: int, greeted: bool, now: float | None = None) -> None:
        """Notes that the accepted connection `cid` is in its TLS handshake. `greeted`: the peer's first message, the
        ClientHello, is whole. Until then the connection has HELLO_TIMEOUT, after it the rest of its handshake timeout.
        """
        self._state.tick(now)
        since = self._limiter.since(cid)
        if since is not None and self._links[cid].connection is None:
            most = self._handshake_timeout if greeted else min(HELLO_TIMEOUT, self._handshake_timeout)
            self._timers.set(cid, since + most)

    def _least_advanced(self, full: str, address: str) -> int | None:
        """Returns the cid of the connection that makes room for one of this address, None if each keeps its place."""
        silent = self._limiter.silent(address, self._state.now)
        if silent is not None or full != ALL:
            return silent
        return min(self._limiter.old(self._state.now), key=self._advance, default=None)

    def _advance(self, cid: int) -> tuple[bool, int]:
        """Returns how far a handshake is: whether TLS is done, and how many of the peer's first bytes have come."""
        link = self._links[cid]
        return link.connection is not None, len(link.first)

    def receive_data(self, cid: int, data: bytes, now: float | None = None) -> None:
        """Feeds received bytes to the connection `cid`."""
        self._state.tick(now)
        link = self._links.get(cid)
        if link is not None and link.connection is not None:
            link.connection.receive_data(data, self._state.now)
            if len(link.first) < FIRST_BYTES:
                link.first += bytes(data[:FIRST_BYTES])
                self._limiter.heard(cid)
            self._readable[link] = None
            self._on_data(link, len(data))

    def receive_eof(self, cid: int, now: float | None = None) -> None:
        """Tells the connection `cid` that the peer has closed its sending side in order."""
        self._state.tick(now)
        link = self._links.get(cid)
        if link is not None and link.connection is not None:
            link.connection.receive_eof(self._state.now)
            self._readable[link] = None

    def sent(self, cid: int, now: float | None = None) -> None:
        """Marks the outstanding Transmit of the connection `cid` as taken by the socket."""
        self._state.tick(now)
        link = self._links.get(cid)
        if link is not None and link.in_transit:
            link.in_transit = 0
            self._writable[link] = None
            self._on_sent(link)

    def lost(self, cid: int, error: TolliverError | None = None, now: float | None = None) -> None:
        """Ends the connection `cid`, whose transport is gone: with `error`, or in order for None. The events of bytes
        received before are still handed out.
        """
        self._state.tick(now)
        link = self._links.get(cid)
        if link is not None:
            self._lost(link, error)

    # Hooks of the subclass.

    def _on_refused(self, full: str | None) -> None:
        """Called when a connection is refused. `full` is the limiter's full share; None: the table is closing."""

    def _on_data(self, link: L, size: int) -> None:
        """Called when `size` bytes came in."""

    def _on_sent(self, link: L) -> None:
        """Called when the socket has taken all bytes of the link's outstanding Transmit."""

    def _on_transmit(self, link: L) -> None:
        """Called when the action Transmit, with bytes of this link, is handed out."""

    # Life.

    def _new_link(self, role: Role, remote: Remote | None) -> L:
        self._last_cid += 1
        link = self._links[self._last_cid] = self._make_link(self._last_cid, role, remote)
        self._timers.set(link.cid, self._state.now + self._handshake_timeout)
        return link

    def _dial(self, remote: Remote) -> int:
        link = self._new_link(Role.CLIENT, remote)
        self._actions.append(Dial(link.cid, remote))
        return link.cid

    def _lost(self, link: L, error: TolliverError | None) -> None:
        link.error = link.error or error
        if link.connection is None:
            link.error = link.error or ConnectionLost("the connection was lost before it was open")
            self._forget(link)
        elif link.state in HANDING_OUT:
            link.move(LinkSignal.LOST)
            link.connection.receive_eof(self._state.now)
            self._readable[link] = None
        else:
            self._forget(link)

    def _abort(self, link: L) -> None:
        self._actions.append(Abort(link.cid))
        self._forget(link)

    def _forget(self, link: L) -> None:
        """Removes a link whose transport is gone or aborted: no further event or action names its cid."""
        link.move(LinkSignal.FORGET)
        del self._links[link.cid]
        self._readable.pop(link, None)
        self._writable.pop(link, None)
        self._timers.cancel(link.cid)
        self._limiter.remove(link.cid)

    # Reading and writing.

    def _go_on(self, link: L) -> None:
        self._readable[link] = None
        self._writable[link] = None
        self._rearm(link)

    def _set_paused(self, link: L, paused: bool) -> None:
        if paused is not link.paused:
            link.paused = paused
            self._actions.append((PauseReading if paused else ResumeReading)(link.cid))

    def _write(self, link: L) -> None:
        connection = link.connection
        if connection is None or link.in_transit or link.state is LinkState.DRAINING:
            return
        if connection.unsent_bytes:  # all queued frames go in one action
            units = connection.data_to_send()
            link.in_transit = sum(map(len, units))
            self._actions.append(Transmit(link.cid, units))
            self._on_transmit(link)
        elif connection.close_deadline is not None and connection.wants_write_shutdown and link.state in SHUTTABLE:
            link.move(LinkSignal.SHUT)
            self._actions.append(ShutdownWrite(link.cid))
        if connection.close_deadline is not None or link.cid in self._timers.deadlines:
            self._rearm(link)

    # Time.

    def next_timeout(self) -> float | None:
        """Returns the time to call `handle_timeout`, in monotonic seconds, or None if nothing is due."""
        first = self._timers.earliest()
        return first[0] if first else None

    def _rearm(self, link: L) -> None:
        due = link.connection.next_timeout() if link.connection is not None else None
        if due is None:
            self._timers.cancel(link.cid)
        elif self._timers.due(link.cid) != due:
            self._timers.set(link.cid, due)

    def _on_link_timeout(self, link: L) -> None:
        connection = link.connection
        if connection is None:
            link.error = ConnectionLost(
                f"no connection within {self._handshake_timeout:g} s (TCP and TLS, T-68): is the peer there?",
                DialCause.NO_ANSWER,
            )
            self._abort(link)
        elif connection.state is self._CLOSED:  # closed, but the peer or the application has not ended the transport
            self._abort(link)
        else:
            connection.handle_timeout(self._state.now)
            self._go_on(link)
