"""Paths of moves over two real nodes with their stores: each move from each state, and each trace held to the model.

python -m model.paths             one message, one trouble
python -m model.paths 1 2         one message, two troubles

A move is an action of the model, or what an adapter must do for one: give bytes, commit, report. From the start each
move that is possible is made, then each from where that led, until no state is new; a state is what can be seen from
outside: who is up, what is on the wires, in the stores, and with the handler. All steps of a path are taken by
`machine.accept`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from model.machine import Step, accept
from tolliver_proto import (
    Abort,
    Commit,
    ConnectionLost,
    Deliver,
    Dial,
    Fetch,
    Node,
    PeerIdentity,
    Policy,
    Receipt,
    Revision,
    Role,
    Stored,
    StoreError,
    Subscription,
    Transmit,
)
from tolliver_proto._testing.steps import StepWriter
from tolliver_proto.store import AddOwnSubscription, Find
from tolliver_proto.testing import MemoryStore

_POLICY = Policy(dedupe=100, dedupe_durable=True, unsubscribed_hold=30.0)
_RETRY, _MOST = 1.0, 400  # seconds; calls that one move may cost
WANTED = Subscription("c", "k")


class Side:
    """A process with its store."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.uuid = name, UUID(int=0x0189 << 112 | 7 << 76 | 8 << 60 | number)
        self.store = MemoryStore()
        self.copy: MemoryStore | None = None
        self.node: Node | None = None
        self.born = 0
        self.begin()

    def begin(self) -> None:
        self.ends: dict[int, None] = {}
        self.job: Commit | None = None
        self.is_synced = False
        self.inbox: list[Any] = []
        self.out: list[bytes] = []
        self.dial: int | None = None

    def time(self, now: float) -> float:
        return now


class End(NamedTuple):
    """One end of a connection."""

    host: Side
    cid: int


class World:
    """A sender, a receiver and the line between them; `moves` are those that are possible now."""

    def __init__(self, messages: int, troubles: int) -> None:
        self.now, self.sent, self.messages, self.left = 0.0, 0, messages, troubles
        self.steps: list[Step] = []
        self.writer = StepWriter(self.steps.append, lambda: self.now, lambda: Revision.DRAFT_2)
        self.sender, self.receiver = Side("sender", 1), Side("receiver", 2)
        self.receiver.store.commit([AddOwnSubscription(WANTED)])
        for side in (self.sender, self.receiver):
            self.open(side)

    # The adapter.

    def call(self, side: Side, name: str, *arguments: Any) -> Any:
        assert side.node is not None
        self.writer.called(side, name, arguments)
        result = getattr(side.node, name)(*arguments, now=self.now)
        self.drain(side)
        return result

    def drain(self, side: Side) -> None:
        for _ in range(_MOST):
            node = side.node
            action = node.next_action() if node is not None else None
            if node is None or action is None:
                return
            self.writer.acted(side, action)
            if isinstance(action, Transmit):
                side.out.extend(action.units)
                node.sent(action.cid, now=self.now)
            elif isinstance(action, Commit):
                side.job, side.is_synced = action, False
            elif isinstance(action, Fetch):
                rows = side.store.fetch(action.peer, action.after_seq, action.max_count, action.max_bytes)
                node.fetched(action.peer, rows, now=self.now)
            elif isinstance(action, Find):
                node.found(action.search_id, action.ask(side.store), now=self.now)
            elif isinstance(action, Deliver):
                side.inbox.extend(action.deliveries)
            elif isinstance(action, Dial):
                side.dial = action.cid
            elif isinstance(action, Abort):
                side.ends.pop(action.cid, None)
            elif isinstance(action, Stored) and action.error is None:
                for one in action.tokens:
                    if isinstance(one, Receipt) and one.counts:
                        node.watch(one)
        raise AssertionError("a node does not come to rest")

    def open(self, side: Side) -> None:
        side.born += 1
        side.begin()
        side.node = Node(
            instance_id=side.uuid,
            rng=Random(side.born),
            loaded=side.store.reopen().load(),
            handlers=[(*WANTED, "handler")],
            retry_interval=_RETRY,
            policy=_POLICY,
            now=self.now,
        )
        self.writer.began(side, 30.0, _RETRY, _POLICY)
        if side is self.sender:
            self.call(side, "connect", "receiver")

    def kill(self, side: Side) -> None:
        self.writer.ended(side)
        side.node = None
        other = self.receiver if side is self.sender else self.sender
        self.lose(other)
        side.begin()

    def lose(self, side: Side) -> None:
        for cid in list(side.ends):
            side.ends.pop(cid)
            self.call(side, "lost", cid, ConnectionLost("cut"))
        side.out.clear()

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        for _ in range(_MOST):
            due = [
                (when, side)
                for side in (self.sender, self.receiver)
                if side.node is not None and (when := side.node.next_timeout()) is not None and when <= until
            ]
            if not due:
                break
            when, side = min(due, key=lambda one: one[0])
            self.now = max(self.now, when)
            self.call(side, "handle_timeout")
        self.now = until

    # The moves.

    def moves(self) -> dict[str, Callable[[], None]]:
        sender, receiver, found = self.sender, self.receiver, dict[str, Callable[[], None]]()
        is_joined = bool(sender.ends and receiver.ends)
        if sender.node is not None:
            if self.sent < self.messages and sender.job is None:
                found["Send"] = self.send
            if not is_joined and receiver.node is not None:
                found["Connect"] = self.connect
        for side, prefix in ((sender, ""), (receiver, "R")):
            if side.node is None:
                found[f"{prefix}Open"] = partial(self.open, side)
                if side.copy is not None:
                    found[f"{prefix}Restore"] = partial(self.restore, side)
                continue
            if side.job is not None and not side.is_synced:
                found["Write Sync" if side is sender else "RSync"] = partial(self.sync, side)
            if side.job is not None and side.is_synced:
                found["Return" if side is sender else "Settle"] = partial(self.learn, side)
            if self.left:
                found[f"{prefix}Kill"] = partial(self.trouble, self.kill, side)
                if side.copy is None:
                    found[f"{prefix}TakeCopy"] = partial(self.trouble, self.take_copy, side)
                if side.job is not None and not side.is_synced:
                    found[f"{prefix}Refuse"] = partial(self.trouble, self.refuse, side)
        if is_joined and sender.out:
            found["Receive"] = partial(self.give, sender, receiver)
        if is_joined and receiver.out:
            found["GetAck"] = partial(self.give, receiver, sender)
        if receiver.node is not None and receiver.inbox:
            found["Handle"] = self.handle
            if self.left:
                found["Fail"] = partial(self.trouble, self.fail)
        if is_joined and self.left:
            found["Cut"] = partial(self.trouble, self.cut)
        return found

    def trouble(self, move: Callable[..., None], *sides: Side) -> None:
        self.left -= 1
        move(*sides)

    def handle(self) -> None:
        self.call(self.receiver, "acknowledge", [self.receiver.inbox.pop(0)])

    def fail(self) -> None:
        self.call(self.receiver, "fail", [self.receiver.inbox.pop(0)])

    def send(self) -> None:
        node, item = self.sender.node, (*WANTED, b"message %d" % self.sent)
        assert node is not None
        self.sent += 1
        receipt = node.send_many([item], now=self.now)
        self.writer.sends(self.sender, receipt, [item])
        self.drain(self.sender)

    def connect(self) -> None:
        for _ in range(60):
            if self.sender.dial is not None:
                break
            self.tick(1.0)
        cid, self.sender.dial = self.sender.dial, None
        if cid is None:
            return  # the node dials again when its store has answered
        assert self.receiver.node is not None
        other = self.receiver.node.new_cid(self.now, "sender")
        assert other is not None
        ends = [(self.sender, cid, Role.CLIENT), (self.receiver, other, Role.SERVER)]
        for side, number, _ in ends:
            side.ends[number] = None
            side.out.clear()
        self.writer.joined(*(End(side, number) for side, number, _ in ends))
        for side, number, role in ends:
            self.call(side, "opened", number, role, PeerIdentity(address="other"))

    def give(self, source: Side, to: Side) -> None:
        data, source.out = b"".join(source.out), []
        self.call(to, "receive_data", next(iter(to.ends)), data)

    def sync(self, side: Side) -> None:
        assert side.job is not None
        side.store.commit(side.job.operations)
        self.writer.stores(side, side.job, False)
        side.is_synced = True

    def learn(self, side: Side) -> None:
        job, side.job = side.job, None
        assert job is not None
        self.call(side, "committed", job.batch_id)
        self.tick(0.1)  # removals wait for a moment

    def refuse(self, side: Side) -> None:
        job, side.job = side.job, None
        assert job is not None
        self.writer.stores(side, job, True)
        self.call(side, "store_failed", job.batch_id, StoreError("no"))

    def cut(self) -> None:
        for side in (self.sender, self.receiver):
            self.lose(side)

    def take_copy(self, side: Side) -> None:
        side.copy = side.store.snapshot()

    def restore(self, side: Side) -> None:
        assert side.copy is not None
        side.store, side.copy = side.copy.snapshot(), None
        self.writer.put_back(side)

    def seen(self) -> tuple[object, ...]:
        """State as it can be seen from outside."""
        sides = [
            (
                side.node is not None,
                len(side.ends),
                [type(one).__name__ for one in side.job.operations] if side.job else None,
                side.is_synced,
                [one.message_id is not None and one.body for one in side.inbox],
                [len(one) for one in side.out],
                [(one.body, sorted(map(str, side.store.load().peers))) for one in side.store.messages],
                len(list(side.store.load().handled)),
                side.copy is not None and side.copy.commits == side.store.commits,
                side.copy is not None,
                side.node.stats().pending if side.node is not None else 0,
            )
            for side in (self.sender, self.receiver)
        ]
        return (self.sent, self.left, repr(sides))


def walked(messages: int, troubles: int) -> tuple[int, int, Counter[str]]:
    """Make every move from every state; returns the numbers of states and of transitions, and these by move."""
    todo: deque[tuple[str, ...]] = deque([()])
    known: set[object] = {World(messages, troubles).seen()}
    made: Counter[str] = Counter()
    while todo:
        path = todo.popleft()
        world = _after(messages, troubles, path)
        for name in world.moves():
            made[name] += 1
            then = _after(messages, troubles, (*path, name))
            accept(then.steps, whole=False)
            state = then.seen()
            if state not in known:
                known.add(state)
                todo.append((*path, name))
    return len(known), made.total(), made


def _after(messages: int, troubles: int, path: tuple[str, ...]) -> World:
    world = World(messages, troubles)
    for name in path:
        try:
            world.moves()[name]()
        except AssertionError as error:
            raise AssertionError(f"{' '.join(path)}: {error}") from error
    return world


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("messages", type=int, nargs="?", default=1, help="how many are sent")
    parser.add_argument("troubles", type=int, nargs="?", default=1, help="crashes, restores, cuts, errors in a history")
    options = parser.parse_args()
    messages, troubles = options.messages, options.troubles
    states, transitions, made = walked(messages, troubles)
    for name, count in sorted(made.items()):
        print(f"{name:12} {count:,}")
    print(
        f"result: paths | {messages} messages, {troubles} troubles: {states:,} states | {transitions:,} transitions, "
        f"each made on real nodes with their stores, {len(made)} kinds of moves; every trace accepted"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
