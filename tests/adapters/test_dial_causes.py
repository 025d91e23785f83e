"""Causes of a dial that fails: each is seen in `remotes()`, in a notice, in the log and in every TimeoutError."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import pytest
from tolliver._driver.sockets import unreached
from tolliver._options.streams import StreamsOptions
from tolliver._tls.policy import server_context
from tolliver.events import StreamsDialFailed

from tests.ports import free_port
from tests.raw import RawListener
from tolliver_proto import Acl, Limits, NoticeKind, Rights
from tolliver_proto.errors import AccessDenied
from tolliver_proto.node import DialCause, RemoteInfo, RemoteState
from tolliver_proto.reactive import Goodbye, encode
from tolliver_proto.reactive import Limits as StreamsLimits

from .facade import Facade, Opened, until
from .kinds import EACH_ADAPTER
from .nodes import SOMEBODY, Nodes, address, silent_port
from .streams import Stage

LIMITS = Limits(redial_first=0.01, redial_max=0.05)
HURRIED = Limits(redial_first=0.01, redial_max=0.05, handshake_timeout=0.4)
FORMS: dict[str, dict[str, Any]] = {
    "tls": {"limits": LIMITS},
    "plain": {"limits": LIMITS, "plaintext": True},
    "hurried": {"limits": HURRIED, "plaintext": True},
}
HEAD = bytes([1]) + (1).to_bytes(8) + SOMEBODY.bytes  # of a response, in every layout
Place = Callable[[Nodes], Any]
"""An address to dial, for as long as it is open."""


def says(answer: bytes) -> Place:
    def serve(stream: socket.socket) -> None:
        stream.recv(65536)
        stream.sendall(answer)
        stream.recv(65536)

    return partial(_listening, serve)


@contextmanager
def _listening(serve: Callable[[socket.socket], None], _nodes: Nodes) -> Iterator[str]:
    with RawListener(None, serve) as listener:
        yield listener.address


@contextmanager
def nobody(_nodes: Nodes) -> Iterator[str]:
    yield f"127.0.0.1:{free_port()}"


@contextmanager
def nameless(_nodes: Nodes) -> Iterator[str]:
    yield "localhost.invalid:7011"


@contextmanager
def silent(_nodes: Nodes) -> Iterator[str]:
    with silent_port() as remote:
        yield remote


@contextmanager
def over_tls(nodes: Nodes, **changes: Any) -> Iterator[str]:
    context = server_context(nodes.certs.tls("right"))
    for name, value in changes.items():
        setattr(context, name, value)
    with RawListener(context, lambda _stream: None) as listener:
        yield listener.address


@contextmanager
def instance(nodes: Nodes, name: str, **options: Any) -> Iterator[str]:
    with nodes.open(name, **options) as there:
        yield address(there)


@contextmanager
def streams(nodes: Nodes, **options: Any) -> Iterator[str]:
    with Opened(nodes.world, StreamsOptions(listen="127.0.0.1:0", **options)) as there:
        yield f"127.0.0.1:{there.port}"


OLD: dict[str, Any] = {"maximum_version": ssl.TLSVersion.TLSv1_2, "minimum_version": ssl.TLSVersion.TLSv1_2}


class Case(NamedTuple):
    form: str
    place: Place
    cause: DialCause
    words: str = ""
    """Beside those of the cause."""


CASES = {
    "refused": Case("tls", nobody, DialCause.REFUSED, "efused"),
    "name": Case("tls", nameless, DialCause.NAME, "localhost.invalid"),
    "old tls": Case("tls", partial(over_tls, **OLD), DialCause.TLS, "option tls12"),
    "closed in tls": Case("tls", partial(_listening, lambda _stream: None), DialCause.CLOSED),
    "closed after tls": Case("tls", over_tls, DialCause.CLOSED),
    "plain instance": Case("tls", partial(instance, name="there", plaintext=True), DialCause.CLOSED, "plaintext"),
    "http for tls": Case("tls", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), DialCause.HTTP),
    "ssh for tls": Case("tls", says(b"SSH-2.0-x\r\n"), DialCause.NOT_TLS),
    "streams for tls": Case("tls", partial(streams, plaintext=True), DialCause.STREAMS),
    "another ca": Case("tls", partial(instance, name="stranger"), DialCause.CERTIFICATE, "same private CA"),
    "closed": Case("plain", partial(_listening, lambda _stream: None), DialCause.CLOSED),
    "http": Case("plain", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), DialCause.HTTP),
    "ssh": Case("plain", says(b"SSH-2.0-x\r\n"), DialCause.PROTOCOL),
    "streams": Case("plain", partial(streams, plaintext=True), DialCause.STREAMS),
    "tls": Case("plain", partial(instance, name="there-too"), DialCause.NEEDS_TLS),
    "layout": Case("plain", says(HEAD + bytes(1) + b"\xff" * 4), DialCause.LAYOUT),
    "silent": Case("hurried", silent, DialCause.NO_ANSWER, "0.4 s"),
    "short layout": Case("hurried", says(HEAD + bytes(1)), DialCause.LAYOUT),
}


def info_of(node: Facade, remote: str) -> RemoteInfo:
    (found,) = (one for one in node.remotes() if str(one.remote) == remote)
    return found


@EACH_ADAPTER
def test_the_cause_is_seen(nodes: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tolliver")
    with ExitStack() as stack:
        dialling = {form: stack.enter_context(nodes.open(form, **FORMS[form])) for form in FORMS}
        remotes = {name: stack.enter_context(case.place(nodes)) for name, case in CASES.items()}
        waiting = {
            name: dialling[CASES[name].form].start("new_connection", remotes[name], keep_trying=True) for name in CASES
        }
        for name, case in CASES.items():
            check(dialling[case.form], remotes[name], case, caplog)
            dialling[case.form].remove_connection(remotes[name])
            waiting[name].outcome()
        for form, node in dialling.items():
            assert node.remotes() == []
            stats = node.stats()
            for cause in {case.cause for case in CASES.values() if case.form == form}:
                assert stats.dials_failed[cause] == stats[f"dials_failed_{cause}"] > 0
            assert stats["dials"] >= sum(stats.dials_failed.values())


def check(node: Facade, remote: str, case: Case, caplog: pytest.LogCaptureFixture) -> None:
    until(lambda: info_of(node, remote).cause is case.cause, f"{case.cause} of {remote}: {info_of(node, remote)}, it")
    info = info_of(node, remote)
    kind = NoticeKind.DIAL_FAILED
    assert info.state in {RemoteState.DIALLING, RemoteState.WAITING}
    assert info.tries > 0
    assert info.error.startswith(case.cause.text)
    assert case.words in info.error
    about = [notice.detail for notice in node.notices() if notice.kind is kind and remote in notice.detail]
    told = [detail for detail in about if case.words in detail and case.cause.text in detail]
    assert len(told) == 1 or case.form == "hurried", f"once, however often it is tried: {about}"
    assert any(record.getMessage() == f"{kind}: {told[0]}" for record in caplog.records)
    if case.cause.is_refusal:
        return  # it ends the call
    with pytest.raises(TimeoutError, match=r"after 0\.001 s there is no connection to") as late:
        node.new_connection(remote, timeout=0.001, keep_trying=True)
    if case.form != "hurried":  # where a busy machine may have had another reason meanwhile
        assert case.cause.text in str(late.value)
        assert case.words in str(late.value)


OF_STREAMS = {
    "refused": Case("tls", nobody, DialCause.REFUSED, "efused"),
    "name": Case("tls", nameless, DialCause.NAME, "localhost.invalid"),
    "old tls": Case("tls", partial(over_tls, **OLD), DialCause.TLS, "option tls12"),
    "closed in tls": Case("tls", partial(_listening, lambda _stream: None), DialCause.CLOSED),
    "http for tls": Case("tls", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), DialCause.HTTP),
    "plain for tls": Case("tls", partial(streams, plaintext=True), DialCause.NOT_TLS),
    "closed": Case("plain", partial(_listening, lambda _stream: None), DialCause.CLOSED),
    "http": Case("plain", says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), DialCause.HTTP),
    "ssh": Case("plain", says(b"SSH-2.0-x\r\n"), DialCause.PROTOCOL),
    "goodbye": Case("plain", says(encode(Goodbye("speak version 1"))), DialCause.VERSION, "speak version 1"),
    "silent": Case("hurried", silent, DialCause.NO_ANSWER, "0.4 s"),
}


@EACH_ADAPTER
def test_the_cause_is_seen_on_streams(nodes: Nodes, stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """In what `connect` raises, in the event, in the log and in the counters."""
    caplog.set_level(logging.WARNING, "tolliver")
    told: dict[str, list[Any]] = {"tls": [], "plain": [], "hurried": []}
    with ExitStack() as stack:
        dialling = {
            "tls": stage.open(tls="left", on_event=told["tls"].append),
            "plain": stage.open(on_event=told["plain"].append),
            "hurried": stage.open(on_event=told["hurried"].append, limits=StreamsLimits(handshake_timeout=0.4)),
        }
        for name, case in OF_STREAMS.items():
            remote = stack.enter_context(case.place(nodes))
            error = dialling[case.form].start_connect(remote).outcome()
            until(lambda case=case: told[case.form], f"the event of {name}")  # type: ignore[misc]
            event = told[case.form].pop()
            assert (type(event), str(event.remote), event.cause) == (StreamsDialFailed, remote, case.cause), name
            assert event.text.startswith(case.cause.text)
            assert case.words in event.text
            assert case.words in str(error)
            assert case.cause.text in str(error) or error.cause is case.cause
            assert f"{remote} is not connected: {event.text}" in [record.getMessage() for record in caplog.records]
        for form, one in dialling.items():
            failed = [case.cause for case in OF_STREAMS.values() if case.form == form]
            stats = one.stats()
            assert stats["dials"] == len(failed)
            assert all(stats[f"dials_failed_{cause}"] == failed.count(cause) for cause in DialCause)


@EACH_ADAPTER
def test_who_waits_too_long_for_streams_hears_what_is_missing(stage: Stage) -> None:
    told: list[Any] = []
    streams = stage.open(on_event=told.append)
    with silent_port() as remote, pytest.raises(TimeoutError, match=r"after 0\.2 s there is no connection to") as late:
        streams.connect(remote, timeout=0.2)
    assert f"{remote} ({DialCause.NO_ANSWER.text}: " in str(late.value)
    until(lambda: told, "the event")
    assert (told[0].cause, "given up" in told[0].text) == (DialCause.NO_ANSWER, True)


@EACH_ADAPTER
def test_a_peer_that_the_rules_keep_out_is_a_dial_that_failed(stage: Stage) -> None:
    told: list[Any] = []
    there = stage.open()
    streams = stage.open(acl=Acl(default=Rights.none()), on_event=told.append)
    assert isinstance(streams.start_connect(there).outcome(), AccessDenied)
    until(lambda: told, "the event")
    assert (told[0].cause, "D-4" in told[0].text) == (DialCause.ACCESS, True)


@EACH_ADAPTER
def test_who_waits_for_an_acknowledgement_hears_of_it(nodes: Nodes) -> None:
    with nodes.pair(left=FORMS["tls"]) as (left, right, inbox):
        remote = address(right)
        right.close()
        until(lambda: info_of(left, remote).cause is DialCause.REFUSED)
        receipt = left.send_many([("news", "", b"1"), ("news", "", b"2")])
        with pytest.raises(TimeoutError, match="2 of 2 messages are not acknowledged") as late:
            left.wait_acked(receipt, timeout=0.001)
        assert f"not connected: {remote} ({DialCause.REFUSED.text}" in str(late.value)
        with pytest.raises(TimeoutError, match="fewer than 1 peers subscribe to 'olds' ''") as late:
            left.start("wait_subscribed", "olds", timeout=0.001).wait()
        assert f"not connected: {remote} ({DialCause.REFUSED.text}" in str(late.value)
        assert inbox.bodies == []


@EACH_ADAPTER
def test_a_remote_that_is_connected_says_so(nodes: Nodes) -> None:
    with nodes.pair(left=FORMS["tls"]) as (left, right, _inbox):
        info = info_of(left, address(right))
        assert (info.state, info.peer) == (RemoteState.CONNECTED, right.instance_id)
        assert (info.cause, info.error, info.tries, info.next_try) == (None, "", 0, None)
        assert left.notices() == []


@EACH_ADAPTER
def test_a_handshake_that_times_out_is_told(nodes: Nodes) -> None:
    with nodes.open("right", limits=Limits(handshake_timeout=0.05)) as right:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", right.port or 0)) as silent:
                silent.settimeout(60)
                with suppress(ConnectionResetError):
                    assert silent.recv(1) == b""
        assert right.stats()["handshakes_timed_out"] == 2
        (told,) = (notice.detail for notice in right.notices() if notice.kind is NoticeKind.HANDSHAKE_TIMEOUT)
        assert "the last one from 127.0.0.1" in told


@pytest.mark.parametrize("error", [ConnectionResetError(104, "reset"), ConnectionAbortedError(103, "aborted")])
def test_a_reset_while_it_connects_is_somebody_who_closes(error: OSError) -> None:
    """A load balancer with nobody behind it: as where the reset comes a moment later, so that the cause stays one."""
    assert unreached("there", error).cause is DialCause.CLOSED
