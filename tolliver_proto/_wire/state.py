"""Transition table of a connection.

This file knows states, signals and nothing else: no bytes, no role, no time. `TRANSITIONS` says for each state which
signals move it where and what to do with the frame that caused them. A pair that is missing is an error: the peer's
where the signal comes from the wire, the caller's where it comes from the API. Only in the `HOLDING` states and in
AGREED nothing is read, so what comes from the wire waits there, the end of the stream too. A client begins in
AWAITING_RESPONSE, a server in AWAITING_REQUEST; from there on the table does not ask who is who. The diagrams in the
docs are drawn from it (`scripts/draw_states.py`).
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
    AWAITING_FINAL = auto()  # we said OLDER
    AGREED = auto()  # the handshake is over, Established is the next event
    ESTABLISHED = auto()
    RENEWING = auto()  # a request on a live connection was handed out (T-66)
    RENEWED = auto()  # it was answered with OLDER: a final may follow (T-66)
    CLOSING = auto()  # close() on a live connection: still reading
    CLOSED = auto()


class Signal(Enum):
    """Things that can happen: on the wire, by a call, and around both."""

    REQUEST = auto()
    RESPONSE_AGREED = auto()
    RESPONSE_REFUSED = auto()
    RESPONSE_OLDER = auto()
    FINAL_COMPATIBLE = auto()
    FINAL_FAILURE = auto()
    TRAFFIC = auto()  # messages, acks, control messages, and what is ignored but acknowledged

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
    """Treatment of the frame, besides the change of state."""

    HAND_OUT = auto()
    IGNORE = auto()  # drop and count it (T-65)
    END = auto()  # hand it out, then Closed
    NONE = auto()  # drop it


class Transition(NamedTuple):
    to: State
    effect: Effect


_S, _E = State, Effect


def _live(state: State) -> dict[Signal, Transition]:
    """Transitions that every live connection has."""
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
    """Transitions of a state that waits for the peer's next handshake frame (T-63)."""
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
    # Nothing that comes late can raise, but a send: a caller who lost the race with the close gets ConnectionClosing.
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
"""States in which input waits, unparsed, for accept() or reject()."""

IGNORING = frozenset(
    state
    for state, steps in TRANSITIONS.items()
    if all(one in steps and steps[one].effect is not Effect.HAND_OUT for one in _RESPONSES)
)
"""States in which no response is taken: its list is checked and not built (T-65)."""

LIVE = frozenset(state for state, steps in TRANSITIONS.items() if Signal.SEND in steps)
"""States in which frames may be sent."""
