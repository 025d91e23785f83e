"""Simulated connections between hubs, which deliver late and break anywhere.

Bytes arrive in order, cut anywhere. A write ends late, and later if the peer does not read. A connection can end at any
byte; each side learns of the end at its own time, or much later (half-open).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._common.errors import CertificateError, ConnectionLost, TolliverError
from ..._common.transport import Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit
from ..._testing.invariants import check
from .._ids import ONE_BYTE
from .monitor import WireMonitor
from .world import End, Host, World

_OLD = 0.4
"""Chance that a connection has used all ids of one byte before, so that it takes cancelled ids again (R-12)."""


class Network(World):
    """World with transports between its hosts."""

    def _opened(self, end: End) -> None:
        """Called when the transport of `end` is connected, before the peer's hello has come."""

    def _dial(self, host: Host, action: Dial) -> None:
        self._at(self._delay(), self._connect, host, host.born, action.cid, action.remote)

    def _connect(self, host: Host, born: int, cid: int, remote: int) -> None:
        if host.born != born or cid not in host.hub._links:
            return
        target = self._hosts[remote]
        if self._chance(self._weather.dial_fails):
            self._call(host, "lost", cid, ConnectionLost("connection refused"))
            return
        server_cid = target.hub.new_cid(target.time(self.now), host.name)
        if server_cid is None:
            self.counts["refused"] += 1
            self._call(host, "lost", cid, None)
            return
        monitor = WireMonitor()
        near, far = End(host, cid, Role.CLIENT, monitor), End(target, server_cid, Role.SERVER, monitor)
        near.other, far.other = far, near
        host.ends[cid], target.ends[server_cid] = near, far
        host.peers[cid], target.peers[server_cid] = monitor._sides[Role.SERVER], monitor._sides[Role.CLIENT]
        self.counts["connections"] += 1
        self._turn(target)  # the new cid has set a deadline
        for end in (near, far):
            if not self._chance(self._weather.tls_hangs):
                self._at(self._delay(), self._open, end)

    def _open(self, end: End) -> None:
        if not end.alive or end.cid not in end.host.hub._links:
            return  # lost, or given up with an Abort that is to come
        end.open = True
        self._trace(f"{end.host.name} {end.cid} open, {end.role}, to {end.other.host.name} {end.other.cid}")
        host = end.host
        host.hub.opened(end.cid, end.role, PeerIdentity(address=end.other.host.name), host.time(self.now))
        end.connection = host.hub._links[end.cid].connection
        if end.connection is not None and self._chance(_OLD):
            end.connection._subscriber._ids.highest = ONE_BYTE
        self._turn(host)
        self._opened(end)
        self._move(end)

    def _with_end(self, do: Callable[[End, Any], None]) -> Callable[[Host, Any], None]:
        """Makes a handler of actions out of `do`, which gets the end of the action's cid; an action of an end that is
        gone is ignored."""
        return lambda host, action: do(host.ends[action.cid], action) if action.cid in host.ends else None

    def _transmit(self, end: End, action: Transmit) -> None:
        check(not end.in_transit, f"a second Transmit for {action.cid} while one is outstanding")
        check(not end.shut, f"a Transmit for {action.cid} after ShutdownWrite")
        end.in_transit = True
        data = b"".join(action.units)
        end.transmit(data)
        if not end.broken:
            end.other.arriving += data
            self._move(end.other)
        self._at(self._patience(self._weather.writer_slow, self._weather.writer_patience), self._taken, end)

    def _taken(self, end: End) -> None:
        if not end.alive:
            return
        if end.other.paused and end.other.alive and end.other.arriving:
            self._at(0.5, self._taken, end)  # the peer does not read: the socket has no room
            return
        end.in_transit = False
        self._call(end.host, "sent", end.cid)

    def _move(self, end: End) -> None:
        if (end.arriving or end.ending) and end.open and not end.moving and not end.paused and end.alive:
            end.moving = True
            self._at(self._delay(), self._arrive, end)

    def _arrive(self, end: End) -> None:
        end.moving = False
        if not end.alive or end.paused or end.eof:
            return
        if not end.arriving:
            end.eof = True
            self._call(end.host, "receive_eof", end.cid)
            self._finish(end)
            return
        size = self._rng.randint(1, len(end.arriving)) if self._chance(0.5) else len(end.arriving)
        data = bytes(end.arriving[:size])
        del end.arriving[:size]
        end.watch()
        end.host.hub.receive_data(end.cid, data, end.host.time(self.now))
        end.received += size
        self._turn(end.host)
        self._move(end)

    def _shutdown_write(self, end: End, action: ShutdownWrite) -> None:
        check(not end.in_transit, f"ShutdownWrite for {action.cid} while a Transmit is outstanding")
        check(not end.shut, f"a second ShutdownWrite for {action.cid}")
        end.shut = True
        if not end.broken:
            end.other.ending = True
            self._move(end.other)
        self._finish(end)

    def _finish(self, end: End) -> None:
        """Ends the transport of `end` in order once both sides have closed their sending halves."""
        if end.shut and end.eof and end.alive:
            self._at(self._delay(), self._lose, end, None)

    def _abort(self, end: End, action: Abort) -> None:
        del end.host.ends[action.cid]
        end.over = True
        self._lose_later(end.other)

    def _lose_later(self, end: End) -> None:
        """Ends the transport of `end`, whose other side is gone: soon, or much later if the connection is half-open."""
        end.broken = True
        late = self._chance(self._weather.half_open)
        wait = self._rng.random() * (self._weather.half_open_for if late else 0.5)
        error = CertificateError("refused") if self._chance(0.1) else ConnectionLost("reset")
        self._at(wait, self._lose, end, error)

    def _lose(self, end: End, error: TolliverError | None) -> None:
        if not end.alive:
            return
        end.over = True
        end.broken = end.other.broken = True
        self._trace(f"{end.host.name} {end.cid} lost: {error}")
        if not end.other.over and error is not None:
            self._lose_later(end.other)
        del end.host.ends[end.cid]
        self._call(end.host, "lost", end.cid, error)

    def _pause_reading(self, end: End, action: PauseReading) -> None:
        end.paused = True
        self.counts["pauses"] += 1

    def _resume_reading(self, end: End, action: ResumeReading) -> None:
        end.paused = False
        self._move(end)
