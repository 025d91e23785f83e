"""Hub, call by call: strangers, calls that come too late or are wrong, extensions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.reactive.wires import IDENTITY, Wires, downs
from tolliver_proto import ConnectionClosing, LocalProtocolError, Transmit
from tolliver_proto.reactive import (
    Cancel,
    ClientHello,
    Extension,
    Form,
    Goodbye,
    Kind,
    Limits,
    PeerDown,
    PeerUp,
    Role,
    ServerHello,
    encode,
)

# Strangers (D-7).


def test_a_bound_on_strangers() -> None:
    wires = Wires(limits=Limits(max_handshakes=3, max_handshakes_per_address=2))
    first, second = wires.hub.new_cid(0.0, "192.0.2.1"), wires.hub.new_cid(0.0, "192.0.2.1")
    assert None not in (first, second)
    assert wires.hub.new_cid(0.0, "192.0.2.1") is None
    assert wires.hub.new_cid(0.0, "192.0.2.2") is not None
    assert wires.hub.new_cid(0.0, "192.0.2.3") is None
    assert wires.hub.stats()["refused_connections"] == 2
    assert wires.hub.connect("there"), "those that we dial are no strangers"


def ends(wires: Wires, cid: int, how: str) -> None:
    if how == "hello":
        wires.hub.opened(cid, Role.SERVER, IDENTITY)
        wires.feed(cid, ClientHello())
    elif how == "lost":
        wires.hub.lost(cid, None)
    elif how == "lost later":
        wires.hub.opened(cid, Role.SERVER, IDENTITY)
        wires.hub.lost(cid, None)
    else:
        wires.wait(10.0)
    wires.actions()


@pytest.mark.parametrize("how", ["hello", "lost", "lost later", "late"])
def test_a_stranger_is_one_no_longer(how: str) -> None:
    wires = Wires(limits=Limits(max_handshakes=1))
    cid = wires.hub.new_cid(0.0, "192.0.2.1")
    assert cid is not None
    assert wires.hub.new_cid() is None
    ends(wires, cid, how)
    assert wires.hub.new_cid() is not None
    assert wires.hub.new_cid() is None, "and counted once"


# Calls that come too late, or are wrong.


INERT: dict[str, tuple[tuple[object, ...], object]] = {
    "opened": ((Role.CLIENT, IDENTITY), None),
    "receive_data": ((b"x",), None),
    "receive_eof": ((), None),
    "sent": ((), None),
    "lost": ((None,), None),
    "request": ((1, 1), None),
    "cancel": ((1,), None),
    "took": ((1, 1), False),
    "subscribed": ((1,), False),
    "next_many": ((1, [b"x"]), 0),
    "complete": ((1,), False),
    "error": ((1, "failed"), False),
    "wanted": ((1,), 0),
    "goodbye": (("bye",), None),
}
"""Calls with a cid in front: what else they are given, and what they answer where there is no such connection."""


@pytest.mark.parametrize("call", INERT)
def test_a_call_for_a_connection_that_is_over(call: str) -> None:
    arguments, answer = INERT[call]
    wires = Wires()
    over = wires.up()
    wires.hub.lost(over, None)
    wires.actions()
    for cid in (over, 99):
        assert getattr(wires.hub, call)(cid, *arguments) == answer
        assert wires.actions() == []
        assert wires.hub.next_timeout() is None


def test_what_needs_a_connection_says_so() -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    for unknown in (cid, 99):
        with pytest.raises(ConnectionClosing, match="make another one"):
            wires.hub.subscribe(unknown, "p")
        with pytest.raises(ConnectionClosing, match="make another one"):
            wires.hub.send(unknown, ClientHello())


@pytest.mark.parametrize("call", ["receive_data", "receive_eof", "sent", "request", "wanted"])
def test_a_connection_that_is_not_open_yet(call: str) -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    wires.actions()
    getattr(wires.hub, call)(cid, *INERT[call][0])
    assert wires.actions() == []


def test_a_wrong_call_changes_nothing() -> None:
    wires = Wires()
    cid = wires.up(Role.SERVER)
    wires.giving(cid, 1)
    wrong: list[Callable[[], object]] = [
        lambda: wires.hub.next_many(cid, 1, [b"x", b"y"]),  # rule 1.1
        lambda: wires.hub.subscribed(cid, 1),  # rule 1.9
        lambda: wires.hub.error(cid, 1, None),  # type: ignore[arg-type]  # on purpose
        lambda: wires.hub.subscribe(cid, "x" * 5000),
        lambda: wires.hub.goodbye(cid, b"bye"),  # type: ignore[arg-type]  # on purpose
        lambda: wires.hub.send(cid, ServerHello()),
    ]
    for call in wrong:
        with pytest.raises(LocalProtocolError):
            call()
        assert wires.actions() == []
    assert wires.hub.next_many(cid, 1, [b"x"]) == 1
    wires.said(cid)
    assert downs(wires.feed(cid, Goodbye("its own"))) == [PeerDown(cid, None, None, "its own")]


def test_a_server_may_not_subscribe_before_the_hello() -> None:
    wires = Wires()
    cid = wires.link(Role.SERVER)
    with pytest.raises(LocalProtocolError, match="not possible yet"):
        wires.hub.subscribe(cid, "p")
    assert PeerUp(cid, IDENTITY, None) in wires.feed(cid, ClientHello())


def test_a_wrong_request_of_ours_ends_the_stream() -> None:
    """R-16, rules 3.9 and 3.16: nothing raises."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.request(cid, stream, 0)
    failed, transmit = wires.actions()
    assert "3.9" in failed.event.message
    assert transmit == Transmit(cid, [encode(Cancel(stream))])


# Extensions.


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


def test_frames_of_an_extension() -> None:
    note = Form(20, Note, {"text": Kind.TEXT})
    wires = Wires(extensions=[Extension(300, (note,))])
    cid = wires.link()
    wires.actions()
    wires.feed(cid, ServerHello(0, (300,)))
    wires.hub.sent(cid)
    wires.hub.send(cid, Note("hi"))
    assert wires.actions() == [Transmit(cid, [b"\x14\x02hi"])]
    wires.hub.receive_data(cid, b"\x14\x02ho")
    (happened,) = wires.actions()
    assert happened.event.text == "ho"
