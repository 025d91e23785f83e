"""Connections of streams: beginning, identity, and every end."""

from __future__ import annotations

import copy
import pickle
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tolliver.events import StreamsPeerDown, StreamsPeerUp

from tests.ports import free_port
from tolliver_proto import Acl, ConnectionClosing, ConnectionLost, Rights, UnexpectedEOF
from tolliver_proto.errors import CertificateError
from tolliver_proto.reactive import (
    Cancel,
    ConnectionClosed,
    Extension,
    Form,
    Goodbye,
    HelloRefused,
    Kind,
    Limits,
    OnComplete,
    OnNext,
    ServerHello,
    StreamError,
    Subscribe,
    Subscribed,
    VersionMismatch,
    decode,
    encode,
)
from tolliver_proto.recording import Block, Direction, in_order, read_blocks

from .facade import PATIENCE, Cancelled, until
from .kinds import EACH_ADAPTER, EVERY_LOOP
from .nodes import silent_port
from .streams import Stage, StreamsFacade


def outcome(streams: StreamsFacade, address: str, **options: Any) -> Any:
    return streams.start_connect(address, **options).outcome()


def alone(streams: StreamsFacade) -> Callable[[], bool]:
    return lambda: not streams.peers() and not streams.stats()["connections"]


def test_over_tls(stage: Stage) -> None:
    """Both prove who they are, access is by that, and a stranger has no part in it."""
    acl = Acl(
        default=Rights.none(),
        peers={stage.certs.uuid("alice"): Rights(subscribe=(("open", "*"),))},
    )
    publisher = stage.open(tls="bob", acl=acl)
    publisher.publish("*", [b"x" * 10_000] * 100)
    alice, carol = stage.open(tls="alice", listen=None), stage.open(tls="carol", listen=None)
    peer = alice.connect(publisher)
    assert peer.itself.identity.uuids == {stage.certs.uuid("bob")}
    assert list(peer.subscribe("open")) == [b"x" * 10_000] * 100
    with pytest.raises(StreamError, match="D-4"):
        list(peer.subscribe("secret"))
    refused = outcome(carol, publisher.address)
    if not isinstance(refused, Exception):  # its hello had come before the goodbye
        until(alone(carol), "the end")
    stranger = stage.open(tls="stranger", listen=None)
    assert isinstance(outcome(stranger, publisher.address), CertificateError)
    assert [one.itself.identity.uuids for one in publisher.peers()] == [{stage.certs.uuid("alice")}]


@EACH_ADAPTER
def test_what_crosses_the_wire_is_recorded(stage: Stage, tmp_path: Path) -> None:
    publisher = stage.open(tls="bob", record=tmp_path)
    publisher.publish("numbers", [b"x" * 10_000] * 100)
    assert len(list(stage.open(tls="alice", listen=None).connect(publisher).subscribe("numbers"))) == 100
    publisher.close()
    (file,) = tmp_path.glob("*.rec")
    ways: dict[Direction, bytes] = dict.fromkeys(Direction, b"")
    for block in in_order(read_blocks([file.read_bytes()], streams=True)):
        assert isinstance(block, Block)
        assert (block.header.local, block.header.streams) == (stage.certs.uuid("bob"), True)
        ways[block.header.direction] += block.payload
    out = decode(ways[Direction.OUT])
    assert [one.element for one in out if isinstance(one, OnNext)] == [b"x" * 10_000] * 100
    assert Subscribe in map(type, decode(ways[Direction.IN]))


def test_streams_say_what_they_are(stage: Stage) -> None:
    publisher, subscriber, peer = stage.pair()
    assert repr(publisher.publish("numbers", [b"1", b"2", b"3"])) == "<Publication of 'numbers'>"
    taken = peer.subscribe("numbers", prefetch=1)
    assert publisher.addresses == [("127.0.0.1", publisher.port)]
    assert subscriber.shown == "<Streams, 1 peer up>"
    assert publisher.shown == f"<Streams, listening on 127.0.0.1:{publisher.port}, 1 peer up>"
    assert taken.look(repr) == "<Subscription to 'numbers'>"
    taken.cancel()
    assert taken.look(repr) == "<Subscription to 'numbers', over>"
    subscriber.close()
    assert subscriber.shown == "<Streams, not open>"


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_streams_are_not_pickled_or_copied(stage: Stage, take: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"cannot be pickled or copied.*D-16"):
        take(stage.open()._instance)


def test_a_publisher_that_vanished_without_a_word_is_found(stage: Stage) -> None:
    """R-40: its kernel keeps the connection, and nothing ever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        streams = stage.open(listen=None, limits=Limits(sign_of_life=0.2))
        connecting = streams.start_connect(f"127.0.0.1:{listener.getsockname()[1]}")
        publisher, _ = listener.accept()
        with publisher:
            publisher.sendall(encode(ServerHello(extensions=(1,))))
            taken = streams.peer(connecting.wait()).subscribe("readings")
            with pytest.raises(ConnectionLost, match="no sign of life"):
                next(taken)


@pytest.mark.parametrize("who", ["dialler", "listener"])
def test_a_goodbye_and_its_reason(stage: Stage, who: str) -> None:
    """From either side: streams in both directions end, and both sides see why."""
    listener, dialler, there = stage.pair()
    (back,) = listener.peers()
    left: list[str] = []

    def endless(name: str) -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            left.append(name)

    listener.publish("l", endless)
    dialler.publish("d", endless)
    taken = [there.subscribe("l", prefetch=2), back.subscribe("d", prefetch=2)]
    for one in taken:
        one.take(2)
    if who == "dialler":
        dialler.goodbye(there, "enough of it")
    else:
        back.goodbye("enough of it")
    for one in taken:
        until(partial(getattr, one, "closed"), "the end of a stream")
        with pytest.raises(ConnectionClosed, match="enough of it"):
            list(one)
    until(lambda: sorted(left) == ["d", "l"], "closing the sources")
    for streams in (listener, dialler):
        until(alone(streams), "the end of the connection")
    assert not there.connected
    assert not back.connected
    with pytest.raises(ConnectionClosing):
        there.subscribe("l")


def test_who_comes_and_goes_is_told(stage: Stage) -> None:
    told: list[Any] = []
    listener, dialler = stage.open(on_event=told.append), stage.open(listen=None)
    with listener.events() as events:
        peer = dialler.connect(listener)
        up = events.start_next().wait()
        assert isinstance(up, StreamsPeerUp)
        assert up.peer in [one.itself for one in listener.peers()]
        dialler.goodbye(peer, "enough of it")
        down = events.start_next().wait()
        assert isinstance(down, StreamsPeerDown)
        assert down.peer is up.peer
        assert "enough of it" in str(down.error)
        until(lambda: told == [up, down], "the function's events")
        waiting = events.start_next()
        listener.close()
        assert isinstance(waiting.outcome(), StopAsyncIteration)


def test_closing_says_goodbye(stage: Stage) -> None:
    """Subscribers see it, sources are left, and nothing can be asked of what is closed."""
    publisher, subscriber, peer = stage.pair()
    publisher.publish("p", lambda _name: iter(lambda: b"x", None))
    taken = peer.subscribe("p", prefetch=2)
    taken.take(2)
    publisher.close()
    with pytest.raises(ConnectionClosed, match="closing"):
        list(taken)
    until(alone(subscriber), "the end of the connection")
    for name, *args in (("publish", "q", []), ("subscribe", "p"), ("connect", "127.0.0.1:1")):
        assert isinstance(publisher.start(str(name), *args).outcome(), ConnectionClosing)


def test_a_goodbye_by_hand(stage: Stage) -> None:
    """It is acknowledged, and all that the adapter said before is there."""
    streams, peer = stage.giving()
    streams.publish("p", [b"x"] * 5)
    stream = peer.subscribe("p", 3)
    assert len(peer.hear_elements(stream, 3)) == 3
    closing = streams.start_close()
    assert peer.answer_goodbye() == Goodbye("the peer is closing")
    closing.wait()


def test_a_connection_that_breaks(stage: Stage) -> None:
    """In the middle of a frame (R-30). Another connection is another beginning (R-31)."""
    streams, peer = stage.taking()
    taken = streams.subscribe("p")
    stream = peer.hear_subscribe()
    peer.subscribed(stream)
    peer.next(stream, b"first")
    peer.sync()
    peer.say(b"\x07\x01")
    peer.shut()
    assert next(taken) == b"first"
    with pytest.raises(UnexpectedEOF):
        next(taken)
    until(alone(streams), "the end of the connection")
    _, again = stage.taking(streams)
    taken = streams.subscribe("p")
    stream = again.hear_subscribe()
    again.subscribed(stream)
    again.next(stream, b"second")
    again.complete(stream)
    assert list(taken) == [b"second"]


def test_a_subscriber_that_breaks_off(stage: Stage) -> None:
    """The source that was read for it is closed, also one that waits."""
    streams, peer = stage.giving()
    left = []
    gate = stage.gate()

    def source() -> Iterator[Any]:
        try:
            yield b"x"
            yield gate
        finally:
            left.append(True)

    streams.publish("p", lambda _name: stage.world.waiting(source()))
    peer.hear_elements(peer.subscribe("p", 10), 1)
    peer.shut()
    until(alone(streams), "the end of the connection")
    gate.open()
    until(lambda: left, "closing the source")
    assert streams.stats()["streams_given"] == 0


def test_an_iterator_whose_wait_ended_early_goes_on(stage: Stage) -> None:
    """By a timeout, which is a cancellation on loops: it has not come to its end by that."""
    streams, publisher = stage.taking()
    taken = streams.subscribe("p") if stage.world.can_cancel else streams.subscribe("p", timeout=0.05)
    stream = publisher.hear_subscribe()
    runs = taken.look(lambda it: it.runs())
    waiting = stage.world.start("a run", lambda: stage.world.next(runs))
    if waiting.cancel is not None:
        waiting.cancel()
    assert isinstance(waiting.outcome(), Cancelled | StopAsyncIteration)
    publisher.say(Subscribed(stream), OnNext(stream, b"x"))
    assert stage.world.start("a run", lambda: stage.world.next(runs)).wait() == [b"x"]
    publisher.say(OnComplete(stream))
    with pytest.raises(StopAsyncIteration):
        stage.world.start("the end", lambda: stage.world.next(runs)).wait()


@EVERY_LOOP
@pytest.mark.parametrize("way", ["cancel", "loss", "close"])
@pytest.mark.parametrize("waits", [True, False], ids=["waits", "rests"])
def test_what_a_source_awaits_at_its_end_is_not_cut(stage: Stage, way: str, waits: bool) -> None:
    """It tidies up, wherever the end of its stream finds it: waiting for something, or for demand."""
    streams, peer = stage.giving()
    entered, left, tidy = [], [], stage.gate()

    def last() -> Iterator[Any]:
        entered.append(True)
        yield tidy
        left.append(True)

    streams.publish("p", stage.waiting([b"x", stage.gate()] if waits else [b"x", b"y"], last()))
    stream = peer.subscribe("p", 2 if waits else 1)
    peer.hear_elements(stream, 1)
    if way == "cancel":
        peer.say(Cancel(stream))
    elif way == "loss":
        peer.shut()
    else:
        closing = streams.start_close()
        peer.answer_goodbye()
    if stage.world.kind == "blocking":
        stage.open_gates()  # nothing else ends a thread's wait
    until(lambda: entered, "the source's end")
    tidy.open()
    until(lambda: left, "the end of its end")
    if way == "close":
        closing.wait()


@pytest.mark.parametrize("kind", ["asyncio", "trio", "twisted"])
@pytest.mark.parametrize("way", ["cancel", "close"])
def test_a_source_that_never_ends_is_cut_and_told(stage: Stage, way: str, caplog: pytest.LogCaptureFixture) -> None:
    streams, peer = stage.giving(limits=Limits(close_timeout=0.2))
    streams.publish("p", stage.waiting([b"x", stage.gate()], [stage.gate()]))
    stream = peer.subscribe("p", 2)
    peer.hear_elements(stream, 1)
    if way == "cancel":
        peer.say(Cancel(stream))
        until(lambda: caplog.messages, "the log")
    else:
        streams.close()
    assert caplog.messages == [
        "the source of 'p' has not ended 0.2 s after its stream and is cut off: let it end sooner, or raise "
        "Limits.close_timeout"
    ]


def test_nobody_listens(stage: Stage) -> None:
    streams = stage.open(listen=None, limits=Limits(handshake_timeout=1.0))
    assert isinstance(outcome(streams, f"127.0.0.1:{free_port()}"), ConnectionLost)
    with silent_port() as address:
        assert isinstance(outcome(streams, address, timeout=0.05), TimeoutError)
    with pytest.raises(ValueError, match="D-15"):
        streams.connect("192.0.2.1:7012")
    until(alone(streams), "giving up")


def test_another_version(stage: Stage) -> None:
    """The dialler is told; the connection is over (R-26)."""
    streams = stage.open(listen=None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        dialled = streams.start_connect(f"127.0.0.1:{server.getsockname()[1]}")
        stream, _ = server.accept()
        with stream:
            stream.sendall(encode(ServerHello(version=5)))
            error = dialled.outcome()
    assert isinstance(error, VersionMismatch)
    until(alone(streams), "the end of the connection")


def test_a_goodbye_instead_of_a_hello_is_told(stage: Stage) -> None:
    """R-25: it does not support our version, and says why."""
    streams = stage.open(listen=None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        dialled = streams.start_connect(f"127.0.0.1:{server.getsockname()[1]}")
        stream, _ = server.accept()
        with stream:
            stream.sendall(encode(Goodbye("speak version 1")))
            error = dialled.outcome()
    assert isinstance(error, HelloRefused)
    assert error.reason == "speak version 1"


@dataclass
class Note:
    text: str


NOTES = Extension(300, (Form(100, Note, {"text": Kind.TEXT}),))


def test_frames_of_an_extension_reach_the_application(stage: Stage) -> None:
    """R-27: in order, and it may answer; whatever it raises, the next one comes."""
    heard: list[str] = []

    def on_frame(peer: Any, frame: Note) -> None:
        heard.append(frame.text)
        if frame.text == "bad":
            raise SystemExit(1)
        if frame.text == "ask":
            peer.send(Note("answer"))

    giver = stage.open(extensions=[NOTES], on_frame=on_frame)
    taker = stage.open(listen=None, extensions=[NOTES], on_frame=on_frame)
    plain = stage.open(listen=None)
    peer = taker.connect(giver)
    assert peer.itself.extensions == {1, 300}, "1 is the sign of life"
    assert plain.connect(giver).itself.extensions == {1}
    for text in ("bad", "ask"):
        peer._call("send", Note(text))
    until(lambda: len(heard) == 3, "the answer")
    assert heard == ["bad", "ask", "answer"]


def test_several_peers(stage: Stage) -> None:
    """The peer to ask must be said; each connection has its own streams and its own end."""
    hub = stage.open(listen=None)
    with pytest.raises(LookupError):
        hub.subscribe("p")
    publishers = [stage.open() for _ in range(3)]
    for number, publisher in enumerate(publishers):
        publisher.publish("p", [b"%d" % number] * 3)
    peers = [hub.connect(publisher) for publisher in publishers]
    with pytest.raises(LookupError, match="3 peers"):
        hub.subscribe("p")
    hub.goodbye(peers[0], "you go")
    until(lambda: len(hub.peers()) == 2, "one end")
    for number in (1, 2):
        assert list(hub.subscribe("p", peer=peers[number])) == [b"%d" % number] * 3
