"""Totality of the transition table: every state, every signal.

A pair is either in the table, or a documented error, or it waits: no pair may do anything else.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tolliver_proto import (
    Closed,
    Connection,
    ConnectionClosing,
    ConnectionLost,
    Established,
    Frame,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeStatus,
    LocalProtocolError,
    MalformedFrame,
    RemoteProtocolError,
    Revision,
    Role,
    TolliverError,
    UnexpectedFrame,
    encode,
)
from tolliver_proto._wire.state import FROM_CALLER, FROM_WIRE, HOLDING, LIVE, TRANSITIONS, Effect, Signal
from tolliver_proto.layouts import State

from .drive import ANSWERS, HELLO, NEWER, OLDER, OURS, PLACES, REVISIONS, VERSIONS, feed, reach, request, response, ways

SILENT = HOLDING | {State.AGREED}
"""States in which nothing is read."""

states = pytest.mark.parametrize("state", [*State], ids=lambda state: state.name)


def accept(conn: Connection) -> None:
    conn.accept()


def reject(conn: Connection) -> None:
    conn.reject()


CALLS: dict[Signal, Callable[[Connection], None]] = {
    Signal.AGREE: accept,
    Signal.REFUSE: accept,
    Signal.DEFER: accept,
    Signal.CONFIRM: accept,
    Signal.DENY: reject,
    Signal.REJECT: reject,
    Signal.SEND: lambda conn: conn.send(HELLO),
    Signal.CLOSE: lambda conn: conn.close(),
}


def wire(signal: Signal, version: int, revision: Revision) -> bytes:
    """A frame that is that signal, from a peer of that version, and says nothing contradictory where it can."""
    refused = response(HandshakeStatus.NEWER_INCOMPATIBLE, version, ())
    agreed = HandshakeStatus.SAME_VERSION if version == OURS else HandshakeStatus.NEWER_COMPATIBLE
    frames: dict[Signal, Frame] = {
        Signal.REQUEST: request(version),
        Signal.RESPONSE_AGREED: response(agreed, version),
        Signal.RESPONSE_REFUSED: refused,
        Signal.RESPONSE_OLDER: response(HandshakeStatus.OLDER, version),
        Signal.FINAL_COMPATIBLE: HandshakeFinal(True),
        Signal.FINAL_FAILURE: HandshakeFinal(False),
        Signal.TRAFFIC: HELLO,
    }
    return encode(frames[signal], revision)


def contradicts(state: State, signal: Signal, version: int) -> bool:
    """A client's response that does not fit the versions (T-60) is a fault before the table is asked."""
    if state is not State.AWAITING_RESPONSE:
        return False
    fitting = {
        Signal.RESPONSE_AGREED: {OURS, NEWER},
        Signal.RESPONSE_REFUSED: {NEWER},
        Signal.RESPONSE_OLDER: {OLDER},
    }
    return version not in fitting.get(signal, VERSIONS)


def test_every_state_has_a_row_and_every_signal_is_somewhere() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {signal for row in TRANSITIONS.values() for signal in row} == set(Signal)
    assert {step.to for row in TRANSITIONS.values() for step in row.values()} | {
        State.AWAITING_REQUEST,
        State.AWAITING_RESPONSE,
    } == set(State)
    assert FROM_CALLER.isdisjoint(FROM_WIRE)
    own = {Signal.TAKEN, Signal.EOF, Signal.FAULT, Signal.TIMEOUT}
    assert set(Signal).difference(FROM_WIRE, FROM_CALLER) == own
    assert set(CALLS) == FROM_CALLER


def test_every_state_is_met_below() -> None:
    assert {state for state, _, _ in PLACES} == set(State)


@pytest.mark.parametrize("signal", [signal for signal in Signal if signal in FROM_WIRE], ids=lambda signal: signal.name)
@states
def test_frames(state: State, signal: Signal) -> None:
    for revision in REVISIONS:
        for role, version in ways(state):
            check_frame(state, role, version, revision, signal)


def check_frame(state: State, role: Role, version: int, revision: Revision, signal: Signal) -> None:
    conn = reach(state, role, version, revision)
    unexpected = conn.unexpected_frames
    data = wire(signal, version, revision)
    step = TRANSITIONS[state].get(signal)
    conn.receive_data(data)
    event = conn.next_event()
    if state is State.CLOSED:
        assert event is None
        assert conn.state is State.CLOSED
        assert conn.buffered_bytes == 0
    elif state is State.AGREED:
        assert isinstance(event, Established)  # first things first: the frame is as good as in ESTABLISHED
        assert conn.state is State.ESTABLISHED
        assert conn.buffered_bytes == len(data)
    elif state in HOLDING:
        assert step is None
        assert event is None
        assert conn.state is state
        assert conn.buffered_bytes == len(data)
    elif step is None or contradicts(state, signal, version):
        assert isinstance(event, Closed)
        assert isinstance(event.error, UnexpectedFrame)
        assert event.error.state == state.name
        assert conn.state is State.CLOSED
        assert signal in {Signal.REQUEST, Signal.TRAFFIC} or step is not None  # T-63: nothing else is fatal anywhere
    else:
        assert conn.state is step.to
        assert conn.unexpected_frames == unexpected + (step.effect is Effect.IGNORE)
        assert (event is not None) is (step.effect in (Effect.HAND_OUT, Effect.END))
        rest = list(conn.events())
        if step.effect is Effect.END:
            [end] = rest
            assert isinstance(end, Closed)
            assert isinstance(end.error, HandshakeRejected)
            assert end.error.peer_version == version
        elif step.to is State.AGREED:
            assert [type(item) for item in rest] == [Established]
        else:
            assert rest == []


@pytest.mark.parametrize("signal", [Signal.EOF, Signal.FAULT], ids=lambda signal: signal.name)
@states
def test_the_end_of_the_stream_and_bytes_that_are_no_frame(state: State, signal: Signal) -> None:
    for role, version in ways(state):
        check_end(state, role, version, signal)


def check_end(state: State, role: Role, version: int, signal: Signal) -> None:
    conn = reach(state, role, version)
    if signal is Signal.EOF:
        conn.receive_eof()
    else:
        conn.receive_data(b"\xff")
    event = conn.next_event()
    if state in SILENT:
        assert signal not in TRANSITIONS[state]
        assert event is None or isinstance(event, Established)
        assert conn.state is not State.CLOSED
    elif state is State.CLOSED:
        assert event is None
    else:
        assert TRANSITIONS[state][signal].to is conn.state is State.CLOSED
        assert isinstance(event, Closed)
        if signal is Signal.FAULT:
            assert isinstance(event.error, MalformedFrame)
        else:
            assert (event.error is None) is (state in LIVE or state is State.CLOSING)
    assert not [item for item in conn.events() if state is not State.AGREED]


@states
def test_time_limits(state: State) -> None:
    for role, version in ways(state):
        check_limit(state, role, version)


def check_limit(state: State, role: Role, version: int) -> None:
    conn = reach(state, role, version)
    due = conn.next_timeout()
    assert (due is not None) is (Signal.TIMEOUT in TRANSITIONS[state])
    conn.handle_timeout(1e9)
    events = list(conn.events())
    if state is State.AGREED:
        assert isinstance(events.pop(0), Established)
    if due is None or state is State.CLOSED:
        assert events == []
        assert conn.next_timeout() is None
    else:
        [closed] = events
        assert isinstance(closed, Closed)
        assert isinstance(closed.error, ConnectionLost)
        assert conn.state is TRANSITIONS[state][Signal.TIMEOUT].to


def outcomes(state: State, role: Role, version: int, call: Callable[[Connection], None]) -> set[State]:
    """Outcome of the call, for one that speaks the peer's version and one that does not."""
    found = set()
    for speaks in (True, False):
        answers = [True]  # while it is on its way
        conn = reach(state, role, version, speaks=lambda _version, answers=answers: answers[-1])
        answers.append(speaks)
        call(conn)
        found.add(conn.state)
    return found


@pytest.mark.parametrize(
    "call", [accept, reject, CALLS[Signal.SEND], CALLS[Signal.CLOSE]], ids=["accept", "reject", "send", "close"]
)
@states
def test_calls(state: State, call: Callable[[Connection], None]) -> None:
    for role, version in ways(state):
        check_call(state, role, version, call)


def check_call(state: State, role: Role, version: int, call: Callable[[Connection], None]) -> None:
    signals = {
        signal for signal, made_by in CALLS.items() if made_by is call or (signal is Signal.DENY and call is accept)
    }
    possible = {TRANSITIONS[state][signal].to for signal in signals if signal in TRANSITIONS[state]}
    if possible:
        assert outcomes(state, role, version, call) <= possible
        return
    conn = reach(state, role, version)
    before = (conn.state, conn.unsent_bytes, conn.next_timeout(), conn.peer_id)
    error: type[TolliverError] = LocalProtocolError
    if state in (State.CLOSING, State.CLOSED):
        error = ConnectionClosing
    with pytest.raises(error) as raised:
        call(conn)
    assert (conn.state, conn.unsent_bytes, conn.next_timeout(), conn.peer_id) == before
    if isinstance(raised.value, LocalProtocolError):
        assert raised.value.state == state.name


def test_each_decision_is_taken_somewhere() -> None:
    """Every caller's transition of the table is one that a real call makes."""
    made = set()
    for state, role, version in PLACES:
        for call in CALLS.values():
            try:
                made |= {(state, to) for to in outcomes(state, role, version, call)}
            except (LocalProtocolError, ConnectionClosing):
                continue
    assert made == {
        (state, step.to) for state, row in TRANSITIONS.items() for signal, step in row.items() if signal in FROM_CALLER
    }


def test_established_is_handed_out_in_one_state_only() -> None:
    for state, role, version in PLACES:
        conn = reach(state, role, version)
        events = list(conn.events())
        assert bool(events) is (state is State.AGREED)
        if events:
            assert isinstance(events[0], Established)
            assert conn.state is TRANSITIONS[State.AGREED][Signal.TAKEN].to


@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
def test_after_a_local_error_the_connection_goes_on(revision: Revision) -> None:
    """LocalProtocolError is raised before anything changes: the handshake still ends well, messages still pass."""
    for state, role, version in PLACES:
        if state not in (State.CLOSING, State.CLOSED):
            check_usable(state, role, version, revision)


def check_usable(state: State, role: Role, version: int, revision: Revision) -> None:
    conn = reach(state, role, version, revision)
    for _ in range(3):
        for call in CALLS.values():
            if call not in (CALLS[Signal.CLOSE], accept, reject):
                try:
                    call(conn)
                except LocalProtocolError:
                    continue
    finish(conn, version)
    assert conn.state in LIVE
    assert feed(conn, HELLO) == [HELLO]


def finish(conn: Connection, version: int) -> None:
    """From any state that is not over to a live one."""
    if conn.state in (State.AWAITING_REQUEST, State.AWAITING_RESPONSE):
        first = request(version) if conn.role is Role.SERVER else response(ANSWERS[version], version)
        feed(conn, first)
    if conn.state in HOLDING:
        conn.accept()
    if conn.state is State.AWAITING_FINAL:
        feed(conn, HandshakeFinal(True))
    list(conn.events())


def test_the_receiver_of_an_error_can_name_it() -> None:
    conn = reach(State.AWAITING_REQUEST, Role.SERVER, OURS)
    [closed] = feed(conn, HELLO)
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, RemoteProtocolError)
    assert str(closed.error) == (
        "Message where only request may come (T-63) [unexpected_frame: frame Message, in state AWAITING_REQUEST]"
    )
