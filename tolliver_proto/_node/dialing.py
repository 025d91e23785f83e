"""Remotes to dial, with reconnect backoff (full jitter, 0.1 to 30 s).

Each remote is in one of four conditions: being dialled or connected (it has a cid), waiting for its time, parked
because its peer has a live connection anyway (T-70), or given up. Failures that cannot heal end it, and so does an
answer that is no handshake, unless the remote is to be kept up (T-73); everything else is tried again with full jitter
(0.1 to 30 s), for ever, until `disconnect` (T-76). Why the last try failed is kept with each, and is news once, and
again where the cause is another one. A connection on which something
was acknowledged has the pauses begin anew, so what bounds a link that always breaks is the number of dials in a minute.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from .._common.causes import DialCause
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
from .._common.failures import DialFailure, failure_of
from .._common.records import frozen
from .._common.transport import Remote
from .._wire.dialect import AS_EVERYBODY, Dialect
from .._wire.limits import Limits

HOPELESS = (AccessDenied, CertificateError, HandshakeRejected, IdentityConflict, SelfConnection)
"""Errors that trying again does not mend."""

_STEADY = 10.0  # seconds of being up after which a remote's failures are forgotten
_FRUITFUL = 1.0  # and where a message was acknowledged meanwhile
_DIALS, _WITHIN = 30, 60.0  # at most so many in any so many seconds
_GIVEN_UP_KEPT = 1000  # that `states` still shows


class RemoteState(StrEnum):
    """State of a remote: of the connection to it, or of the tries to make one."""

    CONNECTED = "connected"
    DIALLING = "dialling"
    WAITING = "waiting"  # for the next try
    GAVE_UP = "gave_up"  # trying again would not help (T-73)


class Ending(NamedTuple):
    """End of a connection to a remote, or of a try to make one.

    `is_news` where it is the first failure of the remote, or has another cause than the one before; `is_final` where it
    is not dialled on; `is_no_handshake` where what answered is no peer of this protocol, or contradicts itself (T-73).
    """

    failure: DialFailure
    peer: UUID | None
    is_final: bool
    is_news: bool
    is_no_handshake: bool


@frozen
class RemoteInfo:
    """A remote as `Node.remotes` shows it.

    `peer` is who answered there last. `cause` and `error`, its text for people, say why it is not connected, None and
    "" where no try has failed. `tries` counts the dials since it was connected last, `next_try` is in seconds from now.
    """

    remote: Remote
    state: RemoteState
    peer: UUID | None
    cause: DialCause | None
    error: str
    tries: int
    next_try: float | None


class Dialled:
    """One remote."""

    __slots__ = (
        "cid",
        "dialect",
        "dials",
        "failure",
        "failures",
        "kept_up",
        "mute",
        "parked_on",
        "peer",
        "remote",
        "told",
        "tries",
        "up_since",
    )

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.cid: int | None = None
        self.peer: UUID | None = None  # the last one that answered
        self.parked_on: UUID | None = None
        self.failures = 0
        self.mute = False  # its peer is sent no control messages
        self.dialect = AS_EVERYBODY
        self.kept_up = False  # it is dialled on, whatever answers there (T-73)
        self.dials: deque[float] = deque(maxlen=_DIALS)  # the times of the last ones
        self.up_since: float | None = None
        self.tries = 0  # since it was up
        self.failure: DialFailure | None = None  # why it is not
        self.told: DialCause | None = None  # of the last failure that was news

    @property
    def state(self) -> RemoteState:
        if self.up_since is not None or self.parked_on is not None:
            return RemoteState.CONNECTED
        return RemoteState.WAITING if self.cid is None else RemoteState.DIALLING


class Dialer:
    """The remotes of a node.

    `start(remote)` begins a dial and returns its cid, `wait(remote, seconds)` asks for `retry` later, and
    `due(remote)` is when that is.
    """

    def __init__(
        self,
        limits: Limits,
        jitter: Callable[[], float],
        start: Callable[[Remote], int],
        wait: Callable[[Remote, float], None],
        due: Callable[[Remote], float | None],
        is_live: Callable[[UUID], bool],
        counts: defaultdict[str, int],
    ) -> None:
        self._limits = limits
        self._jitter = jitter
        self._start = start
        self._wait = wait
        self._due = due
        self._is_live = is_live
        self._counts = counts
        self._remotes: dict[Remote, Dialled] = {}
        self._parked: dict[UUID, list[Remote]] = {}
        self._given_up: dict[Remote, Dialled] = {}  # to be seen

    def peer_of(self, remote: Remote) -> UUID | None:
        dialled = self._remotes.get(remote)
        return dialled.peer if dialled else None

    def add(self, remote: Remote, mute: bool, dialect: Dialect, keep_up: bool, now: float) -> bool:
        """True if it was not dialled until now."""
        is_new = remote not in self._remotes
        self._given_up.pop(remote, None)
        dialled = self._remotes.setdefault(remote, Dialled(remote))
        dialled.mute = mute
        dialled.dialect = dialect
        dialled.kept_up |= keep_up
        if is_new:
            self.retry(remote, now)
        return is_new

    def is_mute(self, peer: UUID) -> bool:
        """True if a remote that leads to this peer was given so."""
        return any(dialled.mute and dialled.peer == peer for dialled in self._remotes.values())

    def dialect_of(self, remote: Remote) -> Dialect:
        dialled = self._remotes.get(remote)
        return dialled.dialect if dialled else AS_EVERYBODY

    def remotes(self) -> list[Remote]:
        return list(self._remotes)

    def states(self, now: float) -> list[RemoteInfo]:
        """Each remote, and those that were given up."""
        shown = [(one, one.state) for one in self._remotes.values()]
        shown += [(one, RemoteState.GAVE_UP) for one in self._given_up.values()]
        return [self._info(one, state, now) for one, state in shown]

    def _info(self, dialled: Dialled, state: RemoteState, now: float) -> RemoteInfo:
        failure = None if state is RemoteState.CONNECTED else dialled.failure
        due = self._due(dialled.remote) if state is RemoteState.WAITING else None
        return RemoteInfo(
            dialled.remote,
            state,
            dialled.peer,
            failure.cause if failure is not None else None,
            str(failure or ""),
            dialled.tries,
            None if due is None else max(0.0, due - now),
        )

    def remove(self, remote: Remote) -> Dialled | None:
        self._given_up.pop(remote, None)
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
        dialled.tries += 1
        self._counts["dials"] += 1
        dialled.cid = self._start(remote)

    def established(self, remote: Remote, peer: UUID, now: float) -> None:
        dialled = self._remotes[remote]
        dialled.peer = peer
        dialled.up_since = now
        dialled.tries = 0
        dialled.failure = dialled.told = None
        dialled.kept_up = True

    def answered(self, remote: Remote, peer: UUID) -> None:
        """We know now who is there."""
        self._remotes[remote].peer = peer

    def ended(
        self, remote: Remote, cid: int, error: TolliverError | None, first: bytes, fruitful: bool, now: float
    ) -> Ending | None:
        """Its connection, or the try to make one, is over. None where that is not its last one.


        `first` are the first bytes that came on it; `fruitful` if a message of an outbox was acknowledged on it, ours
        or the peer's.
        """
        dialled = self._remotes.get(remote)
        if dialled is None or dialled.cid != cid:
            return None
        dialled.cid = None
        was_up = dialled.up_since is not None
        failure = self._fail(dialled, error, first)
        is_no_handshake = not was_up and _is_no_handshake(error)
        if isinstance(error, HOPELESS) or (is_no_handshake and not dialled.kept_up):
            self._give_up(dialled)
            return Ending(failure, dialled.peer, is_final=True, is_news=True, is_no_handshake=is_no_handshake)
        if dialled.up_since is not None and now - dialled.up_since >= (_FRUITFUL if fruitful else _STEADY):
            dialled.failures = 0
        dialled.up_since = None
        ceiling = min(self._limits.redial_max, self._limits.redial_first * 2.0 ** min(dialled.failures, 30))
        dialled.failures += 1
        self._wait(remote, ceiling * self._jitter())
        is_news, dialled.told = dialled.told is not failure.cause, failure.cause
        return Ending(failure, dialled.peer, is_final=False, is_news=is_news, is_no_handshake=is_no_handshake)

    def _fail(self, dialled: Dialled, error: TolliverError | None, first: bytes) -> DialFailure:
        if dialled.up_since is None:
            failure = failure_of(error, first)
            self._counts[f"dials_failed_{failure.cause}"] += 1
        elif isinstance(error, HOPELESS):
            failure = failure_of(error, first)
        else:
            failure = DialFailure(DialCause.LOST, str(error or "in order, by the other side or by us"))
            dialled.told = DialCause.LOST  # that a connection has ended is told as such
        dialled.failure = failure
        return failure

    def _give_up(self, dialled: Dialled) -> None:
        del self._remotes[dialled.remote]
        self._given_up[dialled.remote] = dialled
        if len(self._given_up) > _GIVEN_UP_KEPT:
            del self._given_up[next(iter(self._given_up))]

    def peer_left(self, peer: UUID) -> None:
        """Its live connection is over: those that were parked on it are dialled again."""
        for remote in self._parked.pop(peer, ()):
            dialled = self._remotes.get(remote)
            if dialled is not None and dialled.parked_on == peer:
                dialled.parked_on = None
                self._wait(remote, self._limits.redial_first * self._jitter())


def _is_no_handshake(error: TolliverError | None) -> bool:
    """True if something answered, and not as this protocol has it. An end is no answer (T-67)."""
    return isinstance(error, RemoteProtocolError) and not isinstance(error, UnexpectedEOF)
