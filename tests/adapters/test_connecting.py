"""Connecting: results, errors, and further tries."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from tolliver._options.instance import TLS, Remote
from tolliver._tls.policy import server_context

from tests.certificates import Certificates
from tests.ports import free_port
from tests.raw import RawListener
from tolliver_proto import (
    Acl,
    ConnectionClosing,
    HandshakeRejected,
    HandshakeResponse,
    HandshakeStatus,
    IdentityConflict,
    Limits,
    MalformedFrame,
    NoticeKind,
    Revision,
    Rights,
    SelfConnection,
    UnexpectedFrame,
    encode,
)
from tolliver_proto.errors import AccessDenied, CertificateError
from tolliver_proto.node import DialCause, DialFailed, RemoteState

from .facade import Cancelled, Facade, until
from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import SOMEBODY, Inbox, Nodes, address, asked, connected, error_of, gave_up, noticed, silent_port
from .relay import Relay

QUICK = {"limits": Limits(redial_first=0.005, redial_max=0.05)}


def test_it_returns_the_peers_uuid_now_and_again(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("left") as left, nodes.open("right") as right:
        assert left.new_connection(address(right)) == certs.uuid("right")
        assert left.new_connection(address(right)) == certs.uuid("right")
        assert left.new_connection(f"localhost:{right.port}") == certs.uuid("right")
        assert connected(left) == connected(right) == 1


def test_many_who_wait_for_one_remote_all_hear_of_it(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("left") as left, nodes.open("right") as right:
        waiting = [left.start("new_connection", address(right)) for _ in range(5)]
        assert [one.wait() for one in waiting] == [certs.uuid("right")] * 5


def test_it_tries_until_somebody_listens(nodes: Nodes, certs: Certificates) -> None:
    remote = f"127.0.0.1:{free_port()}"
    with nodes.open("left", **QUICK) as left:
        with pytest.raises(TimeoutError):
            left.new_connection(remote, timeout=0.05)
        waiting = left.start("new_connection", remote)
        with nodes.open("right", listen=remote):
            assert waiting.wait() == certs.uuid("right")


def test_who_stops_waiting_does_not_stop_the_others(nodes: Nodes, certs: Certificates) -> None:
    remote = f"127.0.0.1:{free_port()}"
    with nodes.open("left", **QUICK) as left:
        patient = left.start("new_connection", remote)
        if nodes.world.can_cancel:
            impatient = left.start("new_connection", remote)
            assert impatient.cancel
            impatient.cancel()
        else:  # calls that block have time limits instead
            impatient = left.start("new_connection", remote, timeout=0.02)
        assert isinstance(impatient.outcome(), Cancelled | TimeoutError)
        with nodes.open("right", listen=remote):
            assert patient.wait() == left.new_connection(remote) == certs.uuid("right")


def test_a_lost_connection_is_dialled_again_until_it_is_removed(nodes: Nodes) -> None:
    remote = f"127.0.0.1:{free_port()}"
    with nodes.open("left", **QUICK) as left:
        with nodes.open("right", listen=remote):
            left.new_connection(remote)
        until(lambda: not connected(left))
        with nodes.open("right", listen=remote) as right:
            until(lambda: connected(left))  # T-76
            left.remove_connection(remote)
            until(lambda: not connected(right))
            until(lambda: gave_up(left))
        with nodes.open("right", listen=remote) as right:
            assert gave_up(left)
            assert left.new_connection(remote) == right.instance_id
            assert connected(left) == 1


def test_a_broken_line_is_dialled_again(nodes: Nodes) -> None:
    with nodes.pair(left=QUICK) as (left, right, inbox):
        left.remove_connection(address(right))
        with Relay(right.port or 0) as relay:
            left.new_connection(relay.address)
            for number in range(1, 4):
                receipt = left.send("news", "", b"%d" % number)
                relay.cut()
                until(lambda number=number: relay.dials > number)  # type: ignore[misc]  # bound now, not later
                left.wait_acked(receipt)
            left.remove_connection(relay.address)
        assert set(inbox.bodies) == {b"1", b"2", b"3"}


def test_removing_ends_the_wait_for_it(nodes: Nodes) -> None:
    with silent_port() as remote, nodes.open("left") as left:
        waiting = left.start("new_connection", remote)
        until(lambda: left.stats()["connections"])
        left.remove_connection(remote)
        outcome = waiting.outcome()
        assert isinstance(outcome, ConnectionClosing)
        assert "was removed" in str(outcome)


def test_oneself_is_no_peer(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        assert isinstance(error_of(left, address(left)), SelfConnection)
        until(lambda: gave_up(left))
    with nodes.open("plain", plaintext=True) as plain:
        assert isinstance(error_of(plain, address(plain)), SelfConnection)
        until(lambda: gave_up(plain))
        assert plain.peers() == []


def test_a_dial_that_meets_itself_is_a_bad_line(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """TCP lets a dial to a free port of this machine come from that very port: then both ends are one socket."""
    port = free_port()
    met: list[int] = []

    def from_there(connect: Callable[..., Any]) -> Callable[..., Any]:
        def from_the_same_port(sock: socket.socket, where: Any) -> Any:
            if where[1] == port and not met:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # somebody will listen there in a moment
                sock.bind(("127.0.0.1", port))
                met.append(port)
            return connect(sock, where)

        return from_the_same_port

    remote = f"127.0.0.1:{port}"
    with nodes.open("left", plaintext=True, **QUICK) as left:
        with monkeypatch.context() as patched:
            for name in ("connect", "connect_ex"):
                patched.setattr(socket.socket, name, from_there(getattr(socket.socket, name)))
            waiting = left.start("new_connection", remote)
            until(lambda: met and not left.stats()["connections"])
            assert not waiting.done  # it is dialled again
        with nodes.open("right", plaintext=True, listen=remote) as right:
            assert waiting.wait() == right.instance_id
        assert {notice.kind for notice in left.notices()} == {NoticeKind.DIAL_FAILED}


def test_a_listener_that_hangs_up_after_tls_is_dialled_again(nodes: Nodes, certs: Certificates) -> None:
    """It has said nothing, and all that comes is the end."""
    context = server_context(certs.tls("right"))
    with RawListener(context, lambda _stream: None) as listener, nodes.open("left", **QUICK) as left:
        waiting = left.start("new_connection", listener.address)
        until(lambda: listener.accepted > 5)
        assert not waiting.done
        left.remove_connection(listener.address)
        until(lambda: gave_up(left))


WRONG_ANSWERS = {
    "http": (b"HTTP/1.1 400 Bad Request\r\n\r\n", MalformedFrame),
    "contradiction": (encode(HandshakeResponse(1, SOMEBODY, HandshakeStatus.OLDER)), UnexpectedFrame),
}


@pytest.mark.parametrize(("answer", "error"), WRONG_ANSWERS.values(), ids=WRONG_ANSWERS)
def test_an_answer_that_is_no_handshake_ends_the_call(nodes: Nodes, answer: bytes, error: type[Exception]) -> None:
    """T-73: and the dialling too, but for a remote of the options and for who keeps trying."""
    with RawListener(None, lambda stream: stream.sendall(answer)) as listener:
        with nodes.open("left", plaintext=True, **QUICK) as left:
            assert isinstance(error_of(left, listener.address), error)
            until(lambda: gave_up(left))
            waiting = left.start("new_connection", listener.address, keep_trying=True)
            until(lambda before=listener.accepted: listener.accepted > before + 2)  # type: ignore[misc]  # bound now
            assert not waiting.done
            assert isinstance(error_of(left, listener.address), error)
            assert not waiting.done
        told: list[Any] = []
        with nodes.open("right", plaintext=True, remotes=[listener.address], on_event=told.append, **QUICK) as right:
            assert isinstance(error_of(right, listener.address), error)
            until(lambda: any(isinstance(event, DialFailed) for event in told))
            until(lambda before=listener.accepted: listener.accepted > before + 2)  # type: ignore[misc]  # bound now


def test_initial_remotes_are_dialled_in_the_background(nodes: Nodes) -> None:
    remote = f"127.0.0.1:{free_port()}"  # nobody listens there yet (T-75)
    with nodes.open("left", remotes=[remote], **QUICK) as left:
        assert connected(left) == 0
        with nodes.open("right", listen=remote):
            until(lambda: connected(left))


# Peers that refuse or are refused (T-73).


@EACH_ADAPTER
def test_an_edge_that_restarts_while_its_hubs_certificate_has_ended_comes_back(
    nodes: Nodes, certs: Certificates
) -> None:
    """Everybody who asks is told meanwhile, and nothing is lost."""
    inbox = Inbox()
    with nodes.open("right") as hub, nodes.open("left") as edge:
        hub.subscribe("news")
        remote = address(hub)
        edge.new_connection(remote)
    lapsed = RawListener(server_context(certs.tls("expired")), lambda _stream: None, port=hub.port or 0)
    with lapsed, nodes.open("left", remotes=[remote], status="127.0.0.1:0") as edge, nodes.open("third") as third:
        until(lambda: edge.remotes()[0].cause is DialCause.CERTIFICATE)
        (info,) = edge.remotes()
        assert (info.state, "has expired" in info.error) == (RemoteState.WAITING, True)
        assert info.next_try is not None
        assert info.next_try <= 300
        assert "has expired" in noticed(edge, NoticeKind.DIAL_FAILED)[0]
        assert isinstance(error_of(edge, remote), CertificateError), "as the draft has it"
        told_by = {path: asked(edge, path) for path in ("/readyz", "/metrics")}
        assert told_by["/readyz"][0] == 503
        assert (
            f"no remote is connected, and these are refused, by one side or the other: {remote}"
            in (told_by["/readyz"][1])
        )
        assert "has expired" in told_by["/readyz"][1]
        assert f'tolliver_remote_refused{{remote="{remote}",cause="certificate"}} 1' in told_by["/metrics"][1]
        edge.new_connection(address(third))
        until(lambda: asked(edge, "/readyz")[0] == 200)
        assert remote in asked(edge, "/readyz")[1]
        edge.send("news", "", b"waits")
        lapsed.close()
        with nodes.open("right", listen=remote, handlers=[("news", "", inbox)]):
            edge.reload_tls()
            inbox.holds(1)
            until(lambda: asked(edge, "/readyz") == (200, "ready\n"))


@EACH_ADAPTER
def test_other_access_rules_have_those_dialled_that_were_kept_out(nodes: Nodes) -> None:
    with nodes.open("right") as right, nodes.open("left", acl=Acl(default=Rights.none())) as left:
        remote = address(right)
        assert isinstance(left.start("new_connection", remote, keep_trying=True).outcome(), AccessDenied)
        until(lambda: not left.stats()["connections"])
        assert left.remotes()[0].cause is DialCause.ACCESS
        left.set_acl(Acl())
        until(lambda: connected(left))


# Peers that may be there. (The whole table is in test_tls_matrix.)


def test_a_refusal_after_our_own_handshake_is_never_taken_for_a_bad_line(nodes: Nodes, certs: Certificates) -> None:
    """T-74: in TLS 1.3 the refusal comes when our handshake is over already."""
    stranger = certs.tls("stranger")
    both = nodes.directory / "both.pem"
    both.write_bytes(stranger.ca.read_bytes() + certs.ca.read_bytes())
    tls = TLS(stranger.cert, stranger.key, both)
    with nodes.open("right") as right, nodes.open("left", tls=tls) as left, Relay(right.port or 0) as relay:
        for storing in [left.start("subscribe", f"{number:04}" * 1000) for number in range(100)]:
            storing.wait()  # a request that is still being written when it is refused
        for dials in range(1, 11):
            error = error_of(left, relay.address)
            assert isinstance(error, CertificateError)
            assert "refuses our certificate" in str(error)
            assert relay.dials == dials  # the first try told it, each time
        assert gave_up(left)
        assert connected(right) == 0


def test_a_listener_under_another_name_needs_a_pin(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("elsewhere") as there, nodes.open("left") as left:
        assert isinstance(error_of(left, address(there)), CertificateError)
        wrong = Remote("127.0.0.1", there.port or 0, identity=certs.uuid("right"))
        assert isinstance(error_of(left, wrong), IdentityConflict)
        pinned = Remote("127.0.0.1", there.port or 0, identity=certs.uuid("elsewhere"))
        assert left.new_connection(pinned) == certs.uuid("elsewhere")
    ca_only = certs.tls("left", insecure_ca_only=True)
    with nodes.open("elsewhere") as there, nodes.open("left", tls=ca_only) as left:
        assert left.new_connection(address(there)) == certs.uuid("elsewhere")


@ONE_KIND
def test_a_key_that_is_not_the_one_first_seen_is_refused(nodes: Nodes, certs: Certificates) -> None:
    """D-3 without a UUID in the certificate: the first key that came with it stays."""
    with nodes.open("right") as right:
        with nodes.open("left", tls=certs.tls("anonymous")) as left:
            left.new_connection(address(right))
            uuid = left.instance_id
        other = certs.special("another-anonymous", ())
        with nodes.open("impostor", tls=other, identity=uuid) as impostor:
            waiting = impostor.start("new_connection", address(right))
            until(lambda: noticed(right, NoticeKind.IDENTITY_MISMATCH))
            assert not waiting.done  # closed without a frame (T-67), as a bad line would be: it goes on trying
            assert connected(impostor) == 0
            impostor.remove_connection(address(right))
            waiting.outcome()


# Versions.


@ONE_KIND
@pytest.mark.parametrize(
    "revision", [Revision.DRAFT_1, Revision.DRAFT_2, Revision.GO_499B76D, Revision.GO_2026], ids=lambda one: one.name
)
@pytest.mark.parametrize(
    ("dialler", "listener", "status"),
    [
        ((1, False), (2, False), HandshakeStatus.NEWER_INCOMPATIBLE),
        ((2, False), (1, False), HandshakeStatus.OLDER),
        ((1, False), (2, True), HandshakeStatus.NEWER_COMPATIBLE),
        ((2, True), (1, False), HandshakeStatus.OLDER),
    ],
)
def test_versions_meet_or_part(
    nodes: Nodes, revision: Revision, dialler: tuple[int, bool], listener: tuple[int, bool], status: HandshakeStatus
) -> None:
    """The version table (T-60): `dialler` and `listener` are (version, whether it speaks others)."""
    here = {"version": dialler[0], "speaks": lambda _: dialler[1], "revision": revision}
    there = {"version": listener[0], "speaks": lambda _: listener[1], "revision": revision}
    inbox = Inbox()
    with nodes.open("right", **there) as right, nodes.open("left", **here) as left:
        right.subscribe("news", handler=inbox)
        error = error_of(left, address(right))
        if dialler[1] or listener[1]:
            assert error is None
            left.wait_acked(left.send("news", "", b"x"))
            assert inbox.bodies == [b"x"]
        else:
            assert isinstance(error, HandshakeRejected)
            assert (error.status, error.peer_version) == (status, listener[0])
            until(lambda: right.stats()["connections"] == 0)
            assert gave_up(left)


class NoTruth:
    """A result whose truth cannot be told."""

    def __bool__(self) -> bool:
        raise ValueError("odd")


@EACH_ADAPTER
@pytest.mark.parametrize("end", [KeyError(1), SystemExit(1), NoTruth()], ids=lambda end: type(end).__name__)
def test_a_version_for_which_the_function_raises_is_refused_and_nothing_else(nodes: Nodes, end: Any) -> None:
    """The peer chooses the version: it must not end the instance."""

    def speaks(_version: int) -> Any:
        if isinstance(end, BaseException):
            raise end
        return end

    inbox = Inbox()
    with (
        nodes.open("right", version=2, speaks=speaks) as right,
        nodes.open("left") as left,
        nodes.open("third", version=2) as third,
    ):
        right.subscribe("news", handler=inbox)
        assert isinstance(error_of(left, address(right)), HandshakeRejected)
        third.new_connection(address(right))
        third.wait_acked(third.send("news", "", b"and it goes on"))
        assert inbox.bodies == [b"and it goes on"]


# Two at once (T-70).

DUELS = 17  # of one pair of instances; over six kinds, a hundred in all


def test_two_that_dial_each_other_keep_one_connection(
    nodes: Nodes, record_property: Callable[[str, object], None]
) -> None:
    """One connection remains of two, and what was sent meanwhile arrives."""
    with nodes.open("left") as left, nodes.open("right") as right:
        at_left, at_right = Inbox(), Inbox()
        left.subscribe("to left", handler=at_left)
        right.subscribe("to right", handler=at_right)
        sent = 0
        for _ in range(DUELS):
            _both(left, right, "new_connection")
            for _ in range(5):
                left.send("to right", "", b"%d" % sent)
                right.send("to left", "", b"%d" % sent)
                sent += 1
            until(lambda: left.stats()["connections"] == right.stats()["connections"] == 1)
            assert connected(left) == connected(right) == 1
            _both(left, right, "remove_connection")
            until(lambda: left.stats()["connections"] == right.stats()["connections"] == 0)
        left.new_connection(address(right))
        everything = {b"%d" % number for number in range(sent)}
        until(lambda: set(at_left.bodies) == set(at_right.bodies) == everything)
        until(lambda: left.stats()["pending"] == right.stats()["pending"] == 0)
    record_property("crossing dials", DUELS)


def _both(left: Facade, right: Facade, call: str) -> None:
    for one in (left.start(call, address(right)), right.start(call, address(left))):
        one.wait()


@ONE_KIND
def test_of_two_instances_with_one_uuid_the_later_one_has_the_connection(nodes: Nodes) -> None:
    """T-70, T-79: a copied database is a mistake that must not multiply messages, nor lose any."""
    copied = nodes.directory / "another.db"
    with (
        nodes.open("right") as right,
        nodes.open("left", **QUICK) as first,
        nodes.open("left", database=copied) as second,
    ):
        inbox = Inbox()
        first.subscribe("news", handler=Inbox())
        second.subscribe("news", handler=inbox)
        first.new_connection(address(right))
        second.new_connection(address(right))
        assert connected(right) == 1
        first.remove_connection(address(right))
        until(lambda: connected(second) == 1 and right.stats()["connections"] == 1)
        assert len(right.peers()) == 1
        assert noticed(right, NoticeKind.DUPLICATE_CLOSED)
        right.wait_acked(right.send("news", "", b"x"))
        assert inbox.bodies == [b"x"]
