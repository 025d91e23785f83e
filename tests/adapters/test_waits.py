"""Calls that wait for a condition are woken whenever it may have come true."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._driver.pending import PendingCall
from tolliver._messages.waits import WAKES, Condition, Connected, Responded, Subscribed, Waits

from tests.certificates import Certificates
from tests.patterns.play import HIGH, LOW, Play, Wire
from tests.raw import RawPeer
from tolliver_proto import Acl, Action, ConnectionLost, Dial, Limits, Policy, Rights, Subscribe, Unsubscribe
from tolliver_proto.node import Answered, Asked

from .facade import Facade, until
from .nodes import Nodes, address, silent_port, subscribed

REQUESTS = "tolliver.request/sums"
NAMES = ("news", REQUESTS, "")
PEERS = (LOW, HIGH)
REMOTES = ("one", "two")
CONDITIONS: list[Condition] = [
    *(Connected(remote, keeps_trying) for remote in REMOTES for keeps_trying in (False, True)),
    *(Subscribed(name, "", peers, connected) for name in NAMES[:2] for peers in (1, 2) for connected in (False, True)),
    *(Responded("sums", "", peers) for peers in (1, 2)),
]
LISTS = st.frozensets(st.sampled_from(NAMES)).map(lambda names: tuple((name, "") for name in sorted(names)))


class Scene(Play):
    """A node with a call for each condition, as an adapter has them, and requests that wait for a responder."""

    def __init__(self) -> None:
        self.dials: list[Dial] = []
        self.asked: list[Asked] = []
        self.told: set[bytes] = set()
        super().__init__(limits=Limits(redial_first=0.1), policy=Policy(unsubscribed_hold=3), tell_events=True)
        self.waits = Waits(self.node)
        self.calls: dict[Condition, PendingCall[Any]] = {}
        self.look()

    def run(self) -> list[Action]:
        actions = super().run()
        for action in actions:
            if type(action) in WAKES:
                self.waits.look_again(action)
            elif isinstance(action, Dial):
                self.dials.append(action)
            elif isinstance(action, Answered):
                self.asked.remove(action.asked)
        for wire in self.wires.values():
            self.told.update(message.body[:8] for message in wire.messages())
        return actions

    def look(self) -> None:
        """Nobody is left waiting for what is so. Those who got their answer wait anew."""
        for condition in CONDITIONS:
            call = self.calls.get(condition)
            if call is None or call.done:
                self.calls[condition] = self.waits.of(condition)
            else:
                assert condition.answer(self.node) is None, f"{condition} is left waiting"
        if not self.held and self.requests.responders("sums", ""):
            assert all(asked.request_id.to_bytes(8) in self.told for asked in self.asked), "a request is left waiting"

    # Events. A number says to which of those that there are.

    def comes(self, peer: UUID, listed: tuple[tuple[str, str], ...]) -> None:
        self.accepted(peer).request(*listed)

    def is_dialled(self, which: int, peer: UUID, listed: tuple[tuple[str, str], ...] | None) -> None:
        if not self.dials:
            return
        dial = self.dials.pop(which % len(self.dials))
        if listed is None:
            self.call("dial_failed", dial.cid, ConnectionLost("nobody is there"))
        else:
            self.dialled([dial], peer).respond(*listed)

    def says(self, which: int, name: str, wants: bool) -> None:
        wire = self._wire(which)
        if wire is not None:
            wire.send((Subscribe if wants else Unsubscribe)(name, "", 7))

    def goes(self, which: int) -> None:
        wire = self._wire(which)
        if wire is not None:
            wire.lose()

    def ends(self, which: int) -> None:
        wire = self._wire(which)
        if wire is not None:
            wire.end()

    def asks(self, timeout: float) -> None:
        self.asked.append(self.requests.request("sums", "", b"", timeout, self.now))
        self.run()

    def connects(self, remote: str) -> None:
        self.call("connect", remote)

    def disconnects(self, remote: str) -> None:
        self.call("disconnect", remote)

    def forgets(self, peer: UUID) -> None:
        self.call("forget_peer", peer)

    def allows(self, peer: UUID, patterns: tuple[tuple[str, str], ...]) -> None:
        self.call("set_acl", Acl(peers={peer: Rights(subscribe=patterns)}))

    def stores(self, well: bool) -> None:
        """The commit that runs ends."""
        if self.held:
            (self.finish if well else self.fail)()

    def holds(self, commits: bool) -> None:
        """From now on they take their time, or none."""
        self.hold_commits = commits

    def waits_for(self, seconds: float) -> None:
        self.wait(seconds)

    def _wire(self, which: int) -> Wire | None:
        wires = [*self.wires.values()]
        return wires[which % len(wires)] if wires else None


def happens(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.tuples(st.just(name), st.tuples(*arguments))


WHICH, PEER, REMOTE, NAME = st.integers(0, 7), st.sampled_from(PEERS), st.sampled_from(REMOTES), st.sampled_from(NAMES)
EVENTS = st.one_of(
    happens("comes", PEER, LISTS),
    happens("connects", REMOTE),
    happens("is_dialled", WHICH, PEER, st.none() | LISTS),
    happens("says", WHICH, NAME, st.booleans()),
    happens("goes", WHICH),
    happens("ends", WHICH),
    happens("asks", st.sampled_from((1.0, 100.0))),
    happens("disconnects", REMOTE),
    happens("forgets", PEER),
    happens("allows", PEER, st.sampled_from(((), (("news", "*"),), (("*", "*"),)))),
    happens("stores", st.booleans()),
    happens("holds", st.booleans()),
    happens("waits_for", st.sampled_from((0.0, 0.5, 4.0, 15.0))),
)


@given(st.lists(EVENTS, min_size=5, max_size=30))
def test_nobody_is_left_waiting_for_what_is_so(events: list[tuple[str, tuple[Any, ...]]]) -> None:
    """A call that would be answered at once, if it were made now, has been answered."""
    scene = Scene()
    for name, arguments in events:
        getattr(scene, name)(*arguments)
        scene.look()


def test_a_peer_that_went_without_a_word_comes_back_and_wants_more(nodes: Nodes, certs: Certificates) -> None:
    """Its list is stored while its old connection is the live one, and counts from the take-over on (T-70)."""

    def bob(*wants: str) -> RawPeer:
        return RawPeer(alice.port or 0, certs.tls("bob"), certs.uuid("bob"), wants)

    with nodes.open("alice") as alice, bob("other") as old, bob("other", "news", REQUESTS) as new:
        old.establish()
        subscribed(alice)
        calls = [
            alice.start("wait_subscribed", "news", timeout=50),
            alice.start("wait_subscribed", "news", connected=True, timeout=50),
            alice.start("wait_responder", "sums", timeout=50),
        ]
        until(lambda: alice.stats().connections == 2)
        new.establish()
        assert [call.wait() for call in calls] == [1, 1, 1]


# Texts of calls that wait.


def too_late(node: Facade, name: str, *args: Any, **options: Any) -> str:
    with pytest.raises(TimeoutError) as late:
        node.start(name, *args, timeout=0.001, **options).wait()
    return str(late.value)


def test_whoever_waits_for_a_subscriber_hears_what_has_been_seen(nodes: Nodes) -> None:
    with nodes.open("right", listen="127.0.0.1:0") as right, nodes.open("left") as left:
        told = too_late(left, "wait_subscribed", "orders", "k")
        assert told.startswith("after 0.001 s fewer than 1 peers subscribe to 'orders' 'k': no peer is known yet: ")
        left.new_connection(address(right))
        peer = right.instance_id
        assert f"peer {peer} is connected and subscribes to nothing. Have" in too_late(
            left, "wait_subscribed", "orders"
        )
        for channel in ("a\x1b", "b", "c", "d", "e"):
            right.subscribe(channel)
        subscribed(left, 5)
        told = too_late(left, "wait_subscribed", "orders")
        assert rf"peer {peer} is connected and subscribes to 'a\x1b' '', 'b' '', 'c' '', 2 others. Have a peer" in told
        right.subscribe("", "k")
        subscribed(left, 6)
        told = too_late(left, "wait_subscribed", "orders", "k", peers=2)
        assert f"fewer than 2 peers subscribe to 'orders' 'k': peer {peer} is connected and subscribes to it. " in told
        told = too_late(left, "wait_responder", "orders", "k")
        assert "fewer than 1 connected peers respond to 'orders' 'k', by calling `respond`: 1 are connected" in told
        right.close()
        until(lambda: not left.stats()["peers_up"])
        told = too_late(left, "wait_subscribed", "orders", "k", connected=True)
        assert f"peer {peer} is not connected and subscribes to it; not connected: {address(right)} (" in told


def test_whoever_waits_for_a_connection_hears_that_nothing_answers(nodes: Nodes) -> None:
    with nodes.open("left") as left, silent_port() as remote:
        told = too_late(left, "new_connection", remote)
        assert f"there is no connection to {remote} yet (no answer so far; tried once): it is dialled until" in told
