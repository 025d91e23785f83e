"""Simulated connections that deliver late and break, and disks that fail.

Bytes arrive in order, cut anywhere. A connection can end at any byte; each side learns of the end at its own time, or
much later (half-open). A disk does one job after the other and reports in that order; a crash comes before a job, after
it, or between the job and its report.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from .._common.errors import ConnectionLost, DiskFull, StoreError, TolliverError
from .._common.transport import Abort, Dial, PauseReading, PeerIdentity, ResumeReading, Role, ShutdownWrite, Transmit
from .._node.actions import Commit, Find
from .._wire.events import Revision, Unsubscribe
from .._wire.layouts import LAYOUTS
from .adapter_loop import AdapterLoop, End, H, StoreJob
from .inspection import inside
from .invariants import AnyWitness, check

_BURST, _DIALS_PER_SECOND = 5, 0.5
_LATE = 2  # further dials that may be seen at once, if an adapter is late with the first
_MINUTE = 60.0  # seconds after which a burst is forgotten


class Network(AdapterLoop[H]):
    """Simulated adapters, with the connections between them and their disks. It moves the bytes, with delays, and ends
    connections.
    """

    _revision = Revision.DRAFT_2

    @property
    def _can_unsubscribe(self) -> bool:
        """False if only a handshake can tell that a subscription has ended (T-21)."""
        return Unsubscribe in LAYOUTS[self._revision].controls

    @abstractmethod
    def _witness(self, host: H, is_client: bool) -> AnyWitness:
        """Makes the checker of the bytes that leave and reach one end of a connection: the end of `host`, which dialled
        if `is_client`."""

    # The network.

    def _dial(self, host: H, action: Dial) -> None:
        self._count_dial(host, action.remote)
        self._at(self._delay(), self._connect, host, host.born, action.cid, action.remote)

    def _count_dial(self, host: H, remote: Any) -> None:
        """Checks that a host does not dial a remote more often than T-76 allows."""
        now = host.time(self.now)
        dials = host.dials.setdefault(remote, [])
        dials[:] = [*(when for when in dials if now - when < _MINUTE), now]
        for at, since in enumerate(dials):
            most = _BURST + (now - since) * _DIALS_PER_SECOND
            text = "{} dials {} {} times within {} s (T-76)"
            check(len(dials) - at <= most + _LATE, text, host.name, remote, len(dials) - at, now - since)

    def _reached(self, remote: tuple[int, int]) -> H:
        """Returns the instance that a dial reaches now; `remote` is its address: its number in the world, and a number
        that tells further addresses of the same instance apart.
        """
        return self._hosts[remote[0]]

    def _connect(self, host: H, born: int, cid: int, remote: tuple[int, int]) -> None:
        if host.node is None or host.born != born or cid not in inside(host.node).context.links:
            return
        target = self._reached(remote)
        if self._apart(host, target) and self._chance(0.5):
            return  # the dial is never answered: the node must give up by itself (T-68)
        refused = target.node is None or target.closing or self._apart(host, target)
        if target.node is None or refused or self._chance(self._weather.dial_fails):
            self._call(host, "dial_failed", cid, ConnectionLost("connection refused"))
            return
        server_cid = target.node.new_cid(target.time(self.now), host.name)
        if server_cid is None:
            self.counts["refused"] += 1
            self._call(host, "dial_failed", cid, ConnectionLost("too many handshakes in progress (D-7)"))
            return
        near = End(host, cid, self._witness(host, True))
        far = End(target, server_cid, self._witness(target, False))
        near.other, far.other = far, near
        host.ends[cid], target.ends[server_cid] = near, far
        self.counts["connections"] += 1
        self._writer.joined(near, far)
        for end, role in ((near, Role.CLIENT), (far, Role.SERVER)):
            self._at(self._delay(), self._open, end, role)

    def _open(self, end: End[H], role: Role) -> None:
        if not end.alive:
            return
        end.open = True
        host = end.host
        if role is Role.CLIENT:
            self._begun(end)
        self._trace(f"{host.name} {end.cid} open, {role}, to {end.other.host.name} {end.other.cid}")
        self._call(host, "opened", end.cid, role, PeerIdentity(address=end.other.host.name))
        self._move(end)

    def _begun(self, end: End[H]) -> None:
        """Called when `end`, the client's end of a new connection, is about to begin its handshake."""

    def _apart(self, one: H, other: H) -> bool:
        """True if the network is split between two hosts: bytes arrive after the split, if the connection lives."""
        return self.now < self._split_until and one.island != other.island

    def _with_end(self, do: Callable[[H, End[H], Any], None]) -> Callable[[H, Any], None]:
        """Makes a handler of actions out of `do`, which also gets the end of the action's cid; an action of an end that
        is gone is ignored."""
        return lambda host, action: do(host, host.ends[action.cid], action) if action.cid in host.ends else None

    def _transmit(self, host: H, end: End[H], action: Transmit) -> None:
        check(not end.in_transit, f"a second Transmit for {action.cid} while one is outstanding")
        check(not end.shut, f"a Transmit for {action.cid} after ShutdownWrite")
        end.in_transit = True
        assert host.node is not None
        end.witness.transmit(action.units, host.time(self.now), host.node.retry_interval)
        if not end.broken:
            end.other.arriving.extend(action.units)
            self._move(end.other)
        self._at(self._delay(), self._taken, end)

    def _taken(self, end: End[H]) -> None:
        if end.alive:
            end.in_transit = False
            end.witness.taken(end.host.time(self.now))
            self._call(end.host, "sent", end.cid)

    def _move(self, end: End[H]) -> None:
        if end.arriving and end.open and not end.moving and not end.paused and end.alive:
            end.moving = True
            self._at(self._delay(), self._arrive, end)

    def _arrive(self, end: End[H]) -> None:
        if end.alive and self._apart(end.host, end.other.host):
            self._at(self._split_until - self.now + self._delay(), self._arrive, end)
            return
        end.moving = False
        if not end.alive or end.paused or not end.arriving:
            return
        data = end.arriving.popleft()
        if data is None:
            end.eof = True
            self._call(end.host, "receive_eof", end.cid)
            self._finish(end)
            return
        while self._chance(0.5) and end.arriving and end.arriving[0] is not None:
            data += end.arriving.popleft()  # type: ignore[operator]  # not None, as was just seen
        size = self._rng.randint(1, len(data)) if self._chance(0.5) else len(data)
        if size < len(data):
            end.arriving.appendleft(data[size:])
        end.witness.receive(data[:size])
        self._call(end.host, "receive_data", end.cid, data[:size])
        self._move(end)

    def _shutdown_write(self, host: H, end: End[H], action: ShutdownWrite) -> None:
        check(not end.in_transit, f"ShutdownWrite for {action.cid} while a Transmit is outstanding")
        end.shut = True
        if not end.broken:
            end.other.arriving.append(None)
            self._move(end.other)
        self._finish(end)

    def _finish(self, end: End[H]) -> None:
        """Ends the transport of `end` in order once both sides have closed their sending halves."""
        if end.shut and end.eof and end.alive:
            self._at(self._delay(), self._lose, end, None)

    def _abort(self, host: H, end: End[H], action: Abort) -> None:
        del host.ends[action.cid]
        end.over = True
        self._lose_later(end.other)

    def _lose_later(self, end: End[H]) -> None:
        """Ends the transport of `end`, whose other side is gone: soon, or much later if the connection is half-open."""
        end.broken = True
        late = self._chance(self._weather.half_open)
        wait = self._rng.random() * (self._weather.half_open_for if late else 0.5)
        self._at(wait, self._lose, end, ConnectionLost("reset"))

    def _lose(self, end: End[H], error: TolliverError | None) -> None:
        if not end.alive:
            return
        end.over = True
        end.broken = end.other.broken = True
        end.host.ends.pop(end.cid, None)
        self._trace(f"{end.host.name} {end.cid} lost: {error}")
        self._call(end.host, "lost", end.cid, error)

    def _time_out(self, end: End[H]) -> None:
        """Loses a connection at one end by a timeout; the other end learns of that later."""
        if end.alive:
            self._lose(end, ConnectionLost("timed out"))
            self._lose_later(end.other)

    def _pause_reading(self, host: H, end: End[H], action: PauseReading) -> None:
        end.paused = True

    def _resume_reading(self, host: H, end: End[H], action: ResumeReading) -> None:
        end.paused = False
        self._move(end)

    # The disk: one job at a time, in order, reported in order.

    def _store_job(self, host: H, action: StoreJob) -> None:
        host.jobs.append(action)
        if len(host.jobs) == 1:
            self._at(self._delay(), self._perform, host, host.born)

    def _perform(self, host: H, born: int) -> None:
        if host.born != born:
            return
        job = host.jobs[0]
        host.store.now = self.now
        result: Any = None
        error = StoreError("disk full") if self._chance(self._weather.store_fails) else None
        if isinstance(job, Commit):
            host.store.fail_next_commit = error
            try:
                host.store.commit(job.operations)
                self._writer.stores(host, job, False)
                host.apply(job.operations, self.now)
            except StoreError as raised:
                check(raised is error or isinstance(raised, DiskFull), f"the store refused a commit: {raised}")
                error = raised
                self._writer.stores(host, job, True)
                host.not_applied(job.operations)
        elif isinstance(job, Find):
            result = [] if error else job.ask(host.store)
        elif error is None:
            result = host.store.fetch(job.peer, job.after_seq, job.max_count, job.max_bytes)
        self._at(self._delay(), self._report, host, born, result, error)

    def _report(self, host: H, born: int, result: Any, error: StoreError | None) -> None:
        if host.born != born:
            return
        job = host.jobs.popleft()
        if host.jobs:
            self._at(self._delay(), self._perform, host, born)
        self._trace(f"{host.name} {type(job).__name__} done{f', failed: {error}' if error else ''}")
        if isinstance(job, Commit):
            if error is None:
                self._call(host, "committed", job.batch_id)
            else:
                self._call(host, "store_failed", job.batch_id, error)
        elif isinstance(job, Find):
            self._call(host, "found", job.search_id, result, error)
        elif error is None:
            self._call(host, "fetched", job.peer, result)
        else:
            self._call(host, "fetch_failed", job.peer, error)
