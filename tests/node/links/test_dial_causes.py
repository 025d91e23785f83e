"""Causes of a dial that fails, and what is told of them (T-68, T-73)."""

from __future__ import annotations

import pytest

from tolliver_proto import (
    Action,
    ConnectionLost,
    Dial,
    HandshakeRejected,
    IdentityConflict,
    MalformedFrame,
    Notice,
    NoticeKind,
    SelfConnection,
    TolliverError,
    UnexpectedEOF,
)
from tolliver_proto._common.dial_failures import failure_of
from tolliver_proto.errors import AccessDenied, CannotListen, CertificateError, OutOfThreads
from tolliver_proto.node import DialCause, RemoteInfo, RemoteState

from ..play import HIGH, LOW, Play, every, only

REFUSED = ConnectionLost("connection refused", DialCause.REFUSED)
UNREACHABLE = ConnectionLost("no route", DialCause.UNREACHABLE)
LATE = ConnectionLost("no handshake within 10 s", DialCause.NO_ANSWER)
MALFORMED = MalformedFrame("unknown_type", "no frame begins so")
ENDED = UnexpectedEOF("eof_in_handshake", "the peer closed")
HEAD = bytes([1]) + (1).to_bytes(8) + LOW.bytes


@pytest.mark.parametrize(
    ("error", "first", "cause"),
    [
        (REFUSED, b"", DialCause.REFUSED),
        (ConnectionLost("reset"), b"", DialCause.CLOSED),
        (None, b"", DialCause.HERE),
        (OutOfThreads("no more"), b"", DialCause.HERE),
        (CertificateError("expired"), b"", DialCause.CERTIFICATE),
        (IdentityConflict("somebody else"), b"", DialCause.IDENTITY),
        (HandshakeRejected(2, 9), b"", DialCause.VERSION),
        (AccessDenied("kept out"), b"", DialCause.ACCESS),
        (SelfConnection("oneself"), b"", DialCause.SELF),
        (ENDED, b"", DialCause.CLOSED),
        (ENDED, HEAD, DialCause.CLOSED),
        (ENDED, b"HTTP/1.1 200 OK", DialCause.HTTP),
        (MALFORMED, b"HTTP/1.1 200 OK", DialCause.HTTP),
        (MALFORMED, bytes((21, 3, 3, 0, 2, 2, 70)), DialCause.NEEDS_TLS),
        (MALFORMED, bytes((2, 1, 0)), DialCause.STREAMS),
        (MALFORMED, bytes((11, 2)) + b"no", DialCause.STREAMS),
        (MALFORMED, b"SSH-2.0-x", DialCause.PROTOCOL),
        (MALFORMED, HEAD[:-1], DialCause.PROTOCOL),
        (MALFORMED, HEAD, DialCause.LAYOUT),
        (MALFORMED, bytes([7]) + HEAD[1:], DialCause.PROTOCOL),
        (MALFORMED, bytes([1]) + b"\xff" * 8 + LOW.bytes, DialCause.PROTOCOL),
        (MALFORMED, HEAD[:9] + bytes(16), DialCause.PROTOCOL),
        (LATE, b"", DialCause.NO_ANSWER),
        (LATE, HEAD, DialCause.LAYOUT),
    ],
)
def test_the_cause(error: TolliverError | None, first: bytes, cause: DialCause) -> None:
    failure = failure_of(error, first)
    assert failure.cause is cause
    assert str(failure) == f"{cause.text}: {error or 'the connection was ended here'}"


def test_a_port_that_is_taken_is_an_oserror() -> None:
    taken = CannotListen(98, "cannot listen on localhost:1")
    assert (str(taken), taken.errno, taken.cause) == ("cannot listen on localhost:1", 98, None)
    assert isinstance(taken, OSError)
    assert isinstance(taken, TolliverError)


def fails(play: Play, actions: list[Action], error: TolliverError) -> list[Action]:
    play.node.dial_failed(only(actions, Dial).cid, error, now=play.now)
    return play.run()


def info(play: Play) -> RemoteInfo:
    (found,) = play.node.remotes(play.now)
    return found


def told(actions: list[Action], kind: NoticeKind = NoticeKind.DIAL_FAILED) -> list[str]:
    return [notice.detail for notice in every(actions, Notice) if notice.kind is kind]


def test_the_first_failure_is_told_and_each_change_of_cause() -> None:
    play = Play()
    play.dice.value = 1.0
    actions = fails(play, play.call("connect", "there"), REFUSED)
    assert told(actions) == ["there is not connected, and dialled again: nobody listens there: connection refused"]
    assert told(fails(play, play.wait(1.0), REFUSED)) == []
    assert len(told(fails(play, play.wait(1.0), UNREACHABLE))) == 1
    assert len(told(fails(play, play.wait(1.0), REFUSED))) == 1
    stats = play.node.stats()
    assert (stats.dials, stats.dials_failed[DialCause.REFUSED], stats.dials_failed[DialCause.UNREACHABLE]) == (4, 3, 1)
    assert stats["dials_failed_refused"] == 3


def test_a_remote_shows_its_state() -> None:
    play = Play()
    play.dice.value = 1.0
    actions = play.call("connect", "there")
    assert info(play) == RemoteInfo("there", RemoteState.DIALLING, None, None, "", 1, None)
    fails(play, actions, REFUSED)
    failed = RemoteInfo(
        "there", RemoteState.WAITING, None, DialCause.REFUSED, f"{DialCause.REFUSED.text}: {REFUSED}", 1, 0.1
    )
    assert info(play) == failed
    wire = play.dialled(play.wait(0.1))
    assert (info(play).state, info(play).cause, info(play).tries) == (RemoteState.DIALLING, DialCause.REFUSED, 2)
    wire.respond()
    assert info(play) == RemoteInfo("there", RemoteState.CONNECTED, LOW, None, "", 0, None)
    play.call("disconnect", "there")
    assert play.node.remotes() == []


def test_a_connection_that_ended_is_no_dial_that_failed() -> None:
    play = Play()
    play.dice.value = 1.0
    wire = play.dialled(play.call("connect", "there"))
    wire.respond()
    assert told(wire.lose(ConnectionLost("reset"))) == []
    assert (info(play).state, info(play).cause) == (RemoteState.WAITING, DialCause.LOST)
    assert play.node.stats()["dials_failed_lost"] == 0
    assert len(told(fails(play, play.wait(1.0), REFUSED))) == 1
    wire = play.dialled(play.wait(1.0))
    wire.respond()
    wire.end()
    wire.lose()
    assert info(play).error == f"{DialCause.LOST.text}: in order, by the other side or by us"


def test_a_peer_that_is_revoked_while_it_is_connected_is_told_with_its_cause() -> None:
    """One that we dialled is dialled on, and one that dialled us is named."""
    play = Play()
    wire = play.dialled(play.call("connect", "there"))
    wire.respond()
    actions = wire.lose(CertificateError("revoked"))
    assert told(actions) == [
        "there is not connected, and dialled every 1 to 5 minutes: a certificate is refused: revoked"
    ]
    assert (info(play).state, info(play).cause) == (RemoteState.WAITING, DialCause.CERTIFICATE)
    assert play.node.stats()["dials_failed_certificate"] == 0
    wire = play.peer(HIGH)
    notice = only(wire.lose(CertificateError("revoked")), Notice)
    assert (notice.kind, notice.peer) == (NoticeKind.CERTIFICATE_REFUSED, HIGH)
    assert notice.detail.endswith(" was closed: revoked")


def test_a_remote_whose_peer_is_connected_otherwise_is_connected() -> None:
    play = Play()
    actions = play.call("connect", "there")
    wire = play.dialled(actions)
    wire.respond()
    wire.lose()
    play.peer(LOW)
    play.wait(1.0)
    assert info(play).state is RemoteState.CONNECTED


@pytest.mark.parametrize("stands", [False, True])
def test_a_handshake_that_times_out_is_told_once_a_minute(stands: bool) -> None:
    play = Play()
    seen: list[str] = []
    for _ in range(2):
        if stands:
            wire = play.accepted()
            play.node.receive_data(wire.cid, b"", now=play.now)
        else:
            play.node.new_cid(play.now, "10.0.0.9")
        seen += told(play.wait(11.0), NoticeKind.HANDSHAKE_TIMEOUT)
    where = str(LOW) if stands else "10.0.0.9"
    (text,) = seen
    assert text.startswith("1 connections did not finish their handshake within 10 s")
    assert text.endswith(f"the last one from {where} (T-68)")
    assert play.node.stats()["handshakes_timed_out"] == 2
    (rest,) = told(play.wait(61.0), NoticeKind.HANDSHAKE_TIMEOUT)
    assert rest.startswith("1 connections")


def test_a_peer_that_dials_with_tls_is_told_for_that() -> None:
    play = Play()
    wire = play.accepted()
    play.node.receive_data(wire.cid, bytes((22, 3, 1, 2, 0)), now=play.now)
    (detail,) = told(play.run(), NoticeKind.PROTOCOL_ERROR)
    assert "this side has plaintext=True" in detail


def test_certificates_that_are_refused_again_and_again_are_told_with_a_count() -> None:
    play = Play()
    seen = []
    for _ in range(4):
        cid = play.node.new_cid(play.now, "10.0.0.9")
        assert cid is not None
        play.node.lost(cid, CertificateError("unknown CA"), now=play.now)
        seen += told(play.run(), NoticeKind.CERTIFICATE_REFUSED)
    assert seen == ["a connection from 10.0.0.9 was refused: unknown CA"]
    (rest,) = told(play.wait(61.0), NoticeKind.CERTIFICATE_REFUSED)
    assert rest == f"3 more like it within a minute; the last one: {seen[0]}"
    assert told(play.wait(61.0), NoticeKind.CERTIFICATE_REFUSED) == []
