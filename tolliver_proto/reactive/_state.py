"""State tables of a connection and of a stream.

This file knows states and signals: no bytes, no role, no time. A missing pair is an error: the peer's if the signal
comes from the wire, the caller's if the signal comes from the API. `TRANSITIONS` is the table of a connection.
`SUBSCRIBING` is the table of one of our ids, for all subscriptions that use the id in turn: signals of an earlier
subscription may come until the peer has answered the last one (R-10).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import ClassVar, NamedTuple


class Member(Enum):
    """An Enum hashed by identity, because tables are read for every frame: Enum's own hash is a call into Python."""

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__


class State(Member):
    """State of a connection."""

    AWAITING_CLIENT_HELLO = auto()
    AWAITING_SERVER_HELLO = auto()  # a client's state: it may subscribe already
    OPEN = auto()
    LEAVING = auto()  # our goodbye is sent: frames are read and dropped until the peer's goodbye
    CLOSED = auto()


class Signal(Member):
    """Signal that may move a connection: from the wire, from a call, or from the machine itself."""

    CLIENT_HELLO = auto()
    SERVER_HELLO = auto()
    TRAFFIC = auto()  # all frames of streams and extensions
    GOODBYE = auto()

    USE = auto()  # subscribe()
    EXTEND = auto()  # send(): a frame of an extension
    LEAVE = auto()  # goodbye()

    EOF = auto()
    FAULT = auto()  # malformed bytes, a limit passed, a frame at a wrong time, another version
    TIMEOUT = auto()


FROM_WIRE = frozenset({Signal.CLIENT_HELLO, Signal.SERVER_HELLO, Signal.TRAFFIC, Signal.GOODBYE})
FROM_CALLER = frozenset({Signal.USE, Signal.EXTEND, Signal.LEAVE})


class Effect(Member):
    """Treatment of the frame that caused a transition."""

    HAND_OUT = auto()
    DROP = auto()
    END = auto()  # end every stream, send our goodbye if it is not sent yet, hand out Closed
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
        **_TIMED,
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
"""States with a time limit for the handshake."""

ENDING = frozenset({_S.LEAVING, _S.CLOSED})
"""States in which no stream can begin: a call has lost the race with the close."""


class Id(Member):
    """State of one of our ids, with the last subscription that used it."""

    UNUSED = auto()
    ASKED = auto()  # subscribed for the first time: only the answer may come
    ASKED_AGAIN = auto()  # signals of an earlier subscription may come before the answer
    ACTIVE = auto()
    LEFT = auto()  # cancelled before the answer to the first subscription
    LEFT_AGAIN = auto()  # cancelled before the answer to a later one
    OVER = auto()  # ended or cancelled, and every subscription is answered


class Step(Member):
    """Signal that may move the id of one of our subscriptions to another state: two calls, and the publisher's
    frames.
    """

    SUBSCRIBE = auto()
    CANCEL = auto()
    ANSWER = auto()  # the `subscribed` of the last subscription
    OLD_ANSWER = auto()  # the `subscribed` of an earlier subscription
    ELEMENT = auto()
    TERMINAL = auto()


class Turn(NamedTuple):
    to: Id
    passed_on: bool
    """True if the signal is handed out; False if it is dropped."""


def _late(state: Id) -> dict[Step, Turn]:
    """Returns the transitions of an id whose subscription has ended: signals that still come are dropped, and the state
    stays (R-08, R-10)."""
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
"""States in which the application expects signals for the id."""

TAKING = frozenset(state for state, steps in SUBSCRIBING.items() if steps.get(Step.ELEMENT) == Turn(state, True))
"""States in which elements are handed out and do not change the state."""
