"""Hub, call by call: ends of connections, each told once."""

from __future__ import annotations

import pytest

from tests.reactive.wires import HELLO, IDENTITY, ROLES, Wires, downs
from tolliver_proto import (
    Abort,
    ConnectionClosing,
    ConnectionLost,
    ShutdownWrite,
    TolliverError,
    Transmit,
    UnexpectedEOF,
    UnexpectedFrame,
)
from tolliver_proto.errors import CertificateError
from tolliver_proto.reactive import (
    Cancel,
    ClientHello,
    ConnectionClosed,
    Elements,
    Goodbye,
    Happened,
    OnComplete,
    OnError,
    OnNext,
    PeerDown,
    PeerUp,
    Role,
    ServerHello,
    VersionMismatch,
    encode,
)

# The end, told once.


@pytest.mark.parametrize(
    "error", [None, ConnectionLost("refused"), CertificateError("no")], ids=lambda e: type(e).__name__
)
def test_a_dial_that_fails(error: TolliverError | None) -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    wires.actions()
    wires.hub.lost(cid, error)
    (down,) = wires.actions()
    assert (down.cid, down.remote) == (cid, "there")
    assert down.error is error if error else isinstance(down.error, ConnectionLost)
    wires.hub.lost(cid, error)
    assert wires.actions() == []


def test_a_stranger_who_goes_before_hello_is_nobodys_business() -> None:
    wires = Wires()
    for opened in (False, True):
        cid = wires.link(Role.SERVER) if opened else wires.hub.new_cid(0.0)
        assert cid is not None
        wires.hub.lost(cid, ConnectionLost("reset"))
        assert wires.actions() == []
    cid = wires.link(Role.SERVER)
    assert downs(wires.feed(cid, ServerHello())) == [], "the wrong hello"
    assert wires.hub.idle is False


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_an_orderly_end_from_the_peer(role: Role) -> None:
    wires = Wires()
    cid = wires.up(role)
    wires.giving(cid)
    stream = wires.taking(cid)
    actions = wires.feed(cid, Goodbye("enough"))
    remote = "there" if role is Role.CLIENT else None
    assert actions == [
        Happened(cid, OnError(stream, str(ConnectionClosed("enough")))),
        Happened(cid, Cancel(1)),
        PeerDown(cid, remote, None, "enough"),
        Transmit(cid, [encode(Goodbye())]),
    ]
    wires.hub.sent(cid)
    assert wires.actions() == [ShutdownWrite(cid)]
    wires.hub.receive_eof(cid)
    assert wires.actions() == []
    wires.hub.lost(cid, None)
    assert wires.actions() == []
    assert wires.hub.idle


def test_an_orderly_end_of_ours() -> None:
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.goodbye(cid, "bye")
    wires.hub.goodbye(cid, "a second one says nothing")
    assert wires.actions() == [
        Happened(cid, OnError(stream, str(ConnectionClosed("bye")))),
        Transmit(cid, [encode(Goodbye("bye"))]),
    ]
    wires.hub.sent(cid)
    assert wires.actions() == [], "the peer's goodbye comes first (R-28)"
    assert wires.feed(cid, Goodbye("its own")) == [PeerDown(cid, "there", None, "bye"), ShutdownWrite(cid)]
    wires.hub.goodbye(cid, "late")
    wires.hub.lost(cid, ConnectionLost("reset"))
    assert wires.actions() == []


def test_crossing_goodbyes_and_the_end_in_one_piece() -> None:
    """Bytes received before the transport went are read to their end."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.receive_data(cid, encode(OnNext(stream, b"x")) + encode(Goodbye("bye")))
    wires.hub.lost(cid, ConnectionLost("reset"))
    assert wires.actions() == [
        Happened(cid, Elements(stream, [b"x"])),
        Happened(cid, OnError(stream, str(ConnectionClosed("bye")))),
        PeerDown(cid, "there", None, "bye"),
    ]
    assert wires.hub.idle


def test_lost_with_streams_and_unread_data() -> None:
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    reset = ConnectionLost("reset")
    wires.hub.receive_data(cid, encode(OnNext(stream, b"x")) + encode(OnComplete(stream))[:1])
    wires.hub.lost(cid, reset)
    element, failed, down = wires.actions()
    assert element == Happened(cid, Elements(stream, [b"x"]))
    assert failed.event.cause is down.error is reset, "also inside a frame: the transport knows why"
    assert str(failed.event.message) == str(reset)


@pytest.mark.parametrize("inside", [False, True])
def test_the_end_of_the_input_without_a_goodbye(inside: bool) -> None:
    """R-30. Nobody knows why: it is what the connection saw."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.receive_data(cid, encode(OnNext(stream, b"xyz"))[: 2 if inside else 0])
    wires.hub.receive_eof(cid)
    failed, down, *rest = wires.actions()
    assert type(failed.event.cause) is type(down.error) is (UnexpectedEOF if inside else ConnectionLost)
    assert rest == [ShutdownWrite(cid)]
    wires.hub.lost(cid, None)
    assert wires.actions() == []


def test_a_certificate_that_the_peer_refuses_after_we_are_open() -> None:
    """With TLS 1.3 a client learns of it late: streams and connection end with that."""
    wires = Wires()
    cid = wires.link()
    stream = wires.hub.subscribe(cid, "p")
    wires.actions()
    refused = CertificateError("certificate required")
    wires.hub.lost(cid, refused)
    failed, down = wires.actions()
    assert failed.event.cause is down.error is refused
    assert failed == Happened(cid, OnError(stream, str(refused)))


def test_a_fault_of_the_peers_is_told_as_such_although_the_transport_went() -> None:
    wires = Wires()
    cid = wires.up()
    wires.hub.receive_data(cid, encode(ServerHello()))
    wires.hub.lost(cid, ConnectionLost("reset"))
    (down,) = wires.actions()
    assert isinstance(down.error, UnexpectedFrame)


def test_another_version() -> None:
    wires = Wires()
    cid = wires.link()
    stream = wires.hub.subscribe(cid, "p")
    wires.said(cid)
    failed, down, *rest = wires.feed(cid, ServerHello(7))
    assert failed.event.cause is down.error
    assert failed == Happened(cid, OnError(stream, str(VersionMismatch(7))))
    assert [type(action) for action in rest] == [Transmit], "a goodbye, and no PeerUp"


def test_lost_while_leaving() -> None:
    wires = Wires()
    cid = wires.up()
    wires.hub.goodbye(cid, "bye")
    wires.actions()
    reset = ConnectionLost("reset")
    wires.hub.lost(cid, reset)
    assert wires.actions() == [PeerDown(cid, "there", reset, "bye")]
    assert wires.hub.idle


def test_nothing_is_written_when_the_transport_is_gone() -> None:
    wires = Wires()
    cid = wires.up()
    wires.hub.lost(cid, None)
    wires.hub.subscribe(cid, "p")  # its end is not handed out yet
    assert [type(action) for action in wires.actions()] == [Happened, PeerDown]


# Closing.


def test_close_while_dialling() -> None:
    wires = Wires()
    cid = wires.hub.connect("there")
    wires.actions()
    wires.hub.close()
    abort, down = wires.actions()
    assert abort == Abort(cid)
    assert isinstance(down.error, ConnectionClosing)
    assert down.reason == "the peer is closing"
    assert wires.hub.idle
    wires.hub.opened(cid, Role.CLIENT, IDENTITY)
    assert wires.actions() == [], "it came too late"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_close_before_the_hello(role: Role) -> None:
    wires = Wires()
    cid = wires.link(role)
    wires.hub.close()
    hello = [ClientHello(extensions=(1,))] if role is Role.CLIENT else [ServerHello(extensions=(1,))]
    assert wires.said(cid) == [*hello, Goodbye("the peer is closing")]
    actions = wires.feed(cid, HELLO[role], Goodbye())
    assert not any(isinstance(action, PeerUp) for action in actions), "it is over for us"
    assert len(downs(actions)) == (role is Role.CLIENT)
    assert ShutdownWrite(cid) in actions
    wires.hub.lost(cid, None)
    assert wires.hub.idle


def test_close_in_the_middle() -> None:
    wires = Wires()
    cids = [wires.up(), wires.up(Role.SERVER)]
    for cid in cids:
        wires.giving(cid, 5)
    wires.hub.close(1.0)
    wires.hub.close(2.0)
    actions = wires.actions()
    assert [action.cid for action in actions if isinstance(action, Happened)] == cids
    assert wires.hub.next_timeout() == 6.0, "the second one changes nothing"
    assert wires.hub.new_cid() is None
    assert wires.hub.stats()["refused_connections"] == 1
    with pytest.raises(ConnectionClosing, match="there is not dialled"):
        wires.hub.connect("there")
    for cid in cids:
        wires.hub.sent(cid)
        assert len(downs(wires.feed(cid, Goodbye()))) == 1
        wires.hub.lost(cid, None)
    assert wires.hub.idle
