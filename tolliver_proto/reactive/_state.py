"""State tables of a connection and of a stream.

As in the other protocol, this file knows states, what can happen in each, and nothing else: no bytes, no role, no time.
A pair that is missing is an error: the peer's where it comes from the wire, the caller's where it comes from the API.
`TRANSITIONS` is the connection. `SUBSCRIBING` is one id of ours, over all the subscriptions that use it in turn:
signals of an earlier one may still come in until the peer has answered the last (R-10).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Member(Enum):
    """An Enum hashed by identity: the usual hash is a call into Python, and tables are read for every frame."""

    __hash__ = object.__hash__


class State(Member):
    """State of a connection."""

    AWAITING_CLIENT_HELLO = auto()
    AWAITING_SERVER_HELLO = auto()  # the client's: it may use the connection already
    OPEN = auto()
    LEAVING = auto()  # our goodbye is said: what comes is read and dropped until the peer's
    CLOSED = auto()


class Signal(Member):
    """Things that can happen to a connection: on the wire, by a call, and around both."""

    CLIENT_HELLO = auto()
    SERVER_HELLO = auto()
    TRAFFIC = auto()  # all that belongs to a stream or to an extension
    GOODBYE = auto()

    USE = auto()  # subscribe()
    EXTEND = auto()  # send(), the frame of an extension
    LEAVE = auto()  # goodbye()

    EOF = auto()
    FAULT = auto()  # malformed bytes, a limit passed, a frame that may not come, another version
    TIMEOUT = auto()


FROM_WIRE = frozenset({Signal.CLIENT_HELLO, Signal.SERVER_HELLO, Signal.TRAFFIC, Signal.GOODBYE})
FROM_CALLER = frozenset({Signal.USE, Signal.EXTEND, Signal.LEAVE})


class Effect(Member):
    """Treatment of the frame, besides the change of state."""

    HAND_OUT = auto()
    DROP = auto()
    END = auto()  # end every stream, say goodbye if that is still to be said, hand out Closed
    NONE = auto()


class Transition(NamedTuple):
    to: State
    effect: Effect


_S, _E = State, Effect
_OVER = Transition(_S.CLOSED, _E.END)
_LEAVE = {Signal.LEAVE: Transition(_S.LEAVING, _E.NONE)}
_READING = {Signal.EOF: _OVER, Signal.FAULT: _OVER}
_TIMED = {Signal.TIMEOUT: _OVER}

TRANSITIONS: dict[State, dict[Signal, Transition]] = {
    _S.AWAITING_CLIENT_HELLO: {
        Signal.CLIENT_HELLO: Transition(_S.OPEN, _E.HAND_OUT),
        Signal.GOODBYE: _OVER,
        **_LEAVE,
        **_READING,
        **_TIMED,
    },
    _S.AWAITING_SERVER_HELLO: {
        Signal.SERVER_HELLO: Transition(_S.OPEN, _E.HAND_OUT),
        Signal.GOODBYE: _OVER,
        Signal.USE: Transition(_S.AWAITING_SERVER_HELLO, _E.NONE),
        **_LEAVE,
        **_READING,
        **_TIMED,
    },
    _S.OPEN: {
        Signal.TRAFFIC: Transition(_S.OPEN, _E.HAND_OUT),
        Signal.GOODBYE: _OVER,
        Signal.USE: Transition(_S.OPEN, _E.NONE),
        Signal.EXTEND: Transition(_S.OPEN, _E.NONE),
        **_LEAVE,
        **_READING,
    },
    _S.LEAVING: {
        **dict.fromkeys(FROM_WIRE, Transition(_S.LEAVING, _E.DROP)),
        Signal.GOODBYE: _OVER,
        **_LEAVE,
        **_READING,
        **_TIMED,
    },
    _S.CLOSED: dict.fromkeys(
        (*FROM_WIRE, Signal.LEAVE, Signal.EOF, Signal.FAULT, Signal.TIMEOUT), Transition(_S.CLOSED, _E.NONE)
    ),
}

HANDSHAKING = frozenset({_S.AWAITING_CLIENT_HELLO, _S.AWAITING_SERVER_HELLO})
"""States with the handshake's time limit."""

ENDING = frozenset({_S.LEAVING, _S.CLOSED})
"""States in which nothing more can be begun: a call that comes now has lost the race with the close."""


class Id(Member):
    """State of an id of ours, with the subscription that uses it or used it last."""

    UNUSED = auto()
    ASKED = auto()  # subscribed, and never before: nothing but the answer may come
    ASKED_AGAIN = auto()  # signals of an earlier subscription may come before the answer
    ACTIVE = auto()
    LEFT = auto()  # cancelled before the answer to the first subscription
    LEFT_AGAIN = auto()  # cancelled before the answer to a later one
    OVER = auto()  # ended or cancelled, every subscription is answered


class Step(Member):
    """Things that can happen to an id: two calls, and what the publisher sends."""

    SUBSCRIBE = auto()
    CANCEL = auto()
    ANSWER = auto()  # the `subscribed` of the last subscription
    OLD_ANSWER = auto()  # that of an earlier one
    ELEMENT = auto()
    TERMINAL = auto()


class Turn(NamedTuple):
    to: Id
    passed_on: bool
    """True if the signal is handed out, not dropped."""


def _late(state: Id) -> dict[Step, Turn]:
    """Signals of a subscription that is over are dropped (R-08, R-10)."""
    return dict.fromkeys((Step.ELEMENT, Step.TERMINAL), Turn(state, False))


SUBSCRIBING: dict[Id, dict[Step, Turn]] = {
    Id.UNUSED: {Step.SUBSCRIBE: Turn(Id.ASKED, True)},
    Id.ASKED: {
        Step.ANSWER: Turn(Id.ACTIVE, True),
        Step.OLD_ANSWER: Turn(Id.ASKED_AGAIN, False),
        Step.CANCEL: Turn(Id.LEFT, True),
    },
    Id.ASKED_AGAIN: {
        Step.ANSWER: Turn(Id.ACTIVE, True),
        Step.OLD_ANSWER: Turn(Id.ASKED_AGAIN, False),
        Step.CANCEL: Turn(Id.LEFT_AGAIN, True),
        **_late(Id.ASKED_AGAIN),
    },
    Id.ACTIVE: {
        Step.ELEMENT: Turn(Id.ACTIVE, True),
        Step.TERMINAL: Turn(Id.OVER, True),
        Step.CANCEL: Turn(Id.OVER, True),
    },
    Id.LEFT: {
        Step.ANSWER: Turn(Id.OVER, False),
        Step.OLD_ANSWER: Turn(Id.LEFT_AGAIN, False),
        Step.SUBSCRIBE: Turn(Id.ASKED, True),
    },
    Id.LEFT_AGAIN: {
        Step.ANSWER: Turn(Id.OVER, False),
        Step.OLD_ANSWER: Turn(Id.LEFT_AGAIN, False),
        Step.SUBSCRIBE: Turn(Id.ASKED_AGAIN, True),
        **_late(Id.LEFT_AGAIN),
    },
    Id.OVER: {Step.SUBSCRIBE: Turn(Id.ASKED_AGAIN, True), **_late(Id.OVER)},
}

LIVE = frozenset({Id.ASKED, Id.ASKED_AGAIN, Id.ACTIVE})
"""States in which the application still expects something of the id."""

TAKING = frozenset(state for state, steps in SUBSCRIBING.items() if steps.get(Step.ELEMENT) == Turn(state, True))
"""States in which elements are handed out, and change nothing."""
