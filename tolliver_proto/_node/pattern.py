"""Hooks by which the kernel calls the patterns above it.

A pattern is an object with hooks. Patterns are gathered by the hooks that they override, so that a node without
patterns walks empty tuples. Patterns are called in the order of their first use, and no pattern depends on that order.
A hook answers at once and cannot fail: a pattern that has to wait, or to ask the store, calls the node and goes on
later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from .._common.errors import LocalProtocolError, TolliverError, UndeliveredReason
from .._wire.events import Message, Subscription
from .actions import Delivery, GoOn, Handler, Receipt
from .inboxes.inbox import Fate
from .link import Link, Peer, Recipients
from .store import AddDeliveries, Found, RemoveDeliveries, Row, StoredMessage

Judgement = tuple[Handler, ...] | Fate
"""The handlers that get the messages of one channel and key or, where no handler gets them, their fate."""


class Pattern:
    """Base of all patterns, such as work queues: the hooks by which the node calls a pattern, which do nothing here."""

    # Messages.

    def judges(self, channel: str, key: str, judgement: Judgement) -> Judgement:
        """Called for the first message of a channel and key; decides which handlers get messages with these names, or
        their fate. Returns `judgement`, the kernel's decision, or another one. The node keeps the result for these
        names until handlers, subscriptions or stuck handlers change."""
        return judgement

    def comes(self, link: Link, message: Message) -> bool:
        """Called with a message that handlers are to get. Returns True if the pattern keeps it, to pass it on with
        `Services.on_message` later."""
        return False

    def leaves(self, link: Link, message: Message, fate: Fate) -> bool:
        """Called with a message that no handler gets. Returns True if the pattern takes the message; else the kernel
        acknowledges it or leaves it to its sender, by its fate."""
        return False

    def acknowledges(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        """Called with the deliveries that were handled. Returns those that may be acknowledged now; the pattern keeps
        the others."""
        return deliveries

    def unhandled(self, deliveries: Sequence[Delivery]) -> None:
        """Called with deliveries that failed or never began: they are not acknowledged."""

    def lettered(self, delivery: Delivery, cause: str) -> None:
        """Called with a delivery that the next commit stores as a dead letter, and why: it is acknowledged then."""

    # Peers.

    def peer_up(self, link: Link) -> None:
        """Called when the handshake of this link has ended; the peer's live link is this one, or another one that was
        preferred."""

    def peer_down(self, link: Link, was_up: bool) -> None:
        """Called when a link of a known peer has ended or was replaced. `was_up`: it was the peer's live link."""

    def rerouted(self, peer: Peer) -> None:
        """Called when the peer's rights or subscriptions may have changed, and the routes have been adapted."""

    def peer_moved(self, peer: Peer) -> None:
        """Called when the peer has connected, left, or changed its subscriptions, so that a request that waits for a
        peer may now have one."""

    # Subscriptions and names.

    def before_list(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> bool:
        """Called before the subscriptions of the peer `uuid` become `wanted`. Returns True to delay that: the pattern
        then calls `go_on` with None once it may be asked again, or with the error that prevents the change."""
        return False

    def with_list(self, peer: Peer) -> bool:
        """Called when the routes have the peer's new subscriptions, which the next commit stores.

        Returns True if the pattern stores messages for the peer in the same commit.
        """
        return False

    def refuses(self, channel: str) -> LocalProtocolError | None:
        """Returns the error that a send of the application on this channel raises, because the channel belongs to the
        pattern; None allows the send."""
        return None

    def owns(self, channel: str) -> bool:
        """Returns True if messages on this channel must not be dropped to make room at a peer's quota."""
        return False

    def keeps(self, channel: str) -> Recipients | None:
        """Called for a message that nobody would get. Returns the owner, which is no peer, that keeps the messages of
        this channel; None for none."""
        return None

    def holds(self, entry: Subscription) -> bool | None:
        """Called when a peer's new list lacks the subscription `entry`. Decides whether the node goes on to keep
        messages for it (T-61): True: in any case; False: never; None: as the policy says."""
        return None

    def own_changed(self, entry: Subscription) -> None:
        """Called when the application subscribes to this entry."""

    # Deliveries of owners.

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        """Called when the peer is no longer owed these messages: they were acknowledged, given up, set aside, or never
        stored."""

    def given_up(self, reason: UndeliveredReason, seqs: Collection[int]) -> Iterable[RemoveDeliveries | AddDeliveries]:
        """Called when some peer is not to get these messages any more, for this reason. Returns what the commit that
        removes the deliveries does with messages of the pattern; like a removal, that is never taken back."""
        return ()

    def rescues(self, peer: Peer, found: list[Found]) -> list[Found]:
        """Called with the deliveries `found`, which the peer is not to get any more. Returns those to give up; the
        pattern moves the others to another owner.
        """
        return found

    def forgets(self, peer: Peer) -> None:
        """Called before the application's `forget_peer` has an effect. Raises LocalProtocolError to refuse that."""

    def stored(self, owner: Peer, messages: Sequence[StoredMessage]) -> None:
        """Called when messages of an owner that is no peer, such as a work queue, are on disk."""

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        """Called with the rows that a Fetch for this owner has read, or with its error. Returns True if the pattern had
        asked for the Fetch: the kernel then ignores the rows."""
        return False

    # A full disk (D-13).

    def waits(self) -> bool:
        """Returns True if messages of the pattern wait for a commit of their own, which only stores messages."""
        return False

    def room_is_back(self) -> None:
        """Called when messages that waited for room on the disk may be stored."""

    def no_room(self, error: TolliverError) -> None:
        """Called when even a commit without messages found no room: messages of the pattern that wait fail with this
        error."""

    # The turn.

    def turn(self) -> None:
        """Called once after each `Services.ask_turn`: does a small piece of the pattern's work."""

    def unsent(self) -> Collection[Receipt]:
        """Returns the receipts of sends that wait in the pattern, in order: a flush waits for them."""
        return ()

    def busy(self) -> bool:
        """Returns True if the pattern has work in progress that must end before the node is idle."""
        return False

    def sent(self, link: Link) -> None:
        """Called when the socket of this link has taken the outstanding Transmit."""

    def closing(self) -> None:
        """Called when the node begins to close."""

    def stats(self) -> Mapping[str, int]:
        """Returns current sizes, by the names of `NodeStats`."""
        return {}


_HOOKS = tuple(name for name in vars(Pattern) if not name.startswith("_"))


class Hooks:
    """Table of the node: for each hook the patterns in use that override it, in the order of their first use."""

    __slots__ = _HOOKS

    judges: tuple[Pattern, ...]
    comes: tuple[Pattern, ...]
    leaves: tuple[Pattern, ...]
    acknowledges: tuple[Pattern, ...]
    unhandled: tuple[Pattern, ...]
    lettered: tuple[Pattern, ...]
    peer_up: tuple[Pattern, ...]
    peer_down: tuple[Pattern, ...]
    rerouted: tuple[Pattern, ...]
    peer_moved: tuple[Pattern, ...]
    before_list: tuple[Pattern, ...]
    with_list: tuple[Pattern, ...]
    unsent: tuple[Pattern, ...]
    refuses: tuple[Pattern, ...]
    owns: tuple[Pattern, ...]
    keeps: tuple[Pattern, ...]
    holds: tuple[Pattern, ...]
    own_changed: tuple[Pattern, ...]
    left: tuple[Pattern, ...]
    given_up: tuple[Pattern, ...]
    rescues: tuple[Pattern, ...]
    forgets: tuple[Pattern, ...]
    stored: tuple[Pattern, ...]
    rows: tuple[Pattern, ...]
    waits: tuple[Pattern, ...]
    room_is_back: tuple[Pattern, ...]
    no_room: tuple[Pattern, ...]
    turn: tuple[Pattern, ...]
    busy: tuple[Pattern, ...]
    sent: tuple[Pattern, ...]
    closing: tuple[Pattern, ...]
    stats: tuple[Pattern, ...]

    def __init__(self) -> None:
        for name in _HOOKS:
            setattr(self, name, ())

    def add(self, pattern: Pattern) -> None:
        """Adds a pattern to each hook that it overrides."""
        for name in _HOOKS:
            if getattr(type(pattern), name) is not getattr(Pattern, name):
                setattr(self, name, (*getattr(self, name), pattern))

    def remove(self, pattern: Pattern) -> None:
        """Removes a pattern from each hook, as its work is over."""
        for name in _HOOKS:
            setattr(self, name, tuple(one for one in getattr(self, name) if one is not pattern))
