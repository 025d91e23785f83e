"""Node on a stage: inputs by hand, actions seen, peers in frames.

Tests read as a playbook. `Play.run()` takes all actions; the mechanical ones (write, commit, fetch) are done at once
unless the test holds them back, the others are returned. A `Wire` is a peer reduced to the frames that it sends and
gets.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar
from uuid import UUID

from tolliver_proto import (
    Abort,
    Ack,
    Action,
    Commit,
    Decoder,
    Deliver,
    Delivery,
    Dial,
    Fetch,
    Frame,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    Message,
    Node,
    NoticeKind,
    PeerIdentity,
    Revision,
    Role,
    StoreError,
    Subscription,
    Transmit,
    encode,
)
from tolliver_proto._node.actions import LOOK
from tolliver_proto._testing.memory_store import MemoryStore
from tolliver_proto._testing.randomness import BeginAt
from tolliver_proto.errors import DiskFull
from tolliver_proto.layouts import Decoded
from tolliver_proto.store import Find

ME = UUID("01890000-0000-7000-8000-00000000000a")
LOW = UUID("01890000-0000-7000-8000-000000000001")
HIGH = UUID("01890000-0000-7000-8000-0000000000ff")
OTHER = UUID("01890000-0000-7000-8000-000000000002")

_A = TypeVar("_A")


class Dice:
    """A random generator that always says the same."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


class Wire:
    """The other end of one connection."""

    def __init__(self, play: Play, cid: int, uuid: UUID, revision: Revision = Revision.DRAFT_2) -> None:
        self.play = play
        self.cid = cid
        self.uuid = uuid
        self.revision = revision
        self.units: list[bytes] = []
        self._frames: list[Decoded] = []
        self._decoder = Decoder(revision)

    def write(self, unit: bytes) -> None:
        self.units.append(unit)
        self._decoder.feed(unit)
        while (frame := self._decoder.next_frame()) is not None:
            self._frames.append(frame)

    def got(self) -> list[Decoded]:
        """Frames that came since the last question."""
        frames, self._frames = self._frames, []
        return frames

    def messages(self) -> list[Message]:
        return [frame for frame in self.got() if isinstance(frame, Message)]

    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages()]

    def acks(self) -> list[int]:
        return [frame.message_id for frame in self.got() if isinstance(frame, Ack)]

    def send(self, *frames: Frame) -> list[Action]:
        """These frames arrive together; returns what came of it."""
        data = b"".join(encode(frame, self.revision) for frame in frames)
        self.play.node.receive_data(self.cid, data, now=self.play.now)
        return self.play.run()

    def ack(self, *messages: Message) -> list[Action]:
        return self.send(*(Ack(message.message_id) for message in messages if message.message_id is not None))

    def request(self, *subscriptions: tuple[str, str], version: int = 1) -> list[Action]:
        return self.send(HandshakeRequest(version, self.uuid, subscribed(*subscriptions)))

    def respond(self, *subscriptions: tuple[str, str], version: int = 1, status: int = 0) -> list[Action]:
        listed = subscribed(*subscriptions)
        return self.send(HandshakeResponse(version, self.uuid, HandshakeStatus(status), listed))

    def lose(self, error: Any = None) -> list[Action]:
        self.play.wires.pop(self.cid, None)
        self.play.node.lost(self.cid, error, now=self.play.now)
        return self.play.run()

    def end(self) -> list[Action]:
        self.play.node.receive_eof(self.cid, now=self.play.now)
        return self.play.run()


class Play:
    """One node, its store and its stage."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        store: MemoryStore | None = None,
        uuid: UUID = ME,
        first_id: int = 1,
        **options: Any,
    ) -> None:
        self.store = store or MemoryStore()
        self.dice = Dice()
        self.now = 0.0
        self.begun = self.store.now  # by the store's clock
        self.wires: dict[int, Wire] = {}
        self.hold_commits = False  # Commit waits in `held` until `finish`
        self.hold_writes = False  # `sent` is not reported until `written`
        self.hold_fetches = False
        self.hold_searches = False
        self.searches: list[Find] = []
        self.search_error: StoreError | None = None
        self.finds = 0
        self.looked_at_clocks: list[float] = []
        self.held: list[Commit] = []
        self.fetches: list[Fetch] = []
        self.commits: list[Commit] = []
        self.unreported: list[int] = []
        self.node = Node(
            instance_id=uuid,
            rng=BeginAt(self.dice, first_id),
            limits=limits,
            loaded=self.store.reopen().load(),
            now=0.0,
            **options,
        )

    # Events in its life.

    def run(self) -> list[Action]:
        """All actions; those that are done here are not returned."""
        left: list[Action] = []
        for _ in range(10_000):
            action = self.node.next_action()
            if action is None:
                return left
            if self._takes(action):
                pass
            elif isinstance(action, Transmit):
                self._transmit(action)
            elif isinstance(action, Commit):
                self.commits.append(action)
                self.held.append(action)
                if not self.hold_commits:
                    self._commit()
            elif isinstance(action, Fetch):
                self.fetches.append(action)
                if not self.hold_fetches:
                    self._fetch()
            elif isinstance(action, Find):
                if action is LOOK:
                    self.looked_at_clocks.append(self.now)
                else:
                    self.finds += 1
                self.searches.append(action)
                if not self.hold_searches:
                    self._search()
            else:
                left.append(action)
        raise AssertionError(f"the node is never done: {action}")

    def _takes(self, _action: Action) -> bool:
        """True for an action that a stage of more than the kernel does itself."""
        return False

    def _transmit(self, action: Transmit) -> None:
        wire = self.wires.get(action.cid)
        for unit in action.units:
            if wire is not None:
                wire.write(unit)
        self.unreported.append(action.cid)
        if not self.hold_writes:
            self._report_writes()

    def _report_writes(self) -> None:
        for cid in self.unreported:
            self.node.sent(cid, now=self.now)
        self.unreported.clear()

    def _commit(self) -> None:
        commit = self.held.pop(0)
        self.store.now = self.begun + self.now
        try:
            self.store.commit(commit.operations)
        except DiskFull as error:
            self.node.store_failed(commit.batch_id, error, now=self.now)
        else:
            self.node.committed(commit.batch_id, now=self.now)

    def _fetch(self) -> None:
        fetch = self.fetches[-1]
        rows = self.store.fetch(fetch.peer, fetch.after_seq, fetch.max_count, fetch.max_bytes)
        self.node.fetched(fetch.peer, rows, now=self.now)

    def _search(self) -> None:
        find = self.searches.pop(0)
        self.store.now = self.begun + self.now
        rows = find.ask(self.store)
        if self.search_error is None:
            self.node.found(find.search_id, rows, now=self.now)
        else:
            self.node.found(find.search_id, [], self.search_error, now=self.now)

    def looked(self) -> list[Action]:
        """The search that was held back is done."""
        if self.searches:
            self._search()
        return self.run()

    def finish(self) -> list[Action]:
        """The commit that was held back is through."""
        self._commit()
        return self.run()

    def fail(self, error: StoreError | None = None) -> list[Action]:
        """It was not applied."""
        commit = self.held.pop(0)
        self.node.store_failed(commit.batch_id, error or StoreError("disk full"), now=self.now)
        return self.run()

    def written(self) -> list[Action]:
        self._report_writes()
        return self.run()

    def fetched(self) -> list[Action]:
        self._fetch()
        return self.run()

    def wait(self, seconds: float) -> list[Action]:
        """That much later, with every timeout on the way at its time."""
        end = self.now + seconds
        actions = self.run()
        for _ in range(10_000):
            due = self.node.next_timeout()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.node.handle_timeout(now=self.now)
            actions += self.run()
        else:
            raise AssertionError(f"timeouts without end: {self.node.timeout_reason}")
        self.now = end
        self.node.handle_timeout(now=end)
        return actions + self.run()

    def call(self, name: str, *arguments: Any, **options: Any) -> list[Action]:
        getattr(self.node, name)(*arguments, now=self.now, **options)
        return self.run()

    def send(self, channel: str, key: str, body: bytes, **terms: Any) -> Any:
        receipt = self.node.send(channel, key, body, now=self.now, **terms)
        self.run()
        return receipt

    # Peers.

    def new_cid(self) -> int:
        """Of a connection that came in."""
        cid = self.node.new_cid(now=self.now)
        assert cid is not None, "too many handshakes (D-7)"
        return cid

    def accepted(self, uuid: UUID = LOW, identity: PeerIdentity | None = None, **options: Any) -> Wire:
        """A transport that a peer opened; it has said nothing yet."""
        return self._open(self.new_cid(), Role.SERVER, uuid, identity, **options)

    def dialled(
        self, actions: list[Action], uuid: UUID = LOW, identity: PeerIdentity | None = None, **options: Any
    ) -> Wire:
        """The one Dial among these succeeded; the peer has not answered yet."""
        return self._open(only(actions, Dial).cid, Role.CLIENT, uuid, identity, **options)

    def _open(self, cid: int, role: Role, uuid: UUID, identity: PeerIdentity | None, **options: Any) -> Wire:
        wire = self.wires[cid] = Wire(self, cid, uuid, **options)
        self.node.opened(cid, role, identity or PeerIdentity(address=str(uuid)), now=self.now)
        self.run()
        return wire

    def peer(self, uuid: UUID = LOW, *subscriptions: tuple[str, str]) -> Wire:
        """A peer that dialled us, its handshake over."""
        wire = self.accepted(uuid)
        wire.request(*subscriptions)
        wire.got()
        return wire

    def knows(self, uuid: UUID = LOW) -> set[Subscription]:
        """Subscriptions of the peer, as the node routes."""
        return {one for peer in self.node.peers() if peer.uuid == uuid for one in peer.subscriptions}

    def pending(self, uuid: UUID = LOW) -> int:
        return sum(peer.pending for peer in self.node.peers() if peer.uuid == uuid)

    def restart(self, **options: Any) -> Self:
        """The same instance after a crash: what is committed is all that is left."""
        return type(self)(store=self.store.snapshot(), limits=self.node.limits, **options)


def subscribed(*subscriptions: tuple[str, str]) -> tuple[Subscription, ...]:
    return tuple(Subscription(*one) for one in subscriptions)


def only(actions: list[Action], kind: type[_A]) -> _A:
    """The one action of that kind."""
    found = every(actions, kind)
    assert len(found) == 1, f"one {kind.__name__} expected among {actions}"
    return found[0]


def every(actions: list[Action], kind: type[_A]) -> list[_A]:
    return [action for action in actions if isinstance(action, kind)]


def deliveries(actions: list[Action]) -> list[Delivery]:
    return [delivery for deliver in every(actions, Deliver) for delivery in deliver.deliveries]


def notices(actions: list[Action]) -> list[NoticeKind]:
    return [action.kind for action in actions if hasattr(action, "kind")]


def aborted(actions: list[Action]) -> list[int]:
    return [abort.cid for abort in every(actions, Abort)]
