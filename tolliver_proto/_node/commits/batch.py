"""Contents of the next commit, and what follows its success or failure.

While one commit runs, all changes gather in one batch; when the store reports the commit, the batch says what became
durable. Three kinds of changes are frequent and have runs of their own: messages to store, deliveries to remove, and
received ids. A removal is never taken back: an acknowledged delivery stays acknowledged, and the removal goes into the
next commit. Any other change is an operation, a call that follows the commit or its failure (`then`), and the way to
take the change back (`undo`), each if needed. They are three lists, as all undone state must be back before `Stored`
tells of a failure, and before the first call.

The store performs stored messages and received ids first, removals last. Rejected: the order of the calls, as sends
between other changes would be many small operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ..._common.intervals import Span
from ..._wire.events import Subscription
from ..actions import GoOn, Receipt
from ..message_set import Handled
from ..store import (
    STORING,
    AddDeliveries,
    Due,
    ForgetPeer,
    Operation,
    ParkDelivery,
    RememberHandled,
    RemoveDeliveries,
    RemoveMessages,
    ReplacePeerSubscriptions,
    StoredMessage,
    StoreMessages,
)

if TYPE_CHECKING:
    from ..link import Link, Peer, Recipients


class PeerList(NamedTuple):
    """Subscriptions of a peer; those that are held, with their deadlines; of these, the ones that no stored list may
    have had."""

    subscriptions: frozenset[Subscription]
    held: dict[Subscription, float]
    unlisted: frozenset[Subscription]


PutAway = RemoveDeliveries | ParkDelivery | AddDeliveries
"""Removals, and what goes with them: a pattern gives deliveries of its own to another owner."""


class Kept:
    """A message kept for connecting peers (T-62).

    `owed` counts the recipients that have not acknowledged the message, `owners` all recipients so far.
    """

    __slots__ = ("excluded", "message", "owed", "owners", "recipients", "to")

    def __init__(self, message: StoredMessage, recipients: Recipients, to: frozenset[UUID] | None) -> None:
        self.message: StoredMessage = message
        self.recipients: Recipients = recipients
        self.to: frozenset[UUID] | None = to  # the only peers that may get the message (P-25); None: all
        self.excluded: set[UUID] | None = None  # peers that claimed the message, or must not get it
        self.owed: int = len(recipients.peers)
        self.owners: int = self.owed

    def is_for(self, peer: Peer) -> bool:
        """True if the peer gets the message once the peer subscribes to it."""
        is_new = peer not in self.recipients.peers and peer.uuid not in (self.excluded or ())
        return is_new and (self.to is None or peer.uuid in self.to)

    def exclude(self, peer: Peer) -> None:
        self.excluded = self.excluded or set()
        self.excluded.add(peer.uuid)

    def claim(self, peer: Peer) -> bool:
        """Adds the peer to the recipients. Returns True if all recipients before had acknowledged the message, so that
        it has an owner again.
        """
        self.exclude(peer)
        self.owed += 1
        self.owners += 1
        return self.owed == 1 < self.owners

    def disclaim(self, peer: Peer) -> None:
        """Removes the peer from the recipients, as the commit that made it one has failed."""
        assert self.excluded is not None
        self.excluded.remove(peer.uuid)
        self.owed -= 1
        self.owners -= 1


class Batch:
    """Changes that wait for the next commit, or for the running one to end: the operations for the store, and what is
    to be done after it.
    """

    def __init__(self) -> None:
        # Messages to store, with their recipients, and the receipts that tell of the commit.
        self.stored: list[StoreMessages] = []
        self.runs: list[tuple[Recipients, list[StoredMessage]]] = []
        self.tokens: list[Receipt] = []
        # Deliveries that are removed or set aside, and messages without an owner.
        self.put_away: list[PutAway] = []
        self.gone: list[Span] = []
        # Received ids that deduplication remembers (T-48), and the acks that go out once this is durable.
        self.handled: list[Handled] = []
        self.acks: defaultdict[Link, list[int]] = defaultdict(list)
        # Other changes.
        self.operations: list[Operation] = []
        self.then: list[GoOn] = []
        self.undo: dict[Hashable, Callable[[], None]] = {}  # by subject: restores the state that the store has
        self.stale: list[UUID] = []  # expired derived identities (T-72a), forgotten first
        self.linked: list[tuple[Peer, list[Kept]]] = []  # kept messages that a connecting peer claimed (T-62)
        self.at_begin: dict[Callable[[], None], bool] = {}  # called as the commit begins; True: stores messages then
        # Subscriptions of peers: after a failure the stored lists come back, with the changes since.
        # Peers whose whole list is stored, as of the commit's begin; True: a later commit stores it if this one fails.
        self.lists: dict[Peer, bool] = {}
        self.heard: list[tuple[Link, Operation]] = []  # changes that peers announced, and on which connection
        self.told: dict[Link, frozenset[Subscription]] = {}  # the list announced on the connection before this batch
        self.peer_lists: dict[Peer, PeerList] = {}  # lists as the store has them before this commit

    @property
    def urgent(self) -> bool:
        """True if something waits for this commit, so that it begins at once. Removals alone are not urgent: they go
        with the next commit.
        """
        return bool(self.stored or self.operations or self.tokens or self.acks or self.then)

    @property
    def stores(self) -> bool:
        """True if the commit stores messages, and so needs disk space (D-13)."""
        return (
            bool(self.stored)
            or any(isinstance(operation, STORING) for operation in self.operations)
            or any(self.at_begin.values())
        )

    @property
    def empty(self) -> bool:
        return not (self.urgent or self.putting_away)

    @property
    def putting_away(self) -> bool:
        return bool(self.put_away or self.gone or self.lists or self.linked or self.handled or self.stale)

    def store(
        self,
        messages: Sequence[StoredMessage],
        recipients: Recipients,
        held: bool,
        expire_after: float | None,
        due: Due | None,
    ) -> None:
        last = self.stored[-1] if self.stored else None
        if last is None or last.expire_after is not expire_after or last.due is not due:
            last = StoreMessages([], [], [], expire_after, due)
            self.stored.append(last)
        last.messages.extend(messages)  # type: ignore[attr-defined]  # ours until the commit begins
        last.recipients.extend([recipients.ids] * len(messages))  # type: ignore[attr-defined]
        if held:
            last.held.extend(message.seq for message in messages)  # type: ignore[attr-defined]
        if self.runs and self.runs[-1][0] is recipients:
            self.runs[-1][1].extend(messages)
        elif recipients.peers:
            self.runs.append((recipients, [*messages]))

    def note_list(self, peer: Peer) -> None:
        """Notes the peer's list as the store has it, before the first change of the list in this batch."""
        lists = peer.lists
        self.peer_lists.setdefault(peer, PeerList(lists.subscriptions, lists.held, lists.unlisted))

    def deliveries_to(self, peer: Peer) -> int:
        """Number of messages that the batch stores for the peer."""
        runs = [len(messages) for recipients, messages in self.runs if peer in recipients.peers]
        return sum(runs) + sum(len(claimed) for one, claimed in self.linked if one is peer)

    def separate(self) -> None:
        """Has the messages from here on stored in rows of their own, as they stay longer than those before them."""
        self.stored.append(StoreMessages([], [], []))

    def all_operations(self, dedupe: int) -> Sequence[Operation]:
        operations: list[Operation] = [*map(ForgetPeer, self.stale), *self.stored]  # may store such a peer again
        if self.handled:
            operations.append(RememberHandled(self.handled, dedupe))
        operations += self.operations
        for peer in self.lists:
            operations.append(
                ReplacePeerSubscriptions(peer.uuid, tuple(peer.lists.subscriptions), tuple(peer.lists.held))
            )
        for peer, linked in self.linked:
            deliveries = [(one.message.seq, one.message.wire_id, one.message.size) for one in linked]
            operations.append(AddDeliveries(peer.uuid, deliveries))
        operations += self.put_away
        if self.gone:
            operations.append(RemoveMessages(self.gone))
        return operations

    def follow(self, failed: Batch) -> None:
        """Takes over the removals of the batch whose commit has failed, and undoes its other changes.

        A change that this batch has made again is not undone now: this batch inherits the older `undo`.
        """
        self.put_away[:0] = failed.put_away
        self.gone[:0] = failed.gone
        self.handled[:0] = failed.handled  # the handlers have run; the ack goes out with a copy, once this is stored
        self.stale[:0] = failed.stale
        for what, undo in failed.undo.items():
            if what in self.undo:
                self.undo[what] = undo
            else:
                undo()
