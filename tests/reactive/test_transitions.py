"""Totality of the tables: every state met by every signal.

A pair is either in the table, or a documented error: no pair may do anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tolliver_proto import ConnectionClosing, LocalProtocolError, UnexpectedFrame
from tolliver_proto.reactive import (
    SIGN_OF_LIFE,
    Closed,
    Connection,
    Goodbye,
    OnComplete,
    OnNext,
    Role,
    State,
    Subscribe,
    Subscribed,
    encode,
)
from tolliver_proto.reactive._state import (
    ENDING,
    FROM_CALLER,
    FROM_WIRE,
    LIVE,
    SUBSCRIBING,
    TRANSITIONS,
    Effect,
    Id,
    Signal,
    Step,
)

from .drive import HELLOS, OTHER, Engine

ROLE = {State.AWAITING_CLIENT_HELLO: Role.SERVER, State.AWAITING_SERVER_HELLO: Role.CLIENT}


def reach(state: State) -> Connection:
    role = ROLE.get(state, Role.CLIENT)
    conn = Connection(role, extensions=[SIGN_OF_LIFE], now=0.0)
    if state not in ROLE:
        conn.receive_data(encode(HELLOS[OTHER[role]](extensions=(1,))))
        list(conn.events())
    if state in ENDING:
        conn.goodbye(now=0.0)
    if state is State.CLOSED:
        conn.receive_data(encode(Goodbye()))
    list(conn.events())
    assert conn.state is state
    conn.data_to_send()
    return conn


FRAMES: dict[Signal, Any] = {
    Signal.CLIENT_HELLO: HELLOS[Role.CLIENT](),
    Signal.SERVER_HELLO: HELLOS[Role.SERVER](),
    Signal.TRAFFIC: Subscribe("p", 1, 1),
    Signal.GOODBYE: Goodbye(),
}
CALLS: dict[Signal, Callable[[Connection], object]] = {
    Signal.USE: lambda conn: conn.subscribe("p"),
    Signal.EXTEND: lambda conn: conn.send(object()),
    Signal.LEAVE: lambda conn: conn.goodbye(),
}
AROUND: dict[Signal, Callable[[Connection], object]] = {
    Signal.EOF: lambda conn: conn.receive_eof(),
    Signal.FAULT: lambda conn: conn.receive_data(b"\0"),
    Signal.TIMEOUT: lambda conn: silence(conn),
}


def silence(conn: Connection) -> None:
    """For ever: who waits for elements asks for a sign of life before."""
    if conn.state is State.OPEN:
        conn.subscribe("p")
        conn.handle_timeout(500.0)
    conn.handle_timeout(1000.0)


def test_every_signal_is_met() -> None:
    assert {*FRAMES, *CALLS, *AROUND} == {*Signal}
    assert {*FRAMES} == FROM_WIRE
    assert {*CALLS} == FROM_CALLER
    assert {*TRANSITIONS} == {*State}


@pytest.mark.parametrize("signal", [*FRAMES, *AROUND], ids=lambda signal: signal.name)
@pytest.mark.parametrize("state", [*State], ids=lambda state: state.name)
def test_what_comes_in(state: State, signal: Signal) -> None:
    conn, step = reach(state), TRANSITIONS[state].get(signal)
    if signal in FRAMES:
        conn.receive_data(encode(FRAMES[signal]))
    else:
        AROUND[signal](conn)
    events = list(conn.events())
    if step is None and signal is Signal.TIMEOUT:
        assert (conn.state, events) == (state, []), "nothing is due"
    elif step is None:
        assert conn.state is State.CLOSED
        assert isinstance(events[-1], Closed)
        assert isinstance(events[-1].error, UnexpectedFrame)
    else:
        assert conn.state is step.to
        assert bool(events) is (step.effect in (Effect.HAND_OUT, Effect.END))
        assert any(isinstance(event, Closed) for event in events) is (step.effect is Effect.END)


@pytest.mark.parametrize("signal", [*CALLS], ids=lambda signal: signal.name)
@pytest.mark.parametrize("state", [*State], ids=lambda state: state.name)
def test_what_is_called(state: State, signal: Signal) -> None:
    conn, step = reach(state), TRANSITIONS[state].get(signal)
    if step is None:
        with pytest.raises(ConnectionClosing if state in ENDING else LocalProtocolError):
            CALLS[signal](conn)
        assert conn.unsent_bytes == 0
    elif signal is Signal.EXTEND:
        with pytest.raises(LocalProtocolError):  # the state allows it, but it is no extension's frame
            CALLS[signal](conn)
    else:
        CALLS[signal](conn)
    assert conn.state is (state if step is None else step.to)


# One id of ours.


def unused(_engine: Engine) -> int:
    return 127


def asked(engine: Engine) -> int:
    return engine.conn.subscribe("p", 5)


def left(engine: Engine) -> int:
    stream = asked(engine)
    engine.conn.cancel(stream)
    return stream


def over(engine: Engine) -> int:
    stream = left(engine)
    engine.feed(Subscribed(stream))
    return stream


def asked_again(engine: Engine) -> int:
    over(engine)
    return asked(engine)


def left_again(engine: Engine) -> int:
    stream = asked_again(engine)
    engine.conn.cancel(stream)
    return stream


ROUTES: dict[Id, Callable[[Engine], int]] = {
    Id.UNUSED: unused,
    Id.ASKED: asked,
    Id.ASKED_AGAIN: asked_again,
    Id.ACTIVE: lambda engine: engine.joined(demand=5),
    Id.LEFT: left,
    Id.LEFT_AGAIN: left_again,
    Id.OVER: over,
}
SIGNALS: dict[Step, Callable[[int], Any]] = {
    Step.ANSWER: Subscribed,
    Step.OLD_ANSWER: Subscribed,
    Step.ELEMENT: lambda number: OnNext(number, b""),
    Step.TERMINAL: OnComplete,
}


def id_state(engine: Engine, stream: int) -> Id:
    known = engine.conn._subscriber._streams.get(stream)
    if known:
        return known.state
    return Id.OVER if engine.conn._subscriber.known(stream) else Id.UNUSED


@pytest.mark.parametrize("step", [*Step], ids=lambda step: step.name)
@pytest.mark.parametrize("state", [*Id], ids=lambda state: state.name)
def test_what_happens_to_an_id(state: Id, step: Step) -> None:
    engine = Engine()
    for _ in range(126):  # so that a cancelled id is used again at once
        engine.conn.subscribe("busy")
    stream = ROUTES[state](engine)
    assert id_state(engine, stream) is state
    if step is Step.OLD_ANSWER and state in (Id.ASKED, Id.ASKED_AGAIN, Id.LEFT, Id.LEFT_AGAIN):
        engine.conn.cancel(stream)  # one more subscription that waits for its answer
        engine.conn.subscribe("p", 5)
        if state in (Id.LEFT, Id.LEFT_AGAIN):
            engine.conn.cancel(stream)
        assert id_state(engine, stream) is state
    turn = SUBSCRIBING[state].get(step)
    engine.feed()
    if step is Step.SUBSCRIBE:
        again = engine.conn.subscribe("p", 5)
        assert (again == stream) is (turn is not None)
    elif step is Step.CANCEL:
        engine.conn.cancel(stream)
        assert bool(turn) is (state in LIVE)
    else:
        events = engine.feed(SIGNALS[step](stream))
        if turn is None:
            assert isinstance(engine.closed.error, UnexpectedFrame)
            return
        assert bool(events) is turn.passed_on
    assert id_state(engine, stream) is (turn.to if turn else state)
