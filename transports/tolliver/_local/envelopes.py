"""Asks of local programs and their answers, as bodies of messages (P-98).

A body is the length of its head (4 bytes), the head (a JSON object), and the rest. The rest of an ask is its messages,
as frames of the wire protocol; that of an answer is the body of a reply. So there is one format of messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, groupby, repeat
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import Limits, Message, Receipt, TolliverError, decode, encode, errors
from tolliver_proto.errors import (
    LimitExceeded,
    LocalProtocolError,
    NoResponders,
    OwnLimitExceeded,
    RemoteProtocolError,
    RequestFailed,
    Undelivered,
    UndeliveredReason,
)
from tolliver_proto.node import Reply, SendState

CHANNEL = "tolliver.local"
"""The reserved channel of asks and answers."""
OWN = "tolliver"
"""Name of a channel of the protocol's own, or its beginning up to a dot: no local program writes there."""
MARGIN = 2**20
"""Bytes of an ask beyond those of its bodies, at most."""
_LENGTH = 4
Item = tuple[str, str, bytes]


class Verb(StrEnum):
    """The call of an instance that is asked for, by its name."""

    SEND = "send"
    SEND_MANY = "send_many"
    PUT = "put"
    REQUEST = "request"
    ROWS = "rows"
    """Of an outbox, each under its key, of one channel in their order."""


class Ask(NamedTuple):
    """A call that a local program asks its instance to make, with its messages and its other arguments, by name."""

    verb: Verb
    items: Sequence[Item]
    terms: Mapping[str, Any]

    @property
    def is_safe_to_repeat(self) -> bool:
        """True if the ask has its effect once, however often it is made."""
        return self.verb is Verb.ROWS or self.terms.get("message_key") is not None

    def body(self) -> bytes:
        """Raises LocalProtocolError for names or a body that no message can have."""
        return _joined({"verb": self.verb, **self.terms}, b"".join([encode(Message(*item)) for item in self.items]))

    @classmethod
    def read(cls, body: bytes, limits: Limits) -> Ask:
        """Raises LocalProtocolError for what is no ask, and OwnLimitExceeded for a message that is too large."""
        try:
            head, rest = _split(body)
            verb = Verb(head.pop("verb"))
            frames = decode(rest, limits=limits)
        except LimitExceeded as error:
            raise OwnLimitExceeded(error.code, error.detail) from None
        except (ValueError, KeyError, RecursionError, RemoteProtocolError) as error:
            raise LocalProtocolError("no_ask", f"a local program asked for what is no call: {error!r:.200}") from None
        items = [(one.channel, one.key, one.body) for one in frames if isinstance(one, Message)]
        if len(items) != len(frames) or (verb not in (Verb.SEND_MANY, Verb.ROWS) and len(items) != 1):
            raise LocalProtocolError("no_ask", f"a local program asked for {verb} with {len(frames)} messages")
        return cls(verb, items, head)


class LocalReceipt(NamedTuple):
    """Receipt of messages that an instance took from a local program, as of the time of its answer.

    `recipients` is the number of peers that get something, `counts` has the recipients of each message. With recipients
    they are on the instance's disk, and so are those whose time has not come, `later`. `repeats` is True if an earlier
    send had the message key: nothing was stored, and all here is about that send. `first_seq` and `last_seq` are the
    instance's own order, `state` says whether all recipients have acknowledged.
    """

    recipients: int
    counts: Sequence[int]
    repeats: bool
    first_seq: int
    last_seq: int
    state: SendState
    later: int

    @property
    def deliveries(self) -> int:
        """Number of messages, each counted once for each recipient."""
        return sum(self.counts)

    def __repr__(self) -> str:
        return f"LocalReceipt(messages={len(self.counts)}, recipients={self.recipients}, deliveries={self.deliveries})"


class LocalReply(NamedTuple):
    """Answer to a request: its `body`, and the peer that gave it."""

    peer_id: UUID
    body: bytes


class RowsTaken(NamedTuple):
    """Answer to rows of an outbox: `gone` are those that somebody gets, of the first ones; `reason` says what held back
    those behind. `remembers` is how many seconds the instance knows a key, `lacks_commits` that it may have lost what
    it knew of rows, `has_little_room` that it wants to hear of keys that are not needed."""

    gone: Sequence[bool]
    reason: str | None
    remembers: float
    lacks_commits: bool
    has_little_room: bool


Answer = LocalReceipt | LocalReply | RowsTaken
Outcome = Answer | Exception


def answer_body(message_id: int, outcome: Receipt | Reply | RowsTaken | BaseException) -> bytes:
    """The body of an answer to the ask with this id."""
    head: dict[str, Any] = {"to": message_id}
    if isinstance(outcome, Reply):
        return _joined({**head, "peer": str(outcome.peer_id)}, outcome.body)
    if isinstance(outcome, BaseException):
        return _joined(head | _told(outcome))
    if isinstance(outcome, RowsTaken):
        return _joined({**head, "rows": {**outcome._asdict(), "gone": _runs(outcome.gone)}})
    receipt = {
        "counts": _runs(outcome.counts),
        "recipients": outcome.recipients,
        "repeats": outcome.repeats,
        "first_seq": outcome.first_seq,
        "last_seq": outcome.last_seq,
        "state": outcome.state,
        "later": outcome.later,
    }
    return _joined({**head, "receipt": receipt})


def read_answer(body: bytes) -> tuple[int, Outcome]:
    """The id of an ask, and what came of it. Raises ValueError for what is no answer."""
    try:
        head, rest = _split(body)
        message_id = int(head["to"])
        if "peer" in head:
            return message_id, LocalReply(UUID(head["peer"]), rest)
        if "error" in head:
            return message_id, _error_of(head)
        if "rows" in head:
            return message_id, RowsTaken(**{**head["rows"], "gone": _each(head["rows"]["gone"])})
        told = head["receipt"]
        told["counts"] = _each(told["counts"])
        return message_id, LocalReceipt(**{**told, "state": SendState(told["state"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"no answer of an instance: {error!r}") from None


def _runs(values: Sequence[int]) -> list[tuple[int, int]]:
    """Each value with how often it comes."""
    return [(value, len([*run])) for value, run in groupby(values)]


def _each(runs: Sequence[tuple[int, int]]) -> list[Any]:
    return [*chain.from_iterable(repeat(*run) for run in runs)]


def _joined(head: Mapping[str, Any], rest: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return len(text).to_bytes(_LENGTH, "big") + text + rest


def _split(body: bytes) -> tuple[dict[str, Any], bytes]:
    """Head and rest. Raises ValueError."""
    end = _LENGTH + int.from_bytes(body[:_LENGTH], "big")
    head = json.loads(body[_LENGTH:end])
    if not isinstance(head, dict):
        raise ValueError("its head is no object")
    return head, body[end:]


# Errors: one class on both sides, made of the same arguments.

_REASON: Callable[[Any], UndeliveredReason] = UndeliveredReason
_AS_THEY_ARE = (
    *(errors.OutboxFull, errors.Blocked, errors.StoreError, errors.DiskFull, errors.Unconfirmed),
    *(errors.ConnectionClosing, errors.LocalProtocolError, errors.ReservedChannel, errors.OwnLimitExceeded),
    *(errors.TooFewRecipients, errors.NoResponders, errors.AccessDenied),
    *(ValueError, TypeError, TimeoutError),
)
_MADE: Mapping[str, Callable[..., Exception]] = {
    **{kind.__name__: kind for kind in _AS_THEY_ARE},
    "RequestFailed": lambda peer, text: RequestFailed(UUID(peer), text),
    "Undelivered": lambda peer, reason, count: Undelivered(
        None if peer is None else UUID(peer), _REASON(reason), count
    ),
}


def _told(error: BaseException) -> dict[str, Any]:
    """An error as part of a head: the nearest class that has a name here, and its arguments."""
    name = next((one.__name__ for one in type(error).__mro__ if one.__name__ in _MADE), "")
    arguments = [str(one) if isinstance(one, UUID) else one for one in error.args] if name else [str(error)]
    told: dict[str, Any] = {"error": name, "arguments": arguments}
    return {**told, "more": error.not_connected} if isinstance(error, NoResponders) else told


def _error_of(head: Mapping[str, Any]) -> Exception:
    error = _MADE.get(head["error"], TolliverError)(*head["arguments"])
    if isinstance(error, NoResponders):
        error.not_connected = str(head.get("more", ""))
    return error


def is_own(channel: str) -> bool:
    """True for a channel of the protocol's own."""
    return channel == OWN or channel.startswith(f"{OWN}.")
