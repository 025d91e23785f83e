"""Life of a stream connection, from hello to goodbye (R-25 to R-32)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tolliver_proto import (
    ConnectionClosing,
    ConnectionLost,
    LimitExceeded,
    LocalProtocolError,
    MalformedFrame,
    OwnLimitExceeded,
    UnexpectedFrame,
)
from tolliver_proto.reactive import (
    ALPN,
    DEFAULT_PORT,
    Cancel,
    ClientHello,
    Closed,
    Connection,
    ConnectionClosed,
    Elements,
    Extension,
    Form,
    Goodbye,
    HelloRefused,
    Kind,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    Request,
    Role,
    ServerHello,
    State,
    StreamError,
    Subscribe,
    Subscribed,
    VersionMismatch,
    encode,
)

from .drive import HELLOS, OTHER, ROLES, Engine, pair_of

roles = pytest.mark.parametrize("role", ROLES, ids=str)


def where(conn: Connection) -> State:
    """The state, freshly read: to a type checker an attribute that was compared once stays what it was."""
    return conn.state


def raw(conn: Connection) -> bytes:
    return b"".join(conn.data_to_send())


# Hellos.


def test_the_client_says_hello_first_and_may_go_on() -> None:
    conn = Connection(Role.CLIENT)
    conn.subscribe("p", 5)
    assert raw(conn) == encode(ClientHello()) + encode(Subscribe("p", 1, 5))


def test_an_eager_server_says_hello_once_and_nothing_else() -> None:
    engine = Engine(Role.SERVER, eager=True, silent=True)
    assert engine.said() == [ServerHello()]
    with pytest.raises(LocalProtocolError):
        engine.conn.subscribe("p")
    assert engine.feed(ClientHello()) == [ClientHello()]
    assert engine.said() == []
    assert engine.conn.subscribe("p") == 1


FIRST: list[Any] = [Subscribe("p", 1, 0), Cancel(1), b"\0", b"\x16\3\1"]


@roles
@pytest.mark.parametrize("first", FIRST, ids=repr)
def test_a_first_frame_that_is_no_hello(role: Role, first: Any) -> None:
    engine = Engine(role, silent=True)
    engine.feed(first)
    assert isinstance(engine.closed.error, UnexpectedFrame | MalformedFrame)
    assert repr(engine.conn) == f"<Connection as {role.name.lower()}, closed>"
    said = engine.said()
    assert [type(frame) for frame in said] == [HELLOS[role], Goodbye]


@roles
def test_a_goodbye_for_a_hello_is_a_refusal(role: Role) -> None:
    """R-25: the draft has a peer that does not support our version say so; its reason reaches whoever waits."""
    engine = Engine(role, silent=True)
    if role is Role.CLIENT:
        engine.conn.subscribe("p", 1)
    events = engine.feed(Goodbye("speak version 1"), b"\xff" * 50)
    errors = [event for event in events if isinstance(event, OnError)]
    assert [type(one.cause) for one in errors] == ([HelloRefused] if role is Role.CLIENT else [])
    error = engine.closed.error
    assert isinstance(error, HelloRefused)
    assert error.reason == "speak version 1"
    assert "'speak version 1'" in str(error)
    assert [type(frame) for frame in engine.said()][-1] is Goodbye


@roles
def test_another_version(role: Role) -> None:
    """R-26: what follows is not parsed, and every stream that was begun ends."""
    engine = Engine(role, silent=True)
    if role is Role.CLIENT:
        engine.conn.subscribe("p", 1)
        engine.conn.subscribe("q", 1)
    events = engine.feed(HELLOS[OTHER[role]](3), b"\xff" * 50)
    errors = [event for event in events if isinstance(event, OnError)]
    assert [error.subscriber_id for error in errors] == ([1, 2] if role is Role.CLIENT else [])
    assert all(isinstance(error.cause, VersionMismatch) for error in errors)
    assert isinstance(engine.closed.error, VersionMismatch)
    assert engine.closed.error.peer_version == 3
    assert "version 3" in str(engine.closed.error)
    said = [type(frame) for frame in engine.said()]
    assert said == [HELLOS[role], *([Subscribe] * 2 if role is Role.CLIENT else []), Goodbye]


# Extensions.


@dataclass
class Ping:
    nonce: int


@dataclass
class Pong:
    nonce: int


PROBE = Extension(300, (Form(64, Ping, {"nonce": Kind.NUMBER}), Form(65, Pong, {"nonce": Kind.NUMBER})))
SILENT = Extension(7)


@pytest.mark.parametrize("cut", ["whole", "bytes"])
def test_an_extension_that_both_sides_have(cut: Any) -> None:
    """A real one: a ping that is answered. Before the other hello it may not be sent (R-27)."""
    client = Connection(Role.CLIENT, extensions=[SILENT, PROBE])
    server = Connection(Role.SERVER, extensions=[PROBE])
    with pytest.raises(LocalProtocolError):
        client.send(Ping(1))

    def react(side: Any, event: Any) -> None:
        if isinstance(event, Ping):
            side.connection.send(Pong(event.nonce))

    layout = client._base.extended(PROBE.forms)
    pair = pair_of(client, server, cut=cut, react=react, layout=layout).run()
    assert client.extensions == server.extensions == {300}
    client.send(Ping(5))
    server.send(Ping(2**40))
    pair.run()
    assert pair.client.events[-2:] in ([Ping(2**40), Pong(5)], [Pong(5), Ping(2**40)])
    assert Ping(5) in pair.server.events
    assert Pong(2**40) in pair.server.events
    with pytest.raises(LocalProtocolError, match="R-27"):
        client.send(Request(1, 1))


def test_an_extension_that_the_peer_does_not_have() -> None:
    engine = Engine(Role.SERVER, extensions=[PROBE], silent=True)
    engine.feed(ClientHello(0, (1, 1, 2**64 - 1)))
    assert engine.conn.extensions == set()
    with pytest.raises(LocalProtocolError):
        engine.conn.send(Ping(1))
    assert engine.said() == [ServerHello(0, (300,))]
    engine.feed(b"\x40\1")
    assert isinstance(engine.closed.error, MalformedFrame)


@dataclass
class Renumber:
    """From here on the sender's elements have another type number: asked for, agreed to, begun."""

    step: int


ASKED, AGREED, BEGUN = range(3)
RENUMBERED = Form(40, OnNext, {"subscriber_id": Kind.STREAM, "element": Kind.ELEMENT})


def agree(conn: Connection, frame: Any) -> None:
    """The draft's second rule: one side declares, the other acknowledges, and only then anything is changed."""
    if frame.step == ASKED:
        conn.send(Renumber(AGREED))
    elif frame.step == AGREED:
        conn.send(Renumber(BEGUN))
        conn.change(writing=[RENUMBERED])
    else:
        conn.change(reading=[RENUMBERED])


CHANGING = Extension(301, (Form(66, Renumber, {"step": Kind.NUMBER}),), agree)


@pytest.mark.parametrize("many", [False, True])
def test_an_extension_that_changes_a_message_of_the_draft(many: bool) -> None:
    """R-27: in one direction from one frame on, in the middle of a stream, however much came in one piece."""
    publisher = Connection(Role.CLIENT, extensions=[CHANGING])
    subscriber = Connection(Role.SERVER, extensions=[CHANGING])
    wire: list[bytes] = []

    def take(conn: Connection) -> list[Any]:
        events = list(iter(conn.next_run, None))
        return [event for event in events if isinstance(event, Elements)]

    def carry(source: Connection, target: Connection) -> list[Any]:
        wire.append(raw(source))
        target.receive_data(wire[-1])
        return take(target)

    carry(publisher, subscriber)
    carry(subscriber, publisher)
    stream = subscriber.subscribe("p", 100)
    carry(subscriber, publisher)
    publisher.subscribed(stream)

    def say(body: bytes) -> None:
        publisher.next_many(stream, [body] * (2 if many else 1))

    say(b"old")
    publisher.send(Renumber(ASKED))
    say(b"still old")
    assert [set(one.elements) for one in carry(publisher, subscriber)] == [{b"old"}, {b"still old"}]
    carry(subscriber, publisher)
    say(b"new")
    assert [set(one.elements) for one in carry(publisher, subscriber)] == [{b"new"}]
    assert wire[-1].startswith(b"\x42\x02\x28\x01\x03new")
    assert encode(OnNext(1, b"new")) not in wire[-1]


def test_a_change_of_what_is_no_frame() -> None:
    conn = Connection(Role.CLIENT)
    for forms in ([Form(41, Ping, {"nonce": Kind.NUMBER})], [Form(4, Cancel, {"subscriber_id": Kind.NUMBER})]):
        with pytest.raises(LocalProtocolError):
            conn.change(reading=forms, writing=forms)
    assert raw(conn) == encode(ClientHello())


def test_extensions_that_cannot_be_announced() -> None:
    with pytest.raises(OwnLimitExceeded):
        Connection(Role.SERVER, extensions=map(Extension, range(1025)))
    with pytest.raises(LocalProtocolError):
        Connection(Role.SERVER, extensions=[Extension(1, (Form(5, Ping, {"nonce": Kind.NUMBER}),))])
    with pytest.raises(LocalProtocolError):
        Connection(Role.SERVER, extensions=[Extension(2**64)])


# Goodbyes.


def both_directions(engine: Engine) -> tuple[int, int]:
    return engine.joined(demand=2), engine.opened(demand=2)


@roles
def test_our_goodbye(role: Role) -> None:
    """R-28, R-29: streams end at once; what still comes is read and dropped; the answer ends it."""
    engine = Engine(role)
    taken, given = both_directions(engine)
    engine.conn.goodbye("enough")
    events = engine.feed()
    assert events == [OnError(taken, str(ConnectionClosed("enough"))), Cancel(given)]
    assert isinstance(events[0].cause, ConnectionClosed)
    assert events[0].cause.reason == "enough"
    assert engine.said() == [Goodbye("enough")]
    assert where(engine.conn) is State.LEAVING
    assert not engine.conn.wants_write_shutdown
    assert engine.feed(OnNext(taken, b"late"), OnComplete(taken), Request(given, 5), Subscribe("p", 9, 9)) == []
    assert engine.feed(HELLOS[OTHER[role]]()) == []
    engine.conn.goodbye("again")
    assert engine.feed(Goodbye("you too")) == [Goodbye("you too"), Closed()]
    assert engine.said() == []
    assert engine.conn.wants_write_shutdown


def test_a_reason_that_is_no_text() -> None:
    with pytest.raises(LocalProtocolError):
        Connection(Role.CLIENT).goodbye(b"reason")  # type: ignore[arg-type]  # on purpose


# Calls after the end.


@roles
def test_calls_after_the_end(role: Role) -> None:
    """3.15, 3.16: nothing raises but what would begin something new."""
    engine = Engine(role)
    taken, given = both_directions(engine)
    engine.feed(Goodbye())
    engine.said()
    conn = engine.conn
    conn.request(taken, 1)
    conn.request(taken, -1)
    conn.cancel(taken)
    assert not conn.subscribed(given)
    assert not conn.next(given, b"")
    assert conn.next_many(given, [b"", b""]) == 0
    assert not conn.complete(given)
    assert not conn.error(given, "late")
    conn.goodbye("late")
    conn.receive_data(b"\xff")
    conn.receive_eof()
    assert engine.feed() == []
    for call in (lambda: conn.subscribe("p"), lambda: conn.send(Goodbye())):
        with pytest.raises(ConnectionClosing):
            call()
    assert engine.said() == []


# The end of the stream.


@roles
def test_the_end_without_a_goodbye(role: Role) -> None:
    engine = Engine(role)
    taken, given = both_directions(engine)
    engine.peer.wants_write_shutdown = True
    events = engine.feed()
    assert events[:2] == [OnError(taken, events[0].message), Cancel(given)]
    assert isinstance(events[0].cause, ConnectionLost)
    assert isinstance(engine.closed.error, ConnectionLost)
    assert engine.said() == []


def test_the_end_while_leaving() -> None:
    engine = Engine()
    engine.conn.goodbye()
    engine.peer.wants_write_shutdown = True
    engine.feed()
    assert isinstance(engine.closed.error, ConnectionLost)


# Clocks.


@roles
def test_no_hello_in_time(role: Role) -> None:
    conn = Connection(role, now=100.0)
    assert conn.next_timeout() == 110.0
    conn.handle_timeout(109.9)
    assert where(conn) is not State.CLOSED
    conn.handle_timeout(110.0)
    (closed,) = conn.events()
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, ConnectionLost)
    assert conn.next_timeout() == 115.0
    conn.handle_timeout(115.0)
    assert conn.next_timeout() is None


def test_a_hello_that_came_in_time_but_was_not_taken() -> None:
    conn = Connection(Role.SERVER, now=0.0)
    conn.receive_data(encode(ClientHello()), 9.9)
    conn.handle_timeout(20.0)
    assert list(conn.events()) == [ClientHello()]
    assert where(conn) is State.OPEN
    assert conn.next_timeout() is None


def test_the_time_begins_with_the_first_input_that_has_one() -> None:
    conn = Connection(Role.SERVER)
    assert conn.next_timeout() is None
    conn.receive_data(b"", 50.0)
    assert conn.next_timeout() == 60.0
    conn.receive_data(b"", 40.0)  # clocks never run backwards
    conn.handle_timeout()
    assert conn.next_timeout() == 60.0


def test_a_goodbye_that_is_not_answered() -> None:
    engine = Engine()
    taken = engine.joined(demand=5)
    engine.conn.goodbye("bye", now=10.0)
    assert engine.conn.next_timeout() == 15.0
    engine.conn.receive_data(encode(OnNext(taken, b"late")))
    engine.conn.handle_timeout(15.0)
    events = list(engine.conn.events())
    assert isinstance(events[0], OnError)
    assert isinstance(events[-1], Closed)
    assert isinstance(events[-1].error, ConnectionLost)
    assert "5 s" in str(events[-1].error)


def test_an_answer_that_came_in_time_but_was_not_taken() -> None:
    conn = Connection(Role.SERVER, now=0.0)
    conn.receive_data(encode(ClientHello()))
    list(conn.events())
    conn.goodbye("bye", now=1.0)
    conn.receive_data(encode(Goodbye()), 2.0)
    conn.handle_timeout(20.0)
    assert list(conn.events()) == [Goodbye(), Closed()]


# Pressure.


def test_water_marks() -> None:
    """R-32: demand is not enough. From high water on nothing is pulled until low water is reached."""
    engine = Engine(limits=Limits(high_water=1000, low_water=100))
    stream = engine.opened(demand=2**63 - 1)
    conn = engine.conn
    assert conn.wanted(stream) == 2**63 - 1
    conn.next(stream, bytes(1000))
    assert conn.unsent_bytes == 1004
    assert conn.wanted(stream) == 0
    engine.said()
    assert conn.wanted(stream, buffered=101) == 0
    assert conn.wanted(stream, buffered=100) == 2**63 - 1
    assert conn.wanted(stream, buffered=101) == 2**63 - 1
    assert conn.demand(stream) == 2**63 - 1


def test_a_peer_that_causes_answers_and_does_not_read() -> None:
    engine = Engine(limits=Limits(max_answers=1000))
    flood = b"".join(encode(Subscribe("", number, -1)) for number in range(100))
    engine.conn.receive_data(flood)
    events = list(engine.conn.events())
    assert isinstance(events[-1], Closed)
    assert isinstance(events[-1].error, LimitExceeded)
    assert engine.conn.unsent_bytes < 1200


@pytest.mark.parametrize("end", ["refused", "complete", "error", "cancelled"])
def test_what_an_application_answers_counts_as_well(end: str) -> None:
    """The peer subscribes again and again to what ends at once, and does not read that."""
    engine = Engine(limits=Limits(max_answers=1000))
    conn = engine.conn
    for number in range(1000):
        conn.receive_data(encode(Subscribe("p", number, 0)))
        events = list(conn.events())
        if isinstance(events[-1], Closed):
            break
        if end != "refused":
            conn.subscribed(number)
        if end == "complete":
            conn.complete(number)
        elif end == "cancelled":
            conn.receive_data(encode(Cancel(number)))
            assert list(conn.events()) == [Cancel(number)]
        else:
            conn.error(number, "nothing of that name")
    [closed] = [event for event in events if isinstance(event, Closed)]
    assert isinstance(closed.error, LimitExceeded)
    assert conn.unsent_bytes < 1200


def test_elements_are_no_answers() -> None:
    """They wait for demand, and `wanted` bounds them."""
    engine = Engine(limits=Limits(max_answers=100))
    stream = engine.opened(demand=100)
    for _ in range(100):
        engine.conn.next(stream, bytes(100))
    engine.conn.receive_data(encode(Subscribe("p", stream + 1, 0)))
    assert [*engine.conn.events()] == [Subscribe("p", stream + 1, 0)]


def test_a_peer_that_causes_answers_and_reads() -> None:
    engine = Engine(limits=Limits(max_answers=1000), cut="bytes")
    engine.feed(*(Subscribe("", number, -1) for number in range(100)))
    assert len(engine.said()) == 200


# No resuming, and where the protocol lives.


def test_nothing_is_resumed() -> None:
    """R-31: a new connection knows nothing of the streams of an old one."""
    old = Engine()
    stream = old.opened(demand=1)
    new = Engine()
    assert not new.conn.next(stream, b"")
    new.feed(OnComplete(1))
    assert isinstance(new.closed.error, UnexpectedFrame)


def test_transport_mapping() -> None:
    assert (DEFAULT_PORT, ALPN) == (7012, "tolliver-rs/0")


def test_one_answer_for_each_fault() -> None:
    engine = Engine()
    engine.feed(Subscribed(1, 0))
    assert isinstance(engine.closed.error, UnexpectedFrame)
    assert engine.closed.error.offset == 3
    (goodbye,) = engine.said()
    assert "R-08" in goodbye.reason


def test_a_stream_that_failed_says_which_and_why() -> None:
    """The error that adapters raise where the publisher ended a stream with one."""
    error = StreamError("temperatures", "the sensor is gone")
    assert (error.name, error.text) == ("temperatures", "the sensor is gone")
    assert str(error) == "the stream 'temperatures' ended with an error: the sensor is gone"


def test_a_deadline_does_not_read_beyond_the_hello() -> None:
    """R-08: what comes behind it is judged in its own turn, when the application has had its say."""
    conn = Connection(Role.CLIENT, now=0.0)
    conn.receive_data(encode(ServerHello()) + encode(Subscribe("p", 1, 1)) + encode(Request(1, 1)))
    conn.handle_timeout(10.0)
    assert conn.next_event() == ServerHello()
    assert conn.next_event() == Subscribe("p", 1, 1)
    conn.error(1, "no p here")
    assert conn.next_event() is None, "a request for a stream that is over says nothing (R-15)"


def test_a_deadline_gives_no_id_away() -> None:
    """An error that was not handed out yet keeps its id."""
    conn = Connection(Role.CLIENT, now=0.0)
    for _ in range(127):
        wrong = conn.subscribe("p")
    conn.request(wrong, 0)
    conn.receive_data(encode(ServerHello()))
    conn.handle_timeout(10.0)
    assert conn.subscribe("p") != wrong
    assert [type(event) for event in conn.events()] == [OnError, ServerHello]
