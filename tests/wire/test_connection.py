"""Life of one connection: T-60 to T-69, and drivers' needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    ConnectionClosing,
    ConnectionLost,
    Established,
    Event,
    Frame,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Ignored,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    MalformedFrame,
    Message,
    OwnLimitExceeded,
    ReservedChannel,
    Revision,
    Role,
    Subscribe,
    Subscription,
    UnexpectedFrame,
    Unsubscribe,
    decode,
    encode,
)
from tolliver_proto._wire.state import HOLDING, LIVE
from tolliver_proto.layouts import Dialect, IgnoreReason, State

from .drive import (
    ANSWERS,
    HELLO,
    LISTED,
    ME,
    NEWER,
    OLDER,
    OURS,
    PEER,
    PLACES,
    REVISIONS,
    connection,
    feed,
    peak,
    reach,
    request,
    response,
    sent,
    shutting,
    ways,
    where,
)
from .vectors import ONE

revisions = pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
roles = pytest.mark.parametrize("role", [*Role])
OWN = (Subscription("mine", ""),)
OTHER = (Subscription("other", "x"), Subscription("other", "y"))


def live(role: Role = Role.SERVER, version: int = OURS, **options: Any) -> Connection:
    return reach(State.ESTABLISHED, role, version, **options)


def error_of(event: object) -> BaseException | None:
    assert isinstance(event, Closed)
    return event.error


# The handshake.


@revisions
def test_nothing_is_answered_before_the_subscriptions_are_processed(revision: Revision) -> None:
    """T-61: the request is handed out, then silence in both directions until accept()."""
    server = connection(Role.SERVER, revision, subscriptions=OWN)
    early = encode(HELLO, revision)
    assert feed(server, request(), early) == [request()]
    assert server.data_to_send() == []
    assert server.buffered_bytes == len(early)  # not even looked at
    server.accept()
    answer = HandshakeResponse(OURS, ME, HandshakeStatus.SAME_VERSION, OWN)
    assert server.data_to_send() == [encode(answer, revision)]
    established = Established(OURS, PEER, LISTED, HandshakeStatus.SAME_VERSION)
    assert list(server.events()) == [established, HELLO]


@revisions
def test_accept_sends_the_list_given_or_the_one_from_the_constructor(revision: Revision) -> None:
    for listed, expected in ((None, OWN), ((), ()), (OTHER, OTHER)):
        server = connection(Role.SERVER, revision, subscriptions=iter(OWN))
        feed(server, request())
        server.accept(listed)
        answer = HandshakeResponse(OURS, ME, HandshakeStatus.SAME_VERSION, expected)
        assert sent(server) == encode(answer, revision)


@revisions
def test_a_client_hands_out_the_response_before_established(revision: Revision) -> None:
    """T-34: who takes the server's list has it before anything can be sent or received."""
    client = connection(Role.CLIENT, revision, subscriptions=OWN)
    assert client.data_to_send() == [encode(HandshakeRequest(OURS, ME, OWN), revision)]
    answer = response(HandshakeStatus.SAME_VERSION, OURS)
    client.receive_data(encode(answer, revision) + encode(HELLO, revision))
    assert client.next_event() == answer
    assert (client.peer_id, client.peer_version) == (PEER, OURS)
    assert repr(client) == f"<Connection as client with {PEER}, agreed>"
    assert client.next_event() == Established(OURS, PEER, LISTED, HandshakeStatus.SAME_VERSION)
    assert client.next_event() == HELLO


@revisions
def test_a_server_says_nothing_between_its_response_and_the_final(revision: Revision) -> None:
    """T-64."""
    server = reach(State.AWAITING_FINAL, Role.SERVER, NEWER, revision)
    with pytest.raises(LocalProtocolError, match="take events until Established"):
        server.send(HELLO)
    with pytest.raises(LocalProtocolError):
        server.send_acks([1])
    with pytest.raises(LocalProtocolError):
        server.send_encoded(b"")
    assert server.data_to_send() == []
    assert feed(server, HandshakeFinal(True))[1] == Established(OURS, PEER, LISTED, HandshakeStatus.OLDER)
    server.send(HELLO)
    assert sent(server) == encode(HELLO, revision)


def test_the_first_frame_of_a_server_must_be_a_request() -> None:
    """T-63, T-05: a stray byte too."""
    for frame, error in (
        (HELLO, UnexpectedFrame),
        (Ack(1), UnexpectedFrame),
        (b"\x16\x03\x01", MalformedFrame),  # TLS spoken to a plain listener
        (b"GET / HTTP/1.1\r\n", MalformedFrame),
    ):
        server = connection(Role.SERVER)
        [closed] = feed(server, frame)
        assert isinstance(error_of(closed), error)
        assert shutting(server), "nothing is to be written before that"
        assert server.data_to_send() == []


@roles
def test_strict_uuid7(role: Role) -> None:
    """T-03: any id but nil and max is taken, unless the option asks for a UUIDv7."""
    v4 = PEER.__class__("6fa459ea-ee8a-4ca4-894e-db77e160355e")
    first: Frame = HandshakeRequest(OURS, v4)
    if role is Role.CLIENT:
        first = HandshakeResponse(OURS, v4, HandshakeStatus.SAME_VERSION)
    assert feed(connection(role), first)[0] == first
    [closed] = feed(connection(role, dialect=Dialect(strict_uuid7=True)), first)
    error = error_of(closed)
    assert isinstance(error, UnexpectedFrame)
    assert error.code == "bad_uuid"
    v7 = request() if role is Role.SERVER else response(HandshakeStatus.SAME_VERSION, OURS)
    assert feed(connection(role, dialect=Dialect(strict_uuid7=True)), v7)[0] == v7


# Peers that speak otherwise (C6).

GO = Dialect(unreliable_id=2**32 - 1, version=NEWER, accept_either=True)
UNRELIABLE = Message("weather", "oslo", b"rain")


def with_id(message_id: int) -> bytes:
    """HELLO under any id."""
    return encode(HELLO)[:13] + message_id.to_bytes(4, "big") + encode(HELLO)[17:]


@roles
def test_an_unreliable_id_holds_in_both_directions(role: Role) -> None:
    """T-42: what it is not is an ordinary id, the drafts' own one too."""
    for unreliable_id in (0, 2**31, 2**32 - 1):
        conn = live(role, dialect=Dialect(unreliable_id=unreliable_id))
        marked, ordinary = with_id(unreliable_id), with_id(2**31 - 1)
        assert feed(conn, marked, ordinary, marked) == [UNRELIABLE, replace(HELLO, message_id=2**31 - 1), UNRELIABLE]
        conn.send(UNRELIABLE)
        assert sent(conn) == marked
        with pytest.raises(LocalProtocolError, match="means unreliable"):
            conn.send(replace(HELLO, message_id=unreliable_id))


@roles
def test_a_peer_is_spoken_with_as_is_known_of_it(role: Role) -> None:
    """C6: from when it has said who it is; a server's version is not said before that."""
    asked: list[UUID] = []

    def dialect_of(peer: UUID) -> Dialect:
        asked.append(peer)
        return GO if peer == PEER else Dialect()

    conn = connection(role, dialect_of=dialect_of)
    first = request(NEWER) if role is Role.SERVER else response(HandshakeStatus.NEWER_COMPATIBLE, NEWER)
    old_body = encode(Subscribe("c", "k", 9), Revision.DRAFT_1)
    feed(conn, first, with_id(2**32 - 1), old_body)
    if role is Role.SERVER:
        conn.accept()
        [answer] = decode(sent(conn))
        assert isinstance(answer, HandshakeResponse)
        assert (answer.version, answer.status) == (NEWER, HandshakeStatus.SAME_VERSION)
        events = list(conn.events())
        assert events[1:] == [UNRELIABLE, Subscribe("c", "k", 9)]
    else:
        assert conn.version == OURS
    assert asked == [PEER]
    assert conn.unreliable_id == 2**32 - 1


@roles
def test_one_peer_may_be_excepted_from_strict_uuid7(role: Role) -> None:
    """T-03."""
    v4 = UUID("6fa459ea-ee8a-4ca4-894e-db77e160355e")
    first: Frame = HandshakeRequest(OURS, v4)
    if role is Role.CLIENT:
        first = HandshakeResponse(OURS, v4, HandshakeStatus.SAME_VERSION)
    excepted = {v4: Dialect(strict_uuid7=False)}
    conn = connection(role, dialect=Dialect(strict_uuid7=True), dialect_of=lambda peer: excepted.get(peer, Dialect()))
    assert feed(conn, first)[0] == first
    conn = connection(role, dialect_of=lambda _peer: Dialect(strict_uuid7=True))
    [closed] = feed(conn, first)
    assert isinstance(error_of(closed), UnexpectedFrame)


ODD: list[dict[str, Any]] = [
    *({"unreliable_id": one} for one in (1, 2**31 - 2, 2**32, -1)),
    *({"version": one} for one in (-1, 2**64)),
    {"version": "2"},
    {"strict_uuid7": "no"},
    {"control_messages": []},
    {"subscriptions": ["back"]},
    {"subscriptions": [("back", 1)]},
]


@pytest.mark.parametrize("most", [{"version": 2**64 - 1}, {"unreliable_id": 2**31 - 1}, {"unreliable_id": 2**32 - 1}])
def test_a_dialect_may_have_the_first_and_the_last_number_of_a_field(most: dict[str, Any]) -> None:
    [(name, number)] = most.items()
    assert getattr(Dialect(**most), name) == number


@pytest.mark.parametrize("odd", ODD)
def test_a_dialect_that_cannot_be_meant(odd: dict[str, Any]) -> None:
    """T-40, T-42: an unreliable id is none that a message may have."""
    with pytest.raises((TypeError, ValueError), match=rf"Dialect\.{next(iter(odd))} "):
        Dialect(**odd)


# The units (T-69).


@revisions
def test_handshake_frames_are_units_of_their_own(revision: Revision) -> None:
    server = reach(State.DECIDING, Role.SERVER, OURS, revision)
    server.accept(OWN)
    server.next_event()
    server.send(HELLO)
    server.send_acks([1, 2])
    answer = encode(HandshakeResponse(OURS, ME, HandshakeStatus.SAME_VERSION, OWN), revision)
    traffic = encode(HELLO, revision) + encode(Ack(1), revision) + encode(Ack(2), revision)
    assert server.unsent_bytes == len(answer) + len(traffic)
    assert server.data_to_send() == [answer, traffic]
    assert server.unsent_bytes == 0
    assert server.data_to_send() == []

    client = reach(State.CONFIRMING, Role.CLIENT, OLDER, revision)
    client.accept()
    client.send(HELLO)
    assert client.data_to_send() == [encode(HandshakeFinal(True), revision), encode(HELLO, revision)]


@roles
def test_a_repeated_response_does_not_join_what_stands_around_it(role: Role) -> None:
    conn = live(role)
    conn.send(HELLO)
    conn.send(Ack(3))
    feed(conn, request())
    conn.send(Ack(4))  # sending goes on while the request is processed
    conn.accept(OWN)
    conn.send(Ack(5))
    assert conn.data_to_send() == [
        encode(HELLO) + encode(Ack(3)) + encode(Ack(4)),
        encode(HandshakeResponse(OURS, ME, HandshakeStatus.SAME_VERSION, OWN)),
        encode(Ack(5)),
    ]


# A handshake request on a live connection (T-66).


@pytest.mark.parametrize("version", [OLDER, OURS, NEWER])
@roles
@revisions
def test_a_repeated_request_is_answered_as_normal(role: Role, version: int, revision: Revision) -> None:
    """Either role answers with the status that its version gives; the list is handed out to replace the old one."""
    conn = reach(State.ESTABLISHED, role, version, revision, subscriptions=OWN)
    again = request(version, OTHER)
    behind = encode(HELLO, revision)
    assert feed(conn, again, behind) == [again]
    assert conn.buffered_bytes == len(behind)  # waits for the decision, as in the first handshake
    conn.accept()
    status = {
        OLDER: HandshakeStatus.NEWER_COMPATIBLE,
        OURS: HandshakeStatus.SAME_VERSION,
        NEWER: HandshakeStatus.OLDER,
    }[version]
    assert conn.data_to_send() == [encode(HandshakeResponse(OURS, ME, status, OWN), revision)]
    assert list(conn.events()) == [HELLO]  # and no second Established
    assert conn.state is (State.RENEWED if version == NEWER else State.ESTABLISHED)


@roles
def test_a_repeated_request_can_be_rejected(role: Role) -> None:
    conn = live(role)
    feed(conn, request())
    conn.reject()
    assert list(conn.events()) == [Closed()]
    assert conn.data_to_send() == []


@roles
def test_the_final_after_a_repeated_older(role: Role) -> None:
    """A success is ignored, and is no unexpected frame; a failure closes."""
    conn = reach(State.RENEWED, role, NEWER)
    assert feed(conn, HandshakeFinal(True), HELLO) == [HELLO]
    assert conn.unexpected_frames == 0
    assert conn.state is State.ESTABLISHED

    conn = reach(State.RENEWED, role, NEWER)
    first, last = feed(conn, HELLO, HandshakeFinal(False))[1:]
    assert first == HandshakeFinal(False)
    error = error_of(last)
    assert isinstance(error, HandshakeRejected)
    assert (error.status, error.peer_version) == (HandshakeStatus.OLDER, NEWER)


@roles
def test_a_peer_may_repeat_its_handshake_each_second_for_ever(role: Role) -> None:
    conn = live(role, NEWER)
    for second in range(1, 100):
        conn.receive_data(encode(request(NEWER)), now=float(second))
        assert list(conn.events()) == [request(NEWER)]
        conn.accept()
        assert feed(conn, HandshakeFinal(True)) == []
    assert conn.unexpected_frames == 0
    assert conn.state is State.ESTABLISHED


@roles
def test_repeated_requests_beyond_a_burst_wait_their_turn(role: Role) -> None:
    """Three at once, then one a second; an idle hour saves up no more than the three. All behind them waits, too."""
    for start in (0.0, 3600.0):
        conn = live(role)
        conn.receive_data(encode(HELLO).join([encode(request())] * 5), now=start)
        for due in (start, start, start, start + 1.0, start + 2.0):
            if due > start:
                assert conn.next_event() is None
                assert (conn.paced is not None, conn.next_timeout()) == (True, due)
                conn.handle_timeout(due - 0.01)
                assert conn.next_event() is None
                conn.handle_timeout(due)
            assert conn.next_event() == request()
            conn.accept()
            assert conn.next_event() == (HELLO if due < start + 2.0 else None)
        assert conn.state is State.ESTABLISHED
        assert len(conn.data_to_send()) == 5


@revisions
def test_a_request_before_the_final_is_answered_as_the_first_was(revision: Revision) -> None:
    """T-63, T-66: "responses should be sent as normal"; those beyond a burst wait, within the handshake's time."""
    conn = reach(State.AWAITING_FINAL, Role.SERVER, NEWER, revision)
    again = HandshakeRequest(NEWER, PEER, (Subscription("other", ""),))
    for turn in range(4):
        conn.receive_data(encode(again, revision), now=0.0)
        if turn == 3:
            assert list(conn.events()) == []
            conn.handle_timeout(1.0)
        assert list(conn.events()) == [again]
        conn.accept()
        [answer] = conn.data_to_send()
        assert answer == encode(HandshakeResponse(OURS, ME, HandshakeStatus.OLDER, ()), revision)
    final, established = feed(conn, HandshakeFinal(True))
    assert final == HandshakeFinal(True)
    assert isinstance(established, Established)
    assert established.subscriptions == again.subscriptions


@pytest.mark.parametrize(
    "changed", [request(OURS, peer=ONE), request(NEWER), request(OLDER)], ids=["id", "newer", "older"]
)
@roles
def test_a_repeated_request_must_be_of_the_same_peer(role: Role, changed: Frame) -> None:
    conn = live(role)
    conn.send(HELLO)
    hello, closed = feed(conn, HELLO, changed)
    assert hello == HELLO
    error = error_of(closed)
    assert isinstance(error, UnexpectedFrame)
    assert error.code == "changed_identity"
    assert sent(conn) == encode(HELLO)


# Unexpected responses and finals (T-65).

STRAY: list[Frame] = [
    response(HandshakeStatus.SAME_VERSION, 99),
    response(HandshakeStatus.NEWER_COMPATIBLE, OLDER),
    response(HandshakeStatus.NEWER_INCOMPATIBLE, OURS, ()),
    response(HandshakeStatus.OLDER, NEWER),
    HandshakeFinal(True),
    HandshakeFinal(False),
]


@pytest.mark.parametrize("stray", STRAY, ids=str)
@roles
@revisions
def test_unexpected_responses_and_finals_are_ignored_and_counted(role: Role, revision: Revision, stray: Frame) -> None:
    conn = reach(State.ESTABLISHED, role, OURS, revision)
    assert feed(conn, HELLO, stray, HELLO) == [HELLO, HELLO]
    assert conn.unexpected_frames == 1
    assert conn.state is State.ESTABLISHED
    assert (conn.peer_id, conn.peer_version) == (PEER, OURS)
    assert conn.data_to_send() == []


EARLY: list[tuple[State, list[Frame]]] = [
    (State.AWAITING_REQUEST, STRAY),
    (State.AWAITING_RESPONSE, [HandshakeFinal(True), HandshakeFinal(False)]),
    (State.AWAITING_FINAL, STRAY[:4]),
]
"""States before the handshake is over, and what is unexpected there."""


@pytest.mark.parametrize(("state", "strays"), EARLY, ids=[state.name for state, _ in EARLY])
@revisions
def test_they_are_ignored_before_the_handshake_is_over_too(
    state: State, strays: list[Frame], revision: Revision
) -> None:
    """T-63: a request where a response is awaited, a message and an ack stay fatal."""
    for role, version in ways(state):
        conn = reach(state, role, version, revision)
        assert feed(conn, *strays) == []
        assert (where(conn), conn.unexpected_frames, conn.data_to_send()) == (state, len(strays), [])
        assert feed(conn, FIRST[state](version))[0] == FIRST[state](version)  # the awaited frame goes on
        for fatal in [HELLO, Ack(1), *([request(version)] if state is State.AWAITING_RESPONSE else [])]:
            conn = reach(state, role, version, revision)
            [closed] = feed(conn, strays[0], fatal)
            error = error_of(closed)
            assert isinstance(error, UnexpectedFrame)
            assert error.code == "unexpected_frame"


FIRST: dict[State, Callable[[int], Frame]] = {
    State.AWAITING_REQUEST: request,
    State.AWAITING_RESPONSE: lambda version: response(ANSWERS[version], version),
    State.AWAITING_FINAL: lambda _version: HandshakeFinal(True),
}


@pytest.mark.parametrize("state", [state for state, _ in EARLY] + [State.ESTABLISHED], ids=lambda state: state.name)
def test_more_than_sixteen_unexpected_frames_pass_one_each_tenth_of_a_second(state: State) -> None:
    """T-65: "they should simply be ignored". Nothing ends for them but by the time that a handshake has (T-68)."""
    role, version = ways(state)[-1]
    stray = encode(dict(EARLY).get(state, STRAY)[0])
    conn = reach(state, role, version)
    conn.receive_data(stray * 18, now=0.0)
    for number, due in ((16, 0.1), (17, 0.2), (18, None)):
        assert list(conn.events()) == []
        assert (conn.unexpected_frames, conn.paced is not None) == (number, due is not None)
        if due is not None:
            assert conn.next_timeout() == due
            conn.handle_timeout(due)
    assert where(conn) is state


@roles
def test_a_minute_later_there_are_sixteen_more(role: Role) -> None:
    conn = live(role)
    stray = encode(HandshakeFinal(True))
    for start in (100.0, 160.0):
        conn.receive_data(stray * 16 + encode(HELLO), now=start)
        assert list(conn.events()) == [HELLO]
    conn.receive_data(stray + encode(HELLO), now=161.0)
    assert list(conn.events()) == []
    conn.handle_timeout(161.1)
    assert list(conn.events()) == [HELLO]
    assert conn.unexpected_frames == 33


@roles
def test_nothing_waits_for_a_peer_that_has_ended(role: Role) -> None:
    """Nor for one that we take leave of: what is left of it is bounded. Its requests are answered no more."""
    for end in (Connection.receive_eof, Connection.close):
        conn = live(role)
        conn.receive_data(encode(HandshakeFinal(True)) * 40 + encode(HELLO), now=0.0)
        assert list(conn.events()) == []
        end(conn)
        assert next(conn.events()) == HELLO
    conn = live(role)
    conn.receive_data(encode(request()) * 5, now=0.0)
    conn.receive_eof()
    for _ in range(3):
        assert next(conn.events()) == request()
        conn.accept()
    assert list(conn.events()) == [Closed()]
    assert conn.unexpected_frames == 2


@roles
def test_the_list_of_an_unexpected_response_is_checked_and_not_built(role: Role) -> None:
    many = tuple(Subscription("channel", f"key {number}") for number in range(10_000))
    stray = encode(response(HandshakeStatus.SAME_VERSION, OURS, many))
    conn = live(role)
    with peak() as used:
        conn.receive_data(stray, now=0.0)
        before = used()
        assert list(conn.events()) == []
        assert used() < before + 64 * 2**10
    assert conn.unexpected_frames == 1
    broken = stray[:-1] + b"\xff"
    [closed] = feed(conn, broken)
    error = error_of(closed)
    assert isinstance(error, MalformedFrame)
    assert error.code == "bad_text"


KINDS = st.sampled_from([HELLO, request(), HandshakeFinal(True), response(HandshakeStatus.SAME_VERSION, OURS)])


@given(frames=st.lists(KINDS, max_size=60), cut=st.integers(1, 50), wait=st.floats(0.0, 2.0))
def test_whatever_repeats_or_strays_the_connection_lives_and_loses_nothing(
    frames: list[Frame], cut: int, wait: float
) -> None:
    conn = live(Role.SERVER)
    data, now, seen = b"".join(map(encode, frames)), 0.0, list[Event]()

    def take() -> None:
        for event in conn.events():
            seen.append(event)
            if isinstance(event, HandshakeRequest):
                conn.accept()

    for at in range(0, len(data), cut):
        now += wait
        conn.handle_timeout(now)
        conn.receive_data(data[at : at + cut], now)
        take()
    while (due := conn.next_timeout()) is not None:
        conn.handle_timeout(due)
        take()
    assert seen == [one for one in frames if one in (HELLO, request())]
    assert conn.state is State.ESTABLISHED


# Time (T-68).


@roles
def test_the_handshake_has_ten_seconds_from_the_start(role: Role) -> None:
    conn = connection(role, now=100.0)
    assert conn.next_timeout() == 110.0
    conn.receive_data(b"\x00" if role is Role.SERVER else b"\x01", now=109.0)  # a byte now and then buys no time
    assert conn.next_timeout() == 110.0
    conn.handle_timeout(109.9)
    assert conn.next_event() is None
    conn.handle_timeout(110.0)
    [closed] = conn.events()
    error = error_of(closed)
    assert isinstance(error, ConnectionLost)
    assert "no handshake within 10 s (T-68)" in str(error)
    assert conn.next_timeout() == conn.close_deadline == 115.0
    conn.handle_timeout(115.0)
    assert conn.next_timeout() is None


def test_the_limit_counts_from_the_first_time_that_is_known() -> None:
    server = Connection(Role.SERVER, instance_id=ME)
    assert server.next_timeout() is None
    server.handle_timeout()
    server.receive_data(b"\x00", now=50.0)
    assert server.next_timeout() == 60.0


@roles
def test_an_established_connection_waits_for_nothing(role: Role) -> None:
    conn = live(role)
    assert conn.next_timeout() is None
    conn.handle_timeout(1e9)
    assert conn.next_event() is None
    assert conn.state is State.ESTABLISHED


def test_time_never_runs_backwards() -> None:
    server = connection(Role.SERVER, now=100.0)
    for now in (50.0, -1.0, float("nan"), float("-inf")):
        server.handle_timeout(now)
        assert server.next_timeout() == 110.0
    server.receive_data(encode(request()), now=105.0)
    server.receive_eof(now=1.0)
    server.next_event()
    server.reject(now=2.0)
    assert server.close_deadline == 110.0  # 105 and the five seconds of a close


# The end.


@roles
def test_close_in_order(role: Role) -> None:
    """Queued bytes go out, the write side shuts, and reading goes on to the peer's end."""
    conn = live(role)
    conn.send(HELLO)
    conn.close(now=20.0)
    assert conn.close_deadline == conn.next_timeout() == 25.0
    assert not shutting(conn)
    assert conn.data_to_send() == [encode(HELLO)]
    assert shutting(conn)
    with pytest.raises(ConnectionClosing):
        conn.send(HELLO)
    with pytest.raises(ConnectionClosing):
        conn.send_encoded(encode(HELLO))
    with pytest.raises(ConnectionClosing):
        conn.accept()
    conn.close(now=24.0)
    assert conn.close_deadline == 25.0  # closing twice buys no time
    assert feed(conn, Ack(7), HELLO) == [Ack(7), HELLO]
    conn.receive_eof()
    assert list(conn.events()) == [Closed()]
    assert conn.data_to_send() == []
    conn.close()
    conn.reject()
    assert list(conn.events()) == []


def test_a_peer_that_does_not_close() -> None:
    """At the deadline what had come in is handed out, and then it is over; a close is not waited for twice."""
    conn = live()
    conn.close(now=20.0)
    conn.receive_data(encode(HELLO) + encode(Ack(1)) + encode(HELLO)[:5])
    conn.handle_timeout(25.0)
    *events, closed = conn.events()
    assert events == [HELLO, Ack(1)]
    error = error_of(closed)
    assert isinstance(error, ConnectionLost)
    assert "did not close within 5 s" in str(error)
    assert conn.next_timeout() == 25.0
    conn.handle_timeout(25.0)
    assert conn.next_timeout() is None


def test_a_fault_that_lay_unread_at_the_deadline_is_the_reason() -> None:
    conn = live()
    conn.close(now=20.0)
    conn.receive_data(encode(HELLO) + b"\xff")
    conn.handle_timeout(25.0)
    hello, closed = conn.events()
    assert hello == HELLO
    assert isinstance(error_of(closed), MalformedFrame)
    assert conn.next_event() is None


@revisions
@roles
def test_the_error_is_the_last_event_and_eats_none(role: Role, revision: Revision) -> None:
    """However the bytes are cut."""
    frames: list[Frame] = [HELLO, Ack(1), Subscribe("a", "b", 3), Message("a", "b", b"", None), Ack(2)]
    data = b"".join(encode(frame, revision) for frame in frames) + b"\xff" + encode(HELLO, revision)
    for size in (1, 2, 3, 7, len(data)):
        conn = reach(State.ESTABLISHED, role, OURS, revision)
        events = []
        for at in range(0, len(data), size):
            conn.receive_data(data[at : at + size])
            events += list(conn.events())
        *good, closed = events
        assert good == frames
        error = error_of(closed)
        assert isinstance(error, MalformedFrame)
        assert error.code == "unknown_type"
        conn.receive_data(encode(HELLO, revision))
        conn.receive_eof()
        assert list(conn.events()) == []
        assert shutting(conn)


def test_the_offset_of_a_fault_counts_from_the_opening_of_the_connection() -> None:
    conn = connection(Role.SERVER)
    feed(conn, request())
    conn.accept()
    list(conn.events())
    before = len(encode(request())) + len(encode(HELLO))
    *_, closed = feed(conn, HELLO, b"\x09")
    error = error_of(closed)
    assert isinstance(error, MalformedFrame)
    assert error.offset == before


@pytest.mark.parametrize(
    ("state", "role"),
    [
        (State.AWAITING_REQUEST, Role.SERVER),
        (State.AWAITING_RESPONSE, Role.CLIENT),
        (State.DECIDING, Role.SERVER),
        (State.CONFIRMING, Role.CLIENT),
    ],
)
def test_giving_up_a_handshake(state: State, role: Role) -> None:
    conn = reach(state, role, OLDER)
    conn.close()
    assert list(conn.events()) == [Closed()]
    assert conn.data_to_send() == []
    with pytest.raises(ConnectionClosing, match="nothing was sent"):
        conn.send(HELLO)


# Sending.


@revisions
def test_what_is_sent_is_what_encode_gives(revision: Revision) -> None:
    frames: list[Message | Ack | Subscribe | Unsubscribe] = [
        HELLO,
        Message("", "", b"", None),
        Ack(2**32 - 1),
        Subscribe("a", "b", 9),
    ]
    if revision is Revision.DRAFT_2:
        frames.append(Unsubscribe("a", "b", 10))
    conn = reach(State.ESTABLISHED, Role.CLIENT, OURS, revision)
    for frame in frames:
        assert conn.can_send(type(frame))
        conn.send(frame)
    conn.send_acks([1, 2, 3])
    conn.send_acks([])
    conn.send_encoded(encode(HELLO, revision))
    expected = [*frames, Ack(1), Ack(2), Ack(3), HELLO]
    assert sent(conn) == b"".join(encode(frame, revision) for frame in expected)


def test_draft_1_cannot_unsubscribe() -> None:
    """T-21."""
    conn = reach(State.ESTABLISHED, Role.CLIENT, OURS, Revision.DRAFT_1)
    assert not conn.can_send(Unsubscribe)
    assert conn.can_send(Subscribe)
    assert conn.can_send(Message)
    with pytest.raises(LocalProtocolError, match="T-21"):
        conn.send(Unsubscribe("a", "b", 1))


BAD: list[tuple[object, type[LocalProtocolError]]] = [
    (Message("tolliver", "", b"", 1), ReservedChannel),
    (Message("tolliver", "key", b"", None), ReservedChannel),
    (Message("a", "b", b"x" * 101, 1), OwnLimitExceeded),
    (Message("a" * 11, "b", b"", 1), OwnLimitExceeded),
    (Message("a", "é" * 6, b"", 1), OwnLimitExceeded),
    (Subscribe("a", "b" * 11, 1), OwnLimitExceeded),
    (Unsubscribe("a" * 11, "b", 1), OwnLimitExceeded),
    (Message("a", "b", "text", 1), LocalProtocolError),  # type: ignore[arg-type]  # that is the test
    (Message("a", "\ud800", b"", 1), LocalProtocolError),
    (Message(None, "b", b"", 1), LocalProtocolError),  # type: ignore[arg-type]  # that is the test
    (Message("a", "b", b"", 2**31 - 1), LocalProtocolError),
    (Message("a", "b", b"", 2**32), LocalProtocolError),
    (Message("a", "b", b"", -1), LocalProtocolError),
    (Ack(2**32), LocalProtocolError),
    (HandshakeFinal(True), LocalProtocolError),
    (request(), LocalProtocolError),
    (Ignored(1, IgnoreReason.BAD_TEXT), LocalProtocolError),
    (b"bytes", LocalProtocolError),
]


@pytest.mark.parametrize(("bad", "error"), BAD, ids=repr)
def test_a_frame_that_cannot_be_sent_changes_nothing(bad: Message, error: type[LocalProtocolError]) -> None:
    conn = live(limits=Limits(max_name=10, max_body=100))
    conn.send(Ack(1))
    with pytest.raises(error):
        conn.send(bad)
    assert conn.unsent_bytes == len(encode(Ack(1)))
    conn.send(Message("a" * 10, "é" * 5, b"x" * 100, 1))
    assert feed(conn, HELLO) == [HELLO]
    assert sent(conn) == encode(Ack(1)) + encode(Message("a" * 10, "é" * 5, b"x" * 100, 1))


def test_a_list_that_no_peer_would_take_is_refused_at_once() -> None:
    """T-19: for a client where it is made, for a server before its response; the error is local and a limit."""
    many = [Subscription("a", str(number)) for number in range(4)]
    limits = Limits(max_subscriptions=3)
    with pytest.raises(OwnLimitExceeded) as raised:
        connection(Role.CLIENT, subscriptions=many, limits=limits)
    assert isinstance(raised.value, LimitExceeded)
    with pytest.raises(OwnLimitExceeded):
        connection(Role.CLIENT, subscriptions=many, limits=Limits(max_handshake=64))
    with pytest.raises(OwnLimitExceeded):
        connection(Role.CLIENT, subscriptions=[("a", "b" * 5000)])
    server = connection(Role.SERVER, limits=limits)
    feed(server, request())
    with pytest.raises(OwnLimitExceeded):
        server.accept(many)
    assert where(server) is State.DECIDING
    server.accept(many[:3])
    assert where(server) is State.AGREED


def test_a_speaks_that_raises_leaves_the_decision_open() -> None:
    def speaks(version: int) -> bool:
        raise ZeroDivisionError

    for state, role in ((State.DECIDING, Role.SERVER), (State.CONFIRMING, Role.CLIENT)):
        conn = reach(state, role, OLDER, speaks=speaks)
        with pytest.raises(ZeroDivisionError):
            conn.accept()
        assert conn.state is state
        conn.reject()
        assert conn.state is State.CLOSED


def test_the_answer_is_known_before_it_is_given() -> None:
    """The caller may have to act on it first: a list is stored for some statuses and not for others (T-61)."""
    for state, role, version in PLACES:
        for speaks in (True, False):
            answers = [True]
            conn = reach(state, role, version, speaks=lambda _version, answers=answers: answers[-1])
            answers.append(speaks)
            assert conn.live is (state in LIVE)
            if state not in HOLDING:
                with pytest.raises((LocalProtocolError, ConnectionClosing)):
                    conn.answer  # noqa: B018  # reading it is the test
                continue
            expected, awaits_final = conn.answer, conn.awaits_final
            conn.accept()
            if state is State.CONFIRMING:
                final = HandshakeFinal(expected is HandshakeStatus.OLDER)
                assert sent(conn) == encode(final)
            else:
                [answer] = decode(sent(conn))
                assert isinstance(answer, HandshakeResponse)
                assert answer.status is expected
                assert awaits_final is (conn.state in {State.AWAITING_FINAL, State.RENEWED})
