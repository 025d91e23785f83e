"""What the next commit holds, and what to do when it is through or has failed.

The idea: while one commit runs, everything that changes gathers in one batch; when the commit is reported, the batch
says what became durable. That is group commit for free (rule 3 of the rooms). A batch that failed says what to take
back; acknowledged rows are never taken back, their removal just waits for the next commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from .._common.errors import TolliverError
from .._wire.events import Subscription
from .actions import Receipt
from .store import (
    AddDeadLetter,
    AddDeliveries,
    DeadLetter,
    ForgetPeer,
    Operation,
    ParkDelivery,
    RemoveDeliveries,
    RemoveMessages,
    ReplacePeerSubscriptions,
    Span,
    StoredMessage,
    StoreMessages,
)

if TYPE_CHECKING:
    from .link import Link, Peer, Recipients


class Batch:
    """One commit in the making."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.removals: list[RemoveDeliveries] = []
        self.gone: list[Span] = []  # messages that nobody is owed any more
        self.parked: list[ParkDelivery] = []
        self.lists: dict[Peer, None] = {}  # whose whole list is to be stored, as it is when the commit begins
        self.tokens: list[Receipt] = []
        self.runs: list[tuple[Recipients, list[StoredMessage]]] = []
        self.linked: list[tuple[Peer, list[StoredMessage]]] = []  # kept for a peer that connected (T-62)
        self.handshakes: list[Link] = []  # links that wait for their list to be stored
        self.control_acks: list[tuple[Link, int]] = []
        self.heard: list[tuple[Link, Operation]] = []  # what peers said on these connections that they want
        self.told: dict[Link, frozenset[Subscription]] = {}  # what they had said there before
        self.peer_lists: dict[Peer, frozenset[Subscription]] = {}  # as the store has them until then
        self.own: dict[Subscription, bool] = {}  # whether the store has it until then
        self.pins: dict[Peer, bytes | None] = {}  # as the store has them until then
        self.handled: list[tuple[UUID, int]] = []  # what is not to be delivered again (T-48)
        self.forgets: list[UUID] = []  # peers of whom nothing is left (T-77)
        self.stale: list[UUID] = []  # derived identities whose time is over (T-72a)
        self.then: list[Callable[[TolliverError | None], None]] = []  # what goes on when it is through or has failed
        self.letters: list[tuple[Link, DeadLetter]] = []  # what was given up here, and on which connection (T-47)

    @property
    def urgent(self) -> bool:
        """Whether anything in it is waited for; what is only put away rides with what comes next."""
        return bool(
            self.operations
            or self.tokens
            or self.handshakes
            or self.control_acks
            or self.letters
            or self.forgets
            or self.then
        )

    @property
    def empty(self) -> bool:
        return not (self.urgent or self.putting_away)

    @property
    def putting_away(self) -> bool:
        return bool(self.removals or self.gone or self.parked or self.lists or self.handled or self.stale)

    def store(self, messages: Sequence[StoredMessage], recipients: Recipients, held: bool) -> None:
        operations = self.operations
        last = operations[-1] if operations else None
        if type(last) is not StoreMessages:
            last = StoreMessages([], [], [])
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
        operations: list[Operation] = [ForgetPeer(peer) for peer in self.stale]  # one may have come back since
        operations += self.operations
        for peer in self.lists:
            operations.append(ReplacePeerSubscriptions(peer.uuid, tuple(peer.subscriptions)))
        for peer, messages in self.linked:
            deliveries = [(message.seq, message.wire_id, message.size) for message in messages]
            operations.append(AddDeliveries(peer.uuid, deliveries))
        operations += [AddDeadLetter(letter) for _, letter in self.letters]
        operations += self.parked  # what is set aside may be dropped before that was stored
        operations += self.removals
        operations += [ForgetPeer(peer) for peer in self.forgets]
        if self.gone:
            operations.append(RemoveMessages(self.gone))
        return operations

    def carry_over(self, failed: Batch) -> None:
        """What a failed commit was to put away: what was acknowledged stays acknowledged."""
        self.removals[:0] = failed.removals
        self.gone[:0] = failed.gone
        self.parked[:0] = failed.parked
        self.stale[:0] = failed.stale
