"""Asks of a local program's calls, and their tries.

Both kinds of clients share this.

A client keeps its connection and makes another one when that has ended: an instance may be started again at any time.
An ask that was not answered is made again only if it has a message key, as it may have been done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tolliver_proto import ConnectionClosing, ConnectionLost
from tolliver_proto.errors import NotOpenYet
from tolliver_proto.node import DialCause, check_seconds, check_type, listed

from .._driver.unix import is_supported
from .._options.unix import check_length
from .envelopes import Answer, Ask, Item, Outcome, Verb

if TYPE_CHECKING:
    from .._boxes.outbox_table import Row

TIMEOUT = 30.0
"""Seconds of a call, by default."""
_SHORTEST, _LONGEST = 0.02, 0.5  # pauses between two tries
_REFUSALS = 3
"""In a row, one of them may be the end of an instance that was killed just then, which looks the same."""
_SPARE = 5.0  # seconds beyond a request's own timeout, after which its instance should have answered
To = UUID | Collection[UUID] | None

_ADVICE = {
    errno.ENOENT: (DialCause.REFUSED, "there is no such socket. Start an instance with accept='unix:{}'"),
    errno.ECONNREFUSED: (DialCause.REFUSED, "the instance that made this socket is gone. Start it again"),
    errno.EACCES: (
        DialCause.ACCESS,
        "this user may not connect. With accept='unix:{}?mode=660' the socket's group may",
    ),
}


def checked_path(path: str | os.PathLike[str]) -> str:
    """The path of a socket; "unix:" before it is left out. Raises TypeError, ValueError."""
    text = os.fspath(path)
    check_type("path", text, str, "the path of a socket")
    if not is_supported():
        raise ValueError("this system has no Unix sockets: open an instance of its own in each program")
    return check_length(text.removeprefix("unix:"))


def unreached(path: str, error: OSError) -> ConnectionLost:
    """The error for a socket that cannot be connected to."""
    cause, advice = _ADVICE.get(error.errno or 0, (DialCause.UNREACHABLE, str(error.strerror or error)))
    return ConnectionLost(f"no instance was reached at {path}: {advice.format(path)}", cause)


def client_closed() -> ConnectionLost:
    """The error for a call that waits while its client is closed."""
    return ConnectionLost("the client was closed")


def not_open(path: str) -> ConnectionClosing:
    """The error for a call of a client that is not open."""
    return NotOpenYet(
        f"this client of the instance at {path} is not open: call it in `with connect(path) as me:`, or `async with`"
    )


class Tries:
    """The tries of one ask, within so many seconds."""

    def __init__(self, path: str, ask: Ask, seconds: float) -> None:
        check_seconds("timeout", seconds)
        self._path = path
        self._ask = ask
        self._seconds = seconds
        self.due: float = monotonic() + seconds
        """Monotonic seconds."""
        self.was_asked: bool = False
        """True once the ask may have reached the instance."""
        self._pause = _SHORTEST
        self._refusals = 0  # in a row

    def pause(self, error: ConnectionLost) -> float:
        """Seconds until the next try, after this error. Raises ConnectionLost if there is none."""
        if self.was_asked and not self._ask.is_safe_to_repeat:
            raise ConnectionLost(
                f"{error}, before it answered: what was asked may have been done, or not. With a message_key this call "
                "would have asked again, and is done once"
            ) from None
        self._refusals = self._refusals + 1 if error.cause is DialCause.ACCESS else 0
        if self._refusals == _REFUSALS:
            raise error
        left = self.due - monotonic()
        if left <= 0:
            raise ConnectionLost(f"{error}, and for {self._seconds:g} s there was no other", error.cause) from None
        self._pause, pause = min(2 * self._pause, _LONGEST), self._pause
        return min(pause, left)

    def too_late(self) -> TimeoutError:
        again = "ask again with the same message_key" if self._ask.is_safe_to_repeat else "it may still be done"
        return TimeoutError(f"after {self._seconds:g} s the instance at {self._path} has not answered: {again}")


def answered(outcome: Outcome, path: str) -> Answer:
    """The answer of an instance. Raises its error, and ConnectionLost if it was being closed."""
    if isinstance(outcome, ConnectionClosing):
        raise ConnectionLost(f"the instance at {path} was being closed")
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


# The asks of calls.


class Times(NamedTuple):
    """Time of a send, as a program gives it. The instance checks it."""

    after: float | None
    not_before: datetime | None

    def terms(self) -> dict[str, Any]:
        """Those of an ask: none for a send at once. Raises TypeError."""
        if self.not_before is not None:
            check_type("not_before", self.not_before, datetime, "a datetime with a time zone")
            return {"after": self.after, "not_before": self.not_before.isoformat()}
        return {} if self.after is None else {"after": self.after}


def send(
    channel: str,
    key: str,
    body: bytes,
    message_key: str | None,
    require_recipients: int,
    to: To,
    expire_after: float | None,
    times: Times,
) -> Ask:
    terms = {"message_key": message_key, **_terms(require_recipients, to, expire_after), **times.terms()}
    return _one(Verb.SEND, channel, key, body, terms)


def send_many(items: Iterable[Item], require_recipients: int, to: To, expire_after: float | None) -> Ask:
    each = [*listed("items", items)]
    for item in each:
        if not isinstance(item, tuple) or len(item) != 3:
            raise TypeError(f"items has {item!r:.100}: give (channel, key, body)")
        _check(*item)
    return Ask(Verb.SEND_MANY, each, _terms(require_recipients, to, expire_after))


def put(channel: str, key: str, body: bytes, message_key: str | None, times: Times) -> Ask:
    return _one(Verb.PUT, channel, key, body, {"message_key": message_key, **times.terms()})


def request(
    channel: str, key: str, body: bytes, timeout: float, message_key: str | None, durable: bool, to: To
) -> tuple[Ask, float]:
    """The ask, and how many seconds its answer may take."""
    check_seconds("timeout", timeout)
    terms = {"timeout": timeout, "message_key": message_key, "durable": durable, "to": _uuids(to)}
    return _one(Verb.REQUEST, channel, key, body, terms), timeout + _SPARE


def rows(instance: UUID, rows: Sequence[Row], released: Sequence[str]) -> Ask:
    """Those of one channel, or none: the answer says then what the instance knows."""
    terms = {
        "instance": str(instance),
        "message_keys": [row.id for row in rows],
        "times": [row.not_before for row in rows],
        "released": released,
    }
    return Ask(Verb.ROWS, [(row.channel, row.key, row.body) for row in rows], terms)


def _one(verb: Verb, channel: str, key: str, body: bytes, terms: dict[str, Any]) -> Ask:
    _check(channel, key, body)
    message_key = terms["message_key"]
    if message_key is not None:
        check_type("message_key", message_key, str, "a text that names the message")
    return Ask(verb, [(channel, key, body)], terms)


def _check(channel: str, key: str, body: bytes) -> None:
    check_type("channel", channel, str, "a text")
    check_type("key", key, str, "a text")
    check_type("body", body, bytes, "bytes: encode it first, or use channel(name, codec=...)")


def _terms(require_recipients: int, to: To, expire_after: float | None) -> dict[str, Any]:
    return {"require_recipients": require_recipients, "to": _uuids(to), "expire_after": expire_after}


def _uuids(to: To) -> list[str] | None:
    return None if to is None else [str(one) for one in ([to] if isinstance(to, UUID) else to)]
