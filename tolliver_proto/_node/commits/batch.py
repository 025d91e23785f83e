"""Contents of the next commit, and what follows its success or failure.

While one commit runs, everything that changes gathers in one batch; when the commit is reported, the batch says what
became durable. That is group commit for free. Each change is an operation, what follows it (`then`), and how it is
taken back where it failed (`undo`). A removal is never taken back: an acknowledged delivery stays acknowledged, its
removal waits for the next commit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from ..._common.intervals import Span, spans_of
from ..._common.records import record
from ..._wire.events import Subscription
from ..actions import GoOn, Receipt
from ..message_set import Handled
from ..store import (
    STORING,
    AddDeliveries,
    ForgetPeer,
    Found,
    Operation,
    ParkDelivery,
    RemoveDeliveries,
    RemoveMessages,
    RemoveRetained,
    ReplacePeerSubscriptions,
    StoredMessage,
    StoreMessages,
    StoreRetained,
)

if TYPE_CHECKING:
    from ..link import Link, Peer, Recipients


PeerList = tuple[frozenset[Subscription], dict[Subscription, float]]
"""Subscriptions of a peer, and those that are held, with their deadlines."""


class Kept:
    """A message that is kept. `owed` counts the peers that are to have it now, `owners` those that ever were."""

    __slots__ = ("excluded", "message", "owed", "owners", "recipients", "to")

    def __init__(self, message: StoredMessage, recipients: Recipients, to: frozenset[UUID] | None) -> None:
        self.message = message
        self.recipients = recipients
        self.to = to  # for these alone (P-25)
        self.excluded: set[Peer] | None = None  # these have it from here already, or are not to have it
        self.owed = self.owners = len(recipients.peers)

    def is_for(self, peer: Peer) -> bool:
        """True if it is to be that peer's, should that subscribe to it."""
        is_new = peer not in self.recipients.peers and peer not in (self.excluded or ())
        return is_new and (self.to is None or peer.uuid in self.to)

    def exclude(self, peer: Peer) -> None:
        self.excluded = self.excluded or set()
        self.excluded.add(peer)

    def claim(self, peer: Peer) -> bool:
        """That peer is to have it. True if all who were to have it before had acknowledged it."""
        self.exclude(peer)
        self.owed += 1
        self.owners += 1
        return self.owed == 1 < self.owners

    def disclaim(self, peer: Peer) -> None:
        """It was not stored for that peer."""
        assert self.excluded is not None
        self.excluded.remove(peer)
        self.owed -= 1
        self.owners -= 1


@record
class Move:
    """Deliveries that get another owner: it has them from the commit on that takes them from the one before."""

    source: Peer
    target: Peer
    messages: Sequence[StoredMessage | Found]

    @property
    def ids(self) -> dict[int, int]:
        """Wire ids by seq."""
        return {one.seq: one.wire_id for one in self.messages}

    @property
    def size(self) -> int:
        return sum(one.size for one in self.messages)


class Batch:
    """One commit in the making."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.tokens: list[Receipt] = []
        self.acks: defaultdict[Link, list[int]] = defaultdict(list)  # they wait for what they acknowledge
        self.then: list[GoOn] = []  # goes on when it is through or has failed
        self.undo: dict[Hashable, Callable[[], None]] = {}  # by what it makes as the store has it until then
        # Messages.
        self.runs: list[tuple[Recipients, list[StoredMessage]]] = []
        self.linked: list[tuple[Peer, list[Kept]]] = []  # kept for a peer that connected (T-62)
        self.values: dict[tuple[str, str], bytes | None] = {}  # retained, by name; None is cleared (P-30)
        self.moves: list[Move] = []
        # Subscriptions of peers.
        self.lists: dict[Peer, None] = {}  # whose whole list is to be stored, as it is when the commit begins
        self.heard: list[tuple[Link, Operation]] = []  # peers said on these connections that they want this
        self.told: dict[Link, frozenset[Subscription]] = {}  # their words there before
        self.peer_lists: dict[Peer, PeerList] = {}  # as the store has them until then
        # Deliveries that are removed or set aside.
        self.put_away: list[RemoveDeliveries | ParkDelivery] = []
        self.gone: list[Span] = []  # messages that nobody is owed any more
        self.handled: list[Handled] = []  # not to be delivered again (T-48)
        self.letters_added: list[int] = []  # numbers of dead letters (T-47)
        self.letters_gone: dict[int, int] = {}  # and sizes by number
        self.forgets: list[UUID] = []  # peers of whom nothing is left (T-77)
        self.stale: list[UUID] = []  # derived identities whose time is over (T-72a)

    @property
    def urgent(self) -> bool:
        """True if anything in it is waited for; removals alone wait for whatever comes next."""
        return bool(self.operations or self.tokens or self.acks or self.forgets or self.then)

    @property
    def stores(self) -> bool:
        """True if it stores messages, which takes room (D-13)."""
        return any(isinstance(operation, STORING) for operation in self.operations) or any(
            body is not None for body in self.values.values()
        )

    @property
    def empty(self) -> bool:
        return not (self.urgent or self.putting_away)

    @property
    def putting_away(self) -> bool:
        return bool(self.put_away or self.gone or self.lists or self.linked or self.handled or self.stale)

    def store(
        self, messages: Sequence[StoredMessage], recipients: Recipients, held: bool, expire_after: float | None
    ) -> None:
        operations = self.operations
        last = operations[-1] if operations else None
        if type(last) is not StoreMessages or last.expire_after is not expire_after:
            last = StoreMessages([], [], [], expire_after)
            operations.append(last)
        last.messages.extend(messages)  # type: ignore[attr-defined]  # ours until it is handed out
        last.recipients.extend([recipients.ids] * len(messages))  # type: ignore[attr-defined]
        if held:
            last.held.extend(message.seq for message in messages)  # type: ignore[attr-defined]
        if self.runs and self.runs[-1][0] is recipients:
            self.runs[-1][1].extend(messages)
        elif recipients.peers:
            self.runs.append((recipients, [*messages]))

    def messages(self) -> Iterator[StoredMessage]:
        """All that it stores."""
        for operation in self.operations:
            if isinstance(operation, StoreMessages):
                yield from operation.messages

    def all_operations(self) -> Sequence[Operation]:
        operations: list[Operation] = [*map(ForgetPeer, self.stale), *self.operations]  # one may have come back since
        if self.values:
            operations += _changes_of(self.values)
        for peer in self.lists:
            operations.append(
                ReplacePeerSubscriptions(peer.uuid, tuple(peer.lists.subscriptions), tuple(peer.lists.held))
            )
        for peer, linked in self.linked:
            deliveries = [(one.message.seq, one.message.wire_id, one.message.size) for one in linked]
            operations.append(AddDeliveries(peer.uuid, deliveries))
        for move in self.moves:
            deliveries = [(one.seq, one.wire_id, one.size) for one in move.messages]
            operations.append(AddDeliveries(move.target.uuid, deliveries))
            operations.append(RemoveDeliveries(move.source.uuid, spans_of(move.ids)))
        operations += self.put_away
        operations += map(ForgetPeer, self.forgets)
        if self.gone:
            operations.append(RemoveMessages(self.gone))
        return operations

    def follow(self, failed: Batch) -> None:
        """Take over what a failed commit was to put away, and take the rest back, but for what has changed again."""
        self.put_away[:0] = failed.put_away
        self.gone[:0] = failed.gone
        for number in failed.letters_added:
            self.letters_gone.pop(number, None)  # it never was there
        self.handled[:0] = failed.handled  # a handled message stays so; its ack comes with a copy, when that is stored
        self.stale[:0] = failed.stale
        for what, undo in failed.undo.items():
            if what in self.undo:
                self.undo[what] = undo
            else:
                undo()


def _changes_of(values: Mapping[tuple[str, str], bytes | None]) -> Iterator[Operation]:
    kept = [(*name, body) for name, body in values.items() if body is not None]
    if kept:
        yield StoreRetained(kept)
    cleared = [name for name, body in values.items() if body is None]
    if cleared:
        yield RemoveRetained(cleared)
