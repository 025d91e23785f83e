"""The seam between the kernel and the patterns above it.

A pattern is an object with hooks. The kernel calls a hook of those patterns alone that have their own: they are
gathered by hook, so that a node without patterns walks empty tuples. The order of two patterns is that of their first
use, and no pattern depends on it. A hook answers at once and cannot fail: a pattern that has to wait, or to ask the
store, does so by calls of the node and goes on later.
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
"""Handlers of the messages with some names, or what becomes of those that no handler gets."""


class Pattern:
    """Base of all patterns: hooks that do nothing."""

    # Messages.

    def judges(self, channel: str, key: str, verdict: Judgement) -> Judgement:
        """Judgement on messages with these names, of which the kernel says `verdict`; remembered by name."""
        return verdict

    def leaves(self, link: Link, message: Message, fate: Fate) -> bool:
        """No handler gets this message. True: the pattern has taken care of it."""
        return False

    def acknowledges(self, deliveries: Iterable[Delivery]) -> Iterable[Delivery]:
        """Handlers succeeded with these. Those of them that may be acknowledged now; the pattern keeps the others."""
        return deliveries

    def unhandled(self, deliveries: Sequence[Delivery]) -> None:
        """Handlers failed with these, or never began them: their senders are not told that they are done."""

    # Peers.

    def peer_up(self, link: Link) -> None:
        """The peer of this connection has been established, on this one or on another that is preferred to it."""

    def peer_down(self, link: Link, was_up: bool) -> None:
        """This connection is its peer's no more; it may have been another one that was its live link."""

    def rerouted(self, peer: Peer) -> None:
        """The peer may have something else now, or wants something else."""

    def peer_moved(self, peer: Peer) -> None:
        """It has come or gone, or wants something else: what waits for a peer is to look again, in a turn."""

    # Subscriptions and names.

    def before_list(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> bool:
        """The peer wants these from now on. True: that has to wait, and the pattern calls `go_on` when it may count,
        which asks again, or with the error that prevents it."""
        return False

    def with_list(self, peer: Peer) -> bool:
        """The routes have what the peer wants now, and the commit that gathers stores its list. True: the pattern
        stores messages for the peer with it."""
        return False

    def refuses(self, channel: str) -> LocalProtocolError | None:
        """Why no message may be sent on this channel, where that is the pattern's own."""
        return None

    def owns(self, channel: str) -> bool:
        """True if what waits for a peer on this channel is nobody's to drop when room is made."""
        return False

    def holds(self, entry: Subscription) -> bool | None:
        """A peer's newer list lacks this: it is held in any case (True), in none (False), or as all others (None)."""
        return None

    def own_changed(self, entry: Subscription) -> None:
        """The application subscribes to this, for good."""

    # Deliveries of owners.

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        """The peer is owed these no more: acknowledged, given up, set aside, or never stored."""

    def rescues(self, peer: Peer, found: list[Found]) -> list[Found]:
        """The peer is to have these no more. Those that are to be given up: the pattern moves the others elsewhere."""
        return found

    def forgets(self, peer: Peer) -> None:
        """It is about to be forgotten. Raises LocalProtocolError where that may not be."""

    def stored(self, owner: Peer, messages: Sequence[StoredMessage]) -> None:
        """These are on disk, for an owner that has no connection."""

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        """A Fetch for this owner brought these, or failed. True: the pattern had asked for it."""
        return False

    # A full disk (D-13).

    def waits(self) -> bool:
        """True if messages of the pattern wait for a commit of their own."""
        return False

    def room_is_back(self) -> None:
        """They may be stored now."""

    def no_room(self, error: TolliverError) -> None:
        """There is no room for anything: they fail."""

    # The turn.

    def turn(self) -> None:
        """Do what the pattern has asked for a turn for, a little at a time."""

    def unsent(self) -> Collection[Receipt]:
        """Sends that wait in the pattern, in order."""
        return ()

    def busy(self) -> bool:
        """True if something of the pattern is under way that must end before the node may."""
        return False

    def sent(self, link: Link) -> None:
        """The socket has taken what was in transit."""

    def closing(self) -> None:
        """The node begins to close."""

    def stats(self) -> Mapping[str, int]:
        """Sizes now, by the names of `NodeStats`."""
        return {}


_HOOKS = tuple(name for name in vars(Pattern) if not name.startswith("_"))


class Hooks:
    """Patterns in use, by the hooks that they have."""

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
        """From now on this pattern is told, too."""
        for name in _HOOKS:
            if getattr(type(pattern), name) is not getattr(Pattern, name):
                setattr(self, name, (*getattr(self, name), pattern))
