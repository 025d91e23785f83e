"""Two connections at random over pipes that cut anywhere.

Everything that was sent arrives, whole, once and in order.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tolliver_proto import (
    Closed,
    Connection,
    ConnectionClosing,
    Established,
    Event,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    LocalProtocolError,
    Message,
    Revision,
    Role,
    encode,
)
from tolliver_proto._wire.state import HOLDING, LIVE
from tolliver_proto.layouts import State

from .drive import REVISIONS, VERSIONS
from .strategies import few_names, traffic
from .vectors import ONE, TWO

HANDSHAKE = (HandshakeRequest, HandshakeResponse, HandshakeFinal, Established, Closed)
MOST_REPEATS = 2
big = st.builds(Message, few_names.filter(lambda name: name != "tolliver"), few_names, st.binary(max_size=5000))


class Peer:
    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.sent: list[object] = []
        self.received: list[Event] = []
        self.handshake: list[Event] = []
        self.pipe = bytearray()  # on the way from this peer to the other
        self.repeats = 0
        self.gave_up = False  # closed before the handshake was over: reads nothing more
        self.shut = False


class TwoConnections(RuleBasedStateMachine):
    peers: tuple[Peer, Peer]

    @initialize(
        revision=st.sampled_from(REVISIONS),
        versions=st.tuples(st.sampled_from(VERSIONS), st.sampled_from(VERSIONS)),
        speaks=st.sampled_from([True, True, True, False]),
        ready=st.sampled_from([True, True, False]),
    )
    def connect(self, revision: Revision, versions: tuple[int, int], speaks: bool, ready: bool) -> None:
        """With `ready` the handshake is over when the random part begins."""
        options: dict[str, Any] = {"revision": revision, "speaks": lambda _version: speaks}
        self.peers = (
            Peer(Connection(Role.CLIENT, instance_id=ONE, version=versions[0], **options)),
            Peer(Connection(Role.SERVER, instance_id=TWO, version=versions[1], **options)),
        )
        if ready:
            self.drain(5)

    def other(self, peer: Peer) -> Peer:
        one, two = self.peers
        return two if peer is one else one

    @rule(which=st.integers(0, 1))
    def write(self, which: int) -> None:
        peer = self.peers[which]
        for unit in peer.conn.data_to_send():
            assert unit
            peer.pipe += unit
        assert peer.conn.unsent_bytes == 0

    @rule(which=st.integers(0, 1), size=st.integers(1, 200) | st.just(10**6))
    def deliver(self, which: int, size: int) -> None:
        peer = self.peers[which]
        self.write(which)
        self.other(peer).conn.receive_data(bytes(peer.pipe[:size]))
        del peer.pipe[:size]

    @rule(which=st.integers(0, 1), most=st.integers(1, 10))
    def take(self, which: int, most: int) -> None:
        peer = self.peers[which]
        for _ in range(most):
            event = peer.conn.next_event()
            if event is None:
                break
            assert not peer.handshake or not isinstance(peer.handshake[-1], Closed), "Closed must be the last event"
            (peer.handshake if isinstance(event, HANDSHAKE) else peer.received).append(event)

    @rule(which=st.integers(0, 1))
    def decide(self, which: int) -> None:
        conn = self.peers[which].conn
        if conn.state in HOLDING:
            conn.accept()

    @rule(which=st.integers(0, 1), data=st.data())
    def send(self, which: int, data: st.DataObject) -> None:
        peer = self.peers[which]
        frame = data.draw(traffic(peer.conn.revision) | big)
        state, unsent = peer.conn.state, peer.conn.unsent_bytes
        if state in LIVE:
            peer.conn.send(frame)
            peer.sent.append(frame)
            return
        late = state in (State.CLOSING, State.CLOSED)
        with pytest.raises(ConnectionClosing if late else LocalProtocolError):
            peer.conn.send(frame)
        assert (peer.conn.state, peer.conn.unsent_bytes) == (state, unsent)

    @rule(which=st.integers(0, 1))
    def repeat_the_handshake(self, which: int) -> None:
        """As a foreign peer may (T-66); ours never does."""
        peer = self.peers[which]
        if peer.conn.state is State.ESTABLISHED and self.other(peer).conn.state in LIVE and peer.repeats < MOST_REPEATS:
            peer.repeats += 1
            self.write(which)
            peer.pipe += encode(HandshakeRequest(peer.conn.version, peer.conn.instance_id), peer.conn.revision)

    @precondition(lambda self: any(peer.sent for peer in self.peers))
    @rule(which=st.integers(0, 1))
    def close(self, which: int) -> None:
        peer = self.peers[which]
        peer.gave_up |= peer.conn.state not in LIVE and peer.conn.state is not State.CLOSING
        peer.conn.close()

    @invariant()
    def what_arrived_is_what_was_sent_first(self) -> None:
        for peer in getattr(self, "peers", ()):
            sent = self.other(peer).sent
            assert peer.received == sent[: len(peer.received)]

    def drain(self, rounds: int) -> None:
        for _ in range(rounds):
            for which, peer in enumerate(self.peers):
                self.deliver(which, 10**9)
                if peer.conn.wants_write_shutdown and not peer.shut:
                    peer.shut = True
                    self.other(peer).conn.receive_eof()
                self.decide(which)
                self.take(which, 10**6)
            self.what_arrived_is_what_was_sent_first()

    def teardown(self) -> None:
        """Drain, then compare."""
        if not hasattr(self, "peers"):
            return
        self.drain(50)
        for peer in self.peers:
            ends = [event for event in peer.handshake if isinstance(event, Closed)]
            other = self.other(peer)
            if not peer.gave_up:
                assert peer.received == other.sent
            if ends and not (peer.gave_up or other.gave_up):
                assert ends[0].error is None or isinstance(ends[0].error, HandshakeRejected)
            assert len([event for event in peer.handshake if isinstance(event, Established)]) <= 1
            assert peer.conn.buffered_bytes == 0 or peer.conn.state is State.CLOSED


TestTwoConnections = TwoConnections.TestCase
TestTwoConnections.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
