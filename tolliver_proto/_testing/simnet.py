"""Simulated network of nodes in one thread, with every fault.

The simulator is the adapter, the disk, the network and the application of every node, and uses every freedom that these
have. A step is one event of a heap; after a step the node's actions are carried out.

State: the hosts with their ledgers, the heap, the weather; the seed chooses one of the `WORLDS` kinds of worlds, so
that rare features cost the other worlds nothing.

A run has three parts. Under faults, applications do random operations, instances crash, and stores are copied, cut or
damaged. In the calm, connections are restored and handlers succeed, until all messages are settled. Then the promised
messages are compared with the handled ones. Invariant: one seed is one trace, so that the same seed fails in the same
way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID
from zlib import crc32

from .._common.errors import OutboxFull, OwnLimitExceeded, StoreError
from .._common.transport import Abort, Dial, PauseReading, ResumeReading, ShutdownWrite, Transmit
from .._node.access import Acl, Rights
from .._node.actions import (
    LOOK,
    Acked,
    Commit,
    Deliver,
    Fetch,
    Find,
    Notice,
    NoticeKind,
    PeerUp,
    Stored,
    TakeBack,
)
from .._node.links.dialing import RemoteState
from .._node.node import Node
from .._node.outboxes.ids import LAST_ID
from .._node.policy import Policy, QuotaPolicy
from .._node.subscriptions import matching
from .._patterns.kinds import PATTERNS
from .._patterns.last_values import LastValues
from .._wire.events import Revision, Subscription
from .._wire.limits import Limits
from .adapter_loop import CALM, Weather
from .handlers import Handlers
from .inspection import inside
from .invariants import Sent, SimFailure, WireWitness, audit, check
from .randomness import BeginAt, Dice
from .steps import Step, StepWriter
from .value_checks import CHANNEL, ValueLedger
from .virtual_clock import Report
from .world import RETRY_INTERVAL, Copy, Host

WORLDS = 8  # number of kinds of worlds; the seed modulo this chooses the kind
_RULED = 7  # the kind with access rules
_RETAINING = 6  # the kind with last values
_HARMED = 3  # the kind with stores that are copied, cloned, put back, cut, or without any room
_LATEST = 5.0  # seconds until handlers come
_WINDOW = 20.0  # seconds for which messages are kept for a remote that was never up
_RETRIES = 3  # calls of `retry` for parked messages, at the end
_VOLATILE = (("v", "a"), ("v", "b"), ("v", ""), ("", "a"), ("", ""))
_OF_VALUES = ((CHANNEL, "a"), (CHANNEL, ""), (CHANNEL, "b"))
_RIGHTS = (Rights(), Rights(subscribe=(("p", "*"),)), Rights(subscribe=(("*", "a"),)), Rights.none())


class Simulation(Handlers):
    """A whole life of a few nodes: `run()`. Raises SimFailure for a broken promise.

    `dice` makes all choices; `seed` chooses the kind of world, and names the run. The faults last for `seconds`, in
    which the applications do `operations` random operations. `never` names operations that do not happen ("crash",
    "break", "close", "corrupt", "restore", "clone", "cut", "fill", "exhaust", "split", "jump", "stop_clock",
    "disconnect" ...) and chances of the weather that are 0. With `trace` all lines are kept in `lines`, else the last
    few. All nodes speak `revision`. `steps` is called with each step of a node (`Steps`).
    """

    def __init__(
        self,
        seed: int,
        dice: Dice,
        *,
        nodes: int | None = None,
        seconds: float = 30.0,
        operations: int = 80,
        limits: Limits | None = None,
        weather: Weather | None = None,
        policy: Policy | None = None,
        never: Collection[str] = (),
        trace: bool = False,
        revision: Revision = Revision.DRAFT_2,
        steps: Callable[[Step], object] | None = None,
    ) -> None:
        super().__init__(seed, dice, nodes, limits, weather, policy, never, trace)
        self._revision = revision
        if steps is not None:
            self._writer = StepWriter(steps, lambda: self.now, lambda: self._revision)
        self._seconds = seconds
        self._operations = operations
        self._patience = 300.0  # seconds after the faults in which all messages must be settled
        self._by_uuid = {host.ledger.uuid: host for host in self._hosts}
        self._do = {
            Transmit: self._with_end(self._transmit),
            Dial: self._dial,
            Commit: self._store_job,
            Fetch: self._store_job,
            Find: self._store_job,
            Deliver: self._deliver,
            TakeBack: self._take_back,
            ShutdownWrite: self._with_end(self._shutdown_write),
            Abort: self._with_end(self._abort),
            PauseReading: self._with_end(self._pause_reading),
            ResumeReading: self._with_end(self._resume_reading),
            Stored: self._stored,
            Acked: self._acked,
            PeerUp: self._peer_up,
            Notice: self._notice,
        }
        self._volatiles: tuple[tuple[str, str], ...] = _VOLATILE
        if seed % WORLDS == _RETAINING:
            self._volatiles += _OF_VALUES
            for host in self._hosts:
                host.values = ValueLedger()
        unwanted = {f"_op_{name}" for name in never}
        self._operate_by = [(weight, do) for weight, do in self._by_weight() if do.__name__ not in unwanted]

    def _by_weight(self) -> list[tuple[int, Callable[[Host], None]]]:
        """Returns the operations that may happen to an instance, each after its weight: how often it is drawn."""
        operations: list[tuple[int, Callable[[Host], None]]] = [
            (12, self._op_send),
            (5, self._op_send_many),
            (2, self._op_unreliable),
            (2, self._op_subscribe),
            (2, self._op_unsubscribe),
            (3, self._op_connect),
            (1, self._op_disconnect),
            (3, self._op_break),
            (1, self._op_crash),
            (1, self._op_close),
            (1, self._op_corrupt),
            (1, self._op_fill),
            (1, self._op_retry),
            (1, self._op_split),
            (1, self._op_jump),
            (1, self._op_stop_clock),
        ]
        if self.seed % WORLDS == _RULED:
            operations.append((4, self._op_restrict))
        if self.seed % WORLDS == _RETAINING:
            operations.append((8, self._op_retain))
        if self.seed % WORLDS == _HARMED:
            operations += [
                (3, self._op_restore),
                (2, self._op_clone),
                (3, self._op_cut),
                (1, self._op_exhaust),
            ]
        return operations

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self._hosts)

    # The run.

    def run(self) -> Report:
        """Runs a time with faults and a calm time, then compares all stores and ledgers; returns the report."""
        try:
            for host in self._hosts:
                self._start(host)
            for _ in range(self._operations):
                self._at(self._rng.random() * self._seconds, self._operate)
            self._run_until(self._seconds)
            self._become_calm()
            self._drain()
            self._reckon()
        except Exception as error:
            raise self._failure(error) from error
        log = [sent for host in self._hosts for sent in host.ledger.sent.values()]
        self.counts["messages"] = len(log)
        self.counts["owed"] = sum(len(sent.due_to) for sent in log if sent.stored)
        self.counts["handled"] = sum(host.ledger.handled.total() for host in self._hosts)
        self.counts["duplicates"] = self.counts["handled"] - sum(len(host.ledger.handled) for host in self._hosts)
        handled = [sorted(host.ledger.handled) for host in self._hosts]
        self._handled = crc32(repr(handled).encode())
        return self._told()

    # Lives.

    def _start(self, host: Host) -> None:
        if host.node is not None or host.retired:
            return
        host.born += 1
        host.clock = self._rng.random() * 1000 - self.now
        host.stopped = None
        host.hanging.clear()
        host.queued.clear()
        host.calls.clear()
        host.again.clear()
        host.closing = False
        host.ledger.handled_in_this_life.clear()
        host.ledger.drops_in_this_life = 0
        host.ledger.forgetting.clear()
        host.ledger.receipts.clear()  # the application that waited for them is gone
        host.answers.begin()
        host.dials.clear()
        host.leaving.clear()
        late, given = self._is_late(host), self._given(host)
        self._kept_for_nobody(host)
        host.store.now = self.now
        host.node = Node(
            instance_id=host.ledger.uuid,
            rng=BeginAt(self._rng, self._rng.choice((1, LAST_ID - self._rng.randrange(60)))),
            limits=host.limits,
            loaded=host.store.reopen().load(),
            handlers=() if late else [("", "", "handler")],
            subscriptions=given,
            version=host.version,
            revision=self._revision,
            speaks=lambda _version: True,
            retry_interval=RETRY_INTERVAL,
            policy=self._policy,
            acl=host.acl,
            patterns=PATTERNS,
            now=host.time(self.now),
        )
        self._trace(f"{host.name} starts, life {host.born}, {host.node.stats()['pending']} pending")
        self._writer.began(host, host.limits.subscription_grace if given is None else 0.0, RETRY_INTERVAL, self._policy)
        self._store_given(host, host.node)
        if late:
            self._at(self._rng.random() * _LATEST, self._register_late, host, host.born)
        for remote in sorted(host.wishes):
            self._ask_for(host, remote)

    def _is_late(self, host: Host) -> bool:
        """True if a host registers its handlers after its connections are made."""
        return not host.ledger.ordered and not self._calm

    def _given(self, _host: Host) -> Sequence[Subscription] | None:
        """Returns the subscriptions that a host is given at its opening; None leaves those of its store."""
        return None

    def _store_given(self, host: Host, node: Node) -> None:
        """Stores the given subscriptions before the first connection, as adapters do."""
        while (action := node.next_action()) is not None:
            if isinstance(action, Commit):
                self._writer.acted(host, action)
                host.store.commit(action.operations)
                self._writer.stores(host, action, False)
                host.apply(action.operations, self.now)
                self._writer.called(host, "committed", (action.batch_id,))
                node.committed(action.batch_id)

    def _register_late(self, host: Host, born: int) -> None:
        if host.born == born and host.node is not None:
            host.node.register("", "", "handler")

    def _report(self, host: Host, born: int, result: Any, error: StoreError | None) -> None:
        host.store_failed |= host.born == born and error is not None
        super()._report(host, born, result, error)
        if error is not None and host.born == born:
            self._routes_went_back(host)

    def _routes_went_back(self, host: Host) -> None:
        """Notes that what still waits is not routed by a list that could not be stored (T-62)."""
        assert host.node is not None
        known = {peer.uuid: {*peer.subscriptions, *peer.held} for peer in host.node.peers()}
        for receipt, waiting in host.ledger.receipts.items():
            for sent in waiting if not receipt.counts else ():
                sent.due_to = {one for one in sent.due_to if sent.wanted_by(known.get(one, set()))}

    def _stop(self, host: Host) -> None:
        """Crashes a host: the running commit may or may not be applied."""
        if host.store_failed:
            host.ledger.may_hold_again()
        host.store_failed = False
        host.opening.clear()
        host.asked.clear()
        self._halt(host)
        if not self._calm:
            self._at(self._rng.random() * 8, self._start, host)

    # The application.

    def _stored(self, host: Host, action: Stored) -> None:
        assert host.node is not None
        for receipt in action.tokens:
            batch = host.ledger.receipts.pop(receipt, [])
            for sent in batch:
                sent.stored = action.error is None
                if sent.waits:  # a hold may have begun meanwhile, and be over in memory (T-61)
                    sent.full_for |= {peer.uuid for peer in host.node.peers() if peer.held} | host.ledger.held_peers()
            left = host.leaving.pop(receipt, [])
            if action.error is None and host.twin is None and host not in self._twins:  # else the other may say more
                # A connection that is not up yet may tell our old list later.
                early = {one.peer and one.peer.uuid for one in inside(host.node).context.links.values() if not one.up}
                host.ledger.said_gone.update(one for one in left if early.isdisjoint((None, one[0])))
            if batch and action.error is None:
                host.answers.ask(receipt, batch)
                host.node.watch(receipt)

    def _acked(self, host: Host, action: Acked) -> None:
        for receipt in action.tokens:
            self.counts["answers"] += 1
            self.counts["undelivered"] += action.error is not None
            host.answers.take(receipt, action.error, self.now)

    def _notice(self, host: Host, action: Notice) -> None:
        """Notes notices that explain messages out of order: held messages (T-61) and those of a stuck handler (D-9)
        come later."""
        if action.kind is NoticeKind.HANDLER_STUCK:
            self.counts["stuck"] += 1
            host.ledger.ordered = False
        if action.kind is NoticeKind.HELD and action.peer in self._ledgers:
            self._ledgers[action.peer].ordered = False
        if action.kind is NoticeKind.FORGOTTEN:
            assert action.peer is not None
            self.counts["forgotten"] += 1
            self._forgets(host, action.peer)

    def _kept_for_nobody(self, host: Host) -> None:
        """Notes what a process kept for connecting peers, and no commit had given to them when it ended: the next
        process drops that, and its send named no such recipient (T-62).
        """
        for sent in filter(None, map(host.ledger.sent.get, host.store.held())):
            sent.due_to -= {one for one in sent.due_to - sent.routed_to if sent.body not in host.store.owed(one)}

    def _forgets(self, host: Host, peer: UUID) -> None:
        """Notes that the messages of a peer are purged (T-77)."""
        for sent in host.ledger.sent.values():
            host.ledger.forgotten.add((peer, sent.body))
            sent.lost_for.add(peer)
        host.ledger.knows.pop(peer, None)
        host.ledger.forgot.add(peer)
        host.ledger.forgetting.add(peer)
        host.ledger.said_gone = {one for one in host.ledger.said_gone if one[0] != peer}  # the peer is not told
        host.leaving = {receipt: [one for one in left if one[0] != peer] for receipt, left in host.leaving.items()}

    def _peer_up(self, host: Host, action: PeerUp) -> None:
        """Notes that messages which are kept for a peer are owed to it (T-62): those sent since its request was queued;
        for a remote that was never up, those sent since `connect`, within 20 s.
        """
        since, not_kept = host.opening.pop(action.cid, (0, -1))
        led_to = {remote: host.node and host.node.peer_at(remote) for remote in host.asked}
        over = [remote for remote, uuid in led_to.items() if remote == action.remote or uuid == action.peer]
        asked = min((host.asked.pop(remote) for remote in over), default=None)
        if asked is not None and host.time(self.now) < asked[0] + _WINDOW:
            since, not_kept = asked[1:]
            self.counts["windows"] += since < len(host.log)
        peer, end = self._ledgers.get(action.peer), host.ends.get(action.cid)
        if host.node is None or inside(host.node).context.counts["not_kept"] != not_kept or peer is None or end is None:
            return  # the peer dialled us, or a share was full, or the connection is lost already
        assert isinstance(end.witness, WireWitness)
        listed = peer.permanent & end.witness.listed
        allowed = host.acl.rights(peer.uuid).granted(listed)
        room = host.limits.keep_bytes
        for sent in host.log[since:]:
            is_left_out = room <= 0 and host.answers.is_for_nobody(sent.body)  # the window is full
            room -= len(sent.body)
            if sent.wanted_by(allowed) and not sent.damaged and not is_left_out:
                sent.due_to.add(peer.uuid)

    def _operate(self) -> None:
        host = self._rng.choice(self._everybody())
        if host.node is None or host.closing:
            return
        weights, operations = zip(*self._operate_by, strict=True)
        self._rng.choices(operations, weights)[0](host)

    def _names(self) -> tuple[str, str]:
        return self._rng.choice(("p", "p", "v")), self._rng.choice(("a", "b"))

    def _new_message(self, host: Host, names: tuple[str, str] | None = None) -> Sent:
        body = b"%s/%d%s" % (host.name.encode(), len(host.log), b"." * self._rng.choice((0, 10, 40, 150)))
        body = body[: host.limits.max_body]
        sent = Sent(len(host.log), *(names or self._names()), body)
        host.log.append(sent)
        host.ledger.sent[body] = sent
        return sent

    def _send(self, host: Host, count: int) -> None:
        assert host.node is not None
        batch = [self._new_message(host) for _ in range(count)]
        granted = {peer.uuid: host.acl.rights(peer.uuid).granted(frozenset(peer.held)) for peer in host.node.peers()}
        known = {peer.uuid: {*peer.subscriptions, *granted[peer.uuid]} for peer in host.node.peers()}
        for uuid in known if host.acl == Acl() and self._can_unsubscribe else ():
            known[uuid] |= host.ledger.routes_to(uuid, self.now)
        for sent in batch:
            for uuid, subscriptions in known.items():
                if sent.wanted_by(subscriptions):
                    sent.routed_to.add(uuid)
                if uuid in self._ledgers and sent.wanted_by(subscriptions & self._ledgers[uuid].permanent):
                    sent.due_to.add(uuid)
        # Also peers that are just being met: a send that waits for them is routed to them at its end (T-62).
        full = self._may_be_skipped(host, self._by_uuid.keys() - {host.ledger.uuid}, batch)
        for sent in batch:
            sent.full_for |= full
        try:
            items = [(sent.channel, sent.key, sent.body) for sent in batch]
            receipt = host.node.send_many(items, now=host.time(self.now))
        except OutboxFull:
            self.counts["outbox_full"] += 1
            return
        host.ledger.receipts[receipt] = batch
        self._writer.sends(host, receipt, items)
        for sent in batch:
            sent.waits = bool(inside(host.node).sender.blocked)
        self._trace(f"{host.name} sends {', '.join(f'{s.channel}/{s.key} {s.index}' for s in batch)}: {receipt}")
        self._call(host, "handle_timeout")

    def _may_be_skipped(self, host: Host, peers: Collection[UUID], batch: Sequence[Sent]) -> set[UUID]:
        """Returns the peers that may lack room for the batch. Room that is free now may be used when the send ends."""
        assert host.node is not None
        skipped = {uuid for uuid in peers if self._policy.quota_of(uuid) is QuotaPolicy.SKIP}
        skipped |= {peer.uuid for peer in host.node.peers() if peer.held}  # T-61
        is_known = host.node.use(LastValues).index.is_known
        if inside(host.node).sender.blocked or inside(host.node).ledger.keeping or not is_known:
            return skipped
        waiting = {peer.uuid: (peer.pending, peer.pending_bytes) for peer in host.node.peers()}
        count, size = len(batch), sum(len(sent.body) + 100 for sent in batch)
        limits, used = host.limits, {uuid: waiting.get(uuid, (0, 0)) for uuid in skipped}
        return {
            uuid
            for uuid in skipped
            if used[uuid][0] + count > limits.outbox_messages or used[uuid][1] + size > limits.outbox_bytes
        }

    def _op_send(self, host: Host) -> None:
        self._send(host, 1)

    def _op_send_many(self, host: Host) -> None:
        self._send(host, self._rng.randint(2, 30))

    def _op_unreliable(self, host: Host) -> None:
        sent = self._new_message(host)
        self._call(host, "unreliable_send", sent.channel, sent.key, sent.body)

    def _volatile(self) -> Subscription:
        return Subscription(*self._rng.choice(self._volatiles))

    def _op_subscribe(self, host: Host) -> None:
        self._change_own(host, "subscribe")

    def _op_unsubscribe(self, host: Host) -> None:
        self._change_own(host, "unsubscribe")

    def _change_own(self, host: Host, call: str) -> None:
        assert host.node is not None
        for subscription in [self._volatile() for _ in range(self._rng.choice((1, 1, 3)))]:
            self._trace(f"{host.name} {call} {subscription}")
            host.ledger.left.add(subscription)
            known = host.store.load().peers.keys() - host.ledger.forgetting  # other peers cannot be told
            told = [(uuid, subscription) for uuid in sorted(known)]
            was_wanted = subscription in host.node.subscriptions()
            receipt = self._call(host, call, *subscription)
            if call == "unsubscribe" and was_wanted:
                host.leaving[receipt] = told
            elif call == "subscribe":
                host.ledger.said_gone = {one for one in host.ledger.said_gone if one[1] != subscription}
                host.leaving = {
                    receipt: [one for one in left if one[1] != subscription] for receipt, left in host.leaving.items()
                }

    def _op_retain(self, host: Host) -> None:
        """Retains a value of a name, or clears the name (P-30)."""
        assert host.node is not None
        assert host.values is not None
        name, body = (CHANNEL, self._rng.choice(("a", "b"))), None
        if self._chance(0.85):
            sent = self._new_message(host, name)
            sent.full_for = self._may_be_skipped(host, self._by_uuid.keys() - {host.ledger.uuid}, [sent])
            body = sent.body
            host.values.retained(body)
        try:
            receipt = host.node.use(LastValues).retain(*name, body, now=host.time(self.now))
        except (OutboxFull, OwnLimitExceeded):
            self.counts["not_retained"] += 1
            return
        self.counts["retained"] += 1
        host.ledger.receipts[receipt] = []
        self._writer.sends(host, None, [] if body is None else [(*name, body)])
        self._trace(f"{host.name} retains {name}: {body!r}")
        self._call(host, "handle_timeout")

    def _ask_for(self, host: Host, remote: tuple[int, int]) -> None:
        assert host.node is not None
        if all(one.remote != remote or one.state is RemoteState.GAVE_UP for one in host.node.remotes()):
            host.asked[remote] = host.time(self.now), len(host.log), inside(host.node).context.counts["not_kept"]
        elif host.node.peer_at(remote) is not None:
            host.asked.pop(remote, None)  # its peer was found to be connected already
        self._call(host, "connect", remote)

    def _timeout(self, host: Host, born: int, due: float) -> None:
        super()._timeout(host, born, due)
        node = host.node  # it may have found the peer of what it was to dial again connected already
        host.asked = {one: asked for one, asked in host.asked.items() if node is None or node.peer_at(one) is None}

    def _op_connect(self, host: Host) -> None:
        remote = (self._rng.randrange(len(self._hosts)), self._rng.choice((0, 0, 1)))
        host.wishes.add(remote)
        self._trace(f"{host.name} connects to {remote}")
        self._ask_for(host, remote)

    def _op_disconnect(self, host: Host) -> None:
        if host.wishes:
            remote = self._rng.choice(sorted(host.wishes))
            host.wishes.discard(remote)
            self._trace(f"{host.name} disconnects from {remote}")
            host.dials.pop(remote, None)
            host.asked.pop(remote, None)
            self._call(host, "disconnect", remote)

    def _op_restrict(self, host: Host) -> None:
        """Changes the access rules for a random peer (D-4). Permission to publish stays, as messages that the peer has
        sent were promised.
        """
        uuid = self._rng.choice(sorted(self._ledgers.keys() - {host.ledger.uuid}))
        rights = self._rng.choice(_RIGHTS)
        self.counts["restrictions"] += 1
        self._trace(f"{host.name} gives {uuid} {rights}")
        self._set_acl(host, Acl(peers={**host.acl.peers, uuid: rights}))

    def _set_acl(self, host: Host, acl: Acl) -> None:
        host.acl = acl
        host.opening.clear()  # connecting peers are promised no kept messages
        host.asked.clear()
        for waiting in host.ledger.receipts.values():  # sends that wait are routed by the new rules (T-62)
            for sent in waiting:
                sent.due_to.clear()
        self._call(host, "set_acl", acl)

    def _op_crash(self, host: Host) -> None:
        self.counts["crashes"] += 1
        self._stop(host)

    def _op_restore(self, host: Host) -> None:
        """Stops a host, and copies its store, or restores the copy: then the host gives some ids a second time."""
        self._stop(host)
        self._at(self._delay(), self._start, host)
        if host.copy is None:
            self._trace(f"{host.name}'s store is copied")
            host.copy = Copy(host.store, self._ledgers)
            return
        self.counts["restored"] += 1
        self._trace(f"{host.name} is put back from its copy (T-48)")
        self._put_back(host, host.copy)

    def _op_clone(self, host: Host) -> None:
        """Stops a host, and lets a copy of its store go on in its place, so that both give the same ids (T-48)."""
        self._stop(host)
        self._at(self._delay(), self._start, host)
        if host.copy is None:
            host.copy = Copy(host.store, self._ledgers)
        self.counts["cloned"] += 1
        self._trace(f"a clone of {host.name} goes on in its place (T-40)")
        clone, host.copy = host.copy, Copy(host.store, self._ledgers)
        host.ledger.forked = True
        self._put_back(host, clone)

    def _op_cut(self, host: Host) -> None:
        """Makes a disk confirm commits that it does not keep: they are missing after a crash (D-13)."""
        self._at(self._rng.random() * 3, self._cut, host, host.born, Copy(host.store, self._ledgers))

    def _cut(self, host: Host, born: int, copy: Copy) -> None:
        if host.born != born or host.node is None or self._calm:
            return
        self.counts["cut"] += 1
        self._trace(f"{host.name} lacks the last {host.store.commits - copy.store.commits} commits (D-13)")
        self._stop(host)
        self._at(self._delay(), self._start, host)
        self._put_back(host, copy)

    def _put_back(self, host: Host, copy: Copy) -> None:
        """Replaces a store by a copy (D-13): messages missing in the copy are lost, and those in it are sent again."""
        before, host.store = host.store, copy.store.snapshot()
        self._writer.put_back(host)
        host.ledger.rolled_back = True
        host.ledger.said_gone.clear()
        host.ledger.holds(host.store, self.now)
        for uuid in self._ledgers:
            lost = (before.owed(uuid) | before.held()) - copy.owed[uuid]
            for sent in host.ledger.sent.values():
                if sent.body in copy.owed[uuid]:
                    sent.lost_for.discard(uuid)
                    host.ledger.revive(uuid, sent.body)
                elif sent.body in lost:
                    sent.lost_for.add(uuid)

    def _op_exhaust(self, host: Host) -> None:
        """Leaves a disk without any room for a while: no commit succeeds, not even a removal (D-13)."""
        self.counts["exhausted"] += 1
        self._trace(f"{host.name} has no room at all")
        host.store.spent = True
        self._at(self._rng.random() * 10, self._free, host)

    def _op_close(self, host: Host) -> None:
        assert host.node is not None
        self.counts["closes"] += 1
        host.closing = True
        self._trace(f"{host.name} closes")
        self._start_clock(host, host.born)
        self._call(host, "close")
        self._at(60.0, self._closed, host, host.born)

    def _op_corrupt(self, host: Host) -> None:
        """Damages a row, which is parked if it is read (V9)."""
        messages = host.store.messages
        if messages and self._chance(0.5):
            self.counts["corrupted"] += 1
            spoilt = self._rng.choice(messages)
            self._trace(f"{host.name} row {spoilt.seq} is damaged")
            host.store.corrupt(spoilt.seq)
            host.ledger.sent[spoilt.body].due_to.clear()
            host.ledger.sent[spoilt.body].damaged = True
            if host.values is not None:
                host.values.damaged.add(spoilt.body)

    def _op_retry(self, host: Host) -> None:
        """Sends parked messages again (T-09)."""
        for uuid in sorted(self._ledgers.keys() - {host.ledger.uuid}):
            self._call(host, "retry", uuid)

    def _op_jump(self, host: Host) -> None:
        """Sets a host's clock forward: no promise may depend on the clock (V20)."""
        if host.stopped is None:
            seconds = self._rng.choice((7.0, 3600.0, 10 * 365.25 * 86400))
            self.counts["jumps"] += 1
            self._trace(f"{host.name}'s clock is set {seconds:g} s forward")
            host.ledger.clock_jumped = True
            host.clock += seconds
            host.timer = float("inf")
            self._call(host, "handle_timeout")

    def _op_stop_clock(self, host: Host) -> None:
        """Stops a host's clock for a while."""
        if host.stopped is None:
            self.counts["stopped_clocks"] += 1
            host.stopped = host.time(self.now)
            self._trace(f"{host.name}'s clock stands still")
            self._at(self._rng.random() * 15, self._start_clock, host, host.born)

    def _start_clock(self, host: Host, born: int) -> None:
        if host.born == born and host.stopped is not None:
            host.clock = host.stopped - self.now
            host.stopped = None
            host.timer = float("inf")
            self._call(host, "handle_timeout")

    def _closed(self, host: Host, born: int) -> None:
        if host.born == born and host.node is not None:
            check(host.node.idle, f"{host.name} is not idle a minute after close()")
            self._stop(host)
            self._start(host)

    # The end: drain, then compare sets.

    def _become_calm(self) -> None:
        self._trace("the faults stop")
        self._calm = True
        self._weather = replace(CALM, late_drain=self._weather.late_drain)
        for host in self._hosts:
            self._free(host)
            if host.closing:
                self._stop(host)
            self._start(host)
            self._start_clock(host, host.born)
            if host.acl != Acl():
                self._set_acl(host, Acl())
            hanging, host.hanging = host.hanging, []
            for born, deliveries in hanging:
                self._handle(host, born, deliveries)
        for index, host in enumerate(self._hosts):
            host.wishes = {(other, 0) for other in range(len(self._hosts)) if other != index and self._chance(0.7)}
            host.wishes |= {(other, 0) for other in range(index)}
            for remote in sorted(host.wishes):
                self._ask_for(host, remote)
            self._op_retry(host)

    def _drain(self) -> None:
        """Runs until all messages are settled. `retry` is called for parked messages, which are not lost (T-09)."""
        end = self.now + self._patience
        for retry in range(1, _RETRIES + 1):
            for host in self._hosts:
                self._at(retry * 80.0, self._op_retry, host)
        self._run_until(end, self._is_drained)
        self._writer.over()
        if not self._is_drained():
            raise SimFailure(f"not drained in {self._patience:g} s: " + "; ".join(self._unfinished()))
        for host in self._hosts:
            assert host.node is not None
            audit(host.node, host.store)

    def _is_drained(self) -> bool:
        return not self._unfinished()

    def _unfinished(self) -> list[str]:
        left = []
        for host in self._hosts:
            node = host.node
            assert node is not None
            if (
                any(job is not LOOK for job in host.jobs)
                or inside(node).commits.running
                or not inside(node).commits.batch.empty
                or host.draining
            ):
                left.append(f"{host.name} is storing")
            if host.ledger.receipts:
                left.append(f"{host.name} was never told what became of {len(host.ledger.receipts)} sends")
            peers = {peer.uuid: peer for peer in node.peers()}
            if len(host.ends) != len(self._hosts) - 1:
                left.append(f"{host.name} has {len(host.ends)} connections")
            for other in self._hosts:
                peer = peers.get(other.ledger.uuid)
                if other is host or other.node is None:
                    continue
                if peer is None or not peer.connected:
                    left.append(f"{host.name} is not connected to {other.name}")
                    continue
                if peer.pending and (not peer.held or host.store.fetch(peer.uuid, 0, 1, 1)):
                    left.append(f"{host.name} has {peer.pending} for {other.name}")
                mine = inside(other.node).context.peers.get(host.ledger.uuid) if self._can_unsubscribe else None
                if peer.held and mine is not None and not mine.lists.unsaid.keys().isdisjoint(peer.held):
                    left.append(f"{host.name} has not heard of all that {other.name} has left")
                aside = self._set_aside(host, other)
                if aside:
                    left.append(f"{host.name} has set {aside} aside for {other.name}")
                if set(peer.subscriptions) != set(other.node.subscriptions()):
                    left.append(f"{host.name} knows {peer.subscriptions} of {other.name}")
        return left

    def _set_aside(self, host: Host, other: Host) -> list[bytes]:
        """Returns the parked messages for a host, without damaged ones, which stay parked (V9)."""
        bodies = host.store.set_aside(other.ledger.uuid)
        return [body for body in bodies if not host.ledger.sent[body].damaged]

    def _reckon(self) -> None:
        for host in self._hosts:
            self.counts["given_up"] += len(host.ledger.given_up)
            self.counts["dead_letters"] += len(host.ledger.letters)
            self.counts["set_aside"] += len(host.ledger.set_aside)
            self._nothing_is_forgotten(host)
            self._nothing_is_held_in_vain(host)
            if host.values is not None:
                self.counts["given"] += host.values.given
                self._newest_are_known(host, host.values)
            for sent in host.ledger.sent.values():
                for uuid in sent.due_to if sent.stored else ():
                    if not host.ledger.is_owed(sent, uuid):
                        self.counts["not_owed"] += 1
                        continue
                    receiver = self._by_uuid[uuid]
                    check(
                        sent.body in receiver.ledger.handled or sent.body in receiver.ledger.letters,
                        f"LOST: {sent.body!r} ({sent.channel}/{sent.key}) of {host.name} for {receiver.name}",
                    )

    def _nothing_is_forgotten(self, host: Host) -> None:
        """Checks that each message stored for a peer is acknowledged, given up for a reason, lost with a store, or
        stored still. Raises SimFailure else.
        """
        ledger = host.ledger
        owed = {uuid: host.store.owed(uuid) for uuid in self._ledgers}
        for body, peers in ledger.stored_for.items():
            for uuid in sorted(peers):
                settled = (uuid, body) in ledger.acked or (uuid, body) in ledger.given_up
                is_kept = uuid in ledger.sent[body].lost_for or body in owed[uuid]
                check(settled or is_kept, "{} of {} for {} is forgotten (I3)", body, host.name, uuid)

    def _newest_are_known(self, host: Host, values: ValueLedger) -> None:
        """Checks that each subscriber has the last value of a name (P-30)."""
        for name, body in values.newest.items():
            wanted = {*matching(*name)}
            for other in self._hosts:
                assert other.node is not None
                if other is host or wanted.isdisjoint(other.node.subscriptions()):
                    continue
                ledger = other.ledger
                had = body in ledger.handled or body in ledger.letters or body in ledger.dropped
                sent = host.ledger.sent[body]
                is_gone = sent.damaged or (ledger.uuid, body) in {*values.excused, *host.ledger.given_up}
                text = "{} of {} never came to {}, which subscribes to it (P-30)"
                is_excused = is_gone or host.ledger.is_skipped(ledger.uuid, sent)
                check(had or is_excused, text, body, host.name, other.name)

    def _nothing_is_held_in_vain(self, host: Host) -> None:
        """Checks that no subscription is held which a peer has ended by a message (T-61)."""
        assert host.node is not None
        for peer in host.node.peers():
            ledger = self._ledgers[peer.uuid]
            if not (host.ledger.rolled_back or ledger.clock_jumped or host.ledger.clock_jumped):
                vain = ledger.said_gone.intersection((host.ledger.uuid, one) for one in peer.held)
                check(not vain or not self._can_unsubscribe, "{} holds {} in vain (T-61)", host.name, vain)
