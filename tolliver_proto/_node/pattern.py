"""The seam between the kernel and the patterns above it.

A pattern is an object with hooks. The kernel calls a hook of those patterns alone that have their own: they are
gathered by hook, so that a node without patterns walks empty tuples. The order of two patterns is that of their first
use, and no pattern depends on it. A hook answers at once and cannot fail: a pattern that has to wait, or to ask the
store, does so by calls of the node and goes on later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from .._wire.events import Message
from .actions import Delivery, Handler
from .link import Link, Peer
from .opening import Fate

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

    def peers_moved(self, peers: Collection[Peer]) -> None:
        """These have come or gone, or want something else, since the last call."""

    # The turn.

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
    peers_moved: tuple[Pattern, ...]
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
