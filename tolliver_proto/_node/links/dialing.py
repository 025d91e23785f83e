"""Remotes to dial, with reconnect backoff (full jitter, 0.1 to 30 s).

Each remote is in one of three conditions: being dialled or connected (it has a cid), waiting for its time, or parked
because its peer has a live connection anyway (T-70). A try that failed is followed by another one, with full jitter
(0.1 to 30 s), for ever, until `disconnect` (T-76). A refusal, of a certificate or a version, say, is followed by one
within 1 to 5 minutes, as a clock, a renewal or an upgrade heals it (T-73). A remote that is not to be kept up goes with
a refusal, and with an answer that is no handshake: whoever asked for it has the error. One that leads to ourselves is
dialled no more in any case. Why the last try failed is kept with each, and is news once, and again where the cause is
another one. A connection on which something was acknowledged has the pauses begin anew, so what bounds the dials of a
link that always breaks is a token bucket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from ..._common.causes import DialCause
from ..._common.errors import RemoteProtocolError, TolliverError, UnexpectedEOF
from ..._common.failures import DialFailure, failure_of
from ..._common.records import frozen
from ..._common.token_bucket import TokenBucket
from ..._common.transport import Remote
from ..._wire.dialect import AS_EVERYBODY, Dialect
from ..._wire.limits import Limits

_STEADY = 10.0  # seconds of being up after which a remote's failures are forgotten, though nothing was acknowledged
_BURST, _DIALS_PER_SECOND = 5, 0.5  # of dials of one remote, however often its connections break
_REFUSED_FIRST, _REFUSED_SPREAD = 60.0, 240.0  # seconds until one that was refused is dialled again


class RemoteState(StrEnum):
    """State of a remote: of the connection to it, or of the tries to make one."""

    CONNECTED = "connected"
    DIALLING = "dialling"
    WAITING = "waiting"  # for the next try
    GAVE_UP = "gave_up"  # it leads to this instance itself (T-71)


class Ending(NamedTuple):
    """End of a connection to a remote, or of a try to make one.

    `is_news` where it is the first failure of the remote, or has another cause than the one before; `is_final` where it
    is not dialled on; `ends_calls` where those who asked for the remote get the error: it was refused, or what answered
    is no peer of this protocol, or contradicts itself (T-73).
    """

    failure: DialFailure
    peer: UUID | None
    is_final: bool
    is_news: bool
    ends_calls: bool


@frozen
class RemoteInfo:
    """A remote as `Node.remotes` shows it.

    `peer` is who answered there last. `cause` and `error`, its text for people, say why it is not connected, None and
    "" where no try has failed. `tries` counts the dials since it was connected last, `next_try` is in seconds from now.
    Where `cause.is_refusal`, one of the two sides has refused the other, and somebody may have to mend that.
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
        self.remote = remote
        self.cid: int | None = None
        self.peer: UUID | None = None  # the last one that answered
        self.parked_on: UUID | None = None
        self.failures = 0
        self.dialect = AS_EVERYBODY
        self.kept_up = False  # it is dialled on, whatever answers there (T-73)
        self.bucket = TokenBucket(_BURST, _DIALS_PER_SECOND)  # of its dials
        self.again = False  # it was asked for while it was dialled: a refusal may be of what is no more
        self.up_since: float | None = None
        self.tries = 0  # since it was up
        self.failure: DialFailure | None = None  # why it is not
        self.told: DialCause | None = None  # of the last failure that was news

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

    def peer_of(self, remote: Remote) -> UUID | None:
        dialled = self._remotes.get(remote)
        return dialled.peer if dialled else None

    def add(self, remote: Remote, dialect: Dialect, keep_up: bool, now: float) -> bool:
        """True if it was not dialled until now."""
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
        """Dial them at once: the reason for the refusal may be gone."""
        for dialled in self._remotes.values():
            dialled.again = dialled.state is RemoteState.DIALLING
            if dialled.is_refused and dialled.cid is None:
                self._dial_in(dialled, 0.0, now)

    def _dial_in(self, dialled: Dialled, seconds: float, now: float) -> None:
        """In so many seconds, or as soon as its bucket allows one more dial."""
        self._wait(dialled.remote, max(seconds, dialled.bucket.pause(now)))

    def control_messages(self, peer: UUID) -> bool | None:
        """`Dialect.control_messages` of the remotes that lead to this peer: False if one of them says so."""
        said = {dialled.dialect.control_messages for dialled in self._remotes.values() if dialled.peer == peer}
        return False if False in said else True if True in said else None

    def strangers(self) -> Iterator[Dialect]:
        """Dialects of remotes that have not said yet which peer they are."""
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
        """Its time has come: dial, unless its peer is connected already."""
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
        """Seconds until the next try."""
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
            dialled.told = DialCause.LOST  # that a connection has ended is told as such
        dialled.failure = failure
        return failure

    def peer_left(self, peer: UUID, now: float) -> None:
        """Its live connection is over: those that were parked on it are dialled again."""
        for remote in self._parked.pop(peer, ()):
            dialled = self._remotes.get(remote)
            if dialled is not None and dialled.parked_on == peer:
                dialled.parked_on = None
                self._dial_in(dialled, self._limits.redial_first * self._jitter(), now)


def _is_no_handshake(error: TolliverError | None) -> bool:
    """True if something answered, and not as this protocol has it. An end is no answer (T-67)."""
    return isinstance(error, RemoteProtocolError) and not isinstance(error, UnexpectedEOF)
