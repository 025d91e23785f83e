"""Transition table of a connection.

This file knows states and signals: no bytes, no role, no time. `TRANSITIONS` gives for each state and signal the next
state, and the effect on the frame that caused the signal. A missing pair is an error: the peer's if the signal comes
from the wire, the caller's if the signal comes from the API. In the `HOLDING` states and in AGREED the connection reads
nothing: bytes, and the end of the stream, wait. A client begins in AWAITING_RESPONSE, a server in AWAITING_REQUEST; the
rest of the table is the same for both. The diagrams of the docs are drawn from the table (`scripts/draw/states.py`).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class State(Enum):
    """State of a connection."""

    AWAITING_REQUEST = auto()
    AWAITING_RESPONSE = auto()
    DECIDING = auto()  # a request was handed out: accept() or reject()
    CONFIRMING = auto()  # the peer is OLDER: accept() or reject()
    AWAITING_FINAL = auto()  # we said OLDER, and nothing more until the final (T-64)
    AGREED = auto()  # the handshake has ended well, Established is the next event
    ESTABLISHED = auto()
    RENEWING = auto()  # a request on a live connection was handed out (T-66)
    RENEWED = auto()  # that request was answered with OLDER: a final may follow (T-66)
    CLOSING = auto()  # close() was called on a live connection, which still reads
    CLOSED = auto()


class Signal(Enum):
    """Signal that may move a connection: from the wire, from a call, or from the machine itself."""

    REQUEST = auto()
    RESPONSE_AGREED = auto()
    RESPONSE_REFUSED = auto()
    RESPONSE_OLDER = auto()
    FINAL_COMPATIBLE = auto()
    FINAL_FAILURE = auto()
    TRAFFIC = auto()  # messages, acks, control messages, and frames that are not understood

    AGREE = auto()  # accept(), status SAME_VERSION or NEWER_COMPATIBLE
    REFUSE = auto()  # accept(), status NEWER_INCOMPATIBLE
    DEFER = auto()  # accept(), status OLDER
    CONFIRM = auto()  # accept() of an older peer
    DENY = auto()  # reject() of an older peer, or accept() of one that we cannot speak with
    REJECT = auto()
    SEND = auto()
    CLOSE = auto()

    TAKEN = auto()  # Established was handed out
    EOF = auto()
    FAULT = auto()  # malformed bytes, a limit passed
    TIMEOUT = auto()


FROM_WIRE = frozenset(signal for signal in Signal if signal.value <= Signal.TRAFFIC.value)
FROM_CALLER = frozenset(signal for signal in Signal if Signal.AGREE.value <= signal.value <= Signal.CLOSE.value)


class Effect(Enum):
    """Treatment of the frame that caused a transition."""

    HAND_OUT = auto()
    IGNORE = auto()  # drop the frame and count it as unexpected (T-65)
    END = auto()  # hand the frame out, then Closed
    NONE = auto()  # drop the frame, or there is none


class Transition(NamedTuple):
    to: State
    effect: Effect


_S, _E = State, Effect


def _live(state: State) -> dict[Signal, Transition]:
    """Returns the transitions of this state that every live connection has."""
    return {
        **dict.fromkeys(FROM_WIRE, Transition(state, _E.IGNORE)),
        Signal.TRAFFIC: Transition(state, _E.HAND_OUT),
        Signal.REQUEST: Transition(_S.RENEWING, _E.HAND_OUT),
        Signal.SEND: Transition(state, _E.NONE),
    }


_OVER = Transition(_S.CLOSED, _E.END)
_NOTHING = Transition(_S.CLOSED, _E.NONE)
_CLOSE = {Signal.CLOSE: Transition(_S.CLOSING, _E.NONE)}
_GIVE_UP = {Signal.CLOSE: _NOTHING}
_READING = {Signal.EOF: _OVER, Signal.FAULT: _OVER}
_TIMED = {Signal.TIMEOUT: _OVER}
_RESPONSES = (Signal.RESPONSE_AGREED, Signal.RESPONSE_REFUSED, Signal.RESPONSE_OLDER)
_FINALS = (Signal.FINAL_COMPATIBLE, Signal.FINAL_FAILURE)


def _waiting(state: State, *unexpected: Signal) -> dict[Signal, Transition]:
    """Returns the transitions of a state that waits for the peer's next handshake frame (T-63); frames in `unexpected`
    are ignored."""
    return {**dict.fromkeys(unexpected, Transition(state, _E.IGNORE)), **_READING, **_TIMED, **_GIVE_UP}


TRANSITIONS: dict[State, dict[Signal, Transition]] = {
    _S.AWAITING_REQUEST: {
        Signal.REQUEST: Transition(_S.DECIDING, _E.HAND_OUT),
        **_waiting(_S.AWAITING_REQUEST, *_RESPONSES, *_FINALS),
    },
    _S.AWAITING_RESPONSE: {
        Signal.RESPONSE_AGREED: Transition(_S.AGREED, _E.HAND_OUT),
        Signal.RESPONSE_REFUSED: _OVER,
        Signal.RESPONSE_OLDER: Transition(_S.CONFIRMING, _E.HAND_OUT),
        **_waiting(_S.AWAITING_RESPONSE, *_FINALS),
    },
    _S.DECIDING: {
        Signal.AGREE: Transition(_S.AGREED, _E.NONE),
        Signal.REFUSE: _OVER,
        Signal.DEFER: Transition(_S.AWAITING_FINAL, _E.NONE),
        Signal.REJECT: _NOTHING,
        **_TIMED,
        **_GIVE_UP,
    },
    _S.CONFIRMING: {
        Signal.CONFIRM: Transition(_S.AGREED, _E.NONE),
        Signal.DENY: _OVER,
        **_TIMED,
        **_GIVE_UP,
    },
    _S.AWAITING_FINAL: {
        Signal.FINAL_COMPATIBLE: Transition(_S.AGREED, _E.HAND_OUT),
        Signal.FINAL_FAILURE: _OVER,
        Signal.REQUEST: Transition(_S.DECIDING, _E.HAND_OUT),
        **_waiting(_S.AWAITING_FINAL, *_RESPONSES),
    },
    _S.AGREED: {
        Signal.TAKEN: Transition(_S.ESTABLISHED, _E.NONE),
        Signal.SEND: Transition(_S.AGREED, _E.NONE),
        Signal.REJECT: _NOTHING,
        **_CLOSE,
    },
    _S.ESTABLISHED: {**_live(_S.ESTABLISHED), **_READING, **_CLOSE},
    _S.RENEWING: {
        Signal.AGREE: Transition(_S.ESTABLISHED, _E.NONE),
        Signal.DEFER: Transition(_S.RENEWED, _E.NONE),
        Signal.REJECT: _NOTHING,
        Signal.SEND: Transition(_S.RENEWING, _E.NONE),
        **_CLOSE,
    },
    _S.RENEWED: {
        **_live(_S.RENEWED),
        Signal.FINAL_COMPATIBLE: Transition(_S.ESTABLISHED, _E.NONE),
        Signal.FINAL_FAILURE: _OVER,
        **_READING,
        **_CLOSE,
    },
    _S.CLOSING: {
        **dict.fromkeys(FROM_WIRE, Transition(_S.CLOSING, _E.IGNORE)),
        Signal.TRAFFIC: Transition(_S.CLOSING, _E.HAND_OUT),
        Signal.REJECT: Transition(_S.CLOSING, _E.NONE),
        **_READING,
        **_TIMED,
        **_CLOSE,
    },
    # Late signals do nothing. Only a late send raises: the caller lost the race with the close (ConnectionClosing).
    _S.CLOSED: dict.fromkeys(
        (*FROM_WIRE, Signal.EOF, Signal.FAULT, Signal.TIMEOUT, Signal.CLOSE, Signal.REJECT), _NOTHING
    ),
}

HANDSHAKING = frozenset(
    {
        _S.AWAITING_REQUEST,
        _S.AWAITING_RESPONSE,
        _S.DECIDING,
        _S.CONFIRMING,
        _S.AWAITING_FINAL,
    }
)
"""States with a time limit (T-68)."""

HOLDING = frozenset({_S.DECIDING, _S.CONFIRMING, _S.RENEWING})
"""States in which input waits, not parsed, for accept() or reject()."""

IGNORING = frozenset(
    state
    for state, steps in TRANSITIONS.items()
    if all(one in steps and steps[one].effect is not Effect.HAND_OUT for one in _RESPONSES)
)
"""States that ignore responses: the list of a response is checked and not built (unexpected frames, T-65)."""

LIVE = frozenset(state for state, steps in TRANSITIONS.items() if Signal.SEND in steps)
"""States in which frames may be sent."""
