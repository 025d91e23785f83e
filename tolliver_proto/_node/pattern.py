"""The seam between the kernel and the patterns above it.

A pattern is an object with hooks. Patterns are gathered by the hooks that they override, so that a node without
patterns walks empty tuples. Patterns are called in the order of their first use, and no pattern depends on that order.
A hook answers at once and cannot fail: a pattern that has to wait, or to ask the store, calls the node and goes on
later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from .._common.errors import LocalProtocolError, TolliverError
from .._wire.events import Message, Subscription
from .actions import Delivery, GoOn, Handler, Receipt
from .inboxes.inbox import Fate
from .link import Link, Peer
from .store import Found, Row, StoredMessage

Judgement = tuple[Handler, ...] | Fate
"""Handlers of messages with given names, or the fate of messages that no handler gets."""


class Pattern:
    """Base of all patterns: hooks that do nothing."""

    # Messages.

    def judges(self, channel: str, key: str, verdict: Judgement) -> Judgement:
        """Returns the judgement on messages with these names, given the kernel's `verdict`; the result is remembered by
        name."""
        return verdict

    def leaves(self, link: Link, message: Message, fate: Fate) -> bool:
        """Offers a message without a handler. Returns True if the pattern has taken the message."""
        return False

    def acknowledges(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        """Called with the deliveries that were handled. Returns those that may be acknowledged now; the pattern keeps
        the others."""
        return deliveries

    def unhandled(self, deliveries: Sequence[Delivery]) -> None:
        """Called with deliveries that failed or never began: they are not acknowledged."""

    # Peers.

    def peer_up(self, link: Link) -> None:
        """The peer of this link is established, on this link or on another one that was preferred."""

    def peer_down(self, link: Link, was_up: bool) -> None:
        """Called when a link does not belong to its peer any more; `was_up` if it was the peer's live one."""

    def rerouted(self, peer: Peer) -> None:
        """The peer's rights or subscriptions may have changed."""

    def peer_moved(self, peer: Peer) -> None:
        """The peer came, went, or changed its subscriptions: requests that wait for a peer look again, in a turn."""

    # Subscriptions and names.

    def before_list(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> bool:
        """The peer's list is to become `wanted`. Returns True if that must wait: the pattern then calls `go_on` with
        None once it may be asked again, or with the error that prevents the list."""
        return False

    def with_list(self, peer: Peer) -> bool:
        """Called when the routes have the peer's new list, which the current commit stores.

        Returns True if the pattern stores messages for the peer in the same commit.
        """
        return False

    def refuses(self, channel: str) -> LocalProtocolError | None:
        """The error for a send on this channel, if the channel belongs to the pattern; else None."""
        return None

    def owns(self, channel: str) -> bool:
        """True if messages on this channel must not be dropped to make room."""
        return False

    def holds(self, entry: Subscription) -> bool | None:
        """A peer's newer list lacks this entry. True: hold it in any case; False: never; None: by the policy."""
        return None

    def own_changed(self, entry: Subscription) -> None:
        """The application subscribes to this entry, durably."""

    # Deliveries of owners.

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        """The peer is not owed these messages any more: acknowledged, given up, set aside, or never stored."""

    def rescues(self, peer: Peer, found: list[Found]) -> list[Found]:
        """The peer is not to get these messages. Returns those to give up; the pattern moves the others to another
        owner."""
        return found

    def forgets(self, peer: Peer) -> None:
        """The peer is about to be forgotten. Raises LocalProtocolError to refuse that."""

    def stored(self, owner: Peer, messages: Sequence[StoredMessage]) -> None:
        """Called when messages of an owner without a connection are on disk."""

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        """A Fetch for this owner brought these rows, or failed. Returns True if the pattern had asked for it."""
        return False

    # A full disk (D-13).

    def waits(self) -> bool:
        """True if messages of the pattern wait for a commit of their own."""
        return False

    def room_is_back(self) -> None:
        """The disk has room again: messages that waited may be stored."""

    def no_room(self, error: TolliverError) -> None:
        """The disk has no room at all: messages that wait fail with this error."""

    # The turn.

    def turn(self) -> None:
        """Does the work that the pattern asked a turn for, a little at a time."""

    def unsent(self) -> Collection[Receipt]:
        """Receipts of sends that wait in the pattern, in order."""
        return ()

    def busy(self) -> bool:
        """True if the pattern has work in progress that must end before the node is idle."""
        return False

    def sent(self, link: Link) -> None:
        """The socket of this link has taken the outstanding Transmit."""

    def closing(self) -> None:
        """The node begins to close."""

    def stats(self) -> Mapping[str, int]:
        """Current sizes, by the names of `NodeStats`."""
        return {}


_HOOKS = tuple(name for name in vars(Pattern) if not name.startswith("_"))


class Hooks:
    """Patterns in use, by the hooks that they override."""

    __slots__ = _HOOKS

    judges: tuple[Pattern, ...]
    leaves: tuple[Pattern, ...]
    acknowledges: tuple[Pattern, ...]
    unhandled: tuple[Pattern, ...]
    peer_up: tuple[Pattern, ...]
    peer_down: tuple[Pattern, ...]
    rerouted: tuple[Pattern, ...]
    peer_moved: tuple[Pattern, ...]
    before_list: tuple[Pattern, ...]
    with_list: tuple[Pattern, ...]
    unsent: tuple[Pattern, ...]
    refuses: tuple[Pattern, ...]
    owns: tuple[Pattern, ...]
    holds: tuple[Pattern, ...]
    own_changed: tuple[Pattern, ...]
    left: tuple[Pattern, ...]
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
