"""World of two or three nodes: wires, disks, applications, a stranger.

One object is adapter, disk, network and application at once, so it can do to the nodes whatever those could, in any
order. The simulator's witnesses judge every byte and every commit (I1, I2, I3), its audit compares tables with the
store (I6). At the end the faults stop, and what was promised is compared with what was handled (I4).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

from tolliver_proto import (
    Abort,
    Acl,
    Commit,
    ConnectionLost,
    Deliver,
    Delivery,
    Dial,
    Fetch,
    Limits,
    Message,
    Node,
    Notice,
    NoticeKind,
    PauseReading,
    PeerIdentity,
    PeerUp,
    Policy,
    RemoteProtocolError,
    ResumeReading,
    Revision,
    Role,
    ShutdownWrite,
    Stored,
    StoreError,
    Subscription,
    Transmit,
)
from tolliver_proto._node.subscriptions import matching
from tolliver_proto._testing.inspection import inside
from tolliver_proto._testing.invariants import Ledger, Sent, WireWitness, audit, check, check_memory
from tolliver_proto._testing.world import LOSSY, POLICIES, RETRY_INTERVAL, ROOMY, TIGHT
from tolliver_proto.layouts import Dialect
from tolliver_proto.node import PATTERNS, Acked
from tolliver_proto.store import AddDeadLetter, Find, ForgetPeer, Operation
from tolliver_proto.testing import BeginAt, MemoryStore

UUIDS = [UUID(f"01890000-0000-7000-8000-00000000000{number}") for number in range(1, 4)]
STRANGER = UUID("01890000-0000-7000-8000-00000000000f")
LIMITS = (
    TIGHT,
    ROOMY,
    replace(TIGHT, max_attempts=2, attempts_remembered=2, control_per_second=2, max_handshakes=2, max_body=170),
)
_ODD = Policy(probe="ack", probe_interval=3)  # with peers that ignore the list of a handshake
POLICY = (*POLICIES[1:], Policy(strict_block=True), _ODD, LOSSY)
NO_ID = 2**31 - 1  # no message has it: an ack of it says nothing (T-80)
STARTS = (1, 2**31 - 20, 2**31 - 3, 5000)
_MOST_ROUNDS = 3000


class Book(Ledger):
    """The ledger of a node whose messages may be given up: by `forget_peer` there, or as dead letters here."""

    def __init__(self, uuid: UUID) -> None:
        super().__init__(uuid, [Subscription("p", "")])
        self.settled: set[int] = set()  # ids of the stranger's that were handled or given up
        self.watched: dict[object, list[Sent]] = {}

    def applied(self, operations: Sequence[Operation], now: float = 0.0) -> list[tuple[UUID, bytes]]:
        for operation in operations:
            if isinstance(operation, AddDeadLetter) and operation.letter.peer == STRANGER:
                self.settled.add(operation.letter.message_id)
        return super().applied(operations, now)

    def forgive(self, peer: UUID) -> None:
        """Messages promised to this peer so far need not reach it."""
        for sent in self.sent.values():
            self.acked.add((peer, sent.body))
            sent.due_to.discard(peer)


class Site:
    """One instance: its store and book, which survive, and its node, which may not."""

    def __init__(self, name: str, ledger: Book, store: MemoryStore, limits: Limits) -> None:
        self.name = name
        self.ledger = ledger
        self.store = store
        self.limits = limits
        self.node: Node | None = None
        self.acl = Acl()
        self.closing = False
        self.blocked: set[int] = set()  # remotes
        self.stale: set[Delivery] = set()  # handed out before their peer was forgotten
        self.audited = 0  # commits that the audit has seen
        self.jobs: deque[Commit | Fetch | Find] = deque()
        self.opening: dict[int, int] = {}  # cid -> how many messages had been sent when it opened (T-62)
        self.log: list[Sent] = []


class Witness(WireWitness):
    """One end of a connection between two of the nodes."""

    _ledger: Book

    def _own_ack(self, message_id: int) -> None:
        frame = self._received.get(message_id)
        if not isinstance(frame, Message) or frame.body not in self._ledger.letters:
            super()._own_ack(message_id)


class StrangersWitness(WireWitness):
    """The nodes' end of a connection to the stranger, which keeps to no rule: what must hold nevertheless."""

    _ledger: Book
    _deaf = False

    def receive(self, data: bytes) -> None:
        if self._deaf:
            return
        might_talk = self._may_talk
        try:
            for at in range(len(data)):  # one by one: what stands before something wrong counts
                super().receive(data[at : at + 1])
        except RemoteProtocolError:
            self._deaf = True
        self._may_talk = self._may_talk or might_talk  # no later words take that back
        if self.peer is not None:
            self.peer = STRANGER  # its certificate names nobody else

    def _own_handshake(self, frame: object) -> None:
        self._may_talk = True  # the other rules of handshakes are between well-meaning peers

    def _own_ack(self, message_id: int) -> None:
        frame = self._received.get(message_id)
        check(message_id == NO_ID or frame is not None, f"Ack {message_id} for nothing that came (T-49)")
        if isinstance(frame, Message) and self._ledger.always_wants(frame):
            known = message_id in self.acknowledged or message_id in self._ledger.settled
            check(known, f"Ack {message_id} before a handler had succeeded (I2)")


class End:
    """One side of a wire; `other` is None where the stranger is there, or nobody any more."""

    def __init__(self, host: Site, cid: int, role: Role, proved: PeerIdentity, witness: WireWitness) -> None:
        self.host = host
        self.cid = cid
        self.role = role
        self.proved = proved
        self.witness = witness
        self.other: End | None = None
        self.stranger = isinstance(witness, StrangersWitness)
        self.arriving = bytearray()
        self.heard = bytearray()  # by the stranger
        self.ending = self.reset = False  # it comes behind `arriving`
        self.opened = self.in_transit = self.shut = self.paused = self.eof = False


class Program:
    """Nodes, the wires between them, their disks and applications."""

    def __init__(self, size: int, limits: int, policy: int, start: int) -> None:
        self.now = 0.0
        self.told: Counter[str] = Counter()
        self.policy = POLICY[policy % len(POLICY)]
        self.pinned = bool(start & 4)  # certificates without UUIDs: the keys are pinned
        self.random = Random(start)
        self.first_id = STARTS[start % 4]
        self.hosts: list[Site] = []
        self.dials: list[deque[tuple[int, int]]] = [deque() for _ in range(size)]
        self.unsettled: list[deque[Delivery]] = [deque() for _ in range(size)]
        self.ends: list[dict[int, End]] = [{} for _ in range(size)]
        books: dict[UUID, Ledger] = {}
        for number in range(size):
            host = Site(f"n{number}", Book(UUIDS[number]), MemoryStore(), LIMITS[limits % len(LIMITS)])
            host.ledger.remembers = self.policy.dedupe_durable
            host.ledger.policy = self.policy
            self.hosts.append(host)
            host.ledger.others = books
            books[host.ledger.uuid] = host.ledger
            self.start(number)
            self.call(number, "subscribe", "p", "")
            self.drain(number)
            self.perform(number)

    def number(self, uuid: UUID | None) -> int | None:
        return UUIDS.index(uuid) if uuid in UUIDS[: len(self.hosts)] else None

    def identity(self, number: int) -> PeerIdentity:
        """Identity that a connection to that node, or to the stranger, proves."""
        if number >= len(self.hosts):
            return PeerIdentity(frozenset([STRANGER]), b"s" * 32, "192.0.2.66")
        names = frozenset[UUID]() if self.pinned else frozenset([UUIDS[number]])
        return PeerIdentity(names, bytes([number]) * 32, f"192.0.2.{number}")

    def start(self, number: int) -> None:
        host = self.hosts[number]
        host.closing = False
        host.ledger.handled_in_this_life.clear()
        host.ledger.receipts.clear()
        host.node = Node(
            instance_id=host.ledger.uuid,
            rng=BeginAt(self.random, self.first_id),
            limits=host.limits,
            loaded=host.store.reopen().load(),
            handlers=[("", "", "handler")],
            retry_interval=RETRY_INTERVAL,
            policy=self.policy,
            dialect=Dialect(announce_after_handshake=self.policy is _ODD or None),
            acl=host.acl,
            patterns=PATTERNS,
            now=self.now,
        )

    def stop(self, number: int) -> None:
        """A crash: all that was not committed is gone."""
        host = self.hosts[number]
        host.node = None
        host.jobs.clear()
        host.opening.clear()
        host.ledger.watched.clear()
        self.dials[number].clear()
        self.unsettled[number].clear()
        for end in list(self.ends[number].values()):
            self.cut(number, end)

    def call(self, number: int, name: str, *arguments: Any) -> Any:
        return getattr(self.node(number), name)(*arguments, now=self.now)

    def node(self, number: int) -> Node:
        node = self.hosts[number].node
        assert node is not None, "only of those that live"
        return node

    def drain(self, number: int) -> None:
        host = self.hosts[number]
        if host.node is None:
            return
        while (action := host.node.next_action()) is not None:
            self.told[type(action).__name__] += 1
            do = _ACTIONS.get(type(action))
            if do is not None:
                do(self, number, action)
        self.look_at(host, host.node)

    def look_at(self, host: Site, node: Node) -> None:
        check(node.next_action() is None, "it said that there was nothing to do (I5)")
        waiting = (
            inside(node).context.actions,
            inside(node).context.readable,
            inside(node).context.sendable,
            inside(node).context.writable,
        )
        check(not any(waiting), "something waits that nobody will look at (I5)")
        check_memory(node, host.limits)
        due = node.next_timeout()
        check(due is None or due >= 0, "a deadline before the start")
        quiet = (
            not (host.jobs or inside(node).commits.running or inside(node).commits.searches.busy)
            and inside(node).commits.batch.empty
        )
        if quiet and host.audited != host.store.commits:
            host.audited = host.store.commits
            audit(node, host.store)

    # Wires.

    def connected(self, number: int, cid: int, remote: int) -> None:
        """A dial gets through. Both ends are there, and not open yet."""
        near_witness: WireWitness = Witness(self.hosts[number].ledger, True, Revision.DRAFT_2)
        if remote < len(self.hosts):
            target = self.hosts[remote]
            new = None
            if target.node is not None and not target.closing:
                new = target.node.new_cid(self.now, f"192.0.2.{number}")
            if new is None:
                self.call(number, "dial_failed", cid, ConnectionLost("connection refused"))
                return
            near = End(self.hosts[number], cid, Role.CLIENT, self.identity(remote), near_witness)
            far_witness = Witness(target.ledger, False, Revision.DRAFT_2)
            far = End(target, new, Role.SERVER, self.identity(number), far_witness)
            near.other, far.other = far, near
            self.ends[remote][new] = far
        else:
            strange = StrangersWitness(self.hosts[number].ledger, True, Revision.DRAFT_2)
            near = End(self.hosts[number], cid, Role.CLIENT, self.identity(remote), strange)
        self.ends[number][cid] = near

    def open(self, number: int, end: End) -> None:
        end.opened = True
        host = self.hosts[number]
        if end.role is Role.CLIENT and not end.stranger:
            host.opening[end.cid] = len(host.log)
        self.call(number, "opened", end.cid, end.role, end.proved)

    def deliver(self, number: int, end: End, size: int | None = None) -> bool:
        """Bytes, or the end; whether anything moved."""
        if not end.opened or end.paused or end.eof:
            return False
        if end.arriving:
            data = bytes(end.arriving[:size])
            del end.arriving[: len(data)]
            end.witness.receive(data)
            self.call(number, "receive_data", end.cid, data)
        elif end.reset:
            self.lose(number, end, ConnectionLost("reset"))
        elif end.ending:
            end.eof = True
            self.call(number, "receive_eof", end.cid)
            self.finish_orderly(number, end)
        else:
            return False
        return True

    def finish_orderly(self, number: int, end: End) -> None:
        if end.shut and end.eof and self.ends[number].get(end.cid) is end:
            self.lose(number, end, None)

    def lose(self, number: int, end: End, error: ConnectionLost | None) -> None:
        self.cut(number, end)
        self.call(number, "lost", end.cid, error)

    def cut(self, number: int, end: End) -> None:
        """This end is gone; the other learns of it behind what has come."""
        self.ends[number].pop(end.cid, None)
        if end.other is not None:
            end.other.reset, end.other.other = True, None

    def sent(self, number: int, end: End) -> None:
        end.in_transit = False
        end.witness.taken(self.now)
        self.call(number, "sent", end.cid)

    # The disk.

    def perform(self, number: int, fails: bool = False) -> None:
        """The first job, and what became of it."""
        host = self.hosts[number]
        job = host.jobs.popleft()
        error = StoreError("disk full") if fails else None
        if isinstance(job, Commit) and error is None:
            self.commit(number, job)
            self.call(number, "committed", job.batch_id)
        elif isinstance(job, Commit):
            host.ledger.not_applied(job.operations)
            self.call(number, "store_failed", job.batch_id, error)
        elif isinstance(job, Find):
            found = [] if error else job.ask(host.store)
            self.call(number, "found", job.search_id, found, error)
        elif error is None:
            rows = host.store.fetch(job.peer, job.after_seq, job.max_count, job.max_bytes)
            self.call(number, "fetched", job.peer, rows)
        else:
            self.call(number, "fetch_failed", job.peer, error)
        self.drain(number)

    def commit(self, number: int, job: Commit) -> None:
        host = self.hosts[number]
        host.store.commit(job.operations)
        host.ledger.applied(job.operations)
        forgotten = {operation.peer for operation in job.operations if isinstance(operation, ForgetPeer)}
        if forgotten:  # their messages are new when they send them again
            host.ledger.handled_in_this_life.clear()
            host.stale.update(one for one in self.unsettled[number] if one.peer_id in forgotten)

    # The application.

    def settle(self, number: int, deliveries: Sequence[Delivery], well: bool = True) -> None:
        host = self.hosts[number]
        if not well:
            self.call(number, "fail", deliveries)
            return
        for one in deliveries:
            host.ledger.handled[one.body] += 1
            end = self.ends[number].get(one.cid)
            if one.peer_id == STRANGER and one.message_id is not None:
                host.ledger.settled.add(one.message_id)
            elif self.policy.dedupe and one.reliable and one.cid and one not in host.stale:
                check(one.body not in host.ledger.handled_in_this_life, f"{one} was handled before (T-48)")
                host.ledger.handled_in_this_life.add(one.body)
            if end is not None and one.message_id is not None:
                end.witness.acknowledged.add(one.message_id)
        self.call(number, "acknowledge", deliveries)

    def send(self, number: int, batch: list[Sent], watch: bool = False) -> None:
        host = self.hosts[number]
        assert host.node is not None
        known = {peer.uuid: set(peer.subscriptions) for peer in host.node.peers()}
        for sent in batch:
            wanted = {uuid for uuid, subscriptions in known.items() if sent.wanted_by(subscriptions)}
            routed = {peer.uuid for peer in inside(host.node).routing.routes.match(sent.channel, sent.key).peers}
            check(wanted == routed, f"{sent.channel}/{sent.key} goes to {routed}, and {wanted} want it (I6)")
            check(len(matching(sent.channel, sent.key)) <= 4, "more look-ups than four (I6)")
            sent.routed_to = wanted
            for uuid in wanted:
                other = self.number(uuid)
                if other is not None and sent.wanted_by(known[uuid] & self.hosts[other].ledger.permanent):
                    sent.due_to.add(uuid)
        receipt = self.call(number, "send_many", [(sent.channel, sent.key, sent.body) for sent in batch])
        host.ledger.receipts[receipt] = batch
        if watch:
            host.ledger.watched[receipt] = batch
            host.node.watch(receipt)

    def new_message(self, number: int, argument: int) -> Sent:
        host = self.hosts[number]
        body = b"%d/%d%s" % (number, len(host.log), b"." * (0, 10, 40, 150)[argument // 8 % 4])
        sent = Sent(len(host.log), "ppvv"[argument % 4], "ab"[argument // 4 % 2], body)
        host.log.append(sent)
        host.ledger.sent[body] = sent
        return sent

    # The end: calm, then compare sets.

    def finish(self) -> None:
        self.become_calm()
        for _ in range(_MOST_ROUNDS):
            if not self.move_all():
                if not self.unfinished():
                    break
                due = [host.node.next_timeout() for host in self.hosts if host.node is not None]
                waits = [one for one in due if one is not None]
                check(waits, f"nobody waits for anything, and {'; '.join(self.unfinished())}")
                self.now = max(self.now, min(waits))
                for number in range(len(self.hosts)):
                    self.call(number, "handle_timeout")
                    self.drain(number)
        left = self.unfinished()
        check(not left, f"not drained after {_MOST_ROUNDS} rounds, {self.now:.0f} s: {'; '.join(left)}")
        for host in self.hosts:
            for sent in host.log:
                for uuid in sent.due_to if sent.stored and not sent.damaged else ():
                    ledger = self.hosts[UUIDS.index(uuid)].ledger
                    if not host.ledger.is_owed(sent, uuid):
                        continue
                    here = ledger.handled[sent.body] or sent.body in ledger.letters
                    check(here, f"LOST: {sent.body!r} of {host.name} for {uuid}")

    def become_calm(self) -> None:
        for number, host in enumerate(self.hosts):
            if host.closing:
                self.stop(number)
            if host.node is None:
                self.start(number)
        for number, host in enumerate(self.hosts):
            for end in [one for one in self.ends[number].values() if one.stranger]:
                self.lose(number, end, ConnectionLost("gone"))
            host.acl = Acl()
            self.call(number, "set_acl", host.acl)
            host.opening.clear()
            for remote in host.blocked:  # is let in again
                self.call(number, "connect", remote)
                self.call(number, "disconnect", remote)
            for remote in range(number):
                self.call(number, "connect", remote)
            for uuid in UUIDS[: len(self.hosts)]:
                self.call(number, "retry", uuid)
                self.call(number, "repin", uuid)
        for number in range(len(self.hosts)):
            self.drain(number)

    def move_all(self) -> bool:
        """Everything once that can happen without a clock; whether anything did."""
        moved = False
        for number, host in enumerate(self.hosts):
            for end in list(self.ends[number].values()):
                if not end.opened:
                    self.open(number, end)
                    moved = True
                if end.in_transit:
                    self.sent(number, end)
                    moved = True
                if self.ends[number].get(end.cid) is end:
                    moved |= self.deliver(number, end)
                self.drain(number)
            while self.dials[number]:
                cid, remote = self.dials[number].popleft()
                self.connected(number, cid, remote % 8)
                self.drain(number)
                moved = True
            while host.jobs:
                self.perform(number)
                moved = True
            while self.unsettled[number]:
                self.settle(number, [self.unsettled[number].popleft()])
                self.drain(number)
                moved = True
        return moved

    def unfinished(self) -> list[str]:
        left = []
        for number, host in enumerate(self.hosts):
            node = host.node
            assert node is not None
            if host.ledger.receipts:
                left.append(f"{host.name} was never told what became of {len(host.ledger.receipts)} sends")
            peers = {peer.uuid: peer for peer in node.peers()}
            for other in self.hosts:
                if other is host or other.node is None:
                    continue
                peer = peers.get(other.ledger.uuid)
                if peer is None or not peer.connected:
                    left.append(f"{host.name} is not connected to {other.name}")
                elif peer.pending and (not peer.held or host.store.fetch(peer.uuid, 0, 1, 1)):
                    left.append(f"{host.name} has {peer.pending} for {other.name}")
                elif set(peer.subscriptions) != set(other.node.subscriptions()):
                    left.append(f"{host.name} knows {peer.subscriptions} of {other.name}")
            if len(self.ends[number]) != len(self.hosts) - 1:
                left.append(f"{host.name} has {len(self.ends[number])} connections")
        return left


# Called by the nodes.


def _dial(run: Program, number: int, action: Dial) -> None:
    run.dials[number].append((action.cid, action.remote))  # type: ignore[arg-type]  # ours are numbers


def _transmit(run: Program, number: int, action: Transmit) -> None:
    end = run.ends[number].get(action.cid)
    if end is None:
        return
    check(not end.in_transit, "a second Transmit while one is outstanding")
    check(not end.shut, "a Transmit after ShutdownWrite")
    end.in_transit = True
    end.witness.transmit(action.units, run.now, RETRY_INTERVAL)
    data = b"".join(action.units)
    if end.stranger:
        end.heard += data
    elif end.other is not None:
        end.other.arriving += data


def _job(run: Program, number: int, action: Commit | Fetch | Find) -> None:
    running = [job for job in run.hosts[number].jobs if isinstance(job, Commit)]
    check(not (running and isinstance(action, Commit)), "a second Commit while one is outstanding")
    run.hosts[number].jobs.append(action)


def _shutdown(run: Program, number: int, action: ShutdownWrite) -> None:
    end = run.ends[number].get(action.cid)
    if end is not None:
        check(not end.in_transit and not end.shut, "a ShutdownWrite too many, or too early")
        end.shut = True
        if end.other is not None:
            end.other.ending = True
        run.finish_orderly(number, end)


def _abort(run: Program, number: int, action: Abort) -> None:
    end = run.ends[number].get(action.cid)
    if end is not None:
        run.cut(number, end)


def _pause(run: Program, number: int, action: PauseReading | ResumeReading) -> None:
    end = run.ends[number].get(action.cid)
    if end is not None:
        check(end.paused is isinstance(action, ResumeReading), f"{action} twice")
        end.paused = not end.paused


def _delivered(run: Program, number: int, action: Deliver) -> None:
    ledgers: dict[UUID, Ledger] = {host.ledger.uuid: host.ledger for host in run.hosts}
    for delivery in action.deliveries:
        if delivery.peer_id != STRANGER and delivery.cid:  # those of dead letters have none
            run.hosts[number].ledger.delivery(delivery, ledgers)
        run.unsettled[number].append(delivery)


def _stored(run: Program, number: int, action: Stored) -> None:
    for receipt in action.tokens:
        for sent in run.hosts[number].ledger.receipts.pop(receipt, ()):
            check(not sent.stored, "a Stored for what was stored before")
            sent.stored = action.error is None


def _acked(run: Program, number: int, action: Acked) -> None:
    ledger = run.hosts[number].ledger
    for receipt in action.tokens:
        for sent in ledger.watched.pop(receipt, ()):
            owed = {(uuid, sent.body) for uuid in ledger.stored_for.get(sent.body, ())}
            check(action.error or not owed - ledger.acked, f"Acked, and {owed - ledger.acked} did not say so (T-54)")


def _peer_up(run: Program, number: int, action: PeerUp) -> None:
    """Messages sent since the dial's request was queued are for this peer too, if it wants them (T-62)."""
    host, other = run.hosts[number], run.number(action.peer)
    end = run.ends[number].get(action.cid)
    check(end is None or end.stranger is (action.peer == STRANGER), f"{action} is somebody else's connection (D-3)")
    since = host.opening.pop(action.cid, None)
    if since is None or other is None:
        return
    wanted = host.acl.rights(action.peer).granted(run.hosts[other].ledger.permanent)
    for sent in host.log[since:]:
        if sent.wanted_by(wanted):
            sent.due_to.add(action.peer)


def _notice(run: Program, number: int, action: Notice) -> None:
    run.told[f"Notice.{action.kind}"] += 1
    other = run.number(action.peer)
    if action.kind in (NoticeKind.PARKED, NoticeKind.HELD) and other is not None:
        run.hosts[other].ledger.ordered = False  # it comes after others


_ACTIONS: dict[type, Callable[[Program, int, Any], None]] = {
    Dial: _dial,
    Transmit: _transmit,
    Commit: _job,
    Fetch: _job,
    Find: _job,
    ShutdownWrite: _shutdown,
    Abort: _abort,
    PauseReading: _pause,
    ResumeReading: _pause,
    Deliver: _delivered,
    Stored: _stored,
    Acked: _acked,
    PeerUp: _peer_up,
    Notice: _notice,
}
