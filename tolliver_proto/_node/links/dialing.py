"""Remotes to dial, with reconnect backoff (full jitter, 0.1 to 30 s).

State: each remote is being dialled or connected (it has a cid), waits for its next try, or is parked because its peer
has a live connection already (T-70).

Rules: a failed try is followed by the next one, with full jitter, until `disconnect` (T-76). A refusal, such as of a
certificate or a version, is followed by a try within 1 to 5 minutes, as a clock, a renewal or an upgrade may heal the
cause (T-73). A remote that is not kept up is removed by a refusal, and by an answer that is no handshake: the caller
gets the error. A remote that leads to this instance itself is never dialled again. Each remote keeps the reason of its
last failure, which is reported once, and again when the cause changes.

A connection on which a message was acknowledged resets the backoff. A token bucket bounds the dials of a link that
carries messages and always breaks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from ..._common.dial_causes import DialCause
from ..._common.dial_failures import DialFailure, failure_of
from ..._common.errors import RemoteProtocolError, TolliverError, UnexpectedEOF
from ..._common.records import frozen
from ..._common.token_bucket import TokenBucket
from ..._common.transport import Remote
from ..._wire.dialect import AS_EVERYBODY, Dialect
from ..._wire.limits import Limits

_STEADY = 10.0  # seconds of a connection that reset the backoff, without any acknowledgement
_BURST, _DIALS_PER_SECOND = 5, 0.5  # token bucket of the dials of one remote
_REFUSED_FIRST, _REFUSED_SPREAD = 60.0, 240.0  # seconds until a refused remote is dialled again


class RemoteState(StrEnum):
    """State of a remote: of the connection to it, or of the tries to make one."""

    CONNECTED = "connected"
    DIALLING = "dialling"
    WAITING = "waiting"  # for the next try
    GAVE_UP = "gave_up"  # the remote leads to this instance itself (T-71)


class Ending(NamedTuple):
    """End of a connection to a remote, or of a try to connect.

    `is_news`: the remote's first failure, or a new cause. `is_final`: the remote is not dialled again. `ends_calls`:
    callers that wait for the remote get the error, because the peer refused, is no peer of this protocol, or
    contradicts itself (T-73).
    """

    failure: DialFailure
    peer: UUID | None
    is_final: bool
    is_news: bool
    ends_calls: bool


@frozen
class RemoteInfo:
    """A remote as `Node.remotes` shows it.

    `peer` is the one that answered there last. `cause` and `error`, its text for people, say why the remote is not
    connected; None and "" if no try has failed. `tries` counts the dials since the last connection, `next_try` is in
    seconds from now. If `cause.is_refusal`, one side has refused the other, and an operator may have to act.
    """

    remote: Remote
    state: RemoteState
    peer: UUID | None
    cause: DialCause | None
    error: str
    tries: int
    next_try: float | None


class Dialled:
    """State of one remote: the address, its connection or last try, and when to dial again."""

    __slots__ = (
        "again",
        "bucket",
        "cid",
        "dialect",
        "failure",
        "failures",
        "kept_up",
        "parked_on",
        "peer",
        "remote",
        "told",
        "tries",
        "up_since",
    )

    def __init__(self, remote: Remote) -> None:
        self.remote: Remote = remote
        self.cid: int | None = None
        self.peer: UUID | None = None  # the last one that answered
        self.parked_on: UUID | None = None
        self.failures: int = 0
        self.dialect: Dialect = AS_EVERYBODY
        self.kept_up: bool = False  # dialled again whatever answers there (T-73)
        self.bucket: TokenBucket = TokenBucket(_BURST, _DIALS_PER_SECOND)  # limits the dials
        self.again: bool = False  # asked for during a dial: a refusal of that dial may be outdated
        self.up_since: float | None = None
        self.tries: int = 0  # since the last connection
        self.failure: DialFailure | None = None  # why the remote is not connected
        self.told: DialCause | None = None  # cause of the last failure that was reported

    @property
    def state(self) -> RemoteState:
        if self.up_since is not None or self.parked_on is not None:
            return RemoteState.CONNECTED
        if self.cid is not None:
            return RemoteState.DIALLING
        return RemoteState.GAVE_UP if self.failure and self.failure.cause is DialCause.SELF else RemoteState.WAITING

    @property
    def is_refused(self) -> bool:
        return self.parked_on is None and self.failure is not None and self.failure.cause.is_refusal


class Dialer:
    """The remotes of a node.

    `start(remote)` begins a dial and returns its cid. `wait(remote, seconds)` schedules `retry`, and `due(remote)` is
    the time of that.
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

    def peer_of(self, remote: Remote) -> UUID | None:
        dialled = self._remotes.get(remote)
        return dialled.peer if dialled else None

    def remotes_of(self, peer: UUID) -> list[Remote]:
        """Remotes that led to this peer last."""
        return [remote for remote, dialled in self._remotes.items() if dialled.peer == peer]

    def add(self, remote: Remote, dialect: Dialect, keep_up: bool, now: float) -> bool:
        """Adds a remote and dials it; returns False if it was there. `keep_up` dials again after a refusal too. A
        refused remote is dialled at once.
        """
        is_new = remote not in self._remotes
        dialled = self._remotes.setdefault(remote, Dialled(remote))
        dialled.dialect = dialect
        dialled.kept_up |= keep_up
        if is_new:
            self.retry(remote, now)
        elif dialled.is_refused and dialled.cid is None:
            self._dial_in(dialled, 0.0, now)
        return is_new

    def dial_refused(self, now: float) -> None:
        """Dials refused remotes at once: the reason for the refusal may be gone."""
        for dialled in self._remotes.values():
            dialled.again = dialled.state is RemoteState.DIALLING
            if dialled.is_refused and dialled.cid is None:
                self._dial_in(dialled, 0.0, now)

    def _dial_in(self, dialled: Dialled, seconds: float, now: float) -> None:
        """Dials the remote after this many seconds, or later if its token bucket is empty."""
        self._wait(dialled.remote, max(seconds, dialled.bucket.pause(now)))

    def control_messages(self, peer: UUID) -> bool | None:
        """False if the dialect of any remote of this peer disables control messages (`Dialect.control_messages`), None
        if they leave that open.
        """
        said = {dialled.dialect.control_messages for dialled in self._remotes.values() if dialled.peer == peer}
        return False if False in said else True if True in said else None

    def strangers(self) -> Iterator[Dialect]:
        """Dialects of the remotes whose peer is not known yet."""
        return (dialled.dialect for dialled in self._remotes.values() if dialled.peer is None)

    def dialect_of(self, remote: Remote) -> Dialect:
        dialled = self._remotes.get(remote)
        return dialled.dialect if dialled else AS_EVERYBODY

    def remotes(self) -> list[Remote]:
        return list(self._remotes)

    def states(self, now: float) -> list[RemoteInfo]:
        return [self._info(one, now) for one in self._remotes.values()]

    def _info(self, dialled: Dialled, now: float) -> RemoteInfo:
        state = dialled.state
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
        return self._remotes.pop(remote, None)

    def retry(self, remote: Remote, now: float) -> None:
        """Dials the remote. If its peer is connected already over another connection, the dial waits for the end of
        that.
        """
        dialled = self._remotes[remote]
        assert dialled.cid is None
        if dialled.peer is not None and self._is_live(dialled.peer):
            dialled.parked_on = dialled.peer
            self._parked.setdefault(dialled.peer, []).append(remote)
            return
        dialled.bucket.spend(now)
        dialled.again = False
        dialled.tries += 1
        self._counts["dials"] += 1
        dialled.cid = self._start(remote)

    def established(self, remote: Remote, peer: UUID, now: float) -> None:
        dialled = self._remotes[remote]
        dialled.peer = peer
        dialled.up_since = now
        dialled.again = False
        dialled.tries = 0
        dialled.failure = dialled.told = None
        dialled.kept_up = True

    def answered(self, remote: Remote, peer: UUID) -> None:
        """Records the peer that this remote leads to."""
        self._remotes[remote].peer = peer

    def ended(
        self, remote: Remote, cid: int, error: TolliverError | None, first: bytes, fruitful: bool, now: float
    ) -> Ending | None:
        """Records the end, with `error` or in order, of a connection or a try, and schedules the next one. Returns None
        if `cid` is not the remote's last.

        `first` are the first bytes that came; `fruitful` if a message was acknowledged on the connection, in either
        direction.
        """
        dialled = self._remotes.get(remote)
        if dialled is None or dialled.cid != cid:
            return None
        dialled.cid = None
        up_since = dialled.up_since
        failure = self._fail(dialled, error, first)
        dialled.up_since = None
        if fruitful or (up_since is not None and now - up_since >= _STEADY):
            dialled.failures = 0
        is_self, is_refused = failure.cause is DialCause.SELF, failure.cause.is_refusal
        ends_calls = is_refused or (up_since is None and _is_no_handshake(error))
        is_final = is_self or (ends_calls and not dialled.kept_up)
        if not is_final:
            self._dial_in(dialled, self._pause(dialled, is_refused), now)
        elif not dialled.kept_up:
            del self._remotes[remote]
        is_news, dialled.told = dialled.told is not failure.cause, failure.cause
        return Ending(failure, dialled.peer, is_final, is_news, ends_calls)

    def _pause(self, dialled: Dialled, is_refused: bool) -> float:
        """Seconds until the next try: after a refusal by either side (`is_refused`) a minute or more, or none if the
        application has asked again; else more with each failure.
        """
        if is_refused:
            return 0.0 if dialled.again else _REFUSED_FIRST + _REFUSED_SPREAD * self._jitter()
        ceiling = min(self._limits.redial_max, self._limits.redial_first * 2.0 ** min(dialled.failures, 30))
        dialled.failures += 1
        return ceiling * self._jitter()

    def _fail(self, dialled: Dialled, error: TolliverError | None, first: bytes) -> DialFailure:
        if dialled.up_since is None:
            failure = failure_of(error, first)
            self._counts[f"dials_failed_{failure.cause}"] += 1
        elif error is not None and error.cause is not None and error.cause.is_refusal:
            failure = failure_of(error, first)
        else:
            failure = DialFailure(DialCause.LOST, str(error or "in order, by the other side or by us"))
            dialled.told = DialCause.LOST  # PeerDown reports the end of a connection
        dialled.failure = failure
        return failure

    def peer_left(self, peer: UUID, now: float) -> None:
        """Dials the remotes that waited for the end of this peer's live connection, which has come."""
        for remote in self._parked.pop(peer, ()):
            dialled = self._remotes.get(remote)
            if dialled is not None and dialled.parked_on == peer:
                dialled.parked_on = None
                self._dial_in(dialled, self._limits.redial_first * self._jitter(), now)


def _is_no_handshake(error: TolliverError | None) -> bool:
    """True if the dial ended with an `error` of this class: the other end answered, and not by this protocol. The end
    of the connection alone is no answer (T-67).
    """
    return isinstance(error, RemoteProtocolError) and not isinstance(error, UnexpectedEOF)
