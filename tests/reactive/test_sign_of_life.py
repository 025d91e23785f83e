"""Sign of life (R-40): a peer that vanished without a word is found by the side that waits for it, and by no other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reactive.wires import HELLO, IDENTITY, ROLES, Wires, downs
from tolliver_proto import Abort, ConnectionLost, LocalProtocolError
from tolliver_proto.reactive import (
    DRAFT,
    SIGN_OF_LIFE,
    UNBOUNDED,
    ClientHello,
    Closed,
    Connection,
    Decoder,
    Extension,
    Goodbye,
    Happened,
    Hub,
    Limits,
    OnError,
    OnNext,
    PeerUp,
    Request,
    Role,
    ServerHello,
    Subscribe,
    encode,
)

BOTH = DRAFT.extended(SIGN_OF_LIFE.forms)
PING, PONG = (form.frame for form in SIGN_OF_LIFE.forms)
HELLOS = {Role.CLIENT: ServerHello(extensions=(1,)), Role.SERVER: ClientHello(extensions=(1,))}


class Alive(Wires):
    """A hub whose peers have the sign of life."""

    def met(self, role: Role = Role.CLIENT) -> int:
        cid = self.link(role)
        self.decoders[cid] = Decoder(layout=BOTH)
        self.said(cid)
        remote = "there" if role is Role.CLIENT else None
        assert PeerUp(cid, IDENTITY, remote, frozenset({1})) in self.feed(cid, HELLOS[role])
        self.hub.sent(cid, self.now)
        return cid

    def heard(self, cid: int, frame: object) -> None:
        self.hub.receive_data(cid, encode(frame, layout=BOTH), self.now)
        self.said(cid)

    def asked(self, seconds: float) -> list[object]:
        """The frames that are said when these seconds have passed."""
        (cid,) = self.decoders
        self.now += seconds
        self.hub.handle_timeout(self.now)
        return self.said(cid)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_who_waits_asks_and_ends_a_connection_that_stays_silent(role: Role) -> None:
    wires = Alive()
    cid = wires.met(role)
    subscriber_id = wires.taking(cid)
    assert wires.hub.next_timeout() == 30.0
    assert wires.asked(29.9) == []
    assert wires.asked(0.1) == [PING(1)]
    assert wires.hub.next_timeout() == 45.0
    actions = wires.wait(15.0)
    [happened] = [action for action in actions if isinstance(action, Happened)]
    assert isinstance(happened.event, OnError)
    assert happened.event.subscriber_id == subscriber_id
    assert [type(down.error) for down in downs(actions)] == [ConnectionLost]
    assert "no sign of life within 15 s" in str(downs(actions)[0].error)
    assert Abort(cid) in wires.wait(5.0)
    assert wires.hub.idle


@pytest.mark.parametrize("sign", [PONG(1), PONG(77), PING(5), OnNext(1, b"x")], ids=repr)
def test_any_byte_is_a_sign(sign: object) -> None:
    wires = Alive()
    cid = wires.met()
    wires.taking(cid)
    assert wires.asked(30.0) == [PING(1)]
    wires.now += 14.9
    wires.heard(cid, sign)
    assert wires.asked(15.1) == []
    assert wires.asked(14.9) == [PING(2)], "30 s after the sign"


def test_half_a_frame_is_a_sign() -> None:
    wires = Alive()
    cid = wires.met()
    wires.taking(cid)
    wires.now = 20.0
    wires.hub.receive_data(cid, b"\x07", wires.now)
    assert wires.asked(10.0) == []
    assert wires.asked(20.0) == [PING(1)]


def test_a_subscription_that_is_not_answered_waits() -> None:
    wires = Alive()
    cid = wires.met()
    wires.hub.subscribe(cid, "p", 0)
    wires.said(cid)
    assert wires.asked(30.0) == [PING(1)]


def test_who_does_not_wait_does_not_ask() -> None:
    """No demand is left; and where nobody subscribes, there is no timer at all."""
    wires = Alive()
    cid = wires.met()
    wires.giving(cid, demand=5, subscriber_id=7)
    assert wires.hub.next_timeout() is None
    subscriber_id = wires.taking(cid, demand=1)
    wires.heard(cid, OnNext(subscriber_id, b"x"))
    assert [wires.asked(30.0) for _ in range(4)] == [[]] * 4
    wires.hub.request(cid, subscriber_id, 1)
    assert wires.said(cid) == [Request(subscriber_id, 1)]
    assert wires.asked(30.0) == [PING(1)]
    wires.heard(cid, PONG(1))
    wires.hub.cancel(cid, subscriber_id)
    wires.said(cid)
    assert wires.asked(100.0) == []
    assert wires.hub.next_timeout() is None


def test_a_subscription_after_a_long_silence_asks_at_once() -> None:
    wires = Alive()
    cid = wires.met()
    wires.wait(1000.0)
    wires.taking(cid)
    assert wires.asked(30.0) == [PING(1)]


def test_a_client_that_subscribes_before_the_hello_waits() -> None:
    client = Connection(Role.CLIENT, extensions=[SIGN_OF_LIFE], now=0.0)
    client.subscribe("p", 1)
    assert client.next_timeout() == 10.0, "the hello's"
    client.receive_data(encode(HELLOS[Role.CLIENT]), 1.0)
    list(client.events())
    assert client.next_timeout() == 31.0


def test_silence_does_not_count_while_reading_is_paused() -> None:
    wires = Alive(limits=Limits(max_unread=1))
    cid = wires.met()
    subscriber_id = wires.taking(cid)
    wires.heard(cid, OnNext(subscriber_id, b"x"))  # more than may be unread
    assert [wires.asked(30.0) for _ in range(4)] == [[]] * 4
    assert wires.hub.took(cid, 1, 1)
    wires.actions()
    assert wires.asked(29.9) == []
    assert wires.asked(0.1) == [PING(1)]


def test_a_pause_after_the_ping_gives_the_peer_its_time_again() -> None:
    wires = Alive(limits=Limits(max_unread=1))
    cid = wires.met()
    subscriber_id = wires.taking(cid)
    wires.heard(cid, OnNext(subscriber_id, b"x"))
    assert wires.asked(30.0) == []
    wires.hub.took(cid, 1, 1)
    wires.actions()
    assert wires.asked(30.0) == [PING(1)]
    wires.hub.lost(cid, None)


def test_silence_does_not_count_while_our_bytes_have_not_left() -> None:
    """A peer that does not read cannot answer: that is backpressure, and no death."""
    wires = Alive()
    cid = wires.met()
    wires.taking(cid)
    wires.now = 30.0
    wires.hub.handle_timeout(wires.now)
    wires.actions()  # the ping is in transit
    for _ in range(4):
        assert downs(wires.wait(15.0)) == []
    wires.hub.sent(cid, wires.now)
    assert downs(wires.wait(14.9)) == []
    assert len(downs(wires.wait(0.1))) == 1


def test_one_pong_waits_at_most() -> None:
    """For the newest ping: a peer that asks and does not read takes no memory."""
    server = Connection(Role.SERVER, extensions=[SIGN_OF_LIFE], now=0.0)
    server.receive_data(encode(HELLOS[Role.SERVER]))
    list(server.events())
    server.data_to_send()
    for number in range(1000):
        server.receive_data(encode(PING(number), layout=BOTH))
    assert list(server.events()) == [], "the program sees none of them"
    assert server.unsent_bytes == 3
    assert server.data_to_send() == [encode(PONG(999), layout=BOTH)]
    assert (server.unsent_bytes, server.data_to_send()) == (0, [])


@pytest.mark.parametrize(("ours", "hello"), [(None, HELLOS), (30.0, HELLO)], ids=["switched off", "a peer without it"])
def test_nobody_asks_where_one_side_has_it_not(ours: float | None, hello: dict[Role, object]) -> None:
    wires = Wires(limits=Limits(sign_of_life=ours))
    cid = wires.link()
    wires.said(cid)
    wires.feed(cid, hello[Role.CLIENT])
    wires.hub.sent(cid)
    wires.taking(cid, UNBOUNDED)
    assert wires.hub.next_timeout() is None
    assert wires.wait(1e6) == []


def test_who_never_asks_answers_still() -> None:
    limits = Limits(sign_of_life=None)
    server = Connection(Role.SERVER, extensions=[SIGN_OF_LIFE], limits=limits, now=0.0)
    server.receive_data(encode(HELLOS[Role.SERVER]) + encode(Subscribe("p", 1, 1)) + encode(PING(3), layout=BOTH))
    list(server.events())
    assert server.data_to_send()[-1].endswith(encode(PONG(3), layout=BOTH))
    server.subscribe("p", 1)
    assert server.next_timeout() is None


def test_an_id_is_of_one_extension() -> None:
    with pytest.raises(LocalProtocolError, match="two extensions have one id"):
        Connection(Role.CLIENT, extensions=[SIGN_OF_LIFE, Extension(1)])


def test_a_silence_is_excused_on_every_connection() -> None:
    """Also on one that asks nobody: a transport need not know."""
    client = Connection(Role.CLIENT, now=0.0)
    client.excuse(5.0)
    assert client.next_timeout() == 10.0


@given(st.lists(st.floats(0.1, 29.0), min_size=1, max_size=20))
def test_a_peer_that_is_heard_in_time_is_never_asked(pauses: list[float]) -> None:
    wires = Alive()
    cid = wires.met()
    wires.taking(cid)
    for pause in pauses:
        assert wires.asked(pause) == []
        wires.heard(cid, OnNext(1, b"x"))


@given(st.lists(st.floats(0.1, 60.0), min_size=1, max_size=20))
def test_a_connection_ends_only_after_a_ping_and_its_time(pauses: list[float]) -> None:
    """Whenever the clock is looked at: late looks do not make a silence out of none."""
    wires = Alive()
    cid = wires.met()
    wires.taking(cid)
    asked: list[float] = []
    for pause in pauses:
        actions = wires.wait(pause)
        if downs(actions):
            assert asked
            assert wires.now - asked[-1] >= 15.0
            return
        wires.hub.sent(cid, wires.now)
        if any(isinstance(frame, PING) for frame in sent(wires, cid, actions)):
            asked.append(wires.now)
    assert all(later - earlier >= 15.0 for earlier, later in pairwise(asked))


def sent(wires: Alive, cid: int, actions: list[object]) -> list[object]:
    for action in actions:
        for unit in getattr(action, "units", ()):
            wires.decoders[cid].feed(unit)
    return [*iter(wires.decoders[cid].next_frame, None)]


def test_a_pong_comes_before_a_goodbye_that_was_said_after_its_ping() -> None:
    server = Connection(Role.SERVER, extensions=[SIGN_OF_LIFE], now=0.0)
    server.receive_data(encode(HELLOS[Role.SERVER]))
    list(server.events())
    server.data_to_send()
    server.receive_data(encode(PING(1), layout=BOTH))
    list(server.events())
    server.goodbye("bye")
    assert server.data_to_send() == [encode(PONG(1), layout=BOTH) + encode(Goodbye("bye"))]


def test_a_pause_after_the_ping_begins_the_patience_anew() -> None:
    client = Connection(Role.CLIENT, extensions=[SIGN_OF_LIFE], now=0.0)
    client.subscribe("p", 1)
    client.receive_data(encode(HELLOS[Role.CLIENT]), 0.0)
    list(client.events())
    client.handle_timeout(30.0)
    client.excuse(40.0)
    client.handle_timeout(45.0)
    assert client.next_timeout() == 55.0
    client.handle_timeout(55.0)
    assert isinstance([*client.events()][-1], Closed)


def test_a_hub_without_options_has_it() -> None:
    assert Hub().limits.sign_of_life == 30.0
