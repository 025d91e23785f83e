"""Hub, call by call: its deadlines."""

from __future__ import annotations

import pytest

from tests.reactive.wires import IDENTITY, ROLES, Wires, downs
from tolliver_proto import Abort, ConnectionLost, ShutdownWrite
from tolliver_proto.reactive import ConnectionClosed, Goodbye, Happened, OnError, PeerDown, Role, ServerHello


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_no_transport_in_time(role: Role) -> None:
    """T-68: from the cid to TLS."""
    wires = Wires()
    cid = wires.hub.connect("there", 0.0) if role is Role.CLIENT else wires.hub.new_cid(0.0)
    assert cid is not None
    wires.actions()
    assert wires.hub.next_timeout() == 10.0
    assert wires.wait(9.9) == []
    abort, *rest = wires.wait(0.1)
    assert abort == Abort(cid)
    assert [(down.remote, type(down.error)) for down in downs(rest)] == [("there", ConnectionLost)] * (
        role is Role.CLIENT
    ), "nobody waits for one who dialled us and never came up"
    assert wires.hub.next_timeout() is None
    assert wires.hub.idle


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.value)
def test_no_hello_in_time(role: Role) -> None:
    """R-25, T-68: the connection ends, and where the peer does not let go it is cut after the time for that."""
    wires = Wires()
    cid = wires.link(role)
    wires.said(cid)
    wires.now = 5.0
    wires.hub.receive_data(cid, b"", 5.0)
    assert wires.hub.next_timeout() == 10.0
    actions = wires.wait(5.0)
    assert [str(down.error) for down in downs(actions)] == ["no hello of the peer's within 10 s (R-28): abort"] * (
        role is Role.CLIENT
    )
    assert ShutdownWrite(cid) in actions
    assert wires.wait(4.9) == []
    assert wires.wait(0.1) == [Abort(cid)]
    assert wires.hub.idle
    assert wires.hub.next_timeout() is None


def test_a_strangers_client_hello_has_less_time() -> None:
    """D-7."""
    wires = Wires()
    cids = [cid for _ in range(2) if (cid := wires.hub.new_cid(0.0)) is not None]
    for cid in cids:
        wires.hub.shaking(cid, False, 0.0)
    wires.hub.shaking(cids[1], True, 1.0)
    assert wires.wait(1.9) == []
    assert wires.wait(0.1) == [Abort(cids[0])]
    assert wires.hub.next_timeout() == 10.0


def test_tls_has_its_time_and_hello_has_its_own() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", 0.0)
    wires.hub.opened(cid, Role.CLIENT, IDENTITY, 9.0)
    assert wires.hub.next_timeout() == 19.0


def test_after_the_hello_nothing_is_due() -> None:
    wires = Wires()
    cid = wires.link()
    wires.actions()
    wires.feed(cid, ServerHello())
    wires.hub.sent(cid)
    wires.actions()
    assert wires.hub.next_timeout() is None
    assert wires.wait(1e9) == []


def test_a_deadline_that_was_met_while_a_transmit_is_outstanding_does_nothing() -> None:
    wires = Wires()
    cid = wires.link()
    wires.actions()  # the hello is in transit, and stays so
    wires.feed(cid, ServerHello())
    assert downs(wires.wait(10.0)) == []
    assert wires.hub.next_timeout() is None


def test_no_goodbye_in_time() -> None:
    """R-28: five seconds, and the reason is told before it is cut."""
    wires = Wires()
    cid = wires.up()
    stream = wires.taking(cid)
    wires.hub.goodbye(cid, "bye", wires.now)
    assert Happened(cid, OnError(stream, str(ConnectionClosed("bye")))) in wires.actions()
    assert wires.hub.next_timeout() == 5.0
    (down,) = wires.wait(5.0)
    assert isinstance(down.error, ConnectionLost)
    assert (down.cid, down.remote, down.reason) == (cid, "there", "bye")
    assert wires.hub.next_timeout() == 5.0, "and now"
    assert wires.wait(0.0) == [Abort(cid)]
    assert wires.hub.idle


def test_time_that_runs_on_before_actions_are_taken() -> None:
    """The end is told with its reason before the connection is cut, however late the adapter is."""
    wires = Wires()
    cid = wires.up()
    wires.hub.goodbye(cid, "bye", 0.0)
    wires.actions()
    for now in (5.0, 20.0, 30.0):
        wires.hub.handle_timeout(now)
    (down,) = wires.actions()
    assert isinstance(down.error, ConnectionLost)
    assert wires.wait(0.0) == [Abort(cid)]


def test_a_peer_that_does_not_let_go_is_cut() -> None:
    wires = Wires()
    cid = wires.up()
    assert downs(wires.feed(cid, Goodbye())) == [PeerDown(cid, "there", None, "")]
    wires.hub.sent(cid)
    assert wires.actions() == [ShutdownWrite(cid)]
    assert wires.wait(5.0) == [Abort(cid)]
    assert wires.hub.next_timeout() is None


def test_a_peer_that_does_not_read_our_last_words_is_cut() -> None:
    wires = Wires()
    cid = wires.up()
    wires.feed(cid, Goodbye())  # our answer stays in transit
    assert wires.wait(5.0) == [Abort(cid)]


def test_a_forgotten_connection_has_no_deadline() -> None:
    wires = Wires()
    dialled, accepted = wires.hub.connect("there", 0.0), wires.hub.new_cid(0.0)
    assert accepted is not None
    opened = wires.link()
    for cid in (dialled, accepted, opened):
        wires.hub.lost(cid, None)
    wires.actions()
    assert wires.hub.next_timeout() is None
    assert wires.wait(1e9) == []


def test_deadlines_of_several_connections_at_once() -> None:
    wires = Wires()
    cids = [wires.hub.connect("there", 0.0) for _ in range(3)]
    wires.actions()
    actions = wires.wait(10.0)
    assert [action.cid for action in actions if isinstance(action, Abort)] == cids
    assert [down.cid for down in downs(actions)] == cids


def test_time_never_runs_backwards() -> None:
    wires = Wires()
    wires.hub.connect("there", 100.0)
    wires.hub.handle_timeout(5.0)
    wires.hub.connect("there", 5.0)
    assert wires.hub.next_timeout() == 110.0
