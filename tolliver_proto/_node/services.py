"""Services of a node for its patterns, beyond the public calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import UUID

from .._common.errors import UndeliveredReason
from .._common.owner_ids import LATER
from .._common.timers import Timers
from .._wire.events import Message, Subscription
from .._wire.limits import Limits
from .actions import Action, Delivery, GoOn, NoticeKind, Receipt, Rider
from .inboxes.inbox import Fate, Inbox, MessageKey
from .link import Hold, Link, Peer, Recipients
from .outboxes.ids import Randomness
from .outboxes.ledger import Moved
from .outboxes.outbox import Holds, Window
from .outboxes.quota import Quota
from .outboxes.sender import Terms
from .parts import Parts
from .pattern import Pattern
from .policy import Policy
from .sizes import Item
from .store import AddDeliveries, Due, Found, LoadedPeer, Operation, RemoveDeliveries, Row, StoredMessage


class Services:
    """Calls and tables that the node has for its patterns. The tables are the node's own: patterns only read them."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        context, sizes, own, room = parts.context, parts.sizes, parts.own, parts.room
        self.instance_id: UUID = context.instance_id
        self.limits: Limits = context.limits
        self.policy: Policy = context.policy
        self.rng: Randomness = context.rng
        self.links: dict[int, Link] = context.links
        self.peers: dict[UUID, Peer] = context.peers
        self.own: dict[Subscription, None] = own.entries
        self.timers: Timers = context.timers
        self.counts: defaultdict[str, int] = context.counts
        self.quota: Quota = room.quota
        self.tell: Callable[[Action], None] = context.actions.append
        self.tick: Callable[[float | None], None] = context.tick
        self.notice: Callable[[NoticeKind, UUID | None, str], None] = context.notice
        self.tally: Callable[[NoticeKind, UUID | None, int, str, float], None] = context.tally.add
        self.check: Callable[[str, str], Subscription] = sizes.checked
        self.size: Callable[[str, str, bytes], int] = sizes.size
        self.check_body: Callable[[str, bytes], None] = sizes.check_body
        self.name_size: Callable[[str], int] = sizes.name_size
        self.check_list: Callable[[Sequence[Subscription]], None] = own.check_list
        self.ack: Callable[[Link, Sequence[int]], None] = parts.commits.ack
        self.search: Callable[[UUID | None, Callable[[Sequence[Found]], bool | None], GoOn], None] = (
            parts.commits.searches.begin
        )
        self.max_deaths: int | None = context.policy.max_deaths
        self.suspects: Mapping[tuple[UUID, int], int | None] = parts.suspects
        self.go_on_reading: Callable[[Link, Hold], None] = context.go_on_reading
        self.on_message: Callable[[Link, Message], None] = parts.delivering.on_message
        self.count_attempt: Callable[[Peer, MessageKey, int], None] = parts.letters.count_attempt
        self.keep_as_letter: Callable[[Delivery, Inbox, int, MessageKey, str, str], None] = parts.letters.keep_as_letter
        self.keep_early: Callable[[Link, Message], bool] = parts.delivering.keep_early
        self.withhold: Callable[[Peer, Message], None] = parts.delivering.withhold
        self.move: Callable[[Peer, Peer, Sequence[StoredMessage | Found], Moved], None] = parts.ledger.move
        self.send: Callable[..., Receipt] = parts.sender.send_many
        self.follow: Callable[[Receipt], None] = parts.ledger.follow
        self.replace: Callable[[int, int | None, int], None] = parts.ledger.replace
        self.match: Callable[[str, str], Recipients] = parts.routing.routes.match
        self.give_up: Callable[[UndeliveredReason, Peer, Iterable[Found]], None] = parts.ledger.remove
        self.withdraw: Callable[[Peer, Mapping[int, int], int], None] = parts.ledger.withdraw
        self.read_for: Callable[[Peer], Window] = parts.transmission.read_for
        self.take_rows: Callable[[Window, UUID, Sequence[Row], int, Holds], None] = parts.transmission.take_rows
        self.look_at_filling: Callable[[Iterable[Peer]], None] = room.look_at_filling

    @property
    def now(self) -> float:
        return self._parts.context.now

    def on_timer(self, name: str, due: Callable[[Any], None]) -> None:
        """Registers a function for the timers `(name, subject)` or `name`; it gets the subject or None."""
        self._parts.context.due[name] = due

    def after_commit(self, go_on: GoOn) -> None:
        """Calls `go_on` once the commit that collects changes now is durable, or with the error that prevented it."""
        self._parts.commits.batch.then.append(go_on)

    def at_commit(self, call: Callable[[], None], stores: bool) -> None:
        """Calls `call` once, as the commit that collects changes begins, to add operations; `stores` is True if those
        store messages.
        """
        calls = self._parts.commits.batch.at_begin
        calls[call] = calls.get(call, False) or stores

    def recipients(self, channel: str, key: str, to: frozenset[UUID] | None) -> Recipients:
        """Peers that get a reliable message with these names, of those in `to` if given."""
        parts = self._parts
        return parts.routing.routes.match(channel, key) if to is None else parts.routing.narrow(channel, key, to)

    def ask_turn(self, pattern: Pattern) -> None:
        """Calls the pattern's `turn` after received data was read and sendable messages were encoded."""
        self._parts.context.turns[pattern] = None

    def retire(self, pattern: Pattern) -> None:
        """Calls no hook of the pattern any more: its work is over."""
        self._parts.context.hooks.remove(pattern)

    def write(self, link: Link) -> None:
        """Schedules a write of the link, whose connection has something to send."""
        self._parts.context.writable[link] = None

    def leave(self, link: Link, message: Message, fate: Fate) -> None:
        """Treats a message that no handler gets as the kernel does without patterns: by its `fate` it is acknowledged,
        or left to its sender.
        """
        self._parts.delivering.leave_to_sender(link, message, fate)

    # Owners that are no peers, and their messages.

    def owner(self, uuid: UUID) -> Peer:
        """Returns the owner of messages with this UUID, known or new: a peer, or what a pattern has in place of one."""
        return self.peers.setdefault(uuid, Peer(uuid, LoadedPeer()))

    def operate(self, operation: Operation) -> None:
        """Adds an operation to the next commit."""
        self._parts.commits.batch.operations.append(operation)

    def put_away(self, operations: Iterable[RemoveDeliveries | AddDeliveries]) -> None:
        """Adds operations that are never taken back to the next commit that comes: as if they were removals."""
        self._parts.commits.batch.put_away.extend(operations)
        self.timers.set_earlier("removals", self.now + self.limits.removal_delay)

    @property
    def apart(self) -> bool:
        """True while the disk is too full for messages: they wait for the hook `room_is_back` (D-13)."""
        return self._parts.commits.apart

    @property
    def is_full(self) -> bool:
        """True for a moment after a commit found the disk full: what its sender has on a disk of its own is left there,
        so that it does not fail others (D-13).
        """
        return self._parts.context.now < self._parts.commits.full_until

    def size_for(self, channel: str, key: str, body: bytes) -> int:
        """Returns the size in bytes of a message's frame for an owner. Raises the error that forbids the message."""
        self.check_body(channel, body)
        return self._parts.sizes.around(channel, key) + len(body)

    def store_for(
        self,
        shares: Sequence[tuple[Recipients, int]],
        items: Sequence[Item],
        sizes: Sequence[int],
        receipt: Receipt | None,
        due: Due | None = None,
    ) -> Sequence[StoredMessage]:
        """Stores messages with the next commit: each of the `shares`, (owners, number), takes the next `number` of
        `items`. The receipt covers all. With `due`, the owner is `LATER`.
        """
        parts = self._parts
        first = parts.ledger.next_seq
        if receipt is not None:
            receipt.first_seq = first
        numbers = zip(count(first), parts.ledger.ids.take_many(len(items)), strict=False)
        rows = [
            StoredMessage(seq, wire_id, *item, size)
            for (seq, wire_id), item, size in zip(numbers, items, sizes, strict=False)
        ]
        at = 0
        for recipients, number in shares:
            parts.ledger.take_in(rows[at : at + number], recipients, False, None, due)
            for peer in recipients.peers:
                peer.outbox.add(number, sum(sizes[at : at + number]))
            at += number
        if rows and receipt is not None:
            parts.ledger.hold_receipt(receipt, len(rows))
        return rows

    def separate(self) -> None:
        """Has the messages from here on stored in rows of their own, as they stay longer than those before them."""
        self._parts.commits.batch.separate()

    def search_older(
        self, peer: UUID, min_age: float, take: Callable[[Sequence[Found]], bool | None], done: GoOn
    ) -> None:
        """Searches the owner's messages that were stored `min_age` seconds ago or before, by the store's clock."""
        self._parts.commits.searches.begin(peer, take, done, min_age)

    def search_later(self, take: Callable[[Sequence[Found]], bool | None], done: GoOn) -> None:
        """Searches the message of the owner `LATER` that is due first: `take` gets that."""
        self._parts.commits.searches.begin(LATER, take, done, 0.0, 1, expiring=True)

    @property
    def next_seq(self) -> int:
        """Seq of the next message that is stored."""
        return self._parts.ledger.next_seq

    @property
    def sends_wait(self) -> bool:
        """True if a send would wait inside now, also if the disk had room."""
        return self._parts.sender.is_held

    def hold_sends(self) -> None:
        """Has all sends wait inside until `let_sends_go` was called as often."""
        self._parts.sender.hold_up()

    def let_sends_go(self) -> None:
        self._parts.sender.let_go()

    def is_owed(self, seq: int) -> bool:
        """True if the stored message `seq` has an owner, or is kept for a connecting peer."""
        return self._parts.ledger.refcounts.count_of(seq) > 0

    def is_owned_once(self, seq: int) -> bool:
        """True if the stored message `seq` has exactly one owner."""
        return self._parts.ledger.refcounts.count_of(seq) == 1

    def peers_with(self, subscription: Subscription) -> Iterable[Peer]:
        """Returns the peers that subscribe to exactly this channel and key."""
        return self._parts.routing.routes.of(subscription)

    def refuse_names(self) -> None:
        """Clears the remembered sizes, after a pattern has changed the channels that it refuses."""
        self._parts.sizes.pair_sizes.clear()

    def send_with(self, rider: Rider, items: Sequence[Item]) -> None:
        """Sends these items, or queues them behind the sends that wait. Raises like `send_many`."""
        parts = self._parts
        waits = parts.sender.blocked or (items and parts.sender.must_wait())
        if waits or not parts.sender.store(items, parts.sizes.sizes(items), rider, Terms()):
            parts.sender.blocked.append(([*items], rider, Terms()))

    def send_at_once(self, rider: Rider, items: Sequence[Item]) -> bool:
        """Sends these items if they are a plain case, else returns False. Raises like `send_many`."""
        return self._parts.sender.store_at_once(items, rider)

    def wanted_by(self, peer: Peer, items: Sequence[Item]) -> list[Item]:
        """The items among these that this peer gets."""
        routed = self._parts.routing.routes.match_all(items)
        return [item for item, recipients in zip(items, routed, strict=True) if peer in recipients.peers]

    def encoded_size(self, channel: str, key: str, body: bytes) -> int:
        """Size in bytes of a message's frame."""
        return self._parts.context.encoder.overhead + len(channel.encode()) + len(key.encode()) + len(body)

    # Our own subscriptions and handlers.

    def announce(self, entries: Iterable[Subscription], wanted: bool) -> None:
        """Announces these subscriptions to all peers, as wanted or as ended, now and at each handshake, without storing
        them."""
        for one in entries:
            self._parts.own.set_own(one, wanted)
            self._parts.own.sync_own(one, None)
        self._parts.context.judgements.clear()

    def has_handler(self, channel: str, key: str) -> bool:
        """True if a handler is registered for exactly these names."""
        return self._parts.delivering.handlers.has(self._parts.sizes.checked(channel, key))
