"""Remotes to dial, with reconnect backoff (full jitter, 0.1 to 30 s).

Each remote is in one of four conditions: being dialled or connected (it has a cid), waiting for its time, parked
because its peer has a live connection anyway (T-70), or given up. Failures that cannot heal end it, and so does an
answer that is no handshake, unless the remote is to be kept up (T-73); everything else is tried again with full jitter
(0.1 to 30 s), for ever, until `disconnect` (T-76). A connection on which something
was acknowledged has the pauses begin anew, so what bounds a link that always breaks is the number of dials in a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeGuard
from uuid import UUID

from .._common.errors import (
    AccessDenied,
    CertificateError,
    HandshakeRejected,
    IdentityConflict,
    RemoteProtocolError,
    SelfConnection,
    TolliverError,
    UnexpectedEOF,
)
from .._common.transport import Remote
from .._wire.dialect import AS_EVERYBODY, Dialect
from .._wire.limits import Limits
from .actions import DialEnded, DialFailed

HOPELESS = (AccessDenied, CertificateError, HandshakeRejected, IdentityConflict, SelfConnection)
"""Errors that trying again does not mend."""

_STEADY = 10.0  # seconds of being up after which a remote's failures are forgotten
_FRUITFUL = 1.0  # and where a message was acknowledged meanwhile
_DIALS, _WITHIN = 30, 60.0  # at most so many in any so many seconds


class Dialled:
    """One remote."""

    __slots__ = ("cid", "dialect", "dials", "failures", "kept_up", "mute", "parked_on", "peer", "remote", "up_since")

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.cid: int | None = None
        self.peer: UUID | None = None  # who answered last
        self.parked_on: UUID | None = None
        self.failures = 0
        self.mute = False  # its peer is sent no control messages
        self.dialect = AS_EVERYBODY
        self.kept_up = False  # it is dialled on, whatever answers there (T-73)
        self.dials: deque[float] = deque(maxlen=_DIALS)  # the times of the last ones
        self.up_since: float | None = None


class Dialer:
    """The remotes of a node.

    `start(remote)` begins a dial and returns its cid, `wait(remote, seconds)` asks for `retry` later.
    """

    def __init__(
        self,
        limits: Limits,
        jitter: Callable[[], float],
        start: Callable[[Remote], int],
        wait: Callable[[Remote, float], None],
        is_live: Callable[[UUID], bool],
    ) -> None:
        self._limits = limits
        self._jitter = jitter
        self._start = start
        self._wait = wait
        self._is_live = is_live
        self._remotes: dict[Remote, Dialled] = {}
        self._parked: dict[UUID, list[Remote]] = {}

    def peer_of(self, remote: Remote) -> UUID | None:
        dialled = self._remotes.get(remote)
        return dialled.peer if dialled else None

    def add(self, remote: Remote, mute: bool, dialect: Dialect, keep_up: bool, now: float) -> None:
        is_new = remote not in self._remotes
        dialled = self._remotes.setdefault(remote, Dialled(remote))
        dialled.mute = mute
        dialled.dialect = dialect
        dialled.kept_up |= keep_up
        if is_new:
            self.retry(remote, now)

    def is_mute(self, peer: UUID) -> bool:
        """True if a remote that leads to this peer was given so."""
        return any(dialled.mute and dialled.peer == peer for dialled in self._remotes.values())

    def dialect_of(self, remote: Remote) -> Dialect:
        dialled = self._remotes.get(remote)
        return dialled.dialect if dialled else AS_EVERYBODY

    def remotes(self) -> list[Remote]:
        return list(self._remotes)

    def remove(self, remote: Remote) -> Dialled | None:
        return self._remotes.pop(remote, None)

    def retry(self, remote: Remote, now: float) -> None:
        """Its time has come: dial, unless its peer is connected already."""
        dialled = self._remotes[remote]
        assert dialled.cid is None
        if dialled.peer is not None and self._is_live(dialled.peer):
            dialled.parked_on = dialled.peer
            self._parked.setdefault(dialled.peer, []).append(remote)
            return
        free_at = dialled.dials[0] + _WITHIN if len(dialled.dials) == _DIALS else now
        if now < free_at:
            self._wait(remote, free_at - now)
            return
        dialled.dials.append(now)
        dialled.cid = self._start(remote)

    def established(self, remote: Remote, peer: UUID, now: float) -> None:
        dialled = self._remotes[remote]
        dialled.peer = peer
        dialled.up_since = now
        dialled.kept_up = True

    def answered(self, remote: Remote, peer: UUID) -> None:
        """We know now who is there."""
        self._remotes[remote].peer = peer

    def ended(
        self, remote: Remote, cid: int, error: TolliverError | None, fruitful: bool, now: float
    ) -> DialEnded | DialFailed | None:
        """Its connection, or the try to make one, is over. Returns what is to be told of it, if anything.

        `fruitful` if a message of an outbox was acknowledged on it, ours or the peer's."""
        dialled = self._remotes.get(remote)
        if dialled is None or dialled.cid != cid:
            return None
        dialled.cid = None
        failed = DialFailed(remote, error) if dialled.up_since is None and _is_no_handshake(error) else None
        if isinstance(error, HOPELESS) or (failed is not None and not dialled.kept_up):
            del self._remotes[remote]
            return DialEnded(remote, error)
        if dialled.up_since is not None and now - dialled.up_since >= (_FRUITFUL if fruitful else _STEADY):
            dialled.failures = 0
        dialled.up_since = None
        ceiling = min(self._limits.redial_max, self._limits.redial_first * 2.0 ** min(dialled.failures, 30))
        dialled.failures += 1
        self._wait(remote, ceiling * self._jitter())
        return failed

    def peer_left(self, peer: UUID) -> None:
        """Its live connection is over: those that were parked on it are dialled again."""
        for remote in self._parked.pop(peer, ()):
            dialled = self._remotes.get(remote)
            if dialled is not None and dialled.parked_on == peer:
                dialled.parked_on = None
                self._wait(remote, self._limits.redial_first * self._jitter())


def _is_no_handshake(error: TolliverError | None) -> TypeGuard[RemoteProtocolError]:
    """True if something answered, and not as this protocol has it. An end is no answer (T-67)."""
    return isinstance(error, RemoteProtocolError) and not isinstance(error, UnexpectedEOF)
